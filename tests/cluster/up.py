"""`creek up` in a process of its own."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.house import PATIENCE_S


class Up:
    """The command, and what it prints."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "creekdb", "up", *options]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.said: list[str] = []

    def until(self, line: str) -> None:
        """Until it has said so."""
        assert self.process.stdout is not None
        watch = threading.Timer(PATIENCE_S, self.process.kill)
        watch.start()
        try:
            while line not in self.said:
                said = self.process.stdout.readline()
                assert said, f"it never said '{line}', but {self.said}"
                self.said.append(said.strip())
        finally:
            watch.cancel()

    def replicas(self) -> list[int]:
        pid = self.process.pid
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_S)


@contextmanager
def up(*options: str) -> Iterator[Up]:
    cluster = Up(*options)
    try:
        yield cluster
    finally:
        cluster.process.kill()
        cluster.process.wait()
        assert cluster.process.stdout is not None
        cluster.process.stdout.close()
