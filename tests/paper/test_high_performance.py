"""Section 4.4: the high-performance protocol.

The replicas are those of the scheme `creek`; strong no-ops are off unless a test asks for them. A
rollback is no task here: what counts is how often a request was executed.
"""

from typing import Any

import pytest

from creekdb.datatypes.kv import KV
from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.entry import ExecutionPhase
from creekdb.execution.transaction import Transaction
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Cast, Vote
from creekdb.protocol.probes import Probe
from creekdb.schemes.creek import CreekReplica
from tests.paper.harness import EXECUTE, FINAL, NEVER, STABLE, TENTATIVE, Cluster

CELLS = DataType("cells")


@CELLS.operation
def copy(tx: Transaction, source: str, target: str) -> Any:
    value = tx.get(source)
    tx.put(target, value)
    return value


@CELLS.operation
def write(tx: Transaction, key: str, value: Any) -> None:
    tx.put(key, value)


@CELLS.operation(readonly=True)
def read(tx: Transaction, key: str) -> Any:
    return tx.get(key)


def creek(noop_ticks: int = NEVER, kept_apart: int = 65_536, parallelism: int = 16) -> Cluster:
    return Cluster(
        datatype=CELLS,
        scheme=CreekReplica,
        noop_ticks=noop_ticks,
        kept_apart=kept_apart,
        parallelism=parallelism,
    )


def replica(cluster: Cluster, index: int) -> CreekReplica:
    found = cluster.replicas[index]
    assert isinstance(found, CreekReplica)
    return found


def executions(cluster: Cluster, index: int) -> list[Dot]:
    """What the replica executed, in this order, again or for the first time."""
    return [id for work, id in cluster.done[index] if work is EXECUTE]


def versions(cluster: Cluster, index: int, key: str) -> list[Any]:
    """Of those operations that are not settled."""
    contents = replica(cluster, index)._store._table
    if not contents.has_versions(key):
        return []
    return [each.value for each in contents.chain(key).versions]


def handed_out(cluster: Cluster, index: int) -> list[Dot]:
    return [task.request.id for task in cluster.tasks[index]]


def step(cluster: Cluster, index: int, id: Dot) -> None:
    """Run the task of this request, whatever else is under way."""
    at = handed_out(cluster, index).index(id)
    cluster.tasks[index].rotate(-at)
    cluster.step(index)


# --- read-only operations -----------------------------------------------------------------------


def test_a_weak_read_is_executed_without_any_communication() -> None:
    """Section 4.4: "without performing any network communication with other replicas"."""
    cluster = creek()
    cluster.weak(1, "write", "a", 1)
    cluster.flush()

    id = cluster.weak(1, "read", "a")

    assert cluster.answers(id) == [(TENTATIVE, 1)]
    assert cluster.pending() == []
    assert id not in cluster.tentative(1)


def test_a_strong_read_is_communicated_all_the_same() -> None:
    """It is of weak operations that the paper speaks: a strong one needs its place."""
    cluster = creek()

    id = cluster.strong(1, "read", "a")

    assert cluster.pending(Cast, carrying=id)
    cluster.flush()
    assert cluster.answers(id) == [(TENTATIVE, None), (STABLE, None)]


# --- rollbacks only if necessary ----------------------------------------------------------------


def test_a_commit_that_jumps_over_distinct_data_rolls_nothing_back() -> None:
    """Section 4.4: "distinct data, no rollbacks or reexecutions are necessary"."""
    cluster = creek()
    op_i = cluster.weak(0, "copy", "a", "b", at=10)
    op_j = cluster.strong(1, "copy", "c", "d", at=20)

    cluster.flush()

    for each in cluster.members:
        assert (cluster.committed(each), cluster.tentative(each)) == ([op_j], [op_i])
        assert sorted(executions(cluster, each)) == sorted([op_i, op_j])
        assert Probe.ROLLED_BACK not in cluster.replicas[each].probes.counts


