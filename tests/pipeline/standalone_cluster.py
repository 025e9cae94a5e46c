"""Spark cluster on this machine: a master and workers as separate processes."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import pyspark

from creekdb.pipeline.spark.java import java_home

START_TIMEOUT_S = 120.0


class Machine(NamedTuple):
    """Environment of workers: a command that starts them, and their variables."""

    spark_home: Path = Path(pyspark.__file__).parent
    prefix: tuple[str, ...] = ()
    """Command that runs the command of a worker."""
    environ: Mapping[str, str] = os.environ


THIS_MACHINE = Machine()


class StandaloneCluster:
    """Master and workers. The workers run on `machine`."""

    def __init__(self, directory: Path, machine: Machine) -> None:
        self._directory = directory
        self._machine = machine
        self._port, self._web_port = free_port(), free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = f"spark://127.0.0.1:{self._port}"

    def start(self, workers: int) -> None:
        ports = f"--port {self._port} --webui-port {self._web_port}"
        master = f"org.apache.spark.deploy.master.Master --host 127.0.0.1 {ports}"
        self._run("master", master, THIS_MACHINE)
        self._wait(lambda: self.state() is not None)
        for number in range(workers):
            name = f"worker{number}"
            options = f"--host 127.0.0.1 --cores 1 --memory 1g --webui-port 0 --work-dir {name}"
            worker = f"org.apache.spark.deploy.worker.Worker {options} {self.url}"
            self._run(name, worker, self._machine)
        self._wait(lambda: len((self.state() or {}).get("workers", [])) == workers)

    def state(self) -> dict[str, Any] | None:
        """Return the state that the master reports, or None if it does not respond."""
        try:
            with urlopen(f"http://127.0.0.1:{self._web_port}/json/", timeout=5) as response:
                state: dict[str, Any] = json.load(response)
                return state
        except OSError:
            return None

    def executors(self) -> list[int]:
        """Return the pids of executors. Workers also have short-lived children that launch them."""
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

    def _run(self, name: str, arguments: str, machine: Machine) -> None:
        spark_class = machine.spark_home / "bin" / "spark-class"
        with (self._directory / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [*machine.prefix, str(spark_class), *arguments.split()],
                    cwd=self._directory,
                    env={
                        "JAVA_HOME": str(java_home(self._directory)),
                        **machine.environ,
                        "SPARK_LOCAL_IP": "127.0.0.1",
                    },
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )

    def _wait(self, is_ready: Any) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not is_ready():
            assert time.monotonic() < deadline, "the cluster does not start"
            time.sleep(0.2)


@contextmanager
def standalone_cluster(
    directory: Path, workers: int, machine: Machine = THIS_MACHINE
) -> Iterator[StandaloneCluster]:
    """Start a cluster, and stop it at the end."""
    cluster = StandaloneCluster(directory, machine)
    try:
        cluster.start(workers)
        yield cluster
    finally:
        cluster.stop()


def free_port() -> int:
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
