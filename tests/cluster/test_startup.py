"""Startup of a replica, with signals during recovery and with a Python without ctypes."""

import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from creekdb.errors import UsageError
from creekdb.http.backend import ReplicaBackend
from tests.cluster.in_process_cluster import TIMEOUT_S, running_cluster

SCHEME = """
import time
from pathlib import Path
from creekdb.schemes.creek import CreekReplica

class Slow(CreekReplica):
    def recover(self, *arguments):
        Path("recovering").touch()
        while not Path("continue").exists():
            time.sleep(0.01)
        super().recover(*arguments)
"""


def wait_for(path: Path, text: str = "") -> None:
    """Wait until the file exists and contains the text."""
    deadline = time.monotonic() + TIMEOUT_S
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < deadline, path.read_text() if path.exists() else path
        time.sleep(0.02)


@asynccontextmanager
async def starting_replica(directory: Path) -> AsyncIterator["subprocess.Popen[bytes]"]:
    """Start a replica whose recovery lasts until a file `continue` exists."""
    async with running_cluster(directory, replicas=1) as cluster, cluster.client() as db:
        await db.strong.put("a", 1)
    (directory / "slow.py").write_text(SCHEME)
    options = ["--member", "0=127.0.0.1:0", "--data", "0", "--scheme", "slow:Slow"]
    with (directory / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "creekdb", "serve", *options],
            cwd=directory,
            stdout=output,
            stderr=output,
        )
    try:
        wait_for(directory / "recovering")
        yield process
    finally:
        process.kill()
        process.wait()


async def test_a_restarted_replica_is_not_ready_for_the_reason_that_blocks_its_calls(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path, execution="threads") as cluster:
        async with cluster.client(0) as db:
            await db.strong.put("a", 1)
        await cluster.stop(0)
        await cluster.start(0)
        server = cluster.servers[0]
        problems = ReplicaBackend(server.sources, server.tokens, 1.0).readiness_problems()
        (blocked,) = [each for each in problems if "does not accept calls yet" in each]
        assert "empty" not in blocked
        assert "peers" in blocked or "executes requests" in blocked
        await cluster.until_connected()


async def test_a_directory_of_another_replica_is_rejected_without_its_owner_file(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path) as cluster:
        async with cluster.client(1) as db:
            await db.strong.put("a", 1)
        await cluster.stop()
        (tmp_path / "1" / "owner.json").unlink()
        with pytest.raises(UsageError, match="was written by another replica"):
            await cluster.start(0, data=str(tmp_path / "1"))
        with pytest.raises(UsageError, match="was written by another replica"):
            await cluster.start(1, cluster="another")
        await cluster.start()
        await cluster.until_connected()


async def test_an_interrupt_during_recovery_ends_the_process(tmp_path: Path) -> None:
    async with starting_replica(tmp_path) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
    output = (tmp_path / "output").read_text()
    assert output.endswith("creek: interrupted\n")
    assert "Traceback" not in output


INTERRUPTED_START = """
import os, signal, sys
from creekdb.cli import main
from creekdb.server.runtime.server import Server

listen = Server._listen

async def listen_and_interrupt(server):
    await listen(server)
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))

Server._listen = listen_and_interrupt
sys.exit(main(["serve", "--member", "0=127.0.0.1:0", "--data", "0"]))
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_before_the_end_of_the_start_stops_the_replica(tmp_path: Path, name: str) -> None:
    """Clients can connect by then, so a supervisor may already stop the replica."""
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_START, name],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert process.returncode == 0, process.stdout
    assert "replica.stopping" in process.stdout


async def test_a_reload_during_recovery_is_applied_afterwards(tmp_path: Path) -> None:
    async with starting_replica(tmp_path) as process:
        process.send_signal(signal.SIGHUP)
        time.sleep(0.1)
        (tmp_path / "continue").touch()
        wait_for(tmp_path / "output", "configuration.reloaded")
        wait_for(tmp_path / "output", "replica 0 of creek: clients at")
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0


def test_a_python_without_ctypes_writes_with_a_thread(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['_ctypes'] = None; from creekdb.cli import main; sys.exit(main())"
    )
    options = ["--member", "0=127.0.0.1:0", "--data", str(tmp_path / "0")]
    with (tmp_path / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", program, "serve", *options], stdout=output, stderr=output
        )
    try:
        wait_for(tmp_path / "output", "writes=thread")
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
    finally:
        process.kill()
        process.wait()