def test_a_commit_that_jumps_over_the_same_data_does() -> None:
    """Section 4.4: "must rollback both operations and reexecute them": here, who reads."""
    cluster = creek()
    op_i = cluster.weak(0, "copy", "a", "b", at=10)
    op_j = cluster.strong(1, "write", "a", 1, at=20)

    cluster.flush()

    assert (cluster.committed(0), cluster.tentative(0)) == ([op_j], [op_i])
    assert executions(cluster, 0) == [op_i, op_j, op_i]
    assert cluster.replicas[0].state() == {"a": 1, "b": 1}


# --- multiversioning ----------------------------------------------------------------------------


def test_there_are_several_versions_of_a_data_item() -> None:
    """Section 4.4: "holds multiple immutable objects called versions for data items"."""
    cluster = creek()
    for value in (1, 2, 3):
        cluster.weak(0, "write", "a", value)

    assert versions(cluster, 0, "a") == [1, 2, 3]


def test_a_version_stands_where_its_operation_stands() -> None:
    """Section 4.4: "marked using a special timestamp that corresponds to the location of op"."""
    cluster = creek()
    late = cluster.weak(0, "write", "a", "late", at=30)
    cluster.weak(1, "write", "a", "early", at=10)
    cluster.deliver(Cast, to=0)
    assert versions(cluster, 0, "a") == ["early", "late"]

    strong = cluster.strong(0, "write", "a", "strong")
    cluster.flush()

    assert cluster.committed(0)[-1] == strong
    assert cluster.committed(0)[:-1] == [cluster.rb_delivered(0)[0], late]


def test_a_commit_moves_the_versions_with_their_operations() -> None:
    """The same sentence, when the location changes."""
    cluster = creek()
    cluster.hold(Cast, sender=0)
    cluster.weak(0, "write", "a", "weak", at=10)
    cluster.strong(1, "write", "a", "strong", at=20)

    cluster.flush()

    assert versions(cluster, 0, "a") == ["weak"]
    assert cluster.replicas[0].state() == {"a": "weak"}
    assert dict(replica(cluster, 0)._store.stable_items()) == {"a": "strong"}


def test_the_snapshot_holds_all_and_only_what_comes_before() -> None:
    """Section 4.4: "all and only the versions created" by those that "appear before op"."""
    cluster = creek()
    cluster.weak(0, "write", "a", "before", at=10)
    cluster.weak(0, "write", "a", "behind", at=30)
    between = cluster.weak(1, "copy", "a", "b", at=20)

    cluster.flush()

    assert cluster.replicas[0].state() == {"a": "behind", "b": "before"}
    assert executions(cluster, 0)[-1] == between


def test_the_snapshot_does_not_change_while_the_operation_is_executed() -> None:
    """Section 4.4: "any operation op happens in isolation, on a valid snapshot"."""
    cluster = creek()
    cluster.pause(0)
    cluster.weak(0, "copy", "a", "b", at=20)
    task, execution = cluster.begin(0)
    late = cluster.weak(1, "write", "a", 1, at=10)
    cluster.deliver(Cast, to=0)
    step(cluster, 0, late)

    assert execution.writes == {"b": None}
    cluster.finish(0, task, execution)
    cluster.resume(0)
    assert cluster.replicas[0].state() == {"a": 1, "b": 1}


def test_what_was_rolled_back_is_not_in_snapshots_of_executions_that_start_afterwards() -> None:
    """Section 4.4: "not included in the snapshots used" by what starts "after the rollback"."""
    cluster = creek()
    rolled_back = cluster.weak(0, "copy", "a", "b", at=20)
    cluster.pause(0)
    late = cluster.weak(1, "write", "a", 1, at=10)
    cluster.deliver(Cast, to=0)
    step(cluster, 0, late)
    assert handed_out(cluster, 0) == [rolled_back]

    other = cluster.weak(2, "copy", "b", "c", at=30)
    cluster.deliver(Cast, to=0, carrying=other)
    step(cluster, 0, other)

    assert replica(cluster, 0)._entries[other].outcome is not None
    assert cluster.replicas[0].state() == {"a": 1, "c": None}
    cluster.resume(0)
    assert cluster.replicas[0].state() == {"a": 1, "b": 1, "c": 1}


