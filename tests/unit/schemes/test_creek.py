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
from tests.unit.schemes.single_replica import Alone, dots

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
    """Reads, and writes the same whatever it read."""
    tx.get(key)
    tx.put(f"visited {key}", True)


def executions(alone: Alone, ids: list[Dot]) -> list[int]:
    return [alone.begun[id] for id in ids]


# --- operations that only read ------------------------------------------------------------------


def test_a_weak_read_sends_nothing_writes_nothing_and_takes_no_place() -> None:
    alone = Alone()
    alone.invoke("put", "a", 1)
    alone.work()
    sent, kept, order = list(alone.sent), list(alone.journal), alone.replica.tentative_ids()

    read = alone.invoke("get", "a")
    alone.work()

    assert alone.answers_to(read) == [(TENTATIVE, 1)]
    assert (alone.sent, alone.journal, alone.replica.tentative_ids()) == (sent, kept, order)
    assert read not in alone.replica._entries
    assert not alone.replica._local_reads
    assert alone.replica.is_idle()


def test_a_weak_read_sees_what_its_session_did_before() -> None:
    alone = Alone(parallelism=4)
    write = alone.invoke("put", "a", 1, session=1)
    own = alone.invoke("get", "a", session=1)
    other = alone.invoke("get", "a", session=2)
    assert [task.request.id for task in alone.tasks] == [write, other]

    alone.step(other)
    alone.step(write)
    alone.step(own)

    assert alone.answers_to(other) == [(TENTATIVE, None)]
    assert alone.answers_to(own) == [(TENTATIVE, 1)]


def test_a_weak_read_is_answered_once_and_for_all() -> None:
    alone = Alone()
    first = alone.invoke("put", "a", 1)
    alone.work()
    read = alone.invoke("get", "a")
    alone.work()

    alone.hear(1, "put", "a", 7)
    alone.commit(first)
    alone.work()

    assert alone.answers_to(read) == [(TENTATIVE, 1)]


def test_a_weak_read_is_like_any_other_operation_where_reads_are_not_local() -> None:
    alone = Alone(local_reads=0)
    read = alone.invoke("get", "a")
    alone.work()
    assert read in alone.replica.tentative_ids()
    assert alone.answers_to(read) == [(TENTATIVE, None)]

    alone.commit(read)
    alone.work()
    assert alone.answers_to(read) == [(TENTATIVE, None), (FINAL, None)]


def test_a_stable_answer_does_not_wait_for_what_only_reads() -> None:
    alone = Alone(parallelism=3)
    early = alone.invoke("get", "a", strong=True, session=1)
    write = alone.invoke("put", "a", 1, strong=True, session=2)
    late = alone.invoke("get", "a", strong=True, session=3)
    alone.decide(early, write, late)

    slow = alone.begin(early)
    alone.step(write)
    assert alone.answers_to(write) == [(STABLE, None)]
    alone.step(late)
    assert alone.answers_to(late) == [(STABLE, 1)]
    assert alone.answers_to(early) == []
    alone.finish(*slow)
    assert alone.answers_to(early) == [(STABLE, None)]
    assert not alone.replica._entries, "all is settled"


def test_a_read_is_answered_for_good_once_all_writes_before_it_are_done() -> None:
    alone = Alone(parallelism=3)
    write = alone.invoke("put", "a", 1, strong=True, session=1)
    first = alone.invoke("get", "a", strong=True, session=2)
    second = alone.invoke("get", "a", strong=True, session=3)
    alone.decide(write, first, second)

    alone.step(second)
    assert alone.answers_to(second) == []
    alone.step(write)
    assert alone.answers_to(second) == []
    alone.step(second)
    assert alone.answers_to(second) == [(STABLE, 1)]
    assert alone.answers_to(first) == []


def test_a_weak_read_leaves_nothing_in_the_store() -> None:
    alone = Alone()
    for number in range(40):
        alone.invoke("get", f"nothing {number}")
        alone.invoke("scan", "x")
        alone.work()

    assert not alone.version_count()
    assert not alone.replica._store._read_index.scanned_ranges._by_prefix


def test_a_weak_read_answers_with_what_it_saw_when_it_ran() -> None:
    alone = Alone()
    read = alone.invoke("get", "a", session=1)
    early = alone.begin(read)
    alone.invoke("put", "a", 1, session=2)
    alone.work()

    alone.finish(*early)

    assert alone.answers_to(read) == [(TENTATIVE, None)]
    assert alone.begun[read] == 1


