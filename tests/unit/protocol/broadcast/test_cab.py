"""Conditional atomic broadcast: the predicate gates proposal, vote and delivery."""

from collections.abc import Callable
from typing import Any

import pytest

from creekdb.protocol.broadcast.cab import ConditionalAtomicBroadcast
from creekdb.protocol.consensus.leader import LeaderPhase
from creekdb.protocol.consensus.omega import Omega
from creekdb.protocol.effects import Effects
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import (
    Accept,
    AcceptedValue,
    Ballot,
    CatchUp,
    Decisions,
    Heartbeat,
    Message,
    Prepare,
    Progress,
    Promise,
    Reject,
    Vote,
)
from creekdb.protocol.messages import Cast as CastMessage
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Batch
from creekdb.protocol.settings import Settings
from creekdb.protocol.shared_variables import SharedVariables
from tests.unit.protocol.strategies import frozen_dots
from tests.unit.schemes.replica_harness import ReplicaHarness, harness_with_leader

A, B, DEPENDENCY = Dot(1, 1), Dot(2, 1), Dot(2, 9)
PEER_BALLOT = Ballot(1, 1)


class CabHarness:
    """CAB of replica 0 of three by default. The predicate of an identifier holds once it and its
    `dependencies` are in `arrived`."""

    def __init__(self, size: int = 3, index: int = 0, **settings: int) -> None:
        self.settings = Settings(members=tuple(range(size)), **settings)
        self.shared = SharedVariables(index, self.settings)
        self.outbox, self.probes = self.shared.outbox, self.shared.probes
        self.arrived: set[Dot] = set()
        self.dependencies: dict[Dot, list[Dot]] = {}
        self.predicate_calls = 0
        self.delivered: list[Dot] = []
        self.proposed: list[tuple[int, Batch]] = []
        self.outdated_peers: list[int] = []
        self.omega = Omega(self.shared)
        scheme: Any = self
        self.cab = ConditionalAtomicBroadcast(
            self.shared, self.omega, scheme, scheme, self.outdated_peers.append
        )

    def is_committed(self, id: Dot) -> bool:
        return id in self.delivered

    def cab_deliver(self, ids: list[Dot], instance: int) -> None:
        self.delivered.extend(ids)

    def on_proposed(self, instance: int, batch: Batch) -> None:
        self.proposed.append((instance, batch))

    def missing_dependency(self, id: Dot) -> Dot | None:
        self.predicate_calls += 1
        return next(
            (each for each in (id, *self.dependencies.get(id, ())) if each not in self.arrived),
            None,
        )

    def arrive(self, *dots: Dot) -> None:
        for each in dots:
            self.arrived.add(each)
            self.cab.on_arrived(each)
        self.cab.process_pending()

    def step(self, handler: Callable[..., object], *arguments: object) -> list[Message]:
        """Process one input and the resulting work; return the sent messages."""
        handler(*arguments)
        self.cab.process_pending()
        return self.sent()

    def sent(self) -> list[Message]:
        return [each.message for each in self.effects().send]

    def effects(self) -> Effects:
        return self.outbox.take()

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.shared.ticks += 1
            self.omega.tick()
            self.cab.tick(0)
            self.cab.process_pending()

    def lead(self) -> Ballot:
        """Become the leader with the promise of replica 1."""
        heartbeat = Heartbeat(Ballot(0, 0), None, self.settings.members)
        for peer in self.settings.peers(0):
            self.omega.on_heartbeat(heartbeat, peer)
        self.tick()
        ballot = self.cab.leader.ballot
        assert Prepare(ballot, self.cab.learner.first_undecided) in self.sent()
        self.step(self.cab.on_promise, Promise(ballot, 0, ()), 1)
        assert self.cab.leader.phase is LeaderPhase.LEADING
        return ballot


@pytest.fixture
def harness() -> CabHarness:
    return CabHarness()


def test_vote_waits_for_every_request_of_the_batch(harness: CabHarness) -> None:
    assert harness.step(harness.cab.on_accept, Accept(PEER_BALLOT, 0, (A, B)), 1) == []
    harness.arrive(A)
    assert harness.sent() == []
    harness.arrive(B)
    assert harness.sent() == [Vote(PEER_BALLOT, 0)]