# --- rollbacks that cascade ---------------------------------------------------------------------


def test_a_late_operation_is_executed_in_its_place_and_conflicts_with_nobody() -> None:
    """Section 4.4: "execute op_x on a consistent snapshot … do not need to roll op_i back"."""
    cluster = creek()
    op_i = cluster.weak(0, "copy", "a", "b", at=20)
    op_j = cluster.weak(0, "copy", "c", "d", at=30)
    op_x = cluster.weak(1, "write", "x", 1, at=10)

    cluster.flush()

    assert cluster.tentative(0) == [op_x, op_i, op_j]
    assert executions(cluster, 0) == [op_i, op_j, op_x]


@pytest.mark.parametrize("conflicting", [(), ("i",), ("j",), ("i", "j")])
def test_each_is_checked_for_conflicts_with_the_late_one(conflicting: tuple[str, ...]) -> None:
    """Section 4.4: "in a similar way the possible conflict between op_x and op_j"."""
    cluster = creek()
    ops = {
        name: cluster.weak(0, "copy", "x" if name in conflicting else "other", name, at=at)
        for name, at in (("i", 20), ("j", 30))
    }
    op_x = cluster.weak(1, "write", "x", 1, at=10)

    cluster.flush()

    again = [ops[name] for name in conflicting]
    assert executions(cluster, 0) == [*ops.values(), op_x, *again]


def test_a_rollback_cascades_to_whoever_read_what_is_no_longer_valid() -> None:
    """Section 4.4: "op_j might have read some no longer valid versions created by op_i"."""
    cluster = creek()
    op_i = cluster.weak(0, "copy", "x", "i", at=20)
    op_j = cluster.weak(0, "copy", "i", "j", at=30)
    op_x = cluster.weak(1, "write", "x", 1, at=10)

    cluster.flush()

    assert executions(cluster, 0) == [op_i, op_j, op_x, op_i, op_j]
    assert cluster.replicas[0].state() == {"x": 1, "i": 1, "j": 1}


def test_a_rollback_cascades_no_further_than_versions_differ() -> None:
    """Section 4.4: "Rollbacks only if necessary": what is written again alike was read rightly."""
    cluster = creek()
    cluster.weak(0, "write", "x", 1, at=5)
    op_i = cluster.weak(0, "copy", "x", "i", at=20)
    op_j = cluster.weak(0, "copy", "i", "j", at=30)
    cluster.weak(1, "write", "x", 1, at=10)

    cluster.flush()

    assert executions(cluster, 0).count(op_i) == 1
    assert executions(cluster, 0).count(op_j) == 1


# --- garbage ------------------------------------------------------------------------------------


def test_all_versions_of_tentative_operations_are_kept() -> None:
    """Section 4.4: "we need to maintain all versions produced" by what is tentative."""
    cluster = creek()
    cluster.hold(Vote)
    for value in range(20):
        cluster.weak(0, "write", "a", value)
    cluster.strong(0, "write", "a", 20)
    cluster.flush()

    assert versions(cluster, 0, "a") == list(range(21))


def test_of_committed_operations_the_most_recent_value_is_kept() -> None:
    """Section 4.4: of committed, all "except for the most recently created value"."""
    cluster = creek()
    for value in range(20):
        cluster.weak(0, "write", "a", value)
    cluster.strong(0, "write", "b", 1)
    cluster.flush()
    tentative = cluster.weak(0, "write", "a", "tentative")

    assert cluster.tentative(0) == [tentative]
    assert replica(cluster, 0)._store._table.stable_value("a") == 19
    assert versions(cluster, 0, "a") == ["tentative"]