def test_a_strong_read_goes_through_the_order() -> None:
    cluster = Cluster(datatype=KV, scheme=CreekReplica)
    cluster.partition({0, 1}, {2})
    cut_off = cluster.strong(2, "get", "a")
    written = cluster.strong(0, "put", "a", 1)
    cluster.settle()
    assert cluster.answers(written)[-1] == (STABLE, None)
    assert cluster.answers(cut_off) == [(TENTATIVE, None)]

    cluster.heal()
    cluster.settle(80)

    assert cluster.answers(cut_off)[-1] == (STABLE, 1)
    assert cut_off in cluster.committed(0)


def test_a_strong_read_sees_every_strong_write_that_was_stable_before_it() -> None:
    cluster = Cluster(datatype=KV, scheme=CreekReplica)
    for number in range(6):
        write = cluster.strong(number % 3, "put", "a", number)
        while STABLE not in [kind for kind, _ in cluster.answers(write)]:
            cluster.deliver_next()
        read = cluster.strong((number + 1) % 3, "get", "a")
        cluster.flush()
        assert cluster.answers(read)[-1] == (STABLE, number)


# --- answers ------------------------------------------------------------------------------------


def test_a_weak_request_is_told_how_it_ended() -> None:
    alone = Alone()
    kept, changed = alone.invoke("put", "a", 1), alone.invoke("increment", "b", 1)
    alone.work()
    late = alone.hear(1, "increment", "b", 10)
    alone.work()
    assert alone.answers_to(changed) == [(TENTATIVE, 1)]

    alone.commit(kept, changed, late)
    alone.work()

    assert alone.answers_to(kept) == [(TENTATIVE, None), (FINAL, None)]
    assert alone.answers_to(changed) == [(TENTATIVE, 1), (FINAL, 11)]
    finals = {each.id: each.changed for each in alone.answers if each.kind is FINAL}
    assert finals == {kept: False, changed: True}


def test_a_strong_request_is_told_each_time_it_is_executed_again() -> None:
    alone = Alone()
    mine = alone.invoke("increment", "a", 1, strong=True)
    alone.work()
    late = alone.hear(1, "increment", "a", 10)
    alone.work()
    assert alone.answers_to(mine) == [(TENTATIVE, 1), (TENTATIVE, 11)]

    alone.decide(mine)  # without the late one, which it does not know
    alone.work()

    assert alone.answers_to(mine)[-1] == (STABLE, 1)
    assert alone.replica.tentative_ids() == (late,)
    assert alone.replica.state() == {"a": 11}


def test_a_stable_answer_leaves_with_the_commit_when_nothing_changed() -> None:
    alone = Alone()
    mine = alone.invoke("increment", "a", 1, strong=True)
    alone.work()

    alone.decide(mine)

    assert alone.answers_to(mine) == [(TENTATIVE, 1), (STABLE, 1)]
    assert alone.tasks == []


def test_no_stable_answer_leaves_while_something_before_it_is_not_executed() -> None:
    alone = Alone()
    before = alone.hear(10, "put", "unrelated", 1)
    mine = alone.invoke("put", "a", 1, strong=True)
    alone.step(mine)

    alone.decide(mine)
    assert alone.replica.committed_ids() == (before, mine)
    assert alone.answers_to(mine) == [(TENTATIVE, None)]
    alone.work()

    assert alone.answers_to(mine) == [(TENTATIVE, None), (STABLE, None)]


def test_an_answer_is_held_while_what_it_read_may_come_back_otherwise() -> None:
    alone = Alone(CELLS, parallelism=4)
    first = alone.invoke("copy", "x", "a", session=1)
    second = alone.invoke("copy", "a", "b", session=2)
    alone.work()
    late = alone.hear(1, "write", "x", 7)
    alone.step(late)
    assert alone.entry(first).phase is ExecutionPhase.RUNNING, "withdrawn, and handed out again"
    assert alone.entry(second).phase is ExecutionPhase.EXECUTED, "kept for now"

    third = alone.invoke("copy", "b", "c", session=3)
    alone.step(third)
    assert alone.answers_to(third) == [], "it relies on what the second made of the first"
    assert not alone.replica.is_idle()
    alone.work()

    assert alone.answers_to(third) == [(TENTATIVE, 7)]
    assert alone.replica.state() == {"x": 7, "a": 7, "b": 7, "c": 7}