def test_vote_waits_for_every_predicate_of_the_batch(harness: CabHarness) -> None:
    harness.dependencies[A] = [DEPENDENCY]
    harness.arrive(A)
    assert harness.step(harness.cab.on_accept, Accept(PEER_BALLOT, 0, (A,)), 1) == []
    harness.arrive(DEPENDENCY)
    assert harness.sent() == [Vote(PEER_BALLOT, 0)]


def test_delivery_waits_for_the_predicate(harness: CabHarness) -> None:
    harness.dependencies[A] = [DEPENDENCY]
    harness.arrive(A)
    harness.step(harness.cab.on_decisions, Decisions(0, ((A,),)), 1)
    assert harness.delivered == []
    assert harness.probes.counts[Probe.DELIVERY_DEFERRED] == 1
    harness.arrive(DEPENDENCY)
    assert harness.delivered == [A]


def test_blocked_delivery_blocks_later_ones(harness: CabHarness) -> None:
    harness.arrive(B)
    harness.step(harness.cab.on_decisions, Decisions(0, ((A,), (B,))), 1)
    assert harness.delivered == []
    harness.arrive(A)
    assert harness.delivered == [A, B]


def test_predicate_is_never_polled(harness: CabHarness) -> None:
    harness.dependencies[A] = [DEPENDENCY]
    harness.arrive(A)
    harness.cab.cab_cast(A)
    harness.step(harness.cab.on_accept, Accept(PEER_BALLOT, 0, (A,)), 1)
    harness.step(harness.cab.on_decisions, Decisions(1, ((B,),)), 1)
    predicate_calls = harness.predicate_calls
    harness.tick(30)
    harness.step(harness.cab.on_accept, Accept(PEER_BALLOT, 0, (A,)), 1)
    harness.step(harness.cab.on_vote, Vote(PEER_BALLOT, 0), 2)
    for event in range(1, 50):
        harness.arrive(Dot(0, event))
    assert harness.predicate_calls == predicate_calls


def test_delivery_happens_only_in_process_pending(harness: CabHarness) -> None:
    harness.arrive(A)
    harness.cab.on_decisions(Decisions(0, ((A,),)), 1)
    assert harness.delivered == []
    harness.cab.process_pending()
    assert harness.delivered == [A]


def test_identifier_decided_twice_is_delivered_once(harness: CabHarness) -> None:
    harness.arrive(A, B)
    harness.step(harness.cab.on_decisions, Decisions(0, ((A,), (A, B))), 1)
    assert harness.delivered == [A, B]
    assert harness.probes.counts[Probe.DECIDED_TWICE] == 1


def test_trusted_replica_campaigns_and_leads_with_a_majority(harness: CabHarness) -> None:
    assert harness.lead() == Ballot(1, 0)
    assert harness.probes.counts[Probe.CAMPAIGN] == 1


def test_leader_proposes_a_cast_request_at_once(harness: CabHarness) -> None:
    ballot = harness.lead()
    harness.arrive(A)
    assert harness.step(harness.cab.cab_cast, A) == [Accept(ballot, 0, (A,)), Vote(ballot, 0)]


def test_leader_does_not_propose_a_request_it_cannot_vote_for(harness: CabHarness) -> None:
    ballot = harness.lead()
    harness.dependencies[A] = [DEPENDENCY]
    harness.arrive(A)
    assert harness.step(harness.cab.cab_cast, A) == []
    assert harness.probes.counts[Probe.PROPOSAL_DEFERRED] == 1
    harness.arrive(DEPENDENCY)
    assert harness.sent() == [Accept(ballot, 0, (A,)), Vote(ballot, 0)]


def test_requests_cast_to_a_follower_are_proposed_once_it_leads(harness: CabHarness) -> None:
    harness.arrive(A, B)
    harness.cab.cab_cast(B)
    harness.cab.cab_cast(A)
    harness.lead()
    assert harness.cab.learner._tallies[0]
    assert harness.cab.acceptor.accepted[0].batch == (B, A)


def test_delivered_request_is_not_proposed_again(harness: CabHarness) -> None:
    harness.arrive(A)
    harness.step(harness.cab.on_decisions, Decisions(0, ((A,),)), 1)
    harness.lead()
    assert harness.step(harness.cab.cab_cast, A) == []


