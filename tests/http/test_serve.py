"""`creek serve --http`, as a process."""

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
from tests.cluster.house import PATIENCE_S, house, run


def command(folder: Path, http: int) -> list[str]:
    return [
        *(sys.executable, "-m", "creekdb", "serve", "--log", "json"),
        *("--member", f"0=127.0.0.1:{free_port()}", "--clients", "127.0.0.1:0"),
        *("--http", f"127.0.0.1:{http}", "--data", str(folder)),
    ]


def test_a_replica_speaks_http_where_nobody_else_does(tmp_path: Path) -> None:
    port = free_port()
    first = subprocess.Popen(
        command(tmp_path / "first", port), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as answer:
                    assert json.load(answer) == {"alive": True}
                break
            except URLError:
                assert time.monotonic() < until
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
        _, told = first.communicate()
    assert first.returncode == 0
    names = [json.loads(event)["event"] for event in told.splitlines()]
    assert names[0] == "replica.started"
    assert "http.started" in names
    assert names[-1] == "replica.stopping"


def test_where_it_does_so_with_ipv6_is_told_as_browsers_take_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("there is no IPv6 here")
    caplog.set_level("INFO")

    async def story() -> None:
        async with house(tmp_path, replicas=1, http="[::1]:0") as cluster:
            gateway = HttpServer(cluster.servers[0])
            await gateway.start()
            assert f"speaks HTTP at http://[::1]:{gateway.port}" in caplog.messages
            await gateway.stop()

    run(story())
