"""Complete basic replicas: responses, no-ops, clocks and reported events."""

import pytest

from creekdb.protocol.effects import Committed, RbDelivered, ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Cast, Decided, Received, Vote
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import NOOP, Operation, Outcome
from creekdb.protocol.validation import MessageRejection
from creekdb.schemes.core.ordering import NOOP_FOLLOWER_FACTOR
from tests.unit.schemes.random_workload import busy_harness
from tests.unit.schemes.replica_harness import ReplicaHarness, harness_with_leader

SEEDS = range(12)
DAY_US = 24 * 3600 * 1_000_000


# --- responses and idleness -----------------------------------------------------------------------


def test_a_weak_request_gets_its_response_immediately_on_an_isolated_replica() -> None:
    harness = harness_with_leader()
    harness.isolate(0)
    id = harness.invoke(0, "put", "a", 1)
    assert harness.responses_to(id) == [(ResponseKind.TENTATIVE, Outcome(None))]


def test_a_strong_request_gets_a_tentative_then_a_stable_response() -> None:
    harness = harness_with_leader()
    id = harness.invoke(0, "put", "a", 1, strong=True)
    assert harness.responses_to(id) == [(ResponseKind.TENTATIVE, Outcome(None))]
    harness.deliver()
    assert harness.responses_to(id) == [
        (ResponseKind.TENTATIVE, Outcome(None)),
        (ResponseKind.STABLE, Outcome(None)),
    ]


def test_an_operation_that_raises_responds_with_its_error() -> None:
    harness = harness_with_leader()
    harness.invoke(0, "put", "a", "text")
    id = harness.invoke(0, "increment", "a", strong=True)
    unknown = harness.invoke(0, "no such operation")
    harness.run_until_quiescent()
    (_, tentative), (_, stable) = harness.responses_to(id)
    assert tentative == stable
    assert stable.error is not None
    ((_, outcome),) = harness.responses_to(unknown)
    assert outcome.error is not None
    assert "no such operation" in outcome.error


def test_a_vote_is_sent_only_after_the_request_is_durable() -> None:
    harness = harness_with_leader()
    harness.invoke(0, "put", "a", 1, strong=True)
    harness.deliver()
    voters = {sender for sender, _, message in harness.sent if isinstance(message, Vote)}
    assert len(voters) >= 2
    for voter in voters:
        on_disk = [each.request.id for each in harness.records(voter) if isinstance(each, Received)]
        assert Dot(0, 1) in on_disk


def test_a_replica_is_idle_once_everything_is_executed() -> None:
    harness = harness_with_leader()
    assert harness[0].view.is_idle()
    harness.held_tasks[0] = []
    harness.invoke(0, "put", "a", 1)
    assert not harness[0].view.is_idle()
    assert harness[0].view.state() == {}
    harness.run_held_tasks(0)
    assert harness[0].view.is_idle()
    assert harness[0].view.state() == {"a": 1}


def test_a_replica_with_something_to_roll_back_is_not_idle() -> None:
    harness = harness_with_leader()
    harness.skew_us[0] = 50_000
    harness.invoke(0, "put", "a", 1)
    harness.held_tasks[0] = []
    harness.invoke(1, "put", "a", 2)
    harness.deliver()
    assert harness[0]._execution.to_be_rolled_back
    assert not harness[0].view.is_idle()
    harness.run_held_tasks(0)
    assert harness[0].view.state() == {"a": 1}


def test_a_single_replica_commits_immediately() -> None:
    harness = ReplicaHarness(1)
    harness.tick()
    weak = harness.invoke(0, "put", "a", 1)
    strong = harness.invoke(0, "put", "a", 2, strong=True)
    assert harness[0].view.committed_ids() == (weak, strong)
    assert harness.responses_to(strong) == [(ResponseKind.STABLE, Outcome(1))]
    assert harness.sent == []


def test_strong_requests_before_the_first_election_wait_for_a_leader() -> None:
    harness = ReplicaHarness(3)
    ids = [harness.invoke(index, "put", "a", index, strong=True) for index in range(3)]
    assert {harness[index].view.leader() for index in range(3)} == {None}
    harness.run_until_quiescent()
    for id in ids:
        assert ResponseKind.STABLE in [kind for kind, _ in harness.responses_to(id)]


def test_each_delivery_and_each_position_is_reported_once() -> None:
    harness = busy_harness(5, crashes=False)
    for index in list(harness.held_tasks):
        harness.run_held_tasks(index)
    harness.run_until_quiescent(600)
    for events in harness.events.values():
        delivered = [each.id for each in events if isinstance(each, RbDelivered)]
        assert len(delivered) == len(set(delivered))
        positions = [each.index for each in events if isinstance(each, Committed)]
        assert positions == sorted(set(positions))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_busy_cluster_converges(seed: int) -> None:
    harness = busy_harness(seed)
    for index in list(harness.held_tasks):
        harness.run_held_tasks(index)
    harness.run_until_quiescent(600)
    orders = [harness[index].view.committed_ids() for index in range(3)]
    shared = min(map(len, orders))
    assert len({order[len(order) - shared :] for order in orders}) == 1