def test_votes_of_the_leader_and_one_peer_decide_among_three(harness: CabHarness) -> None:
    ballot = harness.lead()
    harness.arrive(A)
    harness.step(harness.cab.cab_cast, A)
    harness.step(harness.cab.on_vote, Vote(ballot, 0), 2)
    assert harness.delivered == [A]


def test_follower_decides_by_received_votes(harness: CabHarness) -> None:
    harness.arrive(A)
    harness.step(harness.cab.on_accept, Accept(PEER_BALLOT, 0, (A,)), 1)
    assert harness.delivered == []
    harness.step(harness.cab.on_vote, Vote(PEER_BALLOT, 0), 1)
    assert harness.delivered == [A]
    assert harness.cab.acceptor.accepted == {}, "a decided instance needs no accepted value"


def test_votes_before_the_proposal_decide_on_its_arrival(harness: CabHarness) -> None:
    harness.arrive(A)
    for voter in (1, 2):
        harness.step(harness.cab.on_vote, Vote(PEER_BALLOT, 0), voter)
    assert harness.probes.counts[Probe.VOTES_BEFORE_VALUE] == 1
    harness.step(harness.cab.on_accept, Accept(PEER_BALLOT, 0, (A,)), 1)
    assert harness.delivered == [A]


def test_response_to_an_accept_of_a_decided_instance_is_the_decision(harness: CabHarness) -> None:
    harness.arrive(A)
    harness.step(harness.cab.on_decisions, Decisions(0, ((A,),)), 1)
    responses = harness.step(harness.cab.on_accept, Accept(Ballot(7, 2), 0, (B,)), 2)
    assert responses == [Decisions(0, ((A,),))]


@pytest.mark.parametrize("instance", [16, 2**61])
def test_accept_beyond_the_horizon_is_ignored(instance: int) -> None:
    harness = CabHarness(window=2)
    harness.arrive(A)
    assert harness.step(harness.cab.on_accept, Accept(PEER_BALLOT, instance, (A,)), 1) == []
    assert harness.cab.acceptor.accepted == {}
    assert not harness.cab.acceptor.is_deferred(instance)


def test_rejected_leader_steps_down_and_campaigns_again_while_trusted(harness: CabHarness) -> None:
    harness.lead()
    harness.step(harness.cab.observe, Ballot(5, 2))
    assert harness.cab.leader.phase is LeaderPhase.FOLLOWING
    assert harness.omega.max_ballot == Ballot(5, 2)
    harness.tick(harness.settings.suspect_ticks + 1)
    harness.omega.on_heartbeat(Heartbeat(Ballot(5, 2), None, (0, 1)), 1)
    harness.tick()
    assert harness.cab.leader.ballot == Ballot(6, 0)


def test_peer_that_requests_discarded_decisions_is_outdated(harness: CabHarness) -> None:
    harness.cab.install(3, frozen_dots([A]))
    harness.step(harness.cab.on_catch_up, CatchUp(2), 1)
    assert harness.outdated_peers == [1]
    harness.step(harness.cab.on_catch_up, CatchUp(3), 1)
    assert harness.outdated_peers == [1]


def test_progress_is_periodic_and_a_stalled_learner_catches_up(harness: CabHarness) -> None:
    harness.step(harness.cab.learner.on_progress, 2, 2)
    harness.tick(harness.settings.heartbeat_ticks)
    assert Progress(0) in harness.sent()
    harness.tick(harness.settings.retry_ticks)
    assert CatchUp(0) in harness.sent()


def test_checkpoint_resumes_blocked_steps(harness: CabHarness) -> None:
    harness.dependencies[B] = [A]
    harness.arrive(B)
    harness.step(harness.cab.on_decisions, Decisions(0, ((A,), (B,))), 1)
    harness.step(harness.cab.on_accept, Accept(PEER_BALLOT, 2, (B,)), 1)
    assert harness.delivered == []
    harness.delivered.append(A)
    harness.arrived.add(A)
    harness.cab.install(1, frozen_dots([A]))
    harness.cab.process_pending()
    assert harness.delivered == [A, B]
    assert Vote(PEER_BALLOT, 2) in harness.sent()


