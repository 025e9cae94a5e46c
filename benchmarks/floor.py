"""What the machine alone takes for what every put waits for: a synced write, and a way and back.

Both at the pace at which latencies are measured: a disk, a core or a network that has been idle
answers later than a busy one. The write goes from one thread into room that was zeroed before, as
in a journal. Who echoes is a process of its own, as a replica is.
"""

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns
from typing import Final, TypeAlias

from creekdb.load.measurement import LatencySummary, latency_summary
from creekdb.server.observability.latency import Histogram
from creekdb.server.storage.direct_io import TimedFileOps

PATIENCE_S: Final = 20.0
ROOM_WRITES: Final = 1_000
"""So many go into the room before it is used from its beginning again."""


class Floor:
    def __init__(self, folder: Path, size: int, per_second: int) -> None:
        """The file goes into `folder`; so many bytes are written, or sent, so often."""
        self._path = folder / "floor"
        self._data = b"x" * size
        self._per_second = per_second
        self._writes_ns: list[int] = []
        self._echoes_ns: list[int] = []

    def measure(self, seconds: float) -> None:
        """For so long each."""
        count, pause_s = max(1, int(self._per_second * seconds)), 1 / self._per_second
        with _writing(self._path, self._data) as write:
            self._writes_ns += paced(write, count, pause_s)
        with _echoing(self._data) as echo:
            self._echoes_ns += paced(echo, count, pause_s)

    @property
    def write_ms(self) -> float:
        """The median, as that of an echo is."""
        return statistics.median(self._writes_ns) / 1e6

    @property
    def echo_ms(self) -> float:
        return statistics.median(self._echoes_ns) / 1e6

    @property
    def together(self) -> LatencySummary:
        """One of each, one after the other."""
        took = latency_summary(
            [sum(both) for both in zip(self._writes_ns, self._echoes_ns, strict=True)]
        )
        assert took is not None, "something must be measured first"
        return took

    def told(self) -> str:
        return (
            f"The machine alone takes {self.write_ms:.2f} ms for a synced write of "
            f"{len(self._data)} bytes, and {self.echo_ms:.2f} ms to echo them over loopback"
        )


Act: TypeAlias = Callable[[int], None]


def paced(act: Act, count: int, pause_s: float) -> list[int]:
    """How long each took, in nanoseconds."""
    took: list[int] = []
    for each in range(count):
        if pause_s:
            time.sleep(pause_s)
        begun = perf_counter_ns()
        act(each)
        took.append(perf_counter_ns() - begun)
    return took


@contextmanager
def _writing(path: Path, data: bytes) -> Iterator[Act]:
    calls = TimedFileOps(Histogram())
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(file, bytes(len(data) * ROOM_WRITES), 0)
        os.fsync(file)
        yield lambda each: calls.write_durably(file, data, each % ROOM_WRITES * len(data))
    finally:
        os.close(file)
        path.unlink()


@contextmanager
def _echoing(data: bytes) -> Iterator[Act]:
    command = [sys.executable, "-m", "benchmarks.floor"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as echoing:
        assert echoing.stdout is not None
        try:
            port = int(echoing.stdout.readline())
            with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as line:
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

                def there_and_back(_: int) -> None:
                    line.sendall(data)
                    left = len(data)
                    while left:
                        heard = len(line.recv(left))
                        if not heard:
                            raise ConnectionResetError("who should echo has gone")
                        left -= heard

                yield there_and_back
        finally:
            echoing.kill()


def _echo() -> None:
    """To one connection, until it is closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        line, _ = server.accept()
    with line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := line.recv(65_536):
            line.sendall(data)


if __name__ == "__main__":
    _echo()
