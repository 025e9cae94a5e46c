"""Section 4.4: the high-performance protocol.

The replicas run the scheme `creek`. Strong no-ops are disabled unless a test enables them. This
scheme has no rollback tasks, so the tests count executions of a request.
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
    creek_replica = cluster.replicas[index]
    assert isinstance(creek_replica, CreekReplica)
    return creek_replica


def executions(cluster: Cluster, index: int) -> list[Dot]:
    """Return the requests that the replica executed, in that order, with repetitions."""
    return [id for kind, id in cluster.done[index] if kind is EXECUTE]


def versions(cluster: Cluster, index: int, key: str) -> list[Any]:
    """Return the values of the versions of requests that are not stable."""
    table = replica(cluster, index)._execution.store.table
    if not table.has_versions(key):
        return []
    return [each.value for each in table.chain(key).versions]


def scheduled_ids(cluster: Cluster, index: int) -> list[Dot]:
    return [task.request.id for task in cluster.tasks[index]]


def step(cluster: Cluster, index: int, id: Dot) -> None:
    """Run the task of the request, independently of other scheduled tasks."""
    at = scheduled_ids(cluster, index).index(id)
    cluster.tasks[index].rotate(-at)
    cluster.step(index)


# --- read-only operations -----------------------------------------------------------------------


def test_a_weak_read_is_executed_without_any_communication() -> None:
    """Section 4.4: "without performing any network communication with other replicas"."""
    cluster = creek()
    cluster.weak(1, "write", "a", 1)
    cluster.flush()

    id = cluster.weak(1, "read", "a")

    assert cluster.responses_to(id) == [(TENTATIVE, 1)]
    assert cluster.pending() == []
    assert id not in cluster.tentative(1)


def test_a_strong_read_is_sent_and_ordered() -> None:
    """The paper's sentence applies to weak operations only; a strong one needs a position."""
    cluster = creek()

    id = cluster.strong(1, "read", "a")

    assert cluster.pending(Cast, carrying=id)
    cluster.flush()
    assert cluster.responses_to(id) == [(TENTATIVE, None), (STABLE, None)]


# --- rollbacks only if necessary ----------------------------------------------------------------


def test_a_commit_before_independent_operations_causes_no_rollback() -> None:
    """Section 4.4: "distinct data, no rollbacks or reexecutions are necessary"."""
    cluster = creek()
    op_i = cluster.weak(0, "copy", "a", "b", at=10)
    op_j = cluster.strong(1, "copy", "c", "d", at=20)

    cluster.flush()

    for each in cluster.members:
        assert (cluster.committed(each), cluster.tentative(each)) == ([op_j], [op_i])
        assert sorted(executions(cluster, each)) == sorted([op_i, op_j])
        assert Probe.ROLLED_BACK not in cluster.replicas[each].view.probes.counts


def test_a_commit_before_conflicting_operations_causes_rollbacks() -> None:
    """Section 4.4: "must rollback both operations and reexecute them"; here, the reader only."""
    cluster = creek()
    op_i = cluster.weak(0, "copy", "a", "b", at=10)
    op_j = cluster.strong(1, "write", "a", 1, at=20)

    cluster.flush()

    assert (cluster.committed(0), cluster.tentative(0)) == ([op_j], [op_i])
    assert executions(cluster, 0) == [op_i, op_j, op_i]
    assert cluster.replicas[0].view.state() == {"a": 1, "b": 1}


# --- multiversioning ----------------------------------------------------------------------------


def test_a_data_item_has_several_versions() -> None:
    """Section 4.4: "holds multiple immutable objects called versions for data items"."""
    cluster = creek()
    for value in (1, 2, 3):
        cluster.weak(0, "write", "a", value)

    assert versions(cluster, 0, "a") == [1, 2, 3]


def test_a_version_has_the_position_of_its_operation() -> None:
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
    """Section 4.4, as above, if a commit changes the location."""
    cluster = creek()
    cluster.hold(Cast, sender=0)
    cluster.weak(0, "write", "a", "weak", at=10)
    cluster.strong(1, "write", "a", "strong", at=20)

    cluster.flush()

    assert versions(cluster, 0, "a") == ["weak"]
    assert cluster.replicas[0].view.state() == {"a": "weak"}
    assert dict(replica(cluster, 0)._execution.store.table.stable_items()) == {"a": "strong"}


def test_a_snapshot_contains_exactly_the_earlier_versions() -> None:
    """Section 4.4: "all and only the versions created" by those that "appear before op"."""
    cluster = creek()
    cluster.weak(0, "write", "a", "before", at=10)
    cluster.weak(0, "write", "a", "after", at=30)
    between = cluster.weak(1, "copy", "a", "b", at=20)

    cluster.flush()

    assert cluster.replicas[0].view.state() == {"a": "after", "b": "before"}
    assert executions(cluster, 0)[-1] == between