def test_a_decision_is_durable_before_progress_reports_it() -> None:
    harness = harness_with_leader()
    harness.invoke(0, "put", "a", 1, strong=True)
    harness.deliver()
    for index in range(3):
        assert [each.instance for each in harness.records(index) if isinstance(each, Decided)] == [
            0
        ]


def test_operation_arguments_are_recorded_as_tuples() -> None:
    harness = harness_with_leader()
    harness.invoke(0, "put", "a", [1, [2]])
    (record,) = [each for each in harness.records(0) if isinstance(each, Received)]
    assert record.request.operation == Operation("put", ("a", (1, (2,))))


# --- the strong no-op -----------------------------------------------------------------------------


def noops(harness: ReplicaHarness) -> list[tuple[int, Dot]]:
    noop_ids = []
    for sender, _, message in harness.sent:
        if isinstance(message, Cast):
            noop_ids += [(sender, each.id) for each in message.requests if each.operation == NOOP]
    return sorted(set(noop_ids))


def test_weak_requests_become_stable_without_strong_requests() -> None:
    harness = harness_with_leader(noop_ticks=20)
    for index in range(3):
        harness.invoke(index, "put", "a", index)
    harness.tick(19)
    assert noops(harness) == []
    harness.run_until_quiescent()
    assert [sender for sender, _ in noops(harness)] == [1], "only the leader issues a no-op, once"
    assert harness[0].view.committed_length() == 4


def test_no_noop_is_issued_when_strong_requests_stabilise_the_weak_ones() -> None:
    harness = harness_with_leader(noop_ticks=20)
    for _ in range(5):
        harness.invoke(0, "put", "a", 1)
        harness.invoke(0, "put", "a", 2, strong=True)
        harness.tick(15)
    assert noops(harness) == []


def test_an_idle_cluster_issues_no_noop() -> None:
    harness = harness_with_leader(noop_ticks=5)
    harness.invoke(0, "put", "a", 1, strong=True)
    harness.tick(100)
    assert noops(harness) == []


def test_a_replica_has_one_uncommitted_noop_at_a_time() -> None:
    harness = harness_with_leader(noop_ticks=10)
    harness.isolate(1)
    for _ in range(60):
        harness.invoke(1, "put", "a", 1)
        harness.tick()
    leader_noops = [each for each in noops(harness) if each[0] == 1]
    assert len(leader_noops) == 1


def test_a_follower_issues_a_noop_if_the_leader_does_not() -> None:
    harness = harness_with_leader(noop_ticks=10)
    harness.isolate(0)
    harness.invoke(0, "put", "a", 1)
    harness.tick(10 * NOOP_FOLLOWER_FACTOR + 1)
    assert [sender for sender, _ in noops(harness)] == [0]
    harness.cut_links.clear()
    harness.run_until_quiescent()
    assert harness[2].view.state() == {"a": 1}


# --- clocks ---------------------------------------------------------------------------------------


def test_requests_from_a_clock_a_day_ahead_are_reported_and_accepted() -> None:
    harness = harness_with_leader()
    harness.skew_us[2] = DAY_US
    weak = harness.invoke(2, "put", "a", 1)
    strong = harness.invoke(2, "put", "a", 2, strong=True)
    harness.deliver()
    harness.run_until_quiescent()
    for index in (0, 1):
        drift_us = harness[index].view.drift_us[2]
        assert DAY_US * 0.99 < drift_us < DAY_US * 1.01
        assert harness[index].view.rejected.keys() <= {MessageRejection.STALE_BALLOT}
        assert harness[index].view.probes.counts[Probe.CLOCK_AHEAD] >= 1
    assert harness[2].view.drift_us == {}
    assert harness.responses_to(weak) == [(ResponseKind.TENTATIVE, Outcome(None))]
    assert harness.responses_to(strong)[-1] == (ResponseKind.STABLE, Outcome(1))


@pytest.mark.parametrize("ahead", range(3))
def test_a_clock_a_day_ahead_costs_no_liveness(ahead: int) -> None:
    harness = harness_with_leader()
    harness.skew_us[ahead] = DAY_US
    harness.invoke(ahead, "put", "a", 1)
    harness.deliver()
    ids = [harness.invoke(index, "put", "a", index, strong=True) for index in range(3)]
    weak = [harness.invoke(index, "put", "b", index) for index in range(3)]
    harness.run_until_quiescent()
    for id in ids:
        assert ResponseKind.STABLE in [kind for kind, _ in harness.responses_to(id)]
    for id in weak:
        assert len(harness.responses_to(id)) == 1
    ticks = harness[0]._stack._shared.ticks
    harness.invoke((ahead + 1) % 3, "put", "c", 1, strong=True)
    harness.run_until_quiescent()
    assert harness[0]._stack._shared.ticks - ticks < 5, "the drift does not delay commits"


def test_session_order_survives_a_clock_set_back_by_a_day() -> None:
    harness = harness_with_leader()
    harness.skew_us[0] = DAY_US
    harness.invoke(0, "put", "a", "old")
    harness.skew_us[0] = 0
    harness.invoke(0, "put", "a", "new")
    harness.run_until_quiescent()
    assert harness[2].view.state() == {"a": "new"}