def test_leader_steps_down_when_a_checkpoint_is_installed(harness: CabHarness) -> None:
    harness.lead()
    harness.cab.install(5, frozen_dots([A]))
    assert not harness.cab.leader.propose_queued(5)
    harness.tick()
    assert harness.cab.leader.phase is LeaderPhase.PREPARING
    assert Prepare(Ballot(2, 0), 5) in harness.sent()


def test_restart_keeps_the_promise_and_the_accepted_values(harness: CabHarness) -> None:
    older, newer = AcceptedValue(1, Ballot(1, 1), (A,)), AcceptedValue(1, Ballot(3, 2), (B,))
    decided = AcceptedValue(0, Ballot(1, 1), (A,))
    harness.cab.restore(Ballot(4, 2), [decided, older, newer], {0: (A,)})
    assert harness.cab.acceptor.promised == Ballot(4, 2)
    assert harness.cab.acceptor.accepted == {1: newer}
    assert harness.omega.max_ballot == Ballot(4, 2)
    assert harness.step(harness.cab.on_prepare, Prepare(Ballot(3, 1), 0), 1) == [
        Reject(Ballot(4, 2))
    ]


def test_single_replica_decides_alone() -> None:
    harness = CabHarness(size=1)
    harness.tick()
    assert harness.cab.leader.phase is LeaderPhase.LEADING
    harness.arrive(A)
    assert harness.step(harness.cab.cab_cast, A) == []
    assert harness.delivered == [A]


# --- an instance that stays undecided while others are decided ----------------------------------


def harness_with_leader_far_ahead() -> ReplicaHarness:
    """Return three replicas led by replica 1. The others cannot vote in its first instance, because
    they miss a dependency. Meanwhile replica 0 issues strong operations that can be decided."""
    harness = harness_with_leader(1, window=2)
    harness.invoke(1, "put", "lost", 1)
    harness.network.clear()
    harness.invoke(1, "put", "blocked", 1, strong=True)
    harness.deliver()
    for number in range(20):
        harness.invoke(0, "put", "free", number, strong=True)
        harness.deliver()
    return harness


def assert_all_committed(harness: ReplicaHarness) -> None:
    """Assert that replicas 0 and 1 have committed all 22 requests."""
    assert [harness[index].view.committed_length() for index in (0, 1)] == [22, 22]


def test_leader_far_ahead_needs_no_third_replica() -> None:
    harness = harness_with_leader_far_ahead()
    harness.crash(2)
    harness.run_until_quiescent()
    assert_all_committed(harness)


def test_values_accepted_far_ahead_do_not_block_another_leader() -> None:
    harness = harness_with_leader_far_ahead()
    harness.isolate(1)
    while not any(isinstance(message, Prepare) for _, _, message in harness.network):
        harness.deliver()
        harness.tick_without_delivery()
    harness.network.clear()
    harness.crash(2)
    harness.cut_links.clear()
    harness.run_until_quiescent()
    assert_all_committed(harness)


# --- state known only to a crashed replica --------------------------------------------------------


def deliver_if(harness: ReplicaHarness, is_delivered: Callable[[int, int, Message], bool]) -> None:
    """Deliver the messages that satisfy the predicate and drop the others."""
    while harness.network:
        sender, receiver, message = harness.network.popleft()
        if is_delivered(sender, receiver, message):
            harness.receive(receiver, sender, message)


def test_decision_known_only_to_a_crashed_replica_is_made_again() -> None:
    """Replica 1 decides, reports that in its promise, and crashes before it sends the decision."""
    harness = harness_with_leader(1)
    harness.invoke(1, "put", "a", 1, strong=True)
    deliver_if(harness, lambda _, receiver, message: receiver == 1 or not isinstance(message, Vote))
    assert [len(harness[index].view.committed_ids()) for index in range(3)] == [0, 1, 0]
    harness.isolate(1)
    while not any(isinstance(message, Prepare) for _, _, message in harness.network):
        harness.deliver()
        harness.tick_without_delivery()
    harness.cut_links.clear()
    deliver_if(
        harness,
        lambda sender, receiver, message: (
            (isinstance(message, Prepare) and receiver == 1)
            or (isinstance(message, Promise) and sender == 1)
        ),
    )
    harness.crash(1)
    harness.run_until_quiescent()
    assert harness[0].view.state() == {"a": 1}


