"""Assertion that all replicas of a cluster end in the same state."""

from typing import Any

from creekdb.checkers import Ok, check_all
from creekdb.protocol.values import Key, is_same_state
from creekdb.testing.process_cluster import ProcessCluster
from creekdb.testing.simulated_cluster import SimulatedCluster


def assert_converges(cluster: SimulatedCluster | ProcessCluster) -> dict[Key, Any]:
    """End all faults, wait until all calls are final, and return the common state.

    Raises `AssertionError` if two replicas differ. The run of a simulated cluster ends, and every
    checker of Creek must find its history correct.
    """
    if isinstance(cluster, SimulatedCluster):
        history = cluster.finish()
        verdicts = check_all(history, cluster.datatype)
        not_ok = [each.describe() for each in verdicts if not isinstance(each, Ok)]
        assert not not_ok, "\n".join(not_ok)
    else:
        cluster.settle()
    states = {replica: cluster.state(replica) for replica in cluster.replicas}
    first, *others = states
    for other in others:
        assert is_same_state(states[first], states[other]), _difference(states, first, other)
    return states[first]


def _difference(states: dict[int, dict[Key, Any]], first: int, other: int) -> str:
    left, right = states[first], states[other]
    keys = [key for key in {**left, **right} if left.get(key, ...) != right.get(key, ...)]
    return (
        f"replicas {first} and {other} differ in {len(keys)} registers: {keys[0]!r} is "
        f"{left.get(keys[0])!r} and {right.get(keys[0])!r}; an operation is not deterministic"
        if keys
        else f"replicas {first} and {other} differ in the types of values"
    )
