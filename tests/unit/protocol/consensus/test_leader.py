"""Leader: campaigns, recovery of accepted values, proposals and retries."""

from collections.abc import Iterable

import pytest

from creekdb.protocol.consensus.delays import DelayEstimates
from creekdb.protocol.consensus.fast_quorums import FastPathControl
from creekdb.protocol.consensus.leader import Leader, LeaderPhase
from creekdb.protocol.consensus.proposal_queue import ArrivalQueue
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Accept, AcceptedValue, Ballot, Prepare, Promise
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Batch
from creekdb.protocol.settings import Settings
from creekdb.protocol.shared_variables import SharedVariables

OWN_BALLOT = Ballot(3, 0)
X: Batch = (Dot(1, 1),)
Y: Batch = (Dot(2, 1),)


class LeaderHarness:
    """Leader of replica 0 of three. Its own promise comes first."""

    def __init__(self, is_fast: bool = False, **settings: int) -> None:
        self.settings = Settings(members=(0, 1, 2), **settings)
        self.shared = SharedVariables(0, self.settings)
        self.outbox, self.probes = self.shared.outbox, self.shared.probes
        self.accepted_locally: list[Accept] = []
        self.decided: set[int] = set()
        self.first_undecided = 0
        self.stuck: set[int] = set()
        self.is_fast = is_fast
        fast_path: FastPathControl | None = None
        if is_fast:
            delays = DelayEstimates(self.shared)
            fast_path = FastPathControl(self.shared, delays, lambda: self.settings.members)
        self.leader = Leader(
            self.shared,
            ArrivalQueue(),
            self._accept_locally,
            lambda instance: instance in self.decided,
            lambda instance: instance in self.stuck,
            fast_path,
        )

    def _accept_locally(self, accept: Accept, opens: bool) -> None:
        assert opens == self.is_fast
        self.accepted_locally.append(accept)

    def tick(self, ticks: int) -> bool:
        self.shared.ticks = ticks
        return self.leader.tick()

    def sent(self) -> list[object]:
        return [each.message for each in self.outbox.take().send]

    def campaign(self, ballot: Ballot = OWN_BALLOT, first: int = 0) -> None:
        prepare = self.leader.campaign(ballot, first)
        assert self.sent() == [prepare]
        assert not self.promise(Promise(ballot, first, ()), 0)

    def promise(self, message: Promise, sender: int) -> bool:
        """Process a promise; True if a majority has promised."""
        self.leader.on_promise(message, sender)
        return self.leader.has_majority_promise()

    def lead(self, *accepted: AcceptedValue, start: int = 0, ready: Iterable[Dot] = ()) -> None:
        self.campaign()
        assert self.promise(Promise(OWN_BALLOT, 0, accepted), 1)
        self.leader.start(start, ready)

    def proposals(self) -> list[tuple[int, Batch]]:
        """Return the new proposals, which the local acceptor and the peers received alike."""
        accepts = [*self.accepted_locally]
        self.accepted_locally.clear()
        assert self.is_fast or self.sent() == accepts  # the local vote sends fast proposals
        assert all(each.ballot == OWN_BALLOT for each in accepts)
        return [(each.instance, each.batch) for each in accepts]

    def propose_all(self) -> list[tuple[int, Batch]]:
        while self.leader.propose_queued(self.first_undecided):
            pass
        return self.proposals()


@pytest.fixture
def harness() -> LeaderHarness:
    return LeaderHarness()


def test_campaign_sends_a_prepare_to_every_peer(harness: LeaderHarness) -> None:
    assert harness.leader.campaign(OWN_BALLOT, 4) == Prepare(OWN_BALLOT, 4)
    (send,) = harness.outbox.take().send
    assert (send.to, send.message) == ((1, 2), Prepare(OWN_BALLOT, 4))
    assert harness.leader.phase is LeaderPhase.PREPARING


def test_majority_of_promises_elects_the_leader(harness: LeaderHarness) -> None:
    harness.campaign()
    assert harness.promise(Promise(OWN_BALLOT, 0, ()), 2)
    harness.leader.start(0, ())
    assert harness.leader.phase is LeaderPhase.LEADING
    assert harness.proposals() == []


def test_repeated_promise_counts_once(harness: LeaderHarness) -> None:
    harness.campaign()
    assert not harness.promise(Promise(OWN_BALLOT, 0, ()), 0)


@pytest.mark.parametrize("ballot", [Ballot(2, 0), Ballot(4, 0), Ballot(3, 1)])
def test_promise_of_another_ballot_does_not_count(harness: LeaderHarness, ballot: Ballot) -> None:
    harness.campaign()
    assert not harness.promise(Promise(ballot, 0, ()), 1)


