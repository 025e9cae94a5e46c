"""`creek serve --http` as a process."""

import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from urllib.error import URLError

import pytest

from creekdb.http import HttpServer
from creekdb.load.local_cluster import free_port
from tests.cluster.in_process_cluster import TIMEOUT_S, running_cluster


def command(directory: Path, http: int) -> list[str]:
    return [
        *(sys.executable, "-m", "creekdb", "serve", "--log", "json"),
        *("--member", f"0=127.0.0.1:{free_port()}", "--clients", "127.0.0.1:0"),
        *("--http", f"127.0.0.1:{http}", "--data", str(directory)),
    ]


def test_http_requires_a_free_port(tmp_path: Path) -> None:
    port = free_port()
    first = subprocess.Popen(
        command(tmp_path / "first", port), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as response:
                    assert json.load(response) == {"alive": True}
                break
            except URLError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        second = subprocess.run(
            command(tmp_path / "second", port), capture_output=True, text=True, check=False
        )
        assert second.returncode == 2
        *events, last = second.stderr.splitlines()
        assert last == f"creek: cannot listen at 127.0.0.1:{port}: Address already in use"
        assert "replica.stopping" in {json.loads(event)["event"] for event in events}
    finally:
        first.terminate()
        _, log = first.communicate()
    assert first.returncode == 0
    names = [json.loads(event)["event"] for event in log.splitlines()]
    assert names[0] == "replica.started"
    assert "http.started" in names
    assert names[-1] == "replica.stopping"


async def test_the_http_url_has_ipv6_brackets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("IPv6 is not available")
    caplog.set_level("INFO")
    async with running_cluster(tmp_path, replicas=1, http="[::1]:0") as cluster:
        http_server = HttpServer(cluster.servers[0])
        await http_server.start()
        assert f"serves HTTP at http://[::1]:{http_server.port}" in caplog.messages
        await http_server.stop()
