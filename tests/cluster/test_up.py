"""`creek up`, `creek call` and `creek status`, as a person uses them."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

import creekdb
from creekdb.cli import main
from tests.cluster.house import PATIENCE_S
from tests.cluster.ports import free_ports
from tests.cluster.up import up


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def until_gone(replicas: list[int]) -> None:
    until = time.monotonic() + PATIENCE_S
    while any(map(is_running, replicas)):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_cluster_is_started_looked_after_and_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_ports()
    folder = tmp_path / "trial"
    options = ("--port", str(port), "--data", str(folder))
    at = [f"127.0.0.1:{port + each}" for each in range(3)]
    with up(*options) as cluster:
        for replica, address in enumerate(at):
            cluster.until(f"replica {replica} is up at {address}")
        assert any(f'creekdb.connect("{",".join(at)}")' in line for line in cluster.said)
        assert main(["call", "put", "lamp", "3", "--at", at[0], "--final"]) == 0
        assert main(["call", "get", "lamp", "--strong", "--at", at[1]]) == 0
        assert capsys.readouterr().out == "null  (final)\n3  (stable)\n"
        assert main(["call", "gett", "lamp", "--at", at[0]]) == 1
        assert "did you mean 'get'?" in capsys.readouterr().err
        assert main(["call", "within", "3", "--at", at[0]]) == 1  # a name like any other
        assert "unknown operation of kv 'within'" in capsys.readouterr().err

        assert main(["up", "--port", str(port)]) == 2
        assert f"port {port}: Address already in use" in capsys.readouterr().err

        until = time.monotonic() + PATIENCE_S
        while (code := main(["status", "--at", at[0], "--json"])) and time.monotonic() < until:
            capsys.readouterr()  # one of them still waits to hear what the others know
        assert code == 0  # the others are found through it
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [(each["replica"], each["address"]) for each in found] == list(enumerate(at))
        assert {each["committed"] > 0 for each in found} == {True}

        os.kill(cluster.replicas()[1], signal.SIGKILL)
        cluster.until("replica 1 was ended by signal 9: it is started again")
        cluster.until(f"replica 1 is up at {at[1]}")
        os.kill(cluster.replicas()[0], signal.SIGSTOP)  # a frozen one is stopped like the others
        assert cluster.stop() == 0

    assert main(["status", "--at", at[0]]) == 1
    said = capsys.readouterr()
    assert "unreachable" in said.out
    assert f"no replica can be reached, tried for 2 s: {at[0]}: Connection refused" in said.err
    assert main(["up", *options, "--replicas", "5"]) == 2
    assert "go on with --replicas 3 --datatype kv" in capsys.readouterr().err

    with up(*options) as cluster:  # goes on with what is there
        cluster.until(f"replica 2 is up at {at[2]}")
        with creekdb.connect(at) as db:
            assert db.strong.get("lamp") == 3
        replicas = cluster.replicas()
        cluster.process.kill()
    until_gone(replicas)


def test_a_replica_that_is_busy_for_ever_does_not_outlive_who_started_it() -> None:
    port = free_ports()
    with up("--port", str(port), "--datatype", "tests.cluster.slow:slow") as cluster:
        cluster.until(f"replica 0 is up at 127.0.0.1:{port}")
        with creekdb.connect(f"127.0.0.1:{port}") as db, pytest.raises(creekdb.Unknown):
            db.weak.within(1).spin()
        replicas = cluster.replicas()
        cluster.process.kill()
    until_gone(replicas)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--datatype kvv", "unknown data type 'kvv'"),
        ("--datatype shop", "bank, package.module:variable"),
        ("--datatype nowhere:shop", "there is no module 'nowhere'"),
        ("--replicas 0", "0 is not in the range"),
        ("--data .", "holds something else"),
    ],
)
def test_a_cluster_that_cannot_be_is_not_started(
    options: str,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "mine").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["up", "--port", str(free_ports()), *options.split()]) == 2
    assert says in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]