def test_a_held_answer_leaves_as_it_is_when_the_same_comes_back() -> None:
    alone = Alone(CELLS, parallelism=4)
    first = alone.invoke("visit", "x", session=1)
    second = alone.invoke("copy", "visited x", "b", session=2)
    alone.work()
    alone.step(alone.hear(1, "write", "x", 7))
    third = alone.invoke("copy", "b", "c", session=3)
    alone.step(third)
    assert alone.answers_to(third) == []

    alone.step(first)

    assert alone.answers_to(third) == [(TENTATIVE, True)]
    assert executions(alone, [first, second, third]) == [2, 1, 1]


def test_an_answer_that_rests_on_nothing_unsure_is_not_held() -> None:
    alone = Alone(CELLS, parallelism=4)
    alone.invoke("copy", "x", "a", session=1)
    alone.invoke("copy", "a", "b", session=2)
    alone.work()
    alone.step(alone.hear(1, "write", "x", 7))

    other = alone.invoke("copy", "y", "z", session=3)
    alone.step(other)

    assert alone.answers_to(other) == [(TENTATIVE, None)]


def test_an_answer_waits_for_what_its_session_did_before_to_be_executed_again() -> None:
    alone = Alone(CELLS, parallelism=4)
    first = alone.invoke("copy", "x", "a", session=1)
    alone.work()
    alone.step(alone.hear(1, "write", "x", 7))
    assert alone.entry(first).phase is ExecutionPhase.RUNNING, "withdrawn, and handed out again"

    second = alone.invoke("copy", "y", "z", session=1)
    other = alone.invoke("copy", "y", "w", session=2)
    alone.step(other)
    assert alone.answers_to(other) == [(TENTATIVE, None)]
    alone.work()

    assert alone.answers_to(second) == [(TENTATIVE, None)]
    answered = [each.id for each in alone.answers]
    assert answered.index(other) < answered.index(second)


def behind_one_that_runs_again() -> tuple[Alone, Dot, tuple[Task, ExecutionResult]]:
    """A session's strong request has to be executed again, and its weak one, behind, is under way
    since before."""
    alone = Alone(CELLS, parallelism=4)
    first = alone.invoke("copy", "x", "a", session=1, strong=True)
    alone.step(first)
    second = alone.invoke("write", "z", 1, session=1)
    running = alone.begin(second)
    alone.step(alone.hear(1, "write", "x", 7))
    assert alone.entry(first).phase is ExecutionPhase.RUNNING, "withdrawn, and handed out again"
    return alone, second, running


def test_an_answer_that_is_held_for_its_session_leaves_when_it_is_committed_before_that() -> None:
    """A strong request is in no causal context before it is committed, and can be overtaken by what
    its session did after it. What is settled was answered."""
    alone, second, running = behind_one_that_runs_again()
    alone.finish(*running)
    assert alone.answers_to(second) == []

    noop = alone.commit(second)
    assert alone.answers_to(second) == [(TENTATIVE, None)]
    alone.step(noop)

    assert alone.answers_to(second) == [(TENTATIVE, None), (FINAL, None)]


def test_an_answer_is_not_held_for_what_comes_behind_it_by_now() -> None:
    alone, second, running = behind_one_that_runs_again()
    noop = alone.commit(second)

    alone.finish(*running)
    assert alone.answers_to(second) == [(TENTATIVE, None)]
    alone.step(noop)

    assert alone.answers_to(second) == [(TENTATIVE, None), (FINAL, None)]


# --- what is executed, and how often ------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 3, 16])
def test_no_more_is_under_way_than_the_parallelism_allows(parallelism: int) -> None:
    alone = Alone(parallelism=parallelism)
    random = Random(parallelism)
    for number in range(60):
        alone.hear(random.randrange(1, 10**6) + 10**6 * number, "increment", "a", 1)
        assert len(alone.tasks) <= parallelism
        if random.random() < 0.5:
            alone.step(random.choice(alone.tasks).request.id)
            assert len(alone.tasks) <= parallelism
    alone.work()

    assert alone.replica.state() == {"a": 60}


def test_a_snapshot_does_not_raise_the_parallelism() -> None:
    alone = Alone(parallelism=2)
    for number in range(4):
        alone.invoke("put", f"k{number}", 1, session=number)
    assert len(alone.tasks) == 2

    install(alone, state=(("a", 1),))

    assert len(alone.tasks) == 2
    alone.step()
    assert len(alone.tasks) == 2
    alone.work()
    assert alone.replica.state() == {"a": 1, "k0": 1, "k1": 1, "k2": 1, "k3": 1}


