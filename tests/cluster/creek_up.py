"""`creek up` as a child process."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.in_process_cluster import TIMEOUT_S


class CreekUp:
    """Process of the command, with the lines of its output."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "creekdb", "up", *options]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines: list[str] = []

    def wait_for(self, line: str) -> None:
        """Read the output up to this line."""
        assert self.process.stdout is not None
        timer = threading.Timer(TIMEOUT_S, self.process.kill)
        timer.start()
        try:
            while line not in self.lines:
                text = self.process.stdout.readline()
                assert text, f"the output lacks '{line}': {self.lines}"
                self.lines.append(text.strip())
        finally:
            timer.cancel()

    def replica_pids(self) -> list[int]:
        pid = self.process.pid
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(TIMEOUT_S)


@contextmanager
def creek_up(*options: str) -> Iterator[CreekUp]:
    cluster = CreekUp(*options)
    try:
        yield cluster
    finally:
        cluster.process.kill()
        cluster.process.wait()
        assert cluster.process.stdout is not None
        cluster.process.stdout.close()