def test_promise_while_leading_does_not_count(harness: LeaderHarness) -> None:
    harness.lead()
    assert not harness.promise(Promise(OWN_BALLOT, 9, ()), 2)
    assert harness.leader.phase is LeaderPhase.LEADING


def test_accepted_values_are_proposed_again_in_the_new_ballot(harness: LeaderHarness) -> None:
    harness.lead(AcceptedValue(0, Ballot(1, 1), X), AcceptedValue(1, Ballot(1, 1), Y))
    assert harness.proposals() == [(0, X), (1, Y)]
    assert harness.probes.counts[Probe.VALUE_RECOVERED] == 2


def test_value_of_the_highest_ballot_is_proposed() -> None:
    for own_round, peer_round, winner in ((1, 2, Y), (2, 1, X)):
        harness = LeaderHarness()
        prepare = harness.leader.campaign(OWN_BALLOT, 0)
        harness.sent()
        own_value = AcceptedValue(0, Ballot(own_round, 1), X)
        peer_value = AcceptedValue(0, Ballot(peer_round, 2), Y)
        assert not harness.promise(Promise(prepare.ballot, 0, (own_value,)), 0)
        assert harness.promise(Promise(prepare.ballot, 0, (peer_value,)), 1)
        harness.leader.start(0, ())
        assert harness.proposals() == [(0, winner)]


def test_gaps_are_filled_with_empty_batches(harness: LeaderHarness) -> None:
    harness.lead(AcceptedValue(2, Ballot(1, 1), X))
    assert harness.proposals() == [(0, ()), (1, ()), (2, X)]
    assert harness.probes.counts[Probe.GAP_FILLED] == 2


def test_locally_decided_instance_is_skipped(harness: LeaderHarness) -> None:
    harness.decided.add(1)
    harness.lead(AcceptedValue(2, Ballot(1, 1), X))
    assert harness.proposals() == [(0, ()), (2, X)]


def test_instances_decided_before_the_start_are_not_proposed(harness: LeaderHarness) -> None:
    harness.lead(AcceptedValue(2, Ballot(1, 1), X), AcceptedValue(4, Ballot(1, 1), X), start=3)
    assert harness.proposals() == [(3, ()), (4, X)]


def test_most_advanced_promise_is_that_of_the_lowest_peer(harness: LeaderHarness) -> None:
    harness.campaign()
    harness.promise(Promise(OWN_BALLOT, 4, ()), 2)
    assert harness.leader.most_advanced_promise() == (4, 2)
    harness.promise(Promise(OWN_BALLOT, 4, ()), 1)
    assert harness.leader.most_advanced_promise() == (4, 1)


def test_ready_requests_are_proposed_after_recovered_values(harness: LeaderHarness) -> None:
    harness.lead(AcceptedValue(0, Ballot(1, 1), X), ready=[*X, Dot(1, 2), Dot(2, 2)])
    assert harness.proposals() == [(0, X)]
    assert harness.propose_all() == [(1, (Dot(1, 2), Dot(2, 2)))]


def test_batch_holds_the_queued_requests_up_to_the_limit() -> None:
    harness = LeaderHarness(batch_limit=2)
    harness.lead()
    for event in range(1, 6):
        harness.leader.enqueue(Dot(1, event))
    assert harness.propose_all() == [
        (0, (Dot(1, 1), Dot(1, 2))),
        (1, (Dot(1, 3), Dot(1, 4))),
        (2, (Dot(1, 5),)),
    ]


def test_instances_in_flight_are_limited_by_the_window() -> None:
    harness = LeaderHarness(window=2, batch_limit=1)
    harness.lead()
    for event in range(1, 5):
        harness.leader.enqueue(Dot(1, event))
    assert [instance for instance, _ in harness.propose_all()] == [0, 1]
    assert harness.probes.counts[Probe.WINDOW_FULL] >= 1
    harness.leader.on_decided(1)
    assert harness.propose_all() == [], "the first instance is still undecided"
    harness.leader.on_decided(0)
    harness.first_undecided = 2
    assert [instance for instance, _ in harness.propose_all()] == [2, 3]


def test_proposed_request_is_not_proposed_again_before_its_delivery(harness: LeaderHarness) -> None:
    harness.lead()
    harness.leader.enqueue(Dot(1, 1))
    harness.leader.enqueue(Dot(1, 1))
    assert harness.propose_all() == [(0, X)]
    harness.leader.enqueue(Dot(1, 1))
    assert harness.propose_all() == []
    harness.leader.on_delivered(Dot(1, 1))
    harness.leader.enqueue(Dot(1, 1))
    assert harness.propose_all() == [(1, X)]