def test_whoever_lost_too_often_waits_until_nobody_before_it_is_under_way() -> None:
    alone = Alone(parallelism=4)
    unlucky = alone.invoke("increment", "a", 1)
    for number in range(FAILED_ATTEMPTS_MAX):
        mine = alone.begin(unlucky)
        alone.step(alone.hear(1 + number, "increment", "a", 1))
        before = alone.hear(500 + number, "put", "unrelated", number)
        alone.finish(*mine)
        if number < FAILED_ATTEMPTS_MAX - 1:
            assert unlucky in [task.request.id for task in alone.tasks]
            alone.step(before)
    behind = alone.invoke("put", "b", 1, session=2)
    assert [task.request.id for task in alone.tasks] == [before, behind]

    alone.step(before)
    assert [task.request.id for task in alone.tasks] == [behind, unlucky]
    alone.work()

    assert alone.answers_to(unlucky) == [(TENTATIVE, FAILED_ATTEMPTS_MAX + 1)]


@pytest.mark.parametrize("readers", [0, 1, 5])
def test_a_late_request_makes_those_run_again_that_read_what_it_wrote(readers: int) -> None:
    alone = Alone(CELLS)
    conflicting = [alone.invoke("copy", "a", f"mine {each}") for each in range(readers)]
    others = [alone.invoke("copy", f"b{each}", f"c{each}") for each in range(20)]
    blind = alone.invoke("write", "a", 1)
    alone.work()

    late = alone.hear(1, "write", "a", 7)
    done = alone.work()

    assert done == [late, *conflicting]
    assert executions(alone, others) == [1] * 20
    assert alone.begun[blind] == 1


def test_a_conflict_goes_on_as_long_as_values_change_and_no_further() -> None:
    alone = Alone(CELLS)
    chain = [alone.invoke("copy", source, target) for source, target in ("ab", "bc", "cd")]
    stop = alone.invoke("visit", "d")
    behind = alone.invoke("copy", "visited d", "e")
    alone.work()

    late = alone.hear(1, "write", "a", 7)
    done = alone.work()

    assert done == [late, *chain, stop]
    assert alone.begun[behind] == 1
    assert alone.replica.probes.counts[Probe.REEXECUTED] == 4


def test_a_late_request_that_writes_what_was_there_makes_nobody_run_again() -> None:
    alone = Alone(CELLS)
    alone.hear(1, "write", "a", 7)
    ids = [alone.invoke("copy", "a", f"mine {each}") for each in range(5)]
    alone.work()

    late = alone.hear(2, "write", "a", 7)

    assert alone.work() == [late]
    assert executions(alone, ids) == [1] * 5


def test_a_commit_that_changes_the_order_makes_only_those_run_again_that_conflict() -> None:
    alone = Alone(CELLS)
    stays = [alone.hear(10 + each, "copy", f"x{each}", f"y{each}") for each in range(5)]
    conflicts = alone.hear(20, "copy", "a", "b")
    mine = alone.hear(30, "write", "a", 1, origin=2, knows=dots())
    alone.work()

    alone.decide(mine)
    done = alone.work()

    assert alone.replica.committed_ids() == (mine,)
    assert done == [conflicts]
    assert executions(alone, stays) == [1] * 5
    assert alone.replica.state()["b"] == 1


def test_two_sides_of_a_partition_that_used_distinct_data_merge_without_executing_again() -> None:
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


# --- long lists ---------------------------------------------------------------------------------


def one_by_one(alone: Alone, name: str, argument_lists: list[tuple[Any, ...]]) -> list[Dot]:
    ids = []
    for arguments in argument_lists:
        ids.append(alone.invoke(name, *arguments))
        alone.work()
    return ids


