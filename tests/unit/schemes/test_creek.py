import gc
from random import Random
from typing import Any

import pytest

from creekdb.datatypes.kv import KV
from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.entry import ExecutionPhase, RequestEntry
from creekdb.execution.mvcc.scheduler import FAILED_ATTEMPTS_MAX
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import Transaction
from creekdb.protocol.effects import ResponseKind, Task
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import Checkpoint, Received, Snapshot, decode_record, encode
from creekdb.protocol.probes import Probe
from creekdb.schemes.creek import CreekReplica
from tests.paper.harness import NEVER, Cluster
from tests.unit.schemes.single_replica import SingleReplica, dots

TENTATIVE, STABLE, FINAL = ResponseKind.TENTATIVE, ResponseKind.STABLE, ResponseKind.FINAL

CELLS = DataType("cells")


@CELLS.operation
def copy(tx: Transaction, source: str, target: str) -> Any:
    value = tx.get(source)
    tx.put(target, value)
    return value


@CELLS.operation
def write(tx: Transaction, key: str, value: Any) -> None:
    tx.put(key, value)


@CELLS.operation
def visit(tx: Transaction, key: str) -> None:
    """Read a register, and write a value that does not depend on the read."""
    tx.get(key)
    tx.put(f"visited {key}", True)


def executions(single: SingleReplica, ids: list[Dot]) -> list[int]:
    return [single.issue_counts[id] for id in ids]


# --- read-only operations -----------------------------------------------------------------------


def test_a_weak_read_sends_and_records_nothing_and_has_no_position() -> None:
    single = SingleReplica()
    single.invoke("put", "a", 1)
    single.execute_all()
    sent, journal, order = (
        list(single.sent),
        list(single.journal),
        single.replica.view.tentative_ids(),
    )

    read = single.invoke("get", "a")
    single.execute_all()

    assert single.responses_to(read) == [(TENTATIVE, 1)]
    assert (single.sent, single.journal, single.replica.view.tentative_ids()) == (
        sent,
        journal,
        order,
    )
    assert read not in single.replica._execution.entries
    assert not single.replica._local_reads.entries
    assert single.replica.view.is_idle()


def test_a_weak_read_sees_its_sessions_earlier_writes() -> None:
    single = SingleReplica(parallelism=4)
    write = single.invoke("put", "a", 1, session=1)
    own = single.invoke("get", "a", session=1)
    other = single.invoke("get", "a", session=2)
    assert [task.request.id for task in single.tasks] == [write, other]

    single.execute(other)
    single.execute(write)
    single.execute(own)

    assert single.responses_to(other) == [(TENTATIVE, None)]
    assert single.responses_to(own) == [(TENTATIVE, 1)]


def test_a_weak_read_gets_a_single_response() -> None:
    single = SingleReplica()
    first = single.invoke("put", "a", 1)
    single.execute_all()
    read = single.invoke("get", "a")
    single.execute_all()

    single.receive_request(1, "put", "a", 7)
    single.stabilise(first)
    single.execute_all()

    assert single.responses_to(read) == [(TENTATIVE, 1)]


def test_without_local_reads_a_weak_read_is_ordered_like_any_operation() -> None:
    single = SingleReplica(local_reads=0)
    read = single.invoke("get", "a")
    single.execute_all()
    assert read in single.replica.view.tentative_ids()
    assert single.responses_to(read) == [(TENTATIVE, None)]

    single.stabilise(read)
    single.execute_all()
    assert single.responses_to(read) == [(TENTATIVE, None), (FINAL, None)]


def test_a_stable_response_does_not_wait_for_read_only_requests() -> None:
    single = SingleReplica(parallelism=3)
    early = single.invoke("get", "a", strong=True, session=1)
    write = single.invoke("put", "a", 1, strong=True, session=2)
    late = single.invoke("get", "a", strong=True, session=3)
    single.decide(early, write, late)

    early_run = single.start(early)
    single.execute(write)
    assert single.responses_to(write) == [(STABLE, None)]
    single.execute(late)
    assert single.responses_to(late) == [(STABLE, 1)]
    assert single.responses_to(early) == []
    single.complete(*early_run)
    assert single.responses_to(early) == [(STABLE, None)]
    assert not single.replica._execution.entries, "everything is stable"


