"""Restarts, checkpoints and snapshots of basic replicas."""

import pytest

from creekdb.datatypes.kv import KV
from creekdb.protocol.effects import CheckpointInstalled, ResponseKind
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import Cast, CheckpointRecord, Decisions, Received, Snapshot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.schemes.basic import BasicReplica
from tests.unit.schemes.random_workload import busy_harness
from tests.unit.schemes.replica_harness import ReplicaHarness, harness_with_leader

SEEDS = range(12)
DAY_US = 24 * 3600 * 1_000_000


def execute_everything(harness: ReplicaHarness, index: int) -> None:
    if index in harness.held_tasks:
        harness.run_held_tasks(index)
    assert harness[index].view.is_idle()


# --- recovery -------------------------------------------------------------------------------------


def durable_view(replica: BasicReplica) -> dict[str, object]:
    """Return the state that a restart must preserve."""
    stack = replica._stack
    return {
        "committed": replica.view.committed_length(),
        "committed ids": replica._order.committed_ids.freeze(),
        "tentative": replica.view.tentative_ids(),
        "state": replica.view.state(),
        "context": replica._ordering.causal_context.freeze(),
        "received": stack.reliable_broadcast.received.freeze(),
        "held back": {each.id for each in stack.reliable_broadcast.held_back()},
        "next id": stack.next_id(),
        "promised": stack.cab.acceptor.promised,
        "accepted": stack.cab.acceptor.accepted,
        "first undecided": stack.cab.learner.first_undecided,
        "delivered": stack.cab.learner.delivered,
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restart_preserves_all_durable_state(seed: int) -> None:
    harness = busy_harness(seed)
    for index in range(3):
        execute_everything(harness, index)
        before, stamp = durable_view(harness[index]), harness[index]._stack.clock.last
        order = harness[index].view.committed_ids()
        harness.crash(index)
        harness.restart(index)
        assert durable_view(harness[index]) == before
        recovered_order = harness[index].view.committed_ids()
        shared = min(len(order), len(recovered_order))
        assert order[len(order) - shared :] == recovered_order[len(recovered_order) - shared :]
        assert harness[index]._stack.clock.last <= stamp


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_stays_live_after_all_replicas_restart(seed: int) -> None:
    harness = busy_harness(seed)
    for index in range(3):
        harness.crash(index)
    harness.network.clear()
    for index in range(3):
        harness.restart(index)
    harness.run_until_quiescent(600)
    id = harness.invoke(0, "put", "after", 1, strong=True)
    harness.run_until_quiescent(600)
    assert ResponseKind.STABLE in [kind for kind, _ in harness.responses_to(id)]


def test_recovery_emits_no_sends_and_no_responses() -> None:
    harness = busy_harness(3)
    replica = BasicReplica(0, harness.settings, KV)
    replica.recover(harness.records(0))
    effects = replica.take_effects()
    assert effects.send == ()
    assert effects.respond == ()


def test_event_numbers_are_not_reused_after_a_restart() -> None:
    harness = harness_with_leader()
    first = harness.invoke(0, "put", "a", 1)
    harness.network.clear()
    harness.crash(0)
    harness.restart(0)
    second = harness.invoke(0, "put", "a", 2)
    assert (first, second) == (Dot(0, 1), Dot(0, 2))
    harness.run_until_quiescent()
    assert harness[2].view.state() == {"a": 2}


def test_no_checkpoint_ends_in_the_middle_of_a_batch() -> None:
    """A replica that starts from such a checkpoint would deliver the whole batch again."""
    harness = ReplicaHarness()
    one, two, late = (
        Request(each, Dot(0, each), Operation("put", ("a", each)), True, Dots())
        for each in (1, 2, 3)
    )
    harness.receive(2, 0, Cast((one, two)))
    harness.receive(2, 0, Decisions(0, ((one.id,), (two.id, late.id))))
    assert harness[2].view.committed_ids() == (one.id, two.id)
    half = harness[2]._stable_prefix.checkpoint()
    harness.receive(2, 0, Cast((late,)))
    whole = harness[2]._stable_prefix.checkpoint()

    assert (half.instance, half.length) in ((0, 0), (1, 1))
    assert (whole.instance, whole.length) == (2, 3)


def test_timestamps_grow_after_a_checkpoint_with_a_slower_clock() -> None:
    harness = harness_with_leader(checkpoint_every=1)
    harness.skew_us[0] = DAY_US
    harness.invoke(0, "put", "a", 1, strong=True)
    harness.run_until_quiescent()
    harness.crash(0)
    harness.skew_us[0] = 0
    harness.restart(0)
    (checkpoint_record,) = [
        each for each in harness.records(0) if isinstance(each, CheckpointRecord)
    ]
    assert checkpoint_record.requests == ()
    harness.invoke(0, "put", "a", 2)
    (after,) = [each.request for each in harness.records(0) if isinstance(each, Received)]
    assert after.timestamp > checkpoint_record.checkpoint.timestamp


def test_recovered_requests_report_no_clock_drift() -> None:
    harness = harness_with_leader()
    harness.invoke(0, "put", "a", 1)
    harness.crash(0)
    harness.restart(0)
    assert harness[0].view.drift_us == {}


def test_a_checkpoint_carries_the_latest_timestamp_of_its_prefix() -> None:
    """Here the first request, not the last, is from a clock that is ahead."""
    harness = harness_with_leader(leader=1)
    harness.skew_us[1] = DAY_US
    first = harness.invoke(1, "put", "a", 1, strong=True)
    last = harness.invoke(0, "put", "b", 2, strong=True)
    harness.run_until_quiescent()

    assert harness[2].view.committed_ids() == (first, last)
    stamps = [each.request.timestamp for each in harness.records(2) if isinstance(each, Received)]
    assert (
        harness[2]._stable_prefix.checkpoint().timestamp == max(stamps) > min(stamps) + DAY_US // 2
    )


def test_timestamps_grow_after_a_restart_with_a_slower_clock() -> None:
    harness = harness_with_leader()
    harness.skew_us[0] = DAY_US
    harness.invoke(0, "put", "a", 1)
    harness.crash(0)
    harness.skew_us[0] = 0
    harness.restart(0)
    harness.invoke(0, "put", "a", 2)
    one, two = [each.request for each in harness.records(0) if isinstance(each, Received)]
    assert two.timestamp > one.timestamp


def test_a_durable_request_that_was_never_sent_reaches_all_members() -> None:
    harness = harness_with_leader()
    harness.invoke(2, "put", "a", 7, strong=True)
    harness.network.clear()
    harness.crash(2)
    harness.tick(20)
    assert harness[0].view.state() == {}
    harness.restart(2)
    harness.run_until_quiescent()
    assert harness[0].view.state() == {"a": 7}


def test_a_call_from_before_the_restart_gets_no_response() -> None:
    harness = harness_with_leader()
    harness.held_tasks[0] = []
    id = harness.invoke(0, "put", "a", 1)
    harness.crash(0)
    harness.restart(0)
    harness.run_until_quiescent()
    assert harness.responses_to(id) == []


# --- checkpoints ----------------------------------------------------------------------------------


def commit_some(harness: ReplicaHarness, count: int, *indices: int) -> None:
    for number in range(count):
        for index in indices:
            harness.invoke(index, "put", f"key {number % 3}", number, strong=True)
            harness.deliver()


def test_the_journal_is_compacted_at_the_checkpoint_interval() -> None:
    harness = harness_with_leader(checkpoint_every=10)
    commit_some(harness, 35, 0)
    harness.run_until_quiescent()
    for index in range(3):
        head, *rest = harness.records(index)
        assert isinstance(head, CheckpointRecord)
        assert head.checkpoint.length in (30, 31, 32, 33, 34, 35)
        assert len(head.checkpoint.ids) == head.checkpoint.length
        assert not any(isinstance(each, CheckpointRecord) for each in rest)
        assert harness[index].view.probes.counts[Probe.JOURNAL_COMPACTED] == 3


def test_a_journal_stays_bounded() -> None:
    harness = harness_with_leader(checkpoint_every=10)
    sizes = []
    for _ in range(6):
        commit_some(harness, 20, 0, 2)
        harness.tick(8)
        sizes.append(max(len(journal) for journal in harness.journals.values()))
    assert max(sizes) < 150
    assert max(sizes[3:]) <= 2 * max(sizes[:3])


def test_a_checkpoint_truncates_requests_but_retains_their_identifiers() -> None:
    harness = harness_with_leader(checkpoint_every=10)
    commit_some(harness, 200, 0)
    harness.tick(20)
    replica = harness[1]
    assert replica.view.committed_length() == 200
    assert replica._order.first_position >= 64
    assert len(replica.view.committed_ids()) < 200
    assert len(replica._execution.executed) == len(replica.view.committed_ids())
    assert len(replica._stack.reliable_broadcast._retained) < 60
    assert len(replica._stack.cab.learner.decided) < 60
    assert replica._execution.outcomes == {}
    assert replica._order.committed_ids.last_contiguous(0) == 200


def test_a_restart_from_a_compacted_journal_preserves_the_state() -> None:
    harness = harness_with_leader(checkpoint_every=10)
    commit_some(harness, 30, 0, 2)
    harness.invoke(1, "put", "tentative", 1)
    before = durable_view(harness[1])
    harness.crash(1)
    harness.restart(1)
    assert durable_view(harness[1]) == before
    assert harness[1].view.probes.counts[Probe.RECOVERED_CHECKPOINT] == 1
    harness.run_until_quiescent()


# --- snapshots ------------------------------------------------------------------------------------


def harness_with_lagging_replica() -> tuple[ReplicaHarness, Dot, Dot]:
    """Return a harness whose replica 2 is isolated and needs a snapshot to catch up.

    Replica 2 has issued a weak and a strong request, which have no response and were not sent.
    """
    harness = harness_with_leader(checkpoint_every=5, noop_ticks=10_000)
    harness.isolate(2)
    harness.held_tasks[2] = []
    weak = harness.invoke(2, "put", "own", 1)
    strong = harness.invoke(2, "put", "own", 2, strong=True)
    commit_some(harness, 40, 0, 1)
    harness.tick(10)
    return harness, weak, strong


def test_a_lagging_replica_installs_a_snapshot_while_its_own_requests_are_pending() -> None:
    harness, weak, strong = harness_with_lagging_replica()
    harness.cut_links.clear()
    for _ in range(100):
        harness.tick()
        if harness[2].view.probes.counts.get(Probe.SNAPSHOT_INSTALLED):
            break
    assert any(isinstance(event, CheckpointInstalled) for event in harness.events[2])
    (stale, *_) = harness.held_tasks[2]
    response_count = len(harness.responses)
    harness[2].completed(stale, harness[2].run(stale), harness.now)
    assert len(harness.responses) == response_count, "a task from before the snapshot is discarded"
    harness.held_tasks[2].pop(0)
    harness.run_held_tasks(2)
    harness.run_until_quiescent()
    assert harness.responses_to(weak) == [(ResponseKind.TENTATIVE, Outcome(None))]
    assert harness.responses_to(strong)[-1] == (ResponseKind.STABLE, Outcome(1))
    assert harness[0].view.state()["own"] == 2


def test_a_snapshot_is_durable_when_it_is_installed() -> None:
    harness, _, _ = harness_with_lagging_replica()
    harness.cut_links.clear()
    while not harness[2].view.probes.counts.get(Probe.SNAPSHOT_INSTALLED):
        harness.tick()
    assert isinstance(harness.records(2)[0], CheckpointRecord)
    harness.crash(2)
    harness.restart(2)
    assert harness[2].view.committed_length() >= 80
    harness.run_until_quiescent()


def respond_from_snapshot(strong: bool) -> ReplicaHarness:
    """Return a harness whose replica 2 receives nothing until a checkpoint covers its request."""
    harness = harness_with_leader(checkpoint_every=5)
    harness.held_tasks[2] = []
    harness.invoke(2, "put", "own", 1)
    harness.deliver()
    if strong:
        harness.invoke(2, "put", "own", 2, strong=True)
    for sender in (0, 1):
        harness.cut_links.add((sender, 2))
    harness.deliver()
    commit_some(harness, 40, 0, 1)
    harness.tick(10)
    harness.isolate(2)
    commit_some(harness, 10, 0, 1)
    assert harness[0].view.state()["own"] == 1 + strong
    harness.cut_links.clear()
    for _ in range(100):
        if harness[2].view.probes.counts.get(Probe.SNAPSHOT_INSTALLED):
            break
        harness.tick()
    return harness


def test_a_weak_request_covered_by_a_snapshot_gets_its_response_from_it() -> None:
    harness = respond_from_snapshot(strong=False)
    assert harness.responses_to(Dot(2, 1)) == [(ResponseKind.TENTATIVE, Outcome(None))]
    assert harness[2].view.probes.counts[Probe.RESPONSE_FROM_SNAPSHOT] == 1


def test_a_strong_request_covered_by_a_snapshot_gets_its_stable_response_from_it() -> None:
    harness = respond_from_snapshot(strong=True)
    assert harness.responses_to(Dot(2, 1)) == [(ResponseKind.TENTATIVE, Outcome(None))]
    assert harness.responses_to(Dot(2, 2)) == [(ResponseKind.STABLE, Outcome(1))]
    harness.run_held_tasks(2)
    harness.run_until_quiescent()
    assert len(harness.responses_to(Dot(2, 2))) == 1, "there is one stable response"


def test_an_older_snapshot_changes_nothing() -> None:
    harness = harness_with_leader(checkpoint_every=5)
    commit_some(harness, 12, 0)
    old = Snapshot(harness[0]._stable_prefix.checkpoint())
    commit_some(harness, 12, 0)
    length = harness[1].view.committed_length()
    harness.receive(1, 0, old)
    assert harness[1].view.committed_length() == length
    assert Probe.SNAPSHOT_INSTALLED not in harness[1].view.probes.counts


def test_outcomes_retained_for_a_peer_are_dropped_once_it_is_stable() -> None:
    harness = harness_with_leader()
    commit_some(harness, 10, 0, 2)
    harness.tick(5)
    assert all(harness[index]._responses.retained.outcomes() == () for index in range(3))