@pytest.mark.parametrize("seed", range(6))
def test_long_lists_are_kept_short_and_nobody_notices(seed: int) -> None:
    short, long = Alone(kept_apart=16), Alone()
    for alone in (short, long):
        random = Random(seed)
        known: list[Dot] = []
        for _ in range(300):
            key = random.choice("abcdef")
            if random.random() < 0.05:
                at = random.randrange(1_000, alone.now + 20)
                known.append(alone.hear(at * 1_000, "increment", key, 1))
            elif random.random() < 0.03:
                alone.commit(*known[: random.randrange(len(known) + 1)])
            else:
                known.append(alone.invoke("put", key, random.randrange(3)))
            if random.random() < 0.7:
                alone.work()
        alone.work()
        alone.commit(*known)
        alone.work()

    assert short.replica.probes.counts[Probe.STRETCH_MERGED] > 0
    assert short.replica.state() == long.replica.state()
    assert short.replica.committed_ids() == long.replica.committed_ids()
    finals = [
        {each.id: each.outcome for each in alone.answers if each.kind is FINAL}
        for alone in (short, long)
    ]
    assert finals[0] == finals[1]


def test_what_is_remembered_of_old_requests_does_not_grow_with_their_number() -> None:
    alone = Alone(kept_apart=64)  # so that there are 32 in a stretch
    one_by_one(alone, "put", [(f"k{number % 2}", number) for number in range(1_000)])

    stretches = alone.replica.probes.counts[Probe.STRETCH_MERGED]
    assert stretches >= (1_000 - 64) // 32
    assert alone.version_count() <= 64 + 2 * (stretches + 1)
    assert alone.read_count() <= 64
    assert alone.replica._merged_count == 32 * stretches


def test_a_stretch_that_was_taken_apart_does_not_keep_later_ones_from_being_merged() -> None:
    alone = Alone(kept_apart=16)
    first = one_by_one(alone, "put", [("a", number) for number in range(40)])[0]
    inside = alone.entry(first).request.timestamp + 5
    alone.hear(inside, "put", "a", "late")
    alone.work()
    assert alone.replica.probes.counts[Probe.STRETCH_TAKEN_APART] == 1

    one_by_one(alone, "put", [("a", number) for number in range(200)])

    assert len(alone.replica._entries) - alone.replica._merged_count <= 32


def test_a_stretch_may_be_committed_with_one_inside_that_is_not_executed() -> None:
    """It has to be taken apart for it, although some of its members count as done already."""
    alone = Alone(kept_apart=8)
    members = one_by_one(alone, "increment", [("a", 1)] * 12)
    assert alone.entry(members[0]).phase is alone.entry(members[1]).phase is ExecutionPhase.MERGED
    inside = alone.entry(members[0]).request.timestamp + 5
    late = alone.hear(inside, "put", "a", 100)
    final = alone.hear(alone.now + 10, "increment", "a", 0, origin=2, knows=dots(*members, late))

    alone.decide(final)
    alone.work()

    assert alone.replica.state() == {"a": 111}
    assert alone.replica.is_idle()
    assert alone.replica._stable_prefix.length == 14
    ends = [outcome for id in members for kind, outcome in alone.answers_to(id) if kind is FINAL]
    assert ends == [1, *range(101, 112)]


def test_a_stable_answer_inside_a_committed_stretch_waits_for_what_comes_before_it() -> None:
    """The late one runs at last, sees that the stretch wrote what it reads, and so all run again:
    if it is done before the member that stands before it, it has to wait."""
    alone = Alone(kept_apart=8, parallelism=4)
    members = one_by_one(alone, "increment", [("a", 1)] * 12)
    inside = alone.entry(members[0]).request.timestamp + 5
    late = alone.hear(inside, "increment", "a", 100)
    final = alone.hear(alone.now + 10, "increment", "a", 0, origin=2, knows=dots(*members, late))
    alone.decide(final)
    alone.step(late)
    assert {task.request.id for task in alone.tasks} >= {members[0], late}

    alone.step(late)
    assert alone.replica._executed_count == 0
    alone.work()

    assert alone.replica._executed_count == 14
    assert alone.replica.state() == {"a": 112}


def test_a_stretch_that_is_committed_whole_is_not_executed_again() -> None:
    alone = Alone(kept_apart=8)
    members = one_by_one(alone, "increment", [("a", 1)] * 12)

    alone.commit(*members)

    assert [task.request.operation.name for task in alone.tasks] == ["noop"]
    alone.work()
    assert executions(alone, members) == [1] * 12
    assert alone.replica._merged_count == 0
    assert alone.replica._stable_prefix.length == 13


def test_a_stretch_that_is_committed_in_part_is_executed_again() -> None:
    alone = Alone(kept_apart=8)
    members = one_by_one(alone, "increment", [("a", 1)] * 12)

    alone.commit(members[0])
    alone.work()

    assert alone.replica.committed_ids()[0] == members[0]
    assert alone.replica.state() == {"a": 12}
    assert alone.replica.is_idle()


