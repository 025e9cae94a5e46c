"""Learner: decisions, delivery order, catch-up and retention."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.execution.python_runtime import build_kind
from creekdb.protocol.consensus.delays import DelayEstimates
from creekdb.protocol.consensus.fast_quorums import FastPathControl
from creekdb.protocol.consensus.learner import BALLOTS_PER_INSTANCE_MAX, Learner
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Ballot, CatchUp, Decided, Decisions
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Batch
from creekdb.protocol.settings import Settings
from creekdb.protocol.shared_variables import SharedVariables

LOW, HIGH = Ballot(1, 1), Ballot(2, 2)
X: Batch = (Dot(1, 1),)
Y: Batch = (Dot(2, 1), Dot(1, 2))


class LearnerHarness:
    """Learner of replica 0 of `size`."""

    def __init__(self, size: int = 5, **settings: int) -> None:
        self.settings = Settings(members=tuple(range(size)), **settings)
        self.shared = SharedVariables(0, self.settings)
        self.outbox, self.probes = self.shared.outbox, self.shared.probes
        self.learner = Learner(self.shared)

    def decide(self, instance: int, batch: Batch) -> None:
        assert self.learner.on_decisions(1, instance, (batch,)) == [instance]
        self.outbox.take()

    def deliver(self) -> list[Dot]:
        delivered = []
        while (id := self.learner.next_to_deliver()) is not None:
            delivered.append(id)
            self.learner.advance_delivery()
        return delivered


@pytest.fixture
def harness() -> LearnerHarness:
    return LearnerHarness()


def test_majority_in_one_ballot_decides(harness: LearnerHarness) -> None:
    learner = harness.learner
    assert not learner.on_proposal(LOW, 0, X)
    assert not learner.on_vote(LOW, 0, 1)
    assert not learner.on_vote(LOW, 0, 2)
    assert learner.on_vote(LOW, 0, 3)
    assert learner.decided == {0: X}
    assert learner.first_undecided == 1
    assert harness.outbox.take().persist == (Decided(0, X),)


@pytest.mark.parametrize("order", list(permutations(["proposal", "one", "two", "three"])))
def test_votes_and_proposal_may_arrive_in_any_order(order: tuple[str, ...]) -> None:
    learner = LearnerHarness().learner
    inputs = {
        "proposal": lambda: learner.on_proposal(LOW, 0, X),
        "one": lambda: learner.on_vote(LOW, 0, 1),
        "two": lambda: learner.on_vote(LOW, 0, 2),
        "three": lambda: learner.on_vote(LOW, 0, 3),
    }
    results = [inputs[each]() for each in order]
    assert results == [False, False, False, True]
    assert learner.decided == {0: X}


def test_repeated_vote_counts_once(harness: LearnerHarness) -> None:
    harness.learner.on_proposal(LOW, 0, X)
    for _ in range(5):
        assert not harness.learner.on_vote(LOW, 0, 1)
    assert not harness.learner.is_decided(0)


def test_votes_of_different_ballots_are_not_added_up(harness: LearnerHarness) -> None:
    harness.learner.on_proposal(LOW, 0, X)
    harness.learner.on_proposal(HIGH, 0, Y)
    for ballot, voter in ((LOW, 1), (LOW, 2), (HIGH, 3), (HIGH, 4)):
        assert not harness.learner.on_vote(ballot, 0, voter)
    assert harness.learner.on_vote(HIGH, 0, 0)
    assert harness.learner.decided == {0: Y}


@given(st.lists(st.tuples(st.sampled_from([LOW, HIGH]), st.integers(0, 4)), max_size=20))
def test_exactly_a_majority_of_distinct_voters_in_a_ballot_decides(
    votes: list[tuple[Ballot, int]],
) -> None:
    learner = LearnerHarness().learner
    learner.on_proposal(LOW, 0, X)
    learner.on_proposal(HIGH, 0, Y)
    voters: dict[Ballot, set[int]] = {LOW: set(), HIGH: set()}
    expected: Batch | None = None
    for ballot, voter in votes:
        voters[ballot].add(voter)
        if expected is None and len(voters[ballot]) == 3:
            expected = X if ballot == LOW else Y
        learner.on_vote(ballot, 0, voter)
        assert learner.decided.get(0) == expected


def test_decision_is_final(harness: LearnerHarness) -> None:
    harness.decide(0, X)
    assert not harness.learner.on_proposal(HIGH, 0, Y)
    assert not any(harness.learner.on_vote(HIGH, 0, voter) for voter in range(5))
    assert harness.learner.on_decisions(2, 0, (Y,)) == []
    assert harness.learner.decided == {0: X}
    assert harness.outbox.take().persist == ()


def test_decisions_are_delivered_in_the_order_of_their_instances(harness: LearnerHarness) -> None:
    harness.decide(1, Y)
    assert harness.probes.counts[Probe.DECIDED_OUT_OF_ORDER] == 1
    assert harness.learner.next_to_deliver() is None
    harness.decide(0, X)
    assert harness.learner.first_undecided == 2
    assert harness.deliver() == [*X, *Y]
    assert harness.learner.delivered == 2


def test_empty_batch_is_skipped(harness: LearnerHarness) -> None:
    harness.decide(0, ())
    harness.decide(1, X)
    assert harness.deliver() == [*X]
    assert harness.learner.delivered == 2


def test_batch_boundary_has_no_partially_delivered_batch(harness: LearnerHarness) -> None:
    assert harness.learner.is_at_batch_boundary()
    harness.decide(0, Y)
    assert harness.learner.is_at_batch_boundary()
    harness.learner.next_to_deliver()
    harness.learner.advance_delivery()
    assert not harness.learner.is_at_batch_boundary()
    assert harness.learner.delivered == 0
    harness.learner.advance_delivery()
    assert harness.learner.is_at_batch_boundary()
    assert harness.learner.delivered == 1


@pytest.mark.parametrize("instance", [16, 17, 10**6, 2**61])
def test_instances_beyond_the_horizon_are_not_tracked(instance: int) -> None:
    harness = LearnerHarness(window=2)
    assert harness.settings.horizon == 16
    assert not harness.learner.on_proposal(LOW, instance, X)
    assert not any(harness.learner.on_vote(LOW, instance, voter) for voter in range(5))
    assert harness.learner.on_decisions(1, instance, (X,)) == []
    assert harness.learner._tallies == {}
    assert harness.learner.decided == {}
    assert harness.outbox.take().persist == ()


def test_last_instance_before_the_horizon_can_be_decided() -> None:
    harness = LearnerHarness(window=2)
    harness.learner.on_proposal(LOW, 15, X)
    assert [harness.learner.on_vote(LOW, 15, voter) for voter in (1, 2, 3)] == [False, False, True]


def test_tallied_ballots_per_instance_are_limited(harness: LearnerHarness) -> None:
    for round_ in range(1, 20):
        harness.learner.on_vote(Ballot(round_, 1), 0, 1)
    assert list(harness.learner._tallies[0]) == [
        Ballot(round_, 1) for round_ in range(20 - BALLOTS_PER_INSTANCE_MAX, 20)
    ]


def test_decisions_in_one_response_are_limited() -> None:
    harness = LearnerHarness(catch_up_limit=2)
    for instance, batch in enumerate((X, Y, (), X)):
        harness.decide(instance, batch)
    assert harness.learner.on_catch_up(3, 1)
    (send,) = harness.outbox.take().send
    assert (send.to, send.message) == ((3,), Decisions(1, (Y, ())))


@pytest.mark.parametrize("first", [4, 5, 2**61])
def test_catch_up_beyond_the_decisions_gets_no_response(
    harness: LearnerHarness, first: int
) -> None:
    harness.decide(0, X)
    assert harness.learner.on_catch_up(3, first)
    assert harness.outbox.take().send == ()


def test_catch_up_below_the_retained_decisions_fails(
    harness: LearnerHarness,
) -> None:
    harness.decide(0, X)
    harness.decide(1, Y)
    harness.deliver()
    harness.learner.discard_below(1)
    assert not harness.learner.on_catch_up(3, 0)
    assert harness.learner.on_catch_up(3, 1)
    assert harness.probes.counts[Probe.DECISIONS_DISCARDED] == 1


def catch_ups(
    harness: LearnerHarness, ticks: range, blocked: bool = False
) -> list[tuple[int, int, int]]:
    """Return the catch-up requests as (tick, peer, first instance)."""
    sent = []
    for now in ticks:
        harness.shared.ticks = now
        harness.learner.request_catch_up_if_stalled(blocked)
        for send in harness.outbox.take().send:
            assert isinstance(send.message, CatchUp)
            sent.append((now, send.to[0], send.message.first))
    return sent


def test_stalled_learner_rotates_over_peers_ahead_with_backoff() -> None:
    harness = LearnerHarness(retry_ticks=3)
    harness.learner.on_progress(2, 3, 0)
    harness.learner.on_progress(4, 7, 0)
    assert catch_ups(harness, range(3)) == []
    assert catch_ups(harness, range(3, 25)) == [(3, 2, 0), (9, 4, 0), (21, 2, 0)]


def test_learner_beyond_the_horizon_catches_up_at_the_next_heartbeat() -> None:
    harness = LearnerHarness(retry_ticks=8, heartbeat_ticks=2, window=4)
    harness.learner.on_progress(2, 32, 0)
    assert catch_ups(harness, range(20)) == [(2, 2, 0), (18, 2, 0)]
    harness.learner.on_progress(4, 33, 0)
    harness.decide(0, X)
    assert catch_ups(harness, range(20, 30), blocked=True) == [(28, 2, 0)]


def test_progress_resets_the_catch_up_timeout() -> None:
    harness = LearnerHarness(retry_ticks=3)
    harness.learner.on_progress(2, 9, 0)
    assert catch_ups(harness, range(4)) == [(3, 2, 0)]
    harness.decide(0, X)
    assert catch_ups(harness, range(4, 9)) == [(7, 2, 1)]


def test_learner_that_is_ahead_requests_no_decisions(harness: LearnerHarness) -> None:
    harness.decide(0, X)
    harness.learner.on_progress(2, 1, 0)
    assert catch_ups(harness, range(100)) == []


def test_blocked_learner_requests_decisions_from_its_delivered_position(
    harness: LearnerHarness,
) -> None:
    harness.decide(0, X)
    harness.learner.on_progress(2, 1, 0)
    assert catch_ups(harness, range(10), blocked=True) == [(8, 2, 0)]


def test_single_decision_is_sent_if_retained(harness: LearnerHarness) -> None:
    harness.decide(3, X)
    assert harness.learner.send_decision(2, 3)
    (send,) = harness.outbox.take().send
    assert (send.to, send.message) == ((2,), Decisions(3, (X,)))
    assert not harness.learner.send_decision(2, 2)


def test_partial_catch_up_requests_the_next_decisions(harness: LearnerHarness) -> None:
    harness.learner.on_progress(2, 5, 0)
    assert harness.learner.on_decisions(2, 0, (X, Y)) == [0, 1]
    (send,) = harness.outbox.take().send
    assert (send.to, send.message) == ((2,), CatchUp(2))


def test_progress_never_decreases(harness: LearnerHarness) -> None:
    harness.learner.on_progress(2, 5, 4)
    harness.learner.on_progress(2, 3, 2)
    assert harness.learner.progress_of(2) == 5
    assert harness.learner.stable_instance_of(2) == 4
    assert harness.learner.progress_of(3) == harness.learner.stable_instance_of(3) == 0


def test_decision_is_retained_until_delivered_by_all_and_stable_here(
    harness: LearnerHarness,
) -> None:
    for instance in range(3):
        harness.decide(instance, ())
    harness.deliver()
    for peer, progress in ((1, 3), (2, 2), (3, 3)):
        harness.learner.on_progress(peer, progress, 0)
    harness.learner.discard_delivered_by_all(3)
    assert list(harness.learner.decided) == [0, 1, 2], "the progress of replica 4 is unknown"
    harness.learner.on_progress(4, 3, 0)
    harness.learner.discard_delivered_by_all(1)
    assert list(harness.learner.decided) == [1, 2]
    harness.learner.discard_delivered_by_all(3)
    assert list(harness.learner.decided) == [2]
    assert harness.learner.first_retained == 2


def test_checkpoint_replaces_decisions(harness: LearnerHarness) -> None:
    harness.decide(0, Y)
    harness.learner.next_to_deliver()
    harness.learner.advance_delivery()
    harness.decide(5, X)
    harness.learner.on_vote(LOW, 2, 1)
    harness.learner.on_vote(LOW, 6, 1)
    harness.learner.install(5)
    assert harness.learner.decided == {5: X}
    assert list(harness.learner._tallies) == [6]
    assert harness.learner.first_retained == harness.learner.delivered == 5
    assert harness.learner.first_undecided == 6
    assert harness.deliver() == [*X]


def test_older_checkpoint_is_not_installed(harness: LearnerHarness) -> None:
    harness.decide(0, X)
    harness.deliver()
    with pytest.raises(AssertionError):
        harness.learner.install(0)


def test_restart_restores_decisions_across_a_gap(harness: LearnerHarness) -> None:
    harness.learner.restore({0: X, 1: Y, 3: X})
    assert harness.learner.first_undecided == 2
    assert harness.deliver() == [*X, *Y]
    assert harness.learner.is_decided(3)


def test_restart_from_a_checkpoint_drops_covered_decisions(harness: LearnerHarness) -> None:
    harness.learner.install(2)
    harness.learner.restore({0: X, 1: X, 2: Y})
    assert harness.learner.decided == {2: Y}
    assert harness.deliver() == [*Y]


FAST = Ballot(6, 0)
"""Ballot whose fast quorum is (0, 1, 2)."""


def test_the_whole_fast_quorum_decides(harness: LearnerHarness) -> None:
    learner = harness.learner
    assert not learner.on_first_vote(FAST, 0, 1, X)
    assert not learner.on_first_vote(FAST, 0, 2, X)
    assert not learner.on_proposal(FAST, 0, X)

    assert learner.on_vote(FAST, 0, 0)
    assert learner.decided == {0: X}
    assert harness.probes.counts[Probe.FAST_DECISION] == 1


def test_second_votes_complete_a_fast_quorum(harness: LearnerHarness) -> None:
    learner = harness.learner
    learner.on_proposal(FAST, 0, X)
    learner.on_vote(FAST, 0, 0)
    learner.on_first_vote(FAST, 0, 1, X)
    assert not learner.on_first_vote(FAST, 0, 2, Y)

    assert learner.on_vote(FAST, 0, 2)
    assert learner.decided == {0: X}


def test_first_votes_count_in_no_other_majority(harness: LearnerHarness) -> None:
    learner = harness.learner
    learner.on_proposal(FAST, 0, X)
    learner.on_vote(FAST, 0, 0)
    assert not learner.on_first_vote(FAST, 0, 1, X)
    assert not learner.on_vote(FAST, 0, 3)

    assert learner.on_vote(FAST, 0, 4)


def test_a_fast_quorum_needs_its_leader(harness: LearnerHarness) -> None:
    learner = harness.learner
    learner.on_proposal(FAST, 0, X)
    for voter in (0, 1, 2):
        assert not learner.on_first_vote(FAST, 0, voter, X)


@pytest.mark.skipif(build_kind() != "interpreted", reason="methods of compiled classes are fixed")
def test_a_leader_learns_which_members_had_not_voted(harness: LearnerHarness) -> None:
    learner, own = harness.learner, Ballot(FAST.round, harness.shared.index)
    reports: list[tuple[int, tuple[int, ...] | None]] = []

    class Control(FastPathControl):
        def on_decided(self, instance: int, absent: tuple[int, ...] | None) -> None:
            reports.append((instance, absent))

    learner.fast_path = Control(harness.shared, DelayEstimates(harness.shared), lambda: ())
    for instance in range(3):
        learner.on_proposal(own, instance, X)
        learner.on_vote(own, instance, 0)
    learner.on_first_vote(own, 0, 1, Y)
    for voter in (3, 4):
        learner.on_vote(own, 0, voter)
        learner.on_vote(own, 1, voter)
    for voter in (1, 2):
        learner.on_first_vote(own, 2, voter, X)

    assert reports == [(0, (2,)), (1, (1, 2)), (2, None)]