def test_nothing_that_a_live_operation_may_need_is_collected() -> None:
    """Section 4.4: "we never garbage collect versions that might be used by live operations"."""
    cluster = creek()
    first = cluster.weak(0, "write", "a", 1)
    cluster.flush()
    cluster.pause(0)
    live = cluster.weak(0, "copy", "a", "b")
    task, execution = cluster.begin(0)
    cluster.strong(1, "write", "a", 2)
    cluster.flush()
    while cluster.tasks[0]:
        cluster.step(0)
    assert first in cluster.committed(0)

    cluster.finish(0, task, execution)
    cluster.resume(0)

    expected = cluster.datatype.sequential()
    for id in (*cluster.committed(0), *cluster.tentative(0)):
        expected.apply(cluster.requests[id])
    assert cluster.replicas[0].state() == expected.state
    assert replica(cluster, 0)._entries[live].is_executed


def test_what_was_rolled_back_is_removed_in_the_end() -> None:
    """Section 4.4: "eventually remove all versions created by operations" rolled back."""
    cluster = creek()
    cluster.weak(0, "copy", "x", "i", at=20)
    cluster.weak(0, "copy", "i", "j", at=30)
    cluster.weak(1, "write", "x", 1, at=10)
    cluster.flush()

    entries = replica(cluster, 0)._entries.values()

    assert len(entries) == 3
    assert all(not each.hidden_versions for each in entries)
    assert versions(cluster, 0, "i") == [1]


# --- no strong operations -----------------------------------------------------------------------


def test_the_number_of_versions_remains_the_same_while_strong_operations_are_committed() -> None:
    """Section 4.4: "the number of versions for each data item should remain roughly the same"."""
    cluster = creek()
    counts = []
    for round_ in range(10):
        for _ in range(10):
            cluster.weak(0, "write", "a", round_)
        cluster.strong(1, "write", "b", round_)
        cluster.flush()
        counts.append(len(versions(cluster, 0, "a")))

    assert max(counts) <= 10


def test_without_strong_operations_the_number_of_versions_grows() -> None:
    """Section 4.4: without strong ones "the number of versions starts to grow"."""
    cluster = creek()
    for value in range(100):
        cluster.weak(0, "write", "a", value)
    cluster.settle()

    assert len(versions(cluster, 0, "a")) == 100


def test_a_strong_no_op_stabilises_the_weak_operations() -> None:
    """Section 4.4: "strong no-op operations, that would gradually stabilize weak operations"."""
    cluster = creek(noop_ticks=4)
    ids = [cluster.weak(0, "write", "a", value) for value in range(40)]

    cluster.settle()

    for each in cluster.members:
        assert cluster.committed(each)[:40] == ids
        assert cluster.tentative(each) == []
        assert versions(cluster, each, "a") == []
    assert [kind for kind, _ in cluster.answers(ids[0])] == [TENTATIVE, FINAL]


def test_a_prefix_can_be_kept_as_a_snapshot_without_its_versions() -> None:
    """Section 4.4: "limit the amount of data …, by collecting complete snapshots"."""
    cluster = creek(kept_apart=64)
    for value in range(400):
        cluster.weak(0, "write", "a", value)

    assert len(versions(cluster, 0, "a")) < 100
    assert cluster.replicas[0].state() == {"a": 399}


def test_versions_are_recreated_by_executing_operations_again_when_they_are_needed() -> None:
    """Section 4.4: "recreate some versions when needed, by reexecuting some … operations"."""
    cluster = creek(kept_apart=64)
    ids = [cluster.weak(0, "write", "a", value) for value in range(400)]
    inside = cluster.requests[ids[100]].timestamp + 1
    assert replica(cluster, 0)._entries[ids[100]].phase is ExecutionPhase.MERGED
    late = cluster.weak(1, "copy", "a", "b", at=inside)

    cluster.flush()

    assert cluster.tentative(0).index(late) == 101
    assert cluster.replicas[0].state() == {"a": 399, "b": 100}
    assert executions(cluster, 0).count(ids[399]) == 1
    assert executions(cluster, 0).count(ids[100]) == 2