def test_a_strong_read_gets_its_stable_response_once_all_preceding_writes_are_executed() -> None:
    single = SingleReplica(parallelism=3)
    write = single.invoke("put", "a", 1, strong=True, session=1)
    first = single.invoke("get", "a", strong=True, session=2)
    second = single.invoke("get", "a", strong=True, session=3)
    single.decide(write, first, second)

    single.execute(second)
    assert single.responses_to(second) == []
    single.execute(write)
    assert single.responses_to(second) == []
    single.execute(second)
    assert single.responses_to(second) == [(STABLE, 1)]
    assert single.responses_to(first) == []


def test_a_weak_read_adds_nothing_to_the_store() -> None:
    single = SingleReplica()
    for number in range(40):
        single.invoke("get", f"nothing {number}")
        single.invoke("scan", "x")
        single.execute_all()

    assert not single.version_count()
    assert not single.replica._execution.store._read_index.scanned_ranges._by_prefix


def test_a_weak_read_responds_with_the_state_at_its_execution() -> None:
    single = SingleReplica()
    read = single.invoke("get", "a", session=1)
    early = single.start(read)
    single.invoke("put", "a", 1, session=2)
    single.execute_all()

    single.complete(*early)

    assert single.responses_to(read) == [(TENTATIVE, None)]
    assert single.issue_counts[read] == 1


def test_a_strong_read_is_ordered() -> None:
    cluster = Cluster(datatype=KV, scheme=CreekReplica)
    cluster.partition({0, 1}, {2})
    cut_off = cluster.strong(2, "get", "a")
    written = cluster.strong(0, "put", "a", 1)
    cluster.settle()
    assert cluster.responses_to(written)[-1] == (STABLE, None)
    assert cluster.responses_to(cut_off) == [(TENTATIVE, None)]

    cluster.heal()
    cluster.settle(80)

    assert cluster.responses_to(cut_off)[-1] == (STABLE, 1)
    assert cut_off in cluster.committed(0)


def test_a_strong_read_sees_every_earlier_stable_write() -> None:
    cluster = Cluster(datatype=KV, scheme=CreekReplica)
    for number in range(6):
        write = cluster.strong(number % 3, "put", "a", number)
        while STABLE not in [kind for kind, _ in cluster.responses_to(write)]:
            cluster.deliver_next()
        read = cluster.strong((number + 1) % 3, "get", "a")
        cluster.flush()
        assert cluster.responses_to(read)[-1] == (STABLE, number)


# --- responses ----------------------------------------------------------------------------------


def test_a_weak_request_gets_a_final_response() -> None:
    single = SingleReplica()
    unchanged, changed = single.invoke("put", "a", 1), single.invoke("increment", "b", 1)
    single.execute_all()
    late = single.receive_request(1, "increment", "b", 10)
    single.execute_all()
    assert single.responses_to(changed) == [(TENTATIVE, 1)]

    single.stabilise(unchanged, changed, late)
    single.execute_all()

    assert single.responses_to(unchanged) == [(TENTATIVE, None), (FINAL, None)]
    assert single.responses_to(changed) == [(TENTATIVE, 1), (FINAL, 11)]
    finals = {each.id: each.changed for each in single.responses if each.kind is FINAL}
    assert finals == {unchanged: False, changed: True}


def test_a_strong_request_gets_a_tentative_response_after_each_execution() -> None:
    single = SingleReplica()
    issued = single.invoke("increment", "a", 1, strong=True)
    single.execute_all()
    late = single.receive_request(1, "increment", "a", 10)
    single.execute_all()
    assert single.responses_to(issued) == [(TENTATIVE, 1), (TENTATIVE, 11)]

    single.decide(issued)  # without the late request, which is not in its context
    single.execute_all()

    assert single.responses_to(issued)[-1] == (STABLE, 1)
    assert single.replica.view.tentative_ids() == (late,)
    assert single.replica.view.state() == {"a": 11}


