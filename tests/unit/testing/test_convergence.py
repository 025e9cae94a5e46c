"""Convergence compares the states of all replicas."""

import pytest

from creekdb import DataType, Transaction
from creekdb.checkers import Inconclusive
from creekdb.testing import SimulatedCluster, assert_converges, convergence
from tests.unit.testing.seat_types import book, seats

chatter = DataType("chatter")
executions: list[str] = []


@chatter.operation
def count(tx: Transaction, text: str) -> int:
    """Depend on earlier executions in this process, as no operation may."""
    executions.append(text)
    tx.put("count", len(executions))
    return len(executions)


def test_replicas_that_differ_are_reported() -> None:
    cluster = SimulatedCluster(chatter)
    cluster.client().weak(count, "a")
    with pytest.raises(AssertionError):
        assert_converges(cluster)


def test_a_history_that_no_checker_can_judge_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = Inconclusive("commit order", "the run has no orders")
    monkeypatch.setattr(convergence, "check_all", lambda *_: [verdict])
    with pytest.raises(AssertionError, match="commit order: the run has no orders"):
        assert_converges(SimulatedCluster(seats))


@pytest.mark.parametrize("scheme", ["creek", "basic", "bayou", "smr"])
def test_the_state_is_that_of_all_calls_in_every_scheme(scheme: str) -> None:
    cluster = SimulatedCluster(seats, scheme=scheme)
    cluster.client(1).weak(book, 9, "ann")
    assert assert_converges(cluster) == {9: "ann"}