def test_a_snapshot_does_not_change_during_the_execution() -> None:
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
    assert cluster.replicas[0].view.state() == {"a": 1, "b": 1}


def test_later_snapshots_exclude_rolled_back_versions() -> None:
    """Section 4.4: "not included in the snapshots used" by executions
    that start "after the rollback"."""
    cluster = creek()
    rolled_back = cluster.weak(0, "copy", "a", "b", at=20)
    cluster.pause(0)
    late = cluster.weak(1, "write", "a", 1, at=10)
    cluster.deliver(Cast, to=0)
    step(cluster, 0, late)
    assert scheduled_ids(cluster, 0) == [rolled_back]

    other = cluster.weak(2, "copy", "b", "c", at=30)
    cluster.deliver(Cast, to=0, carrying=other)
    step(cluster, 0, other)

    assert replica(cluster, 0)._execution.entries[other].outcome is not None
    assert cluster.replicas[0].view.state() == {"a": 1, "c": None}
    cluster.resume(0)
    assert cluster.replicas[0].view.state() == {"a": 1, "b": 1, "c": 1}


# --- cascading rollbacks ------------------------------------------------------------------------


def test_an_independent_late_operation_causes_no_rollback() -> None:
    """Section 4.4: "execute op_x on a consistent snapshot … do not need to roll op_i back"."""
    cluster = creek()
    op_i = cluster.weak(0, "copy", "a", "b", at=20)
    op_j = cluster.weak(0, "copy", "c", "d", at=30)
    op_x = cluster.weak(1, "write", "x", 1, at=10)

    cluster.flush()

    assert cluster.tentative(0) == [op_x, op_i, op_j]
    assert executions(cluster, 0) == [op_i, op_j, op_x]


@pytest.mark.parametrize("conflicting", [(), ("i",), ("j",), ("i", "j")])
def test_each_later_operation_is_checked_for_conflicts(conflicting: tuple[str, ...]) -> None:
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


def test_a_rollback_cascades_to_readers_of_invalid_versions() -> None:
    """Section 4.4: "op_j might have read some no longer valid versions created by op_i"."""
    cluster = creek()
    op_i = cluster.weak(0, "copy", "x", "i", at=20)
    op_j = cluster.weak(0, "copy", "i", "j", at=30)
    op_x = cluster.weak(1, "write", "x", 1, at=10)

    cluster.flush()

    assert executions(cluster, 0) == [op_i, op_j, op_x, op_i, op_j]
    assert cluster.replicas[0].view.state() == {"x": 1, "i": 1, "j": 1}


def test_a_rollback_does_not_cascade_past_equal_versions() -> None:
    """Section 4.4: "Rollbacks only if necessary": a read of an equal value stays valid."""
    cluster = creek()
    cluster.weak(0, "write", "x", 1, at=5)
    op_i = cluster.weak(0, "copy", "x", "i", at=20)
    op_j = cluster.weak(0, "copy", "i", "j", at=30)
    cluster.weak(1, "write", "x", 1, at=10)

    cluster.flush()

    assert executions(cluster, 0).count(op_i) == 1
    assert executions(cluster, 0).count(op_j) == 1


# --- garbage collection --------------------------------------------------------------------------


def test_all_versions_of_tentative_operations_are_kept() -> None:
    """Section 4.4: "we need to maintain all versions produced" by tentative operations."""
    cluster = creek()
    cluster.hold(Vote)
    for value in range(20):
        cluster.weak(0, "write", "a", value)
    cluster.strong(0, "write", "a", 20)
    cluster.flush()

    assert versions(cluster, 0, "a") == list(range(21))


def test_only_the_latest_committed_value_is_kept() -> None:
    """Section 4.4: of committed operations, all "except for the most recently created value"."""
    cluster = creek()
    for value in range(20):
        cluster.weak(0, "write", "a", value)
    cluster.strong(0, "write", "b", 1)
    cluster.flush()
    tentative = cluster.weak(0, "write", "a", "tentative")

    assert cluster.tentative(0) == [tentative]
    assert replica(cluster, 0)._execution.store.table.stable_value("a") == 19
    assert versions(cluster, 0, "a") == ["tentative"]


def test_versions_of_live_operations_are_not_collected() -> None:
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
    assert cluster.replicas[0].view.state() == expected.state
    assert replica(cluster, 0)._execution.entries[live].is_executed


def test_rolled_back_versions_are_removed() -> None:
    """Section 4.4: "eventually remove all versions created by operations" that were rolled back."""
    cluster = creek()
    cluster.weak(0, "copy", "x", "i", at=20)
    cluster.weak(0, "copy", "i", "j", at=30)
    cluster.weak(1, "write", "x", 1, at=10)
    cluster.flush()

    entries = replica(cluster, 0)._execution.entries.values()

    assert len(entries) == 3
    assert all(not each.hidden_versions for each in entries)
    assert versions(cluster, 0, "i") == [1]