def test_a_stable_response_is_sent_at_commit_if_the_order_is_unchanged() -> None:
    single = SingleReplica()
    issued = single.invoke("increment", "a", 1, strong=True)
    single.execute_all()

    single.decide(issued)

    assert single.responses_to(issued) == [(TENTATIVE, 1), (STABLE, 1)]
    assert single.tasks == []


def test_a_stable_response_waits_for_the_execution_of_preceding_writes() -> None:
    single = SingleReplica()
    before = single.receive_request(10, "put", "unrelated", 1)
    issued = single.invoke("put", "a", 1, strong=True)
    single.execute(issued)

    single.decide(issued)
    assert single.replica.view.committed_ids() == (before, issued)
    assert single.responses_to(issued) == [(TENTATIVE, None)]
    single.execute_all()

    assert single.responses_to(issued) == [(TENTATIVE, None), (STABLE, None)]


def test_a_response_is_blocked_while_a_writer_it_read_from_awaits_reexecution() -> None:
    single = SingleReplica(CELLS, parallelism=4)
    first = single.invoke("copy", "x", "a", session=1)
    second = single.invoke("copy", "a", "b", session=2)
    single.execute_all()
    late = single.receive_request(1, "write", "x", 7)
    single.execute(late)
    assert single.entry(first).phase is ExecutionPhase.RUNNING, "rolled back, and issued again"
    assert single.entry(second).phase is ExecutionPhase.EXECUTED, "not rolled back yet"

    third = single.invoke("copy", "b", "c", session=3)
    single.execute(third)
    assert single.responses_to(third) == [], "it depends on the first via the second"
    assert not single.replica.view.is_idle()
    single.execute_all()

    assert single.responses_to(third) == [(TENTATIVE, 7)]
    assert single.replica.view.state() == {"x": 7, "a": 7, "b": 7, "c": 7}


def test_a_blocked_response_is_sent_unchanged_if_the_reexecution_writes_the_same() -> None:
    single = SingleReplica(CELLS, parallelism=4)
    first = single.invoke("visit", "x", session=1)
    second = single.invoke("copy", "visited x", "b", session=2)
    single.execute_all()
    single.execute(single.receive_request(1, "write", "x", 7))
    third = single.invoke("copy", "b", "c", session=3)
    single.execute(third)
    assert single.responses_to(third) == []

    single.execute(first)

    assert single.responses_to(third) == [(TENTATIVE, True)]
    assert executions(single, [first, second, third]) == [2, 1, 1]


def test_a_response_without_pending_dependencies_is_not_blocked() -> None:
    single = SingleReplica(CELLS, parallelism=4)
    single.invoke("copy", "x", "a", session=1)
    single.invoke("copy", "a", "b", session=2)
    single.execute_all()
    single.execute(single.receive_request(1, "write", "x", 7))

    other = single.invoke("copy", "y", "z", session=3)
    single.execute(other)

    assert single.responses_to(other) == [(TENTATIVE, None)]


def test_a_response_waits_for_the_reexecution_of_its_sessions_earlier_requests() -> None:
    single = SingleReplica(CELLS, parallelism=4)
    first = single.invoke("copy", "x", "a", session=1)
    single.execute_all()
    single.execute(single.receive_request(1, "write", "x", 7))
    assert single.entry(first).phase is ExecutionPhase.RUNNING, "rolled back, and issued again"

    second = single.invoke("copy", "y", "z", session=1)
    other = single.invoke("copy", "y", "w", session=2)
    single.execute(other)
    assert single.responses_to(other) == [(TENTATIVE, None)]
    single.execute_all()

    assert single.responses_to(second) == [(TENTATIVE, None)]
    response_order = [each.id for each in single.responses]
    assert response_order.index(other) < response_order.index(second)


def weak_request_behind_reexecution() -> tuple[SingleReplica, Dot, tuple[Task, ExecutionResult]]:
    """Return a replica with a session whose strong request awaits re-execution. The session's next
    weak request started before the rollback."""
    single = SingleReplica(CELLS, parallelism=4)
    first = single.invoke("copy", "x", "a", session=1, strong=True)
    single.execute(first)
    second = single.invoke("write", "z", 1, session=1)
    running = single.start(second)
    single.execute(single.receive_request(1, "write", "x", 7))
    assert single.entry(first).phase is ExecutionPhase.RUNNING, "rolled back, and issued again"
    return single, second, running


