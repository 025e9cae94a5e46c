"""Spark Connect server on this machine, as a separate process."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from creekdb.pipeline.spark.java import java_home
from tests.pipeline.standalone_cluster import START_TIMEOUT_S, free_port

SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """Start a server on a local master, yield its URL, and stop it at the end."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
    }
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit")]
    command += ["--master", "local[2]", "--class", SERVER_CLASS]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "spark-internal"],
            cwd=directory,
            env={
                # Without this package: the client sends it to the server.
                **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
                "JAVA_HOME": str(java_home(directory)),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for_port(port, process)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _wait_for_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        assert process.poll() is None, "the server exited"
        assert time.monotonic() < deadline, "the server does not start"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