@pytest.mark.parametrize("lagging", [0, 2])
def test_lagging_replica_does_not_wait_for_a_crashed_peer_for_ever(lagging: int) -> None:
    """Replica 1 reported the most progress, but only the other replica can respond."""
    harness = harness_with_leader(1)

    def is_received(_: int, receiver: int, message: Message) -> bool:
        return receiver != lagging or isinstance(message, CastMessage)

    for number in range(5):
        harness.invoke(1, "put", "a", number, strong=True)
        deliver_if(harness, is_received)
    harness.invoke(1, "put", "a", "last", strong=True)
    deliver_if(
        harness,
        lambda sender, receiver, message: (
            is_received(sender, receiver, message)
            and (receiver == 1 or not isinstance(message, Vote))
        ),
    )
    assert harness[1].view.committed_length() == 6
    assert harness[2 - lagging].view.committed_length() == 5
    assert harness[lagging].view.committed_length() == 0
    harness.receive(lagging, 1, Progress(6))
    harness.crash(1)
    harness.run_until_quiescent()
    assert harness[lagging].view.state() == {"a": "last"}


# --- configurations with non-voters ---------------------------------------------------------------

PRIMARY_BALLOT = Ballot(1, 0)


def test_primary_decides_alone_and_at_once() -> None:
    harness = CabHarness(acceptors=1)
    harness.tick()
    assert harness.sent()[0] == Prepare(PRIMARY_BALLOT, 0)
    assert harness.cab.leader.phase is LeaderPhase.LEADING
    harness.arrive(A)
    assert harness.step(harness.cab.cab_cast, A) == [
        Accept(PRIMARY_BALLOT, 0, (A,)),
        Vote(PRIMARY_BALLOT, 0),
    ]
    assert harness.delivered == [A]


def test_two_of_three_voters_decide_among_seven_members() -> None:
    harness = CabHarness(size=7, acceptors=3)
    ballot = harness.lead()
    harness.arrive(A)
    harness.step(harness.cab.cab_cast, A)
    assert harness.delivered == []
    harness.step(harness.cab.on_vote, Vote(ballot, 0), 2)
    assert harness.delivered == [A]


def test_non_voter_neither_promises_nor_votes() -> None:
    harness = CabHarness(index=1, acceptors=1)
    harness.arrive(A)
    assert harness.step(harness.cab.on_prepare, Prepare(PRIMARY_BALLOT, 0), 0) == []
    assert harness.step(harness.cab.on_accept, Accept(PRIMARY_BALLOT, 0, (A,)), 0) == []
    assert harness.cab.acceptor.promised == Ballot(0, 0)
    assert harness.cab.acceptor.accepted == {}


def test_non_voter_learns() -> None:
    harness = CabHarness(index=1, acceptors=1)
    harness.arrive(A, B)
    harness.step(harness.cab.on_accept, Accept(PRIMARY_BALLOT, 0, (A,)), 0)
    assert harness.proposed == [(0, (A,))]
    assert harness.delivered == []
    harness.step(harness.cab.on_vote, Vote(PRIMARY_BALLOT, 0), 0)
    assert harness.delivered == [A]
    harness.step(harness.cab.on_vote, Vote(PRIMARY_BALLOT, 1), 0)
    harness.step(harness.cab.on_accept, Accept(PRIMARY_BALLOT, 1, (B,)), 0)
    assert harness.delivered == [A, B]


def test_non_voter_catches_up_and_sends_decisions() -> None:
    harness = CabHarness(index=1, acceptors=1)
    harness.arrive(A)
    harness.step(harness.cab.on_decisions, Decisions(0, ((A,),)), 2)
    assert harness.delivered == [A]
    assert harness.step(harness.cab.on_catch_up, CatchUp(0), 0) == [Decisions(0, ((A,),))]


def test_non_voter_never_campaigns() -> None:
    harness = CabHarness(index=1, acceptors=1)
    heartbeat = Heartbeat(Ballot(0, 0), 1, (1, 2))
    for ticks in range(60):
        if ticks % 2 == 0:
            harness.omega.on_heartbeat(heartbeat, 2)
        harness.tick()
    assert Probe.CAMPAIGN not in harness.probes.counts
    assert not [each for each in harness.sent() if isinstance(each, Prepare)]
