"""Events that `creek up` reports for unreachable and exited replicas."""

from pathlib import Path
from typing import Any

import pytest

from creekdb.cli.commands.up import _ClusterView
from creekdb.load.local_cluster import LocalCluster
from creekdb.wire.event_log import EventName


class ScriptedCluster(LocalCluster):
    """Stub of a cluster of two replicas with scripted exits and events."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, replicas=2)
        for replica in range(2):
            self.output_path(replica).touch()
        self.long_operation: str | None = "put() of an earlier time"
        self.removed: str | None = None
        self.exited: dict[int, int] = {}

    def last_event_text(self, replica: int, event: str) -> str | None:
        return self.long_operation if event == EventName.OPERATION_LONG else self.removed

    def reap_exited(self) -> dict[int, int]:
        exited, self.exited = self.exited, {}
        return exited

    def last_output_line(self, replica: int) -> str:
        return "it differs from most"


@pytest.fixture
def cluster(tmp_path: Path) -> ScriptedCluster:
    return ScriptedCluster(tmp_path)


def test_a_long_operation_of_an_unreachable_replica_is_reported_once(
    cluster: ScriptedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    view = _ClusterView(cluster)
    view._rows[1] = view._rows[1]._replace(state="unreachable")
    view._supervise()
    assert capsys.readouterr().out == ""
    cluster.long_operation = "hang() has been running for 5.0 s"
    view._supervise()
    view._supervise()
    assert capsys.readouterr().out == "replica 1: hang() has been running for 5.0 s\n"


def test_the_exit_of_all_replicas_is_reported_with_a_remedy(
    cluster: ScriptedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    view = _ClusterView(cluster)
    cluster.exited = {0: 1}
    view._supervise()
    assert capsys.readouterr().out == "replica 0 exited: it differs from most\n"
    cluster.exited = {1: 1}
    view._supervise()
    assert "all replicas have exited: press Ctrl-C" in capsys.readouterr().out


def test_an_orderly_exit_is_reported_with_its_cause(
    cluster: ScriptedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    view = _ClusterView(cluster)
    cluster.exited = {0: 0}
    view._supervise()
    line = "replica 0 exited: stopped on request; the page can start it again\n"
    assert capsys.readouterr().out == line
    cluster.exited, cluster.removed = {1: 0}, "was removed from its cluster"
    view._supervise()
    assert "replica 1 exited: was removed from its cluster\n" in capsys.readouterr().out


def test_an_isolated_replica_is_not_reported_as_leader(
    cluster: ScriptedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    view = _ClusterView(cluster)
    status: dict[str, Any] = {"waits_for": None, "failure": None, "disk": None, "leader": 0}
    status |= {"committed": 0, "tentative": 0, "members": [0, 1, 2]}
    view._on_status(0, {**status, "connected": []})
    assert "replica 0 is the leader" not in capsys.readouterr().out
    view._on_status(0, {**status, "connected": [2]})
    assert "replica 0 is the leader" in capsys.readouterr().out