def test_a_response_blocked_by_its_session_is_sent_if_it_is_committed_first() -> None:
    """A strong request enters no causal context before its commit, so a later weak request of the
    same session can be committed first. A stable request must have its response."""
    single, second, running = weak_request_behind_reexecution()
    single.complete(*running)
    assert single.responses_to(second) == []

    noop = single.stabilise(second)
    assert single.responses_to(second) == [(TENTATIVE, None)]
    single.execute(noop)

    assert single.responses_to(second) == [(TENTATIVE, None), (FINAL, None)]


def test_a_response_is_not_blocked_by_a_predecessor_with_a_later_position() -> None:
    single, second, running = weak_request_behind_reexecution()
    noop = single.stabilise(second)

    single.complete(*running)
    assert single.responses_to(second) == [(TENTATIVE, None)]
    single.execute(noop)

    assert single.responses_to(second) == [(TENTATIVE, None), (FINAL, None)]


# --- re-execution -------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 3, 16])
def test_concurrent_tasks_never_exceed_the_parallelism(parallelism: int) -> None:
    single = SingleReplica(parallelism=parallelism)
    random = Random(parallelism)
    for number in range(60):
        single.receive_request(random.randrange(1, 10**6) + 10**6 * number, "increment", "a", 1)
        assert len(single.tasks) <= parallelism
        if random.random() < 0.5:
            single.execute(random.choice(single.tasks).request.id)
            assert len(single.tasks) <= parallelism
    single.execute_all()

    assert single.replica.view.state() == {"a": 60}


def test_a_snapshot_does_not_raise_the_parallelism() -> None:
    single = SingleReplica(parallelism=2)
    for number in range(4):
        single.invoke("put", f"k{number}", 1, session=number)
    assert len(single.tasks) == 2

    install(single, state=(("a", 1),))

    assert len(single.tasks) == 2
    single.execute()
    assert len(single.tasks) == 2
    single.execute_all()
    assert single.replica.view.state() == {"a": 1, "k0": 1, "k1": 1, "k2": 1, "k3": 1}


def test_an_entry_with_too_many_failed_attempts_waits_for_its_predecessors() -> None:
    single = SingleReplica(parallelism=4)
    starved = single.invoke("increment", "a", 1)
    for number in range(FAILED_ATTEMPTS_MAX):
        issued = single.start(starved)
        single.execute(single.receive_request(1 + number, "increment", "a", 1))
        before = single.receive_request(500 + number, "put", "unrelated", number)
        single.complete(*issued)
        if number < FAILED_ATTEMPTS_MAX - 1:
            assert starved in [task.request.id for task in single.tasks]
            single.execute(before)
    successor = single.invoke("put", "b", 1, session=2)
    assert [task.request.id for task in single.tasks] == [before, successor]

    single.execute(before)
    assert [task.request.id for task in single.tasks] == [successor, starved]
    single.execute_all()

    assert single.responses_to(starved) == [(TENTATIVE, FAILED_ATTEMPTS_MAX + 1)]


@pytest.mark.parametrize("readers", [0, 1, 5])
def test_a_late_request_reexecutes_exactly_the_readers_of_its_writes(readers: int) -> None:
    single = SingleReplica(CELLS)
    conflicting = [single.invoke("copy", "a", f"own {each}") for each in range(readers)]
    others = [single.invoke("copy", f"b{each}", f"c{each}") for each in range(20)]
    blind = single.invoke("write", "a", 1)
    single.execute_all()

    late = single.receive_request(1, "write", "a", 7)
    executed = single.execute_all()

    assert executed == [late, *conflicting]
    assert executions(single, others) == [1] * 20
    assert single.issue_counts[blind] == 1


def test_a_conflict_propagates_only_while_values_change() -> None:
    single = SingleReplica(CELLS)
    chain = [single.invoke("copy", source, target) for source, target in ("ab", "bc", "cd")]
    stop = single.invoke("visit", "d")
    successor = single.invoke("copy", "visited d", "e")
    single.execute_all()

    late = single.receive_request(1, "write", "a", 7)
    executed = single.execute_all()

    assert executed == [late, *chain, stop]
    assert single.issue_counts[successor] == 1
    assert single.replica.view.probes.counts[Probe.REEXECUTED] == 4


