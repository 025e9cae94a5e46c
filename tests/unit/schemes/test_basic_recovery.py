"""Restarts, checkpoints and snapshots: what a basic replica keeps, and what takes its place."""

import pytest

from creekdb.datatypes.kv import KV
from creekdb.protocol.effects import CheckpointInstalled, ResponseKind
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import Cast, CheckpointRecord, Decisions, Received, Snapshot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.schemes.basic import BasicReplica
from tests.unit.schemes.bench import Bench, leading_bench
from tests.unit.schemes.busy import busy_bench

SEEDS = range(12)
DAY_US = 24 * 3600 * 1_000_000


def execute_everything(bench: Bench, index: int) -> None:
    if index in bench.holding:
        bench.run_held(index)
    assert bench[index].is_idle()


# --- recovery -------------------------------------------------------------------------------------


def durable_view(replica: BasicReplica) -> dict[str, object]:
    """What a restart must not lose."""
    broadcasts = replica._stack
    return {
        "committed": replica.committed_length(),
        "committed ids": replica._order.committed_ids.freeze(),
        "tentative": replica.tentative_ids(),
        "state": replica.state(),
        "context": replica._causal_context.freeze(),
        "received": broadcasts.reliable_broadcast.received.freeze(),
        "held back": {each.id for each in broadcasts.reliable_broadcast.held_back()},
        "next id": broadcasts.next_id(),
        "promised": broadcasts.cab.acceptor.promised,
        "accepted": broadcasts.cab.acceptor.accepted,
        "first undecided": broadcasts.cab.learner.first_undecided,
        "delivered": broadcasts.cab.learner.delivered,
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restart_loses_nothing_that_was_on_disk(seed: int) -> None:
    bench = busy_bench(seed)
    for index in range(3):
        execute_everything(bench, index)
        before, stamp = durable_view(bench[index]), bench[index]._stack.clock.last
        order = bench[index].committed_ids()
        bench.crash(index)
        bench.restart(index)
        assert durable_view(bench[index]) == before
        again = bench[index].committed_ids()
        shared = min(len(order), len(again))
        assert order[len(order) - shared :] == again[len(again) - shared :]
        assert bench[index]._stack.clock.last <= stamp


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_of_which_every_replica_restarted_goes_on(seed: int) -> None:
    bench = busy_bench(seed)
    for index in range(3):
        bench.crash(index)
    bench.network.clear()
    for index in range(3):
        bench.restart(index)
    bench.settle(600)
    id = bench.invoke(0, "put", "after", 1, strong=True)
    bench.settle(600)
    assert ResponseKind.STABLE in [kind for kind, _ in bench.answers_to(id)]


def test_a_restart_asks_to_write_and_send_nothing_again() -> None:
    bench = busy_bench(3)
    replica = BasicReplica(0, bench.settings, KV)
    replica.recover(bench.records(0))
    effects = replica.take_effects()
    assert effects.send == ()
    assert effects.respond == ()


def test_an_event_number_is_not_used_again_after_a_restart() -> None:
    bench = leading_bench()
    first = bench.invoke(0, "put", "a", 1)
    bench.network.clear()
    bench.crash(0)
    bench.restart(0)
    second = bench.invoke(0, "put", "a", 2)
    assert (first, second) == (Dot(0, 1), Dot(0, 2))
    bench.settle()
    assert bench[2].state() == {"a": 2}


def test_no_checkpoint_ends_in_the_middle_of_a_batch() -> None:
    """Who begins with it would deliver the whole batch."""
    bench = Bench()
    one, two, late = (
        Request(each, Dot(0, each), Operation("put", ("a", each)), True, Dots())
        for each in (1, 2, 3)
    )
    bench.receive(2, 0, Cast((one, two)))
    bench.receive(2, 0, Decisions(0, ((one.id,), (two.id, late.id))))
    assert bench[2].committed_ids() == (one.id, two.id)
    half = bench[2].checkpoint()
    bench.receive(2, 0, Cast((late,)))
    whole = bench[2].checkpoint()

    assert (half.instance, half.length) in ((0, 0), (1, 1))
    assert (whole.instance, whole.length) == (2, 3)


def test_timestamps_go_on_after_a_checkpoint_with_a_slower_clock() -> None:
    bench = leading_bench(checkpoint_every=1)
    bench.skew_us[0] = DAY_US
    bench.invoke(0, "put", "a", 1, strong=True)
    bench.settle()
    bench.crash(0)
    bench.skew_us[0] = 0
    bench.restart(0)
    (image,) = [each for each in bench.records(0) if isinstance(each, CheckpointRecord)]
    assert image.requests == ()
    bench.invoke(0, "put", "a", 2)
    (after,) = [each.request for each in bench.records(0) if isinstance(each, Received)]
    assert after.timestamp > image.checkpoint.timestamp


def test_what_is_found_on_disk_is_no_news_of_a_clock_that_is_ahead() -> None:
    bench = leading_bench()
    bench.invoke(0, "put", "a", 1)
    bench.crash(0)
    bench.restart(0)
    assert bench[0].drift_us == {}


def test_a_checkpoint_tells_the_latest_timestamp_of_all_that_it_holds() -> None:
    """Which need not be that of its last request: here the first is from a clock that is ahead."""
    bench = leading_bench(leader=1)
    bench.skew_us[1] = DAY_US
    first = bench.invoke(1, "put", "a", 1, strong=True)
    last = bench.invoke(0, "put", "b", 2, strong=True)
    bench.settle()

    assert bench[2].committed_ids() == (first, last)
    stamps = [each.request.timestamp for each in bench.records(2) if isinstance(each, Received)]
    assert bench[2].checkpoint().timestamp == max(stamps) > min(stamps) + DAY_US // 2


def test_timestamps_go_on_after_a_restart_with_a_slower_clock() -> None:
    bench = leading_bench()
    bench.skew_us[0] = DAY_US
    bench.invoke(0, "put", "a", 1)
    bench.crash(0)
    bench.skew_us[0] = 0
    bench.restart(0)
    bench.invoke(0, "put", "a", 2)
    one, two = [each.request for each in bench.records(0) if isinstance(each, Received)]
    assert two.timestamp > one.timestamp


def test_a_request_that_only_the_disk_knew_still_reaches_everyone() -> None:
    bench = leading_bench()
    bench.invoke(2, "put", "a", 7, strong=True)
    bench.network.clear()
    bench.crash(2)
    bench.tick(20)
    assert bench[0].state() == {}
    bench.restart(2)
    bench.settle()
    assert bench[0].state() == {"a": 7}


def test_a_client_of_before_the_restart_is_not_answered() -> None:
    bench = leading_bench()
    bench.holding[0] = []
    id = bench.invoke(0, "put", "a", 1)
    bench.crash(0)
    bench.restart(0)
    bench.settle()
    assert bench.answers_to(id) == []


# --- checkpoints ----------------------------------------------------------------------------------


def commit_some(bench: Bench, count: int, *indices: int) -> None:
    for number in range(count):
        for index in indices:
            bench.invoke(index, "put", f"key {number % 3}", number, strong=True)
            bench.deliver()


def test_the_journal_is_compacted_every_so_many_committed_requests() -> None:
    bench = leading_bench(checkpoint_every=10)
    commit_some(bench, 35, 0)
    bench.settle()
    for index in range(3):
        head, *rest = bench.records(index)
        assert isinstance(head, CheckpointRecord)
        assert head.checkpoint.length in (30, 31, 32, 33, 34, 35)
        assert len(head.checkpoint.ids) == head.checkpoint.length
        assert not any(isinstance(each, CheckpointRecord) for each in rest)
        assert bench[index].probes.counts[Probe.IMAGE_WRITTEN] == 3


def test_a_journal_stays_bounded() -> None:
    bench = leading_bench(checkpoint_every=10)
    sizes = []
    for _ in range(6):
        commit_some(bench, 20, 0, 2)
        bench.tick(8)
        sizes.append(max(len(journal) for journal in bench.journals.values()))
    assert max(sizes) < 150
    assert max(sizes[3:]) <= 2 * max(sizes[:3])


def test_what_a_checkpoint_holds_is_forgotten_but_its_identifiers_are_not() -> None:
    bench = leading_bench(checkpoint_every=10)
    commit_some(bench, 200, 0)
    bench.tick(20)
    replica = bench[1]
    assert replica.committed_length() == 200
    assert replica._order.first_position >= 64
    assert len(replica.committed_ids()) < 200
    assert len(replica._executed) == len(replica.committed_ids())
    assert len(replica._stack.reliable_broadcast._retained) < 60
    assert len(replica._stack.cab.learner.decided) < 60
    assert replica._outcomes == {}
    assert replica._order.committed_ids.last_contiguous(0) == 200


def test_a_restart_from_a_compacted_journal_has_the_same_state() -> None:
    bench = leading_bench(checkpoint_every=10)
    commit_some(bench, 30, 0, 2)
    bench.invoke(1, "put", "tentative", 1)
    before = durable_view(bench[1])
    bench.crash(1)
    bench.restart(1)
    assert durable_view(bench[1]) == before
    assert bench[1].probes.counts[Probe.RECOVERED_IMAGE] == 1
    bench.settle()


# --- snapshots ------------------------------------------------------------------------------------


def bench_with_one_left_behind() -> tuple[Bench, Dot, Dot]:
    """Replica 2 was cut off with a weak and a strong request of its own unanswered and unsent;
    the others have gone so far that only a snapshot can help it."""
    bench = leading_bench(checkpoint_every=5, noop_ticks=10_000)
    bench.isolate(2)
    bench.holding[2] = []
    weak = bench.invoke(2, "put", "mine", 1)
    strong = bench.invoke(2, "put", "mine", 2, strong=True)
    commit_some(bench, 40, 0, 1)
    bench.tick(10)
    return bench, weak, strong


def test_a_replica_far_behind_gets_a_snapshot_while_its_own_requests_are_pending() -> None:
    bench, weak, strong = bench_with_one_left_behind()
    bench.cut.clear()
    for _ in range(100):
        bench.tick()
        if bench[2].probes.counts.get(Probe.SNAPSHOT_INSTALLED):
            break
    assert any(isinstance(event, CheckpointInstalled) for event in bench.events[2])
    (stale, *_) = bench.holding[2]
    answers = len(bench.answers)
    bench[2].completed(stale, bench[2].run(stale), bench.now)
    assert len(bench.answers) == answers, "a task of before the snapshot counts for nothing"
    bench.holding[2].pop(0)
    bench.run_held(2)
    bench.settle()
    assert bench.answers_to(weak) == [(ResponseKind.TENTATIVE, Outcome(None))]
    assert bench.answers_to(strong)[-1] == (ResponseKind.STABLE, Outcome(1))
    assert bench[0].state()["mine"] == 2


def test_a_snapshot_is_on_disk_before_anything_is_built_on_it() -> None:
    bench, _, _ = bench_with_one_left_behind()
    bench.cut.clear()
    while not bench[2].probes.counts.get(Probe.SNAPSHOT_INSTALLED):
        bench.tick()
    assert isinstance(bench.records(2)[0], CheckpointRecord)
    bench.crash(2)
    bench.restart(2)
    assert bench[2].committed_length() >= 80
    bench.settle()


def answered_by_snapshot(strong: bool) -> Bench:
    """The request of replica 2 gets out, but nothing gets back in until it is in a checkpoint."""
    bench = leading_bench(checkpoint_every=5)
    bench.holding[2] = []
    bench.invoke(2, "put", "mine", 1)
    bench.deliver()
    if strong:
        bench.invoke(2, "put", "mine", 2, strong=True)
    for sender in (0, 1):
        bench.cut.add((sender, 2))
    bench.deliver()
    commit_some(bench, 40, 0, 1)
    bench.tick(10)
    bench.isolate(2)
    commit_some(bench, 10, 0, 1)
    assert bench[0].state()["mine"] == 1 + strong
    bench.cut.clear()
    for _ in range(100):
        if bench[2].probes.counts.get(Probe.SNAPSHOT_INSTALLED):
            break
        bench.tick()
    return bench


def test_a_weak_request_that_a_snapshot_holds_is_answered_from_it() -> None:
    bench = answered_by_snapshot(strong=False)
    assert bench.answers_to(Dot(2, 1)) == [(ResponseKind.TENTATIVE, Outcome(None))]
    assert bench[2].probes.counts[Probe.ANSWERED_FROM_SNAPSHOT] == 1


def test_a_strong_request_that_a_snapshot_holds_is_answered_from_it_as_stable() -> None:
    bench = answered_by_snapshot(strong=True)
    assert bench.answers_to(Dot(2, 1)) == [(ResponseKind.TENTATIVE, Outcome(None))]
    assert bench.answers_to(Dot(2, 2)) == [(ResponseKind.STABLE, Outcome(1))]
    bench.run_held(2)
    bench.settle()
    assert len(bench.answers_to(Dot(2, 2))) == 1, "and only once"


def test_a_snapshot_that_is_behind_changes_nothing() -> None:
    bench = leading_bench(checkpoint_every=5)
    commit_some(bench, 12, 0)
    old = Snapshot(bench[0].checkpoint())
    commit_some(bench, 12, 0)
    length = bench[1].committed_length()
    bench.receive(1, 0, old)
    assert bench[1].committed_length() == length
    assert Probe.SNAPSHOT_INSTALLED not in bench[1].probes.counts


def test_answers_kept_for_a_peer_are_dropped_once_it_delivered_them_itself() -> None:
    bench = leading_bench()
    commit_some(bench, 10, 0, 2)
    bench.tick(5)
    assert all(bench[index]._responses.retained.outcomes() == () for index in range(3))
