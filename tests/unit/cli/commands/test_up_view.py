"""What `creek up` tells of replicas that do not answer, or have ended."""

from pathlib import Path
from typing import Any

import pytest

from creekdb.cli.commands.up import _ClusterView
from creekdb.load.local_cluster import LocalCluster
from creekdb.wire.event_log import OPERATION_LONG


class Told(LocalCluster):
    """Replicas that are none, and what they are said to have done."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, replicas=2)
        self.busy_with: str | None = "put() of an earlier time"
        self.removed: str | None = None
        self.gone: dict[int, int] = {}

    def last_event_text(self, replica: int, event: str) -> str | None:
        return self.busy_with if event == OPERATION_LONG else self.removed

    def reap_exited(self) -> dict[int, int]:
        gone, self.gone = self.gone, {}
        return gone

    def last_output_line(self, replica: int) -> str:
        return "it differs from most"


@pytest.fixture
def cluster(tmp_path: Path) -> Told:
    return Told(tmp_path)


def test_who_is_silent_is_told_to_be_busy_once(
    cluster: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    view = _ClusterView(cluster)
    view._rows[1] = view._rows[1]._replace(state="silent")
    view._supervise()
    assert capsys.readouterr().out == ""
    cluster.busy_with = "hang() has been running for 5.0 s"
    view._supervise()
    view._supervise()
    assert capsys.readouterr().out == "replica 1: hang() has been running for 5.0 s\n"


def test_when_all_have_ended_it_is_told_what_to_do(
    cluster: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    view = _ClusterView(cluster)
    cluster.gone = {0: 1}
    view._supervise()
    assert capsys.readouterr().out == "replica 0 ended: it differs from most\n"
    cluster.gone = {1: 1}
    view._supervise()
    assert "all replicas have ended: Ctrl-C" in capsys.readouterr().out


def test_of_one_that_stopped_in_order_it_is_told_who_wanted_it(
    cluster: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    view = _ClusterView(cluster)
    cluster.gone = {0: 0}
    view._supervise()
    told = "replica 0 ended: it was told to stop; the page can start it again\n"
    assert capsys.readouterr().out == told
    cluster.gone, cluster.removed = {1: 0}, "was removed from its cluster"
    view._supervise()
    assert "replica 1 ended: was removed from its cluster\n" in capsys.readouterr().out


def test_one_that_is_cut_off_is_not_told_to_lead(
    cluster: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    view = _ClusterView(cluster)
    told: dict[str, Any] = {"waits_for": None, "failure": None, "disk": None, "leader": 0}
    told |= {"committed": 0, "tentative": 0, "members": [0, 1, 2]}
    view._on_status(0, {**told, "connected": []})
    assert "replica 0 leads" not in capsys.readouterr().out
    view._on_status(0, {**told, "connected": [2]})
    assert "replica 0 leads" in capsys.readouterr().out