def test_a_late_write_of_an_equal_value_reexecutes_nothing() -> None:
    single = SingleReplica(CELLS)
    single.receive_request(1, "write", "a", 7)
    ids = [single.invoke("copy", "a", f"own {each}") for each in range(5)]
    single.execute_all()

    late = single.receive_request(2, "write", "a", 7)

    assert single.execute_all() == [late]
    assert executions(single, ids) == [1] * 5


def test_a_commit_that_changes_the_order_reexecutes_only_conflicting_requests() -> None:
    single = SingleReplica(CELLS)
    staying = [
        single.receive_request(10 + each, "copy", f"x{each}", f"y{each}") for each in range(5)
    ]
    conflicts = single.receive_request(20, "copy", "a", "b")
    issued = single.receive_request(30, "write", "a", 1, origin=2, context=dots())
    single.execute_all()

    single.decide(issued)
    executed = single.execute_all()

    assert single.replica.view.committed_ids() == (issued,)
    assert executed == [conflicts]
    assert executions(single, staying) == [1] * 5
    assert single.replica.view.state()["b"] == 1


def test_partition_sides_with_disjoint_data_merge_without_reexecution() -> None:
    """Section 6.4: "no unnecessary operation reexecutions are needed"."""
    cluster = Cluster(datatype=KV, scheme=CreekReplica)
    cluster.partition({0, 1}, {2})
    ids = []
    for number in range(30):
        ids.append(cluster.weak(0, "increment", f"left {number % 3}", 1))
        ids.append(cluster.weak(2, "increment", f"right {number % 3}", 1))
        if number % 5 == 0:
            ids.append(cluster.strong(0, "put", f"left {number}", number))
        cluster.flush()
    cluster.heal()
    cluster.settle(80)
    ids.append(cluster.strong(1, "noop"))
    cluster.settle()

    for each in cluster.members:
        assert sorted(id for _, id in cluster.done[each]) == sorted(ids)
        assert cluster.tentative(each) == []
    finals = [response.changed for _, response in cluster.responses if response.kind is FINAL]
    assert finals == [False] * 60


# --- merged runs --------------------------------------------------------------------------------


def invoke_one_by_one(
    single: SingleReplica, name: str, argument_lists: list[tuple[Any, ...]]
) -> list[Dot]:
    ids = []
    for arguments in argument_lists:
        ids.append(single.invoke(name, *arguments))
        single.execute_all()
    return ids


@pytest.mark.parametrize("seed", range(6))
def test_merged_runs_do_not_change_results(seed: int) -> None:
    short, long = SingleReplica(kept_apart=16), SingleReplica()
    for single in (short, long):
        random = Random(seed)
        known: list[Dot] = []
        for _ in range(300):
            key = random.choice("abcdef")
            if random.random() < 0.05:
                at = random.randrange(1_000, single.now + 20)
                known.append(single.receive_request(at * 1_000, "increment", key, 1))
            elif random.random() < 0.03:
                single.stabilise(*known[: random.randrange(len(known) + 1)])
            else:
                known.append(single.invoke("put", key, random.randrange(3)))
            if random.random() < 0.7:
                single.execute_all()
        single.execute_all()
        single.stabilise(*known)
        single.execute_all()

    assert short.replica.view.probes.counts[Probe.RUN_MERGED] > 0
    assert short.replica.view.state() == long.replica.view.state()
    assert short.replica.view.committed_ids() == long.replica.view.committed_ids()
    finals = [
        {each.id: each.outcome for each in single.responses if each.kind is FINAL}
        for single in (short, long)
    ]
    assert finals[0] == finals[1]


def test_merged_runs_bound_the_number_of_versions_and_reads() -> None:
    single = SingleReplica(kept_apart=64)  # 32 requests in a merged run
    invoke_one_by_one(single, "put", [(f"k{number % 2}", number) for number in range(1_000)])

    run_count = single.replica.view.probes.counts[Probe.RUN_MERGED]
    assert run_count >= (1_000 - 64) // 32
    assert single.version_count() <= 64 + 2 * (run_count + 1)
    assert single.read_count() <= 64
    assert single.replica._execution.merged_count == 32 * run_count


