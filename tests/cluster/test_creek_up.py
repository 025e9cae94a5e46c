"""`creek up`, `creek call` and `creek status` from the command line."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

import creekdb
from creekdb.cli import main
from tests.cluster.creek_up import creek_up
from tests.cluster.in_process_cluster import TIMEOUT_S
from tests.cluster.ports import free_ports


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def until_exited(pids: list[int]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_creek_up_starts_supervises_and_stops_a_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_ports()
    data_dir = tmp_path / "trial"
    options = ("--port", str(port), "--data", str(data_dir))
    addresses = [f"127.0.0.1:{port + each}" for each in range(3)]
    with creek_up(*options) as cluster:
        for replica, address in enumerate(addresses):
            cluster.wait_for(f"replica {replica} is up at {address}")
        assert any(f'creekdb.connect("{",".join(addresses)}")' in line for line in cluster.lines)
        assert main(["call", "put", "lamp", "3", "--at", addresses[0], "--final"]) == 0
        assert main(["call", "get", "lamp", "--strong", "--at", addresses[1]]) == 0
        assert capsys.readouterr().out == "null  (final), executed put('lamp', 3)\n3  (stable)\n"
        assert main(["call", "gett", "lamp", "--at", addresses[0]]) == 2
        assert main(["sql", "-c", "SELECT 1", "--at", addresses[0]]) == 2
        assert "did you mean 'get'?" in capsys.readouterr().err
        assert (
            main(["call", "within", "3", "--at", addresses[0]]) == 2
        )  # an operation name like any other
        assert "unknown operation of kv 'within'" in capsys.readouterr().err

        assert main(["up", "--port", str(port)]) == 2
        assert f"port {port}: Address already in use" in capsys.readouterr().err

        deadline = time.monotonic() + TIMEOUT_S
        while (
            code := main(["status", "--at", addresses[0], "--json"])
        ) and time.monotonic() < deadline:
            capsys.readouterr()  # a replica has not joined yet
        assert code == 0  # replica 0 reports the addresses of the others
        statuses = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [(each["replica"], each["address"]) for each in statuses] == list(
            enumerate(addresses)
        )
        assert {each["committed"] > 0 for each in statuses} == {True}

        for _ in range(2):
            assert main(["call", "put", "lamp", "off", "--at", addresses[0]]) == 0
            assert main(["call", "increment", "lamp", "--at", addresses[0], "--final"]) == 1
        assert main(["call", "put", "lamp", "3", "--at", addresses[0], "--final"]) == 0

        os.kill(cluster.replica_pids()[1], signal.SIGKILL)
        cluster.wait_for("replica 1 was killed by signal 9 and is restarted")
        cluster.wait_for(f"replica 1 is up at {addresses[1]}")
        os.kill(cluster.replica_pids()[0], signal.SIGSTOP)  # a frozen replica is stopped as well
        error = "increment raised BadValue: can only add to an int, and 'lamp' holds a str"
        reports = [line for line in cluster.lines if line.startswith(f"{error}; traceback: ")]
        assert len(reports) == 1  # once for all replicas and both calls
        assert Path(reports[0].partition("traceback: ")[2]).parent == data_dir
        assert cluster.stop() == 0

    assert main(["status", "--at", addresses[0]]) == 1
    output = capsys.readouterr()
    assert "unreachable" in output.out
    assert (
        f"no replica can be reached, tried for 2 s: {addresses[0]}: Connection refused"
        in output.err
    )
    assert main(["up", *options, "--replicas", "5"]) == 2
    assert "belongs to another cluster: add --replicas 3 --datatype kv" in capsys.readouterr().err

    with creek_up(*options) as cluster:  # continues with the existing data
        cluster.wait_for(f"replica 2 is up at {addresses[2]}")
        with creekdb.connect(addresses) as db:
            assert db.strong.get("lamp") == 3
        pids = cluster.replica_pids()
        cluster.process.kill()
    until_exited(pids)


def test_a_busy_replica_does_not_outlive_creek_up() -> None:
    port = free_ports()
    with creek_up("--port", str(port), "--datatype", "tests.cluster.slow_types:slow") as cluster:
        cluster.wait_for(f"replica 0 is up at 127.0.0.1:{port}")
        with creekdb.connect(f"127.0.0.1:{port}") as db, pytest.raises(creekdb.Unknown):
            db.weak.within(1).spin()
        pids = cluster.replica_pids()
        cluster.process.kill()
    until_exited(pids)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--datatype kvv", "unknown data type 'kvv'"),
        ("--datatype shop", "sql, package.module:variable"),
        ("--datatype nowhere:shop", "there is no module 'nowhere'"),
        ("--replicas 0", "0 is not in the range"),
        ("--data .", "contains other files"),
    ],
)
def test_invalid_options_start_no_cluster(
    options: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "mine").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["up", "--port", str(free_ports()), *options.split()]) == 2
    assert expected in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]
