"""A real Spark cluster on this machine: a master and workers, each a process of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyspark

from creekdb.pipeline.spark.java import java_home

READY_WITHIN_S = 120.0


class Cluster:
    def __init__(self, folder: Path, code: Path) -> None:
        self._folder = folder
        self._code = code
        self._port, self._web_port = _free_port(), _free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = f"spark://127.0.0.1:{self._port}"

    def start(self, workers: int) -> None:
        ports = f"--port {self._port} --webui-port {self._web_port}"
        self._run("master", f"org.apache.spark.deploy.master.Master --host 127.0.0.1 {ports}")
        self._wait(lambda: self.state() is not None)
        for number in range(workers):
            name = f"worker{number}"
            options = f"--host 127.0.0.1 --cores 1 --memory 1g --webui-port 0 --work-dir {name}"
            self._run(name, f"org.apache.spark.deploy.worker.Worker {options} {self.url}")
        self._wait(lambda: len((self.state() or {}).get("workers", [])) == workers)

    def state(self) -> dict[str, Any] | None:
        """What the master says of itself, or None when it does not answer."""
        try:
            with urlopen(f"http://127.0.0.1:{self._web_port}/json/", timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except OSError:
            return None

    def executors(self) -> list[int]:
        """The processes that run tasks for somebody: children of the workers, like some that only
        help them to start one."""
        workers = {process.pid for process in self._processes}
        return [
            pid
            for pid in map(int, filter(str.isdecimal, os.listdir("/proc")))
            if _parent(pid) in workers and "ExecutorBackend" in _command(pid)
        ]

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _run(self, name: str, arguments: str) -> None:
        spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(spark_class), *arguments.split()],
                    cwd=self._folder,
                    env={
                        # Nothing of ours: what executors need of our code is sent to them.
                        **os.environ,
                        "PYTHONPATH": str(self._code),
                        "JAVA_HOME": str(java_home(self._folder)),
                        "PYSPARK_PYTHON": sys.executable,
                        "SPARK_LOCAL_IP": "127.0.0.1",
                    },
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )

    def _wait(self, ready: Any) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        while not ready():
            assert time.monotonic() < deadline, "the cluster does not start"
            time.sleep(0.2)


@contextmanager
def cluster(folder: Path, workers: int, code: Path) -> Iterator[Cluster]:
    """One whose executors find, beside what is sent to them, the modules of the folder `code`."""
    found = Cluster(folder, code)
    try:
        found.start(workers)
        yield found
    finally:
        found.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _parent(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[1])


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