def test_a_split_run_does_not_prevent_later_merges() -> None:
    single = SingleReplica(kept_apart=16)
    first = invoke_one_by_one(single, "put", [("a", number) for number in range(40)])[0]
    inside = single.entry(first).request.timestamp + 5
    single.receive_request(inside, "put", "a", "late")
    single.execute_all()
    assert single.replica.view.probes.counts[Probe.RUN_SPLIT] == 1

    invoke_one_by_one(single, "put", [("a", number) for number in range(200)])

    assert len(single.replica._execution.entries) - single.replica._execution.merged_count <= 32


def test_a_run_can_be_committed_around_an_unexecuted_request() -> None:
    """The run must be split, although some of its entries already count as executed."""
    single = SingleReplica(kept_apart=8)
    run_ids = invoke_one_by_one(single, "increment", [("a", 1)] * 12)
    assert single.entry(run_ids[0]).phase is single.entry(run_ids[1]).phase is ExecutionPhase.MERGED
    inside = single.entry(run_ids[0]).request.timestamp + 5
    late = single.receive_request(inside, "put", "a", 100)
    final = single.receive_request(
        single.now + 10, "increment", "a", 0, origin=2, context=dots(*run_ids, late)
    )

    single.decide(final)
    single.execute_all()

    assert single.replica.view.state() == {"a": 111}
    assert single.replica.view.is_idle()
    assert single.replica._stable_prefix.length == 14
    final_outcomes = [
        outcome for id in run_ids for kind, outcome in single.responses_to(id) if kind is FINAL
    ]
    assert final_outcomes == [1, *range(101, 112)]


def test_a_late_request_inside_a_committed_run_waits_for_its_predecessors() -> None:
    """The late request reads a register that the run wrote, so the run is split and all entries run
    again. If the late request completes before the entry ahead of it, it must wait."""
    single = SingleReplica(kept_apart=8, parallelism=4)
    run_ids = invoke_one_by_one(single, "increment", [("a", 1)] * 12)
    inside = single.entry(run_ids[0]).request.timestamp + 5
    late = single.receive_request(inside, "increment", "a", 100)
    final = single.receive_request(
        single.now + 10, "increment", "a", 0, origin=2, context=dots(*run_ids, late)
    )
    single.decide(final)
    single.execute(late)
    assert {task.request.id for task in single.tasks} >= {run_ids[0], late}

    single.execute(late)
    assert single.replica._execution.executed_count == 0
    single.execute_all()

    assert single.replica._execution.executed_count == 14
    assert single.replica.view.state() == {"a": 112}


def test_a_run_committed_as_a_whole_is_not_reexecuted() -> None:
    single = SingleReplica(kept_apart=8)
    run_ids = invoke_one_by_one(single, "increment", [("a", 1)] * 12)

    single.stabilise(*run_ids)

    assert [task.request.operation.name for task in single.tasks] == ["noop"]
    single.execute_all()
    assert executions(single, run_ids) == [1] * 12
    assert single.replica._execution.merged_count == 0
    assert single.replica._stable_prefix.length == 13


def test_a_run_committed_in_part_is_reexecuted() -> None:
    single = SingleReplica(kept_apart=8)
    run_ids = invoke_one_by_one(single, "increment", [("a", 1)] * 12)

    single.stabilise(run_ids[0])
    single.execute_all()

    assert single.replica.view.committed_ids()[0] == run_ids[0]
    assert single.replica.view.state() == {"a": 12}
    assert single.replica.view.is_idle()


# --- deliveries of several requests -------------------------------------------------------------


