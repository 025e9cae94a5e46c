"""Latency of the machine alone for the two parts of every put: a synced write and a round trip.

Both are measured at the rate of the latency measurements, because an idle disk, core or network
responds later than a busy one. One thread writes into preallocated space, as a journal does. The
echo runs in a process of its own, as a replica does.
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

TIMEOUT_S: Final = 20.0
PREALLOCATED_WRITES: Final = 1_000
"""Number of writes before the preallocated space is reused."""


class HardwareFloor:
    def __init__(self, directory: Path, size: int, per_second: int) -> None:
        """Write to a file in `directory`, or send, `size` bytes at `per_second`."""
        self._path = directory / "floor"
        self._data = b"x" * size
        self._per_second = per_second
        self._writes_ns: list[int] = []
        self._echoes_ns: list[int] = []

    def measure(self, seconds: float) -> None:
        """Measure writes and echoes, for `seconds` each."""
        count, interval_s = max(1, int(self._per_second * seconds)), 1 / self._per_second
        with _write_action(self._path, self._data) as write:
            self._writes_ns += timed_calls(write, count, interval_s)
        with _echo_action(self._data) as echo:
            self._echoes_ns += timed_calls(echo, count, interval_s)

    @property
    def write_ms(self) -> float:
        """Median of a synced write, in milliseconds."""
        return statistics.median(self._writes_ns) / 1e6

    @property
    def echo_ms(self) -> float:
        return statistics.median(self._echoes_ns) / 1e6

    @property
    def write_and_echo(self) -> LatencySummary:
        """Latency of one write followed by one echo."""
        summary = latency_summary(
            [sum(both) for both in zip(self._writes_ns, self._echoes_ns, strict=True)]
        )
        assert summary is not None, "nothing was measured"
        return summary

    def describe(self) -> str:
        return (
            f"The machine alone takes {self.write_ms:.2f} ms for a synced write of "
            f"{len(self._data)} bytes, and {self.echo_ms:.2f} ms for their echo over loopback"
        )


Action: TypeAlias = Callable[[int], None]


def timed_calls(action: Action, count: int, interval_s: float) -> list[int]:
    """Return the duration of each call of `action`, in nanoseconds."""
    durations_ns: list[int] = []
    for each in range(count):
        if interval_s:
            time.sleep(interval_s)
        started_ns = perf_counter_ns()
        action(each)
        durations_ns.append(perf_counter_ns() - started_ns)
    return durations_ns


@contextmanager
def _write_action(path: Path, data: bytes) -> Iterator[Action]:
    file_ops = TimedFileOps(Histogram())
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(file, bytes(len(data) * PREALLOCATED_WRITES), 0)
        os.fsync(file)
        yield lambda each: file_ops.write_durably(
            file, data, each % PREALLOCATED_WRITES * len(data)
        )
    finally:
        os.close(file)
        path.unlink()


@contextmanager
def _echo_action(data: bytes) -> Iterator[Action]:
    command = [sys.executable, "-m", "benchmarks.hardware_floor"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

                def round_trip(_: int) -> None:
                    connection.sendall(data)
                    remaining = len(data)
                    while remaining:
                        received = len(connection.recv(remaining))
                        if not received:
                            raise ConnectionResetError("the echo process has exited")
                        remaining -= received

                yield round_trip
        finally:
            process.kill()


def _echo() -> None:
    """Echo the data of one connection until it is closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        connection, _ = server.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := connection.recv(65_536):
            connection.sendall(data)


if __name__ == "__main__":
    _echo()