def test_follower_and_candidate_propose_nothing(harness: LeaderHarness) -> None:
    harness.leader.enqueue(Dot(1, 1))
    assert harness.propose_all() == []
    harness.campaign()
    harness.leader.enqueue(Dot(1, 1))
    assert harness.propose_all() == []


def test_higher_ballot_ends_the_lead_and_drops_the_proposals(harness: LeaderHarness) -> None:
    harness.lead()
    harness.leader.enqueue(Dot(1, 1))
    harness.propose_all()
    for peer_round, phase in (
        (OWN_BALLOT, LeaderPhase.LEADING),
        (Ballot(2, 2), LeaderPhase.LEADING),
        (Ballot(3, 1), LeaderPhase.FOLLOWING),
    ):
        harness.leader.observe_ballot(peer_round)
        assert harness.leader.phase is phase
    assert not harness.tick(1_000)
    assert harness.sent() == []
    assert harness.probes.counts[Probe.CAMPAIGN_LOST] == 1


def test_prepare_is_repeated_to_peers_without_a_promise() -> None:
    harness = LeaderHarness(retry_ticks=3)
    harness.campaign()
    assert not any(harness.tick(ticks) for ticks in (1, 2))
    assert harness.sent() == []
    harness.tick(3)
    (send,) = harness.outbox.take().send
    assert (send.to, send.message) == ((1, 2), Prepare(OWN_BALLOT, 0))


def test_accept_is_repeated_until_it_is_decided() -> None:
    harness = LeaderHarness(retry_ticks=3)
    harness.lead()
    harness.leader.enqueue(Dot(1, 1))
    harness.propose_all()
    harness.tick(2)
    assert harness.sent() == []
    for ticks in (3, 6):
        harness.tick(ticks)
        assert harness.sent() == [Accept(OWN_BALLOT, 0, X)]
    harness.leader.on_decided(0)
    harness.tick(9)
    assert harness.sent() == []


def test_stuck_instance_requires_a_new_ballot() -> None:
    harness = LeaderHarness(stuck_ticks=5)
    harness.lead()
    harness.leader.enqueue(Dot(1, 1))
    harness.propose_all()
    assert not harness.tick(5), "the instance is slow, not stuck"
    harness.stuck.add(0)
    assert harness.tick(6)
    assert harness.probes.counts[Probe.STUCK_INSTANCE] == 1


def test_a_fast_proposal_has_one_request_unless_requests_waited_for_the_window() -> None:
    harness = LeaderHarness(is_fast=True, window=3)
    harness.lead()
    assert harness.proposals() == [(0, ())]  # opens the ballot
    for event in range(1, 6):
        harness.leader.enqueue(Dot(1, event))
    assert harness.propose_all() == [(1, (Dot(1, 1),)), (2, (Dot(1, 2),))]

    harness.first_undecided = 2
    assert harness.propose_all() == [(3, (Dot(1, 3), Dot(1, 4), Dot(1, 5)))]
    harness.leader.enqueue(Dot(1, 6))
    harness.leader.enqueue(Dot(1, 7))
    assert harness.propose_all() == [(4, (Dot(1, 6),))]


def test_new_campaign_drops_queue_and_promises(harness: LeaderHarness) -> None:
    harness.lead()
    harness.leader.enqueue(Dot(1, 1))
    harness.campaign(Ballot(4, 0))
    assert not harness.leader.propose_queued(0)
    assert harness.leader.phase is LeaderPhase.PREPARING
    assert not harness.promise(Promise(Ballot(4, 0), 0, ()), 0)


@pytest.mark.parametrize("ballot", [OWN_BALLOT, Ballot(2, 0), Ballot(9, 1)])
def test_campaign_requires_a_higher_own_ballot(harness: LeaderHarness, ballot: Ballot) -> None:
    harness.campaign()
    with pytest.raises(AssertionError):
        harness.leader.campaign(ballot, 0)


def test_second_votes_outrank_first_votes_of_their_ballot(harness: LeaderHarness) -> None:
    harness.lead(
        AcceptedValue(~0, Ballot(2, 1), Y),
        AcceptedValue(0, Ballot(2, 1), X),
        AcceptedValue(~1, Ballot(2, 1), X),
        AcceptedValue(1, Ballot(1, 1), Y),
        AcceptedValue(~3, Ballot(2, 1), Y),
    )

    assert harness.proposals() == [(0, X), (1, X), (2, ()), (3, Y)]
    assert harness.probes.counts[Probe.FIRST_VOTE_RECOVERED] == 2