def test_requests_decided_together_commit_a_run_as_a_whole() -> None:
    single = SingleReplica(kept_apart=8)
    run_ids: list[Dot] = []
    for number in range(12):
        run_ids.append(single.invoke("increment", "a", 1, strong=number % 3 == 2))
        single.execute_all()
    assert single.replica._execution.merged_count > 3

    single.decide(*run_ids[2::3])

    assert not single.tasks
    assert executions(single, run_ids) == [1] * 12
    assert single.replica.view.committed_ids() == tuple(run_ids)
    assert single.replica._stable_prefix.length == 12
    assert [single.responses_to(id)[-1] for id in run_ids[2::3]] == [
        (STABLE, value) for value in (3, 6, 9, 12)
    ]


def test_requests_decided_in_reverse_order_in_one_instance_are_reexecuted() -> None:
    single = SingleReplica()
    early = single.receive_request(2_000, "increment", "a", 1, context=Dots())
    between = single.receive_request(3_000, "increment", "a", 10)
    late = single.receive_request(4_000, "increment", "a", 100, context=Dots())
    single.execute_all()

    single.decide(late, early)
    single.execute_all()

    assert single.replica.view.committed_ids() == (late, early)
    outcomes = [single.entry(each).outcome for each in (between,)]
    assert [each.value for each in outcomes if each is not None] == [111]
    assert executions(single, [late, early, between]) == [2, 2, 2]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kept_apart", [8, 256])
def test_deciding_together_or_one_by_one_gives_the_same_result(seed: int, kept_apart: int) -> None:
    together, one_by_one = (
        SingleReplica(kept_apart=kept_apart),
        SingleReplica(kept_apart=kept_apart),
    )
    for single in (together, one_by_one):
        single.now = 10_000
        random = Random(seed)
        weak: list[Dot] = []
        strong: list[Dot] = []
        for _ in range(400):
            key, amount, at = random.choice("abcdef"), random.randrange(3), random.randrange(2_000)
            chance = random.random()
            if chance < 0.6:
                weak.append(single.invoke("increment", key, amount))
            elif chance < 0.7:
                weak.append(single.receive_request(single.now - at, "put", key, amount))
            elif chance < 0.85:
                strong.append(single.invoke("increment", key, amount, strong=True))
            elif chance < 0.95:
                known = dots(*weak[: random.randrange(len(weak) + 1)])
                when = single.now - at // 10
                strong.append(
                    single.receive_request(when, "increment", key, amount, origin=2, context=known)
                )
            elif strong:
                if random.random() < 0.5:
                    random.shuffle(strong)
                if single is together:
                    single.decide(*strong)
                else:
                    for id in strong:
                        single.decide(id)
                strong = []
            if random.random() < 0.7:
                single.execute_all()
        single.execute_all()
        single.decide(*strong)
        single.stabilise(*weak)
        single.execute_all()

    assert together.committed == one_by_one.committed
    assert together.replica.view.state() == one_by_one.replica.view.state()
    for single in (together, one_by_one):
        assert single.replica.view.is_idle()
        assert single.replica._stable_prefix.length == single.replica.view.committed_length() > 300
    final_outcomes = [
        {each.id: each.outcome for each in single.responses if each.kind is not TENTATIVE}
        for single in (together, one_by_one)
    ]
    assert final_outcomes[0] == final_outcomes[1]


# --- checkpoints and restarts -------------------------------------------------------------------


def install(
    single: SingleReplica, state: tuple[tuple[str, Any], ...], ids: Dots | None = None
) -> None:
    """Install a snapshot from another replica that covers `ids`, by default one remote request."""
    covered = dots(Dot(2, 1)) if ids is None else ids
    checkpoint = Checkpoint(1, len(covered), covered, 5, state=state, outcomes=())
    single.replica.receive(Snapshot(checkpoint), 1, single.now)
    single.take_effects()


def test_a_pending_read_is_executed_on_an_installed_checkpoint() -> None:
    single = SingleReplica()
    read = single.invoke("get", "a")
    early = single.start(read)

    install(single, state=(("a", 7),))
    single.complete(*early)
    single.execute_all()

    assert single.responses_to(read) == [(TENTATIVE, 7)]