# --- delivered together -------------------------------------------------------------------------


def test_a_stretch_is_committed_whole_by_what_is_decided_together() -> None:
    alone = Alone(kept_apart=8)
    members: list[Dot] = []
    for number in range(12):
        members.append(alone.invoke("increment", "a", 1, strong=number % 3 == 2))
        alone.work()
    assert alone.replica._merged_count > 3

    alone.decide(*members[2::3])

    assert not alone.tasks
    assert executions(alone, members) == [1] * 12
    assert alone.replica.committed_ids() == tuple(members)
    assert alone.replica._stable_prefix.length == 12
    assert [alone.answers_to(id)[-1] for id in members[2::3]] == [
        (STABLE, value) for value in (3, 6, 9, 12)
    ]


def test_who_is_decided_before_an_earlier_one_of_the_same_instance_runs_again() -> None:
    alone = Alone()
    early = alone.hear(2_000, "increment", "a", 1, knows=Dots())
    between = alone.hear(3_000, "increment", "a", 10)
    late = alone.hear(4_000, "increment", "a", 100, knows=Dots())
    alone.work()

    alone.decide(late, early)
    alone.work()

    assert alone.replica.committed_ids() == (late, early)
    outcomes = [alone.entry(each).outcome for each in (between,)]
    assert [each.value for each in outcomes if each is not None] == [111]
    assert executions(alone, [late, early, between]) == [2, 2, 2]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kept_apart", [8, 256])
def test_together_or_one_by_one_comes_to_the_same(seed: int, kept_apart: int) -> None:
    together, one_by_one = Alone(kept_apart=kept_apart), Alone(kept_apart=kept_apart)
    for alone in (together, one_by_one):
        alone.now = 10_000
        random = Random(seed)
        weak: list[Dot] = []
        strong: list[Dot] = []
        for _ in range(400):
            key, amount, at = random.choice("abcdef"), random.randrange(3), random.randrange(2_000)
            chance = random.random()
            if chance < 0.6:
                weak.append(alone.invoke("increment", key, amount))
            elif chance < 0.7:
                weak.append(alone.hear(alone.now - at, "put", key, amount))
            elif chance < 0.85:
                strong.append(alone.invoke("increment", key, amount, strong=True))
            elif chance < 0.95:
                known = dots(*weak[: random.randrange(len(weak) + 1)])
                when = alone.now - at // 10
                strong.append(alone.hear(when, "increment", key, amount, origin=2, knows=known))
            elif strong:
                if random.random() < 0.5:
                    random.shuffle(strong)
                if alone is together:
                    alone.decide(*strong)
                else:
                    for id in strong:
                        alone.decide(id)
                strong = []
            if random.random() < 0.7:
                alone.work()
        alone.work()
        alone.decide(*strong)
        alone.commit(*weak)
        alone.work()

    assert together.committed == one_by_one.committed
    assert together.replica.state() == one_by_one.replica.state()
    for alone in (together, one_by_one):
        assert alone.replica.is_idle()
        assert alone.replica._stable_prefix.length == alone.replica.committed_length() > 300
    ends = [
        {each.id: each.outcome for each in alone.answers if each.kind is not TENTATIVE}
        for alone in (together, one_by_one)
    ]
    assert ends[0] == ends[1]


# --- checkpoints and restarts -------------------------------------------------------------------


def install(alone: Alone, state: tuple[tuple[str, Any], ...], ids: Dots | None = None) -> None:
    """Another replica is ahead, and sends what it has: what `ids` names, and one of its own."""
    covered = dots(Dot(2, 1)) if ids is None else ids
    checkpoint = Checkpoint(1, len(covered), covered, 5, state=state, outcomes=())
    alone.replica.receive(Snapshot(checkpoint), 1, alone.now)
    alone.take()


def test_a_pending_read_is_answered_from_the_checkpoint_that_came_in_between() -> None:
    alone = Alone()
    read = alone.invoke("get", "a")
    early = alone.begin(read)

    install(alone, state=(("a", 7),))
    alone.finish(*early)
    alone.work()

    assert alone.answers_to(read) == [(TENTATIVE, 7)]