# --- concurrent execution -----------------------------------------------------------------------


def test_several_operations_are_executed_at_once() -> None:
    """Section 4.4: "to support concurrent execution of multiple operations"."""
    cluster = creek(parallelism=3)
    cluster.pause(0)
    for session in range(5):
        cluster.invoke(0, "write", "a", session, strong=False, session=session)

    assert len(cluster.tasks[0]) == 3


def test_to_execute_several_at_once_in_any_order_does_not_violate_correctness() -> None:
    """Section 4.4: "does not violate correctness, because each operation executes in isolation"."""
    for backwards in (False, True):
        cluster = creek()
        cluster.pause(0)
        for session, (source, target) in enumerate((("a", "b"), ("b", "c"), ("c", "d"))):
            cluster.invoke(0, "copy", source, target, strong=False, session=session)
        first = cluster.weak(1, "write", "a", 1, at=1)
        cluster.deliver(Cast, to=0, carrying=first)
        while cluster.tasks[0]:
            begun = [cluster.begin(0) for _ in range(len(cluster.tasks[0]))]
            for task, execution in reversed(begun) if backwards else begun:
                cluster.finish(0, task, execution)

        assert cluster.replicas[0].state() == {"a": 1, "b": 1, "c": 1, "d": 1}


def test_versions_are_added_when_the_operation_has_completed() -> None:
    """Section 4.4: "added to our version store after the operation completes execution"."""
    cluster = creek()
    cluster.pause(0)
    cluster.weak(0, "write", "a", 1)
    task, execution = cluster.begin(0)
    assert cluster.replicas[0].state() == {}

    cluster.finish(0, task, execution)

    assert cluster.replicas[0].state() == {"a": 1}


def test_in_case_of_a_conflict_the_execution_is_discarded_and_done_again() -> None:
    """Section 4.4: "we discard versions created during the execution and reexecute"."""
    cluster = creek()
    cluster.pause(0)
    id = cluster.weak(0, "copy", "a", "b", at=20)
    task, execution = cluster.begin(0)
    late = cluster.weak(1, "write", "a", 1, at=10)
    cluster.deliver(Cast, to=0)
    step(cluster, 0, late)

    cluster.finish(0, task, execution)

    assert "b" not in cluster.replicas[0].state()
    assert cluster.answers(id) == []
    assert handed_out(cluster, 0) == [id]
    cluster.resume(0)
    assert cluster.answers(id) == [(TENTATIVE, 1)]


def test_without_a_conflict_what_completed_in_between_does_not_matter() -> None:
    """Section 4.4: "checked for conflicts with other concurrently executed operations"."""
    cluster = creek()
    cluster.pause(0)
    id = cluster.weak(0, "copy", "a", "b", at=20)
    task, execution = cluster.begin(0)
    late = cluster.weak(1, "write", "c", 1, at=10)
    cluster.deliver(Cast, to=0)
    step(cluster, 0, late)

    cluster.finish(0, task, execution)

    assert cluster.answers(id) == [(TENTATIVE, None)]
    assert handed_out(cluster, 0) == []


# --- what the paper measures --------------------------------------------------------------------


def test_partitions_that_do_not_conflict_are_reconciled_without_executing_again() -> None:
    """Section 6.4: "no unnecessary operation reexecutions are needed"."""
    cluster = Cluster(datatype=KV, scheme=CreekReplica)
    cluster.partition({0, 1}, {2})
    ids = []
    for _ in range(10):
        ids.append(cluster.weak(0, "increment", "left", 1))
        ids.append(cluster.weak(2, "increment", "right", 1))
        cluster.flush()

    cluster.heal()
    cluster.settle()

    for each in cluster.members:
        assert cluster.tentative(each) == ids
        assert sorted(executions(cluster, each)) == sorted(ids)