def test_sessions_continue_after_a_checkpoint() -> None:
    single = SingleReplica(parallelism=4)
    covered = single.invoke("put", "a", 1, session=1)
    staying = single.invoke("increment", "b", 1, session=1)
    read = single.invoke("get", "b", session=1)
    stale = single.start()

    install(single, state=(("a", 1), ("b", 10)), ids=dots(covered, Dot(2, 1)))
    single.complete(*stale)
    assert single.replica.view.tentative_ids() == (staying,)
    assert [task.request.id for task in single.tasks] == [staying]
    single.execute_all()

    assert single.responses_to(staying) == [(TENTATIVE, 11)]
    assert single.responses_to(read) == [(TENTATIVE, 11)]
    assert single.responses_to(covered) == [], "no replica retained its outcome"
    assert single.replica.view.state() == {"a": 1, "b": 11}


def test_a_blocked_response_is_recomputed_after_a_checkpoint() -> None:
    single = SingleReplica(CELLS, parallelism=4)
    single.invoke("copy", "x", "a", session=1)
    single.invoke("copy", "a", "b", session=2)
    single.execute_all()
    single.execute(single.receive_request(1, "write", "x", 7))
    third = single.invoke("copy", "b", "c", session=3)
    single.execute(third)
    assert single.responses_to(third) == []

    install(single, state=(("x", 3),))
    single.execute_all()

    assert single.responses_to(third) == [(TENTATIVE, 7)]
    assert single.replica.view.is_idle()


def test_runs_are_discarded_with_a_checkpoint_and_merged_again() -> None:
    single = SingleReplica(kept_apart=8)
    invoke_one_by_one(single, "increment", [("a", 1)] * 20)

    install(single, state=(("a", 100),))
    single.execute_all()
    assert single.replica.view.state() == {"a": 120}
    invoke_one_by_one(single, "increment", [("a", 1)] * 40)

    assert single.replica.view.state() == {"a": 160}
    assert single.replica._execution.merged_count > 20


def test_a_restart_recovers_issued_requests_and_no_local_reads() -> None:
    single = SingleReplica()
    writes = [single.invoke("put", "a", number) for number in range(3)]
    single.invoke("get", "a")
    late = single.receive_request(1, "increment", "b", 1)
    single.execute_all()
    single.stabilise(writes[0], late)
    single.execute_all()
    before = single.replica
    received = [each for each in single.journal if isinstance(each, Received)]
    assert len(received) == 5

    after = CreekReplica(0, single.settings, KV)
    after.recover([decode_record(encode(each)) for each in single.journal])
    single.replica, single.tasks = after, []
    single.take_effects()
    single.execute_all()

    assert after.view.state() == before.view.state() == {"a": 2, "b": 1}
    assert after.view.committed_ids() == before.view.committed_ids()
    assert after.view.tentative_ids() == before.view.tentative_ids()
    assert after._stack.next_id() not in writes


def test_a_cluster_of_creek_replicas_survives_restarts_and_snapshots() -> None:
    cluster = Cluster(datatype=KV, scheme=CreekReplica, checkpoint_every=8, noop_ticks=NEVER)
    cluster.partition({0, 1}, {2})
    for number in range(40):
        cluster.weak(0, "increment", "a", 1)
        cluster.weak(2, "increment", "a", 1)
        cluster.strong(1, "put", "b", number)
        cluster.flush()
    cluster.crash(1)
    cluster.restart(1)
    cluster.heal()
    cluster.settle(120)
    cluster.strong(2, "noop")
    cluster.settle()

    states = [cluster.replicas[each].view.state() for each in cluster.members]
    assert states == [{"a": 80, "b": 39}] * 3
    probes = cluster.replicas[2].view.probes.counts
    assert probes[Probe.SNAPSHOT_INSTALLED] > 0


def test_entries_replaced_by_a_snapshot_are_freed_without_garbage_collection() -> None:
    single = SingleReplica()
    for each in range(20):
        single.invoke("increment", "hits", each)
    single.execute_all()
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(each, RequestEntry) for each in gc.get_objects())
        checkpoint = Checkpoint(1, 20, Dots({0: (1, 21)}), 9_000, state=(("hits", 7),), outcomes=())
        single.replica.receive(Snapshot(checkpoint), sender=1, now=10_000)
        after = sum(isinstance(each, RequestEntry) for each in gc.get_objects())
    finally:
        gc.enable()
    assert after == before - 20