def test_sessions_go_on_over_a_checkpoint() -> None:
    alone = Alone(parallelism=4)
    covered = alone.invoke("put", "a", 1, session=1)
    stays = alone.invoke("increment", "b", 1, session=1)
    read = alone.invoke("get", "b", session=1)
    stale = alone.begin()

    install(alone, state=(("a", 1), ("b", 10)), ids=dots(covered, Dot(2, 1)))
    alone.finish(*stale)
    assert alone.replica.tentative_ids() == (stays,)
    assert [task.request.id for task in alone.tasks] == [stays]
    alone.work()

    assert alone.answers_to(stays) == [(TENTATIVE, 11)]
    assert alone.answers_to(read) == [(TENTATIVE, 11)]
    assert alone.answers_to(covered) == [], "its answer is beyond what others kept for it"
    assert alone.replica.state() == {"a": 1, "b": 11}


def test_a_held_answer_is_given_anew_after_a_checkpoint() -> None:
    alone = Alone(CELLS, parallelism=4)
    alone.invoke("copy", "x", "a", session=1)
    alone.invoke("copy", "a", "b", session=2)
    alone.work()
    alone.step(alone.hear(1, "write", "x", 7))
    third = alone.invoke("copy", "b", "c", session=3)
    alone.step(third)
    assert alone.answers_to(third) == []

    install(alone, state=(("x", 3),))
    alone.work()

    assert alone.answers_to(third) == [(TENTATIVE, 7)]
    assert alone.replica.is_idle()


def test_stretches_are_forgotten_with_a_checkpoint_and_made_again() -> None:
    alone = Alone(kept_apart=8)
    one_by_one(alone, "increment", [("a", 1)] * 20)

    install(alone, state=(("a", 100),))
    alone.work()
    assert alone.replica.state() == {"a": 120}
    one_by_one(alone, "increment", [("a", 1)] * 40)

    assert alone.replica.state() == {"a": 160}
    assert alone.replica._merged_count > 20


def test_a_restart_brings_back_what_was_issued_and_nothing_that_was_only_read() -> None:
    alone = Alone()
    writes = [alone.invoke("put", "a", number) for number in range(3)]
    alone.invoke("get", "a")
    late = alone.hear(1, "increment", "b", 1)
    alone.work()
    alone.commit(writes[0], late)
    alone.work()
    before = alone.replica
    kept = [each for each in alone.journal if isinstance(each, Received)]
    assert len(kept) == 5

    after = CreekReplica(0, alone.settings, KV)
    after.recover([decode_record(encode(each)) for each in alone.journal])
    alone.replica, alone.tasks = after, []
    alone.take()
    alone.work()

    assert after.state() == before.state() == {"a": 2, "b": 1}
    assert after.committed_ids() == before.committed_ids()
    assert after.tentative_ids() == before.tentative_ids()
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

    states = [cluster.replicas[each].state() for each in cluster.members]
    assert states == [{"a": 80, "b": 39}] * 3
    probes = cluster.replicas[2].probes.counts
    assert probes[Probe.SNAPSHOT_INSTALLED] > 0


def test_it_tells_how_long_clients_wait_while_others_are_served() -> None:
    alone = Alone(parallelism=1)
    first, second = alone.invoke("put", "a", 1), alone.invoke("put", "b", 2, session=1)
    assert alone.replica.queue_delay_ticks() == 0
    for _ in range(5):
        alone.tick()
    assert alone.replica.queue_delay_ticks() == 0, "one that takes long is nothing that piles up"
    late = alone.hear(1, "put", "c", 3)
    assert alone.step() == first
    alone.tick()
    assert alone.replica.queue_delay_ticks() == 1
    assert alone.step() == late
    alone.tick()
    alone.tick()
    assert alone.replica.queue_delay_ticks() == 2
    assert alone.step() == second
    assert alone.replica.queue_delay_ticks() == 0


def test_what_a_snapshot_replaces_is_gone_without_being_looked_for() -> None:
    alone = Alone()
    for each in range(20):
        alone.invoke("increment", "hits", each)
    alone.work()
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(each, RequestEntry) for each in gc.get_objects())
        checkpoint = Checkpoint(1, 20, Dots({0: (1, 21)}), 9_000, state=(("hits", 7),), outcomes=())
        alone.replica.receive(Snapshot(checkpoint), sender=1, now=10_000)
        after = sum(isinstance(each, RequestEntry) for each in gc.get_objects())
    finally:
        gc.enable()
    assert after == before - 20