# --- without strong operations ------------------------------------------------------------------


def test_commits_bound_the_number_of_versions() -> None:
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
    """Section 4.4: without strong operations "the number of versions starts to grow"."""
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
    assert [kind for kind, _ in cluster.responses_to(ids[0])] == [TENTATIVE, FINAL]


def test_merged_runs_bound_the_number_of_versions() -> None:
    """Section 4.4: "limit the amount of data …, by collecting complete snapshots"."""
    cluster = creek(kept_apart=64)
    for value in range(400):
        cluster.weak(0, "write", "a", value)

    assert len(versions(cluster, 0, "a")) < 100
    assert cluster.replicas[0].view.state() == {"a": 399}


def test_merged_versions_are_recreated_by_reexecution() -> None:
    """Section 4.4: "recreate some versions when needed, by reexecuting some … operations"."""
    cluster = creek(kept_apart=64)
    ids = [cluster.weak(0, "write", "a", value) for value in range(400)]
    inside = cluster.requests[ids[100]].timestamp + 1
    assert replica(cluster, 0)._execution.entries[ids[100]].phase is ExecutionPhase.MERGED
    late = cluster.weak(1, "copy", "a", "b", at=inside)

    cluster.flush()

    assert cluster.tentative(0).index(late) == 101
    assert cluster.replicas[0].view.state() == {"a": 399, "b": 100}
    assert executions(cluster, 0).count(ids[399]) == 1
    assert executions(cluster, 0).count(ids[100]) == 2


# --- concurrent execution -----------------------------------------------------------------------


def test_several_operations_are_executed_concurrently() -> None:
    """Section 4.4: "to support concurrent execution of multiple operations"."""
    cluster = creek(parallelism=3)
    cluster.pause(0)
    for session in range(5):
        cluster.invoke(0, "write", "a", session, strong=False, session=session)

    assert len(cluster.tasks[0]) == 3


def test_concurrent_executions_are_correct_in_any_completion_order() -> None:
    """Section 4.4: "does not violate correctness, because each operation executes in isolation"."""
    for is_reversed in (False, True):
        cluster = creek()
        cluster.pause(0)
        for session, (source, target) in enumerate((("a", "b"), ("b", "c"), ("c", "d"))):
            cluster.invoke(0, "copy", source, target, strong=False, session=session)
        first = cluster.weak(1, "write", "a", 1, at=1)
        cluster.deliver(Cast, to=0, carrying=first)
        while cluster.tasks[0]:
            started = [cluster.begin(0) for _ in range(len(cluster.tasks[0]))]
            for task, execution in reversed(started) if is_reversed else started:
                cluster.finish(0, task, execution)

        assert cluster.replicas[0].view.state() == {"a": 1, "b": 1, "c": 1, "d": 1}


def test_versions_are_added_when_the_execution_completes() -> None:
    """Section 4.4: "added to our version store after the operation completes execution"."""
    cluster = creek()
    cluster.pause(0)
    cluster.weak(0, "write", "a", 1)
    task, execution = cluster.begin(0)
    assert cluster.replicas[0].view.state() == {}

    cluster.finish(0, task, execution)

    assert cluster.replicas[0].view.state() == {"a": 1}


def test_a_conflicting_execution_is_discarded_and_repeated() -> None:
    """Section 4.4: "we discard versions created during the execution and reexecute"."""
    cluster = creek()
    cluster.pause(0)
    id = cluster.weak(0, "copy", "a", "b", at=20)
    task, execution = cluster.begin(0)
    late = cluster.weak(1, "write", "a", 1, at=10)
    cluster.deliver(Cast, to=0)
    step(cluster, 0, late)

    cluster.finish(0, task, execution)

    assert "b" not in cluster.replicas[0].view.state()
    assert cluster.responses_to(id) == []
    assert scheduled_ids(cluster, 0) == [id]
    cluster.resume(0)
    assert cluster.responses_to(id) == [(TENTATIVE, 1)]


def test_an_execution_without_conflicts_is_installed() -> None:
    """Section 4.4: "checked for conflicts with other concurrently executed operations"."""
    cluster = creek()
    cluster.pause(0)
    id = cluster.weak(0, "copy", "a", "b", at=20)
    task, execution = cluster.begin(0)
    late = cluster.weak(1, "write", "c", 1, at=10)
    cluster.deliver(Cast, to=0)
    step(cluster, 0, late)

    cluster.finish(0, task, execution)

    assert cluster.responses_to(id) == [(TENTATIVE, None)]
    assert scheduled_ids(cluster, 0) == []


# --- measurements of the paper ------------------------------------------------------------------


def test_independent_partitions_are_reconciled_without_reexecution() -> None:
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
