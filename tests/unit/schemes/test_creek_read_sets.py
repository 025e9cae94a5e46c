"""Visibility of requests to later calls, and dependencies between calls."""

from typing import Any

import creekdb
from creekdb.protocol.effects import ResponseKind
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import Checkpoint, Snapshot
from tests.unit.schemes.single_replica import SingleReplica

MEMOS = creekdb.DataType("notes")


@MEMOS.operation
def put(tx: creekdb.Transaction, key: str, value: int) -> None:
    tx.put(key, value)


@MEMOS.operation
def copy(tx: creekdb.Transaction, source: str, to: str) -> None:
    tx.put(to, ("copied", tx.get(source)))


@MEMOS.operation(readonly=True)
def get(tx: creekdb.Transaction, key: str) -> Any:
    return tx.get(key)


@MEMOS.operation
def note(tx: creekdb.Transaction, key: str, to: str) -> Any:
    tx.put(to, 1)
    return tx.get(key)


def test_with_concurrent_execution_a_request_is_visible_once_all_predecessors_are_executed() -> (
    None
):
    single = SingleReplica(parallelism=2)
    replica = single.replica
    first, second = (
        single.receive_request(5, "increment", "a", 1),
        single.receive_request(6, "increment", "a", 1),
    )
    assert replica.view.has_request(first)
    assert not replica.view.is_visible(first)
    single.execute(second)
    assert not replica.view.is_visible(second), "it awaits re-execution"
    single.execute(first)
    assert replica.view.is_visible(first)
    single.execute_all()
    assert replica.view.is_visible(second)
    late = single.receive_request(4, "increment", "a", 1)
    assert not replica.view.is_visible(second)
    single.execute_all()
    single.stabilise(late, first, second)
    single.execute_all()
    assert replica.view.is_visible(second), "it is stable"
    assert not replica.view.is_visible(Dot(1, 9))


def test_with_sequential_execution_a_request_is_visible_on_arrival() -> None:
    single = SingleReplica(parallelism=1)
    single.receive_request(5, "increment", "a", 1)
    last = single.receive_request(6, "increment", "a", 1)
    assert single.replica.view.is_visible(last)
    own = single.invoke("increment", "a", 1)
    single.execute_all()
    assert single.responses_to(own) == [(ResponseKind.TENTATIVE, 3)]


def test_the_last_issued_request_survives_a_restart() -> None:
    single = SingleReplica()
    assert single.replica.view.last_issued() == Dot(0, 0)
    single.invoke("increment", "a", 1)
    last = single.invoke("increment", "a", 1)
    restarted = SingleReplica()
    restarted.replica.recover(single.journal)
    assert restarted.replica.view.last_issued() == last


def call_after_remote(single: SingleReplica) -> tuple[Dot, Dot, Dot]:
    """Return an executed request of another replica, and two pending calls that depend on it: a
    local read and a write."""
    single.receive_request(5, "put", "y", 7, origin=2)
    remote = single.receive_request(10, "copy", "y", "x", origin=1)
    single.execute_all()
    read = single.invoke("get", "x", session=5, after=(remote,))
    write = single.invoke("note", "x", "z", session=6, after=(remote,))
    return remote, read, write


def test_a_dependent_call_waits_for_the_reexecution_of_its_dependency() -> None:
    single = SingleReplica(MEMOS, parallelism=4)
    remote, read, write = call_after_remote(single)
    single.stabilise(remote)  # moves it ahead of the writer that it read from
    single.execute(read)
    single.execute(write)
    assert single.responses_to(read) == single.responses_to(write) == []
    single.execute_all()
    copied = [(ResponseKind.TENTATIVE, ("copied", None))]
    assert single.responses_to(read) == single.responses_to(write) == copied


def test_dependencies_hold_after_a_snapshot_restarts_all_executions() -> None:
    single = SingleReplica(MEMOS, parallelism=8)
    _, read, write = call_after_remote(single)
    single.tasks.clear()
    checkpoint = Checkpoint(1, 1, Dots({2: (1, 2)}), 5, state=(("y", 8),), outcomes=())
    single.replica.receive(Snapshot(checkpoint), 1, single.now)
    single.take_effects()
    single.execute(read)
    single.execute(write)
    assert single.responses_to(read) == single.responses_to(write) == []
    single.execute_all()
    copied = [(ResponseKind.TENTATIVE, ("copied", 8))]
    assert single.responses_to(read) == single.responses_to(write) == copied


def test_a_dependency_includes_earlier_requests_of_the_same_client() -> None:
    """Case 29 of `make chaos ARGS="--seed 51711"`: a client changed replicas, and its next response
    did not reflect some of its earlier writes."""
    single = SingleReplica(MEMOS, parallelism=4)
    earlier = single.receive_request(5, "put", "x", 1, origin=1)
    last = single.receive_request(6, "put", "y", 2, origin=1)
    read = single.invoke("get", "x", session=5, after=(last,))
    write = single.invoke("note", "x", "z", session=6, after=(last,))
    for each in (last, read, write):
        single.execute(each)
    assert single.responses_to(read) == single.responses_to(write) == []
    single.execute(earlier)
    single.execute_all()
    assert single.responses_to(read) == single.responses_to(write) == [(ResponseKind.TENTATIVE, 1)]


def test_a_dependent_call_does_not_wait_for_requests_after_its_dependency() -> None:
    single = SingleReplica(MEMOS, parallelism=4)
    last = single.receive_request(5, "put", "x", 1, origin=1)
    other = single.receive_request(6, "put", "y", 2, origin=2)
    read = single.invoke("get", "x", after=(last,))
    single.execute(last)
    single.execute(read)
    assert single.responses_to(read) == [(ResponseKind.TENTATIVE, 1)]
    single.execute(other)
    single.execute_all()


def test_a_dependent_call_does_not_wait_for_a_stable_dependency() -> None:
    single = SingleReplica(MEMOS, parallelism=4)
    remote = single.receive_request(10, "put", "x", 1)
    single.stabilise(remote)
    single.execute_all()
    read = single.invoke("get", "x", after=(remote,))
    single.execute_all()
    assert single.responses_to(read) == [(ResponseKind.TENTATIVE, 1)]
