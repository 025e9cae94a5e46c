"""Convergence compares the states of all replicas."""

import pytest

from creekdb import DataType, Transaction
from creekdb.testing import SimulatedCluster, assert_converges

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
