"""Conditional atomic broadcast: the predicate before proposal, vote and delivery; never polled."""

from collections.abc import Callable

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
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probe, Probes
from creekdb.protocol.request import Batch
from creekdb.protocol.settings import Settings
from tests.unit.protocol.strategies import frozen_dots
from tests.unit.schemes.bench import Bench, leading_bench

A, B, DEPENDENCY = Dot(1, 1), Dot(2, 1), Dot(2, 9)
THEIRS = Ballot(1, 1)


class World:
    """CAB at replica 0 of three, or at another. An identifier's predicate: it is `here`, and so is
    what it `needs`."""

    def __init__(self, size: int = 3, index: int = 0, **settings: int) -> None:
        self.settings = Settings(members=tuple(range(size)), **settings)
        self.outbox, self.probes = Outbox(), Probes()
        self.here: set[Dot] = set()
        self.needs: dict[Dot, list[Dot]] = {}
        self.asked = 0
        self.delivered: list[Dot] = []
        self.proposed: list[tuple[int, Batch]] = []
        self.outdated: list[int] = []
        self.refused: list[str] = []
        self.omega = Omega(index, self.settings, self.outbox, self.probes)
        self.cab = ConditionalAtomicBroadcast(
            index,
            self.settings,
            self.outbox,
            self.probes,
            self.omega,
            self._missing,
            lambda id: id in self.delivered,
            lambda ids, instance: self.delivered.extend(ids),
            lambda instance, batch: self.proposed.append((instance, batch)),
            self.outdated.append,
            self.refused.append,
        )
        self.ticks = 0

    def _missing(self, id: Dot) -> Dot | None:
        self.asked += 1
        return next((each for each in (id, *self.needs.get(id, ())) if each not in self.here), None)

    def arrive(self, *dots: Dot) -> None:
        for each in dots:
            self.here.add(each)
            self.cab.on_arrived(each)
        self.cab.process_pending()

    def step(self, handler: Callable[..., object], *arguments: object) -> list[Message]:
        """One input, and then what it made possible; answers what was sent."""
        handler(*arguments)
        self.cab.process_pending()
        return self.sent()

    def sent(self) -> list[Message]:
        return [each.message for each in self.effects().send]

    def effects(self) -> Effects:
        return self.outbox.take()

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.ticks += 1
            self.omega.tick(self.ticks)
            self.cab.tick(self.ticks, 0)
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
def world() -> World:
    return World()


def test_a_vote_waits_until_every_identifier_of_the_batch_is_here(world: World) -> None:
    assert world.step(world.cab.on_accept, Accept(THEIRS, 0, (A, B)), 1) == []
    world.arrive(A)
    assert world.sent() == []
    world.arrive(B)
    assert world.sent() == [Vote(THEIRS, 0)]


def test_a_vote_waits_until_every_predicate_of_the_batch_holds(world: World) -> None:
    world.needs[A] = [DEPENDENCY]
    world.arrive(A)
    assert world.step(world.cab.on_accept, Accept(THEIRS, 0, (A,)), 1) == []
    world.arrive(DEPENDENCY)
    assert world.sent() == [Vote(THEIRS, 0)]


def test_delivery_waits_for_the_predicate_again(world: World) -> None:
    world.needs[A] = [DEPENDENCY]
    world.arrive(A)
    world.step(world.cab.on_decisions, Decisions(0, ((A,),)), 1)
    assert world.delivered == []
    assert world.probes.counts[Probe.DELIVERY_DEFERRED] == 1
    world.arrive(DEPENDENCY)
    assert world.delivered == [A]


def test_what_is_blocked_blocks_what_comes_after_it(world: World) -> None:
    world.arrive(B)
    world.step(world.cab.on_decisions, Decisions(0, ((A,), (B,))), 1)
    assert world.delivered == []
    world.arrive(A)
    assert world.delivered == [A, B]


def test_a_predicate_is_never_polled(world: World) -> None:
    world.needs[A] = [DEPENDENCY]
    world.arrive(A)
    world.cab.cab_cast(A)
    world.step(world.cab.on_accept, Accept(THEIRS, 0, (A,)), 1)
    world.step(world.cab.on_decisions, Decisions(1, ((B,),)), 1)
    asked = world.asked
    world.tick(30)
    world.step(world.cab.on_accept, Accept(THEIRS, 0, (A,)), 1)
    world.step(world.cab.on_vote, Vote(THEIRS, 0), 2)
    for event in range(1, 50):
        world.arrive(Dot(0, event))
    assert world.asked == asked


def test_nothing_is_delivered_before_the_replica_settles(world: World) -> None:
    world.arrive(A)
    world.cab.on_decisions(Decisions(0, ((A,),)), 1)
    assert world.delivered == []
    world.cab.process_pending()
    assert world.delivered == [A]


def test_an_identifier_that_was_decided_twice_is_delivered_once(world: World) -> None:
    world.arrive(A, B)
    world.step(world.cab.on_decisions, Decisions(0, ((A,), (A, B))), 1)
    assert world.delivered == [A, B]
    assert world.probes.counts[Probe.DELIVERED_TWICE_AVOIDED] == 1


def test_whoever_is_trusted_campaigns_and_leads_with_a_majority(world: World) -> None:
    assert world.lead() == Ballot(1, 0)
    assert world.probes.counts[Probe.CAMPAIGN] == 1


def test_a_leader_proposes_what_is_offered_at_once(world: World) -> None:
    ballot = world.lead()
    world.arrive(A)
    assert world.step(world.cab.cab_cast, A) == [Accept(ballot, 0, (A,)), Vote(ballot, 0)]


def test_a_leader_does_not_propose_what_it_could_not_vote_for(world: World) -> None:
    ballot = world.lead()
    world.needs[A] = [DEPENDENCY]
    world.arrive(A)
    assert world.step(world.cab.cab_cast, A) == []
    assert world.probes.counts[Probe.OFFER_DEFERRED] == 1
    world.arrive(DEPENDENCY)
    assert world.sent() == [Accept(ballot, 0, (A,)), Vote(ballot, 0)]


def test_what_was_offered_to_a_follower_is_proposed_once_it_leads(world: World) -> None:
    world.arrive(A, B)
    world.cab.cab_cast(B)
    world.cab.cab_cast(A)
    world.lead()
    assert world.cab.learner._tallies[0]
    assert world.cab.acceptor.accepted[0].batch == (B, A)


def test_what_is_delivered_is_not_offered_again(world: World) -> None:
    world.arrive(A)
    world.step(world.cab.on_decisions, Decisions(0, ((A,),)), 1)
    world.lead()
    assert world.step(world.cab.cab_cast, A) == []


def test_the_vote_of_the_leader_and_one_more_decide_among_three(world: World) -> None:
    ballot = world.lead()
    world.arrive(A)
    world.step(world.cab.cab_cast, A)
    world.step(world.cab.on_vote, Vote(ballot, 0), 2)
    assert world.delivered == [A]


def test_a_follower_decides_by_the_votes_it_hears(world: World) -> None:
    world.arrive(A)
    world.step(world.cab.on_accept, Accept(THEIRS, 0, (A,)), 1)
    assert world.delivered == []
    world.step(world.cab.on_vote, Vote(THEIRS, 0), 1)
    assert world.delivered == [A]
    assert world.cab.acceptor.accepted == {}, "nobody will ask for it"


def test_votes_that_overtake_the_proposal_decide_when_it_comes(world: World) -> None:
    world.arrive(A)
    for voter in (1, 2):
        world.step(world.cab.on_vote, Vote(THEIRS, 0), voter)
    assert world.probes.counts[Probe.VOTES_BEFORE_VALUE] == 1
    world.step(world.cab.on_accept, Accept(THEIRS, 0, (A,)), 1)
    assert world.delivered == [A]


def test_an_accept_for_a_decided_instance_is_answered_with_the_decision(world: World) -> None:
    world.arrive(A)
    world.step(world.cab.on_decisions, Decisions(0, ((A,),)), 1)
    answers = world.step(world.cab.on_accept, Accept(Ballot(7, 2), 0, (B,)), 2)
    assert answers == [Decisions(0, ((A,),))]


@pytest.mark.parametrize("instance", [16, 2**61])
def test_an_accept_beyond_the_horizon_leaves_nothing_behind(instance: int) -> None:
    world = World(window=2)
    world.arrive(A)
    assert world.step(world.cab.on_accept, Accept(THEIRS, instance, (A,)), 1) == []
    assert world.cab.acceptor.accepted == {}
    assert not world.cab.acceptor.is_deferred(instance)


def test_a_rejected_leader_steps_down_and_overbids_when_it_is_still_trusted(world: World) -> None:
    world.lead()
    world.step(world.cab.on_reject, Reject(Ballot(5, 2)))
    assert world.cab.leader.phase is LeaderPhase.FOLLOWING
    assert world.omega.max_ballot == Ballot(5, 2)
    world.tick(world.settings.suspect_ticks + 1)
    world.omega.on_heartbeat(Heartbeat(Ballot(5, 2), None, (0, 1)), 1)
    world.tick()
    assert world.cab.leader.ballot == Ballot(6, 0)


def test_a_peer_that_asks_for_forgotten_decisions_is_outdated(world: World) -> None:
    world.cab.install(3, frozen_dots([A]))
    world.step(world.cab.on_catch_up, CatchUp(2), 1)
    assert world.outdated == [1]
    world.step(world.cab.on_catch_up, CatchUp(3), 1)
    assert world.outdated == [1]


def test_progress_is_told_with_the_heartbeat_and_a_stalled_learner_asks(world: World) -> None:
    world.step(world.cab.on_progress, Progress(2), 2)
    world.tick(world.settings.heartbeat_ticks)
    assert Progress(0) in world.sent()
    world.tick(world.settings.retry_ticks)
    assert CatchUp(0) in world.sent()


def test_a_checkpoint_wakes_whatever_waited(world: World) -> None:
    world.needs[B] = [A]
    world.arrive(B)
    world.step(world.cab.on_decisions, Decisions(0, ((A,), (B,))), 1)
    world.step(world.cab.on_accept, Accept(THEIRS, 2, (B,)), 1)
    assert world.delivered == []
    world.delivered.append(A)
    world.here.add(A)
    world.cab.install(1, frozen_dots([A]))
    world.cab.process_pending()
    assert world.delivered == [A, B]
    assert Vote(THEIRS, 2) in world.sent()


def test_a_leader_steps_down_when_a_checkpoint_overtakes_it(world: World) -> None:
    world.lead()
    world.cab.install(5, frozen_dots([A]))
    assert not world.cab.leader.propose_queued(5)
    world.tick()
    assert world.cab.leader.phase is LeaderPhase.PREPARING
    assert Prepare(Ballot(2, 0), 5) in world.sent()


def test_a_restart_promises_nothing_less_and_knows_what_it_accepted(world: World) -> None:
    older, newer = AcceptedValue(1, Ballot(1, 1), (A,)), AcceptedValue(1, Ballot(3, 2), (B,))
    decided = AcceptedValue(0, Ballot(1, 1), (A,))
    world.cab.restore(Ballot(4, 2), [decided, older, newer], {0: (A,)})
    assert world.cab.acceptor.promised == Ballot(4, 2)
    assert world.cab.acceptor.accepted == {1: newer}
    assert world.omega.max_ballot == Ballot(4, 2)
    assert world.step(world.cab.on_prepare, Prepare(Ballot(3, 1), 0), 1) == [Reject(Ballot(4, 2))]


def test_a_replica_alone_decides_alone() -> None:
    world = World(size=1)
    world.tick()
    assert world.cab.leader.phase is LeaderPhase.LEADING
    world.arrive(A)
    assert world.step(world.cab.cab_cast, A) == []
    assert world.delivered == [A]


# --- an instance that stays undecided while others are decided ----------------------------------


def bench_with_a_leader_far_ahead() -> Bench:
    """Replica 1 leads three. Its first instance cannot be voted for by the others, who miss what
    it depends on, while replica 0 keeps asking for strong operations that can be decided."""
    bench = leading_bench(1, window=2)
    bench.invoke(1, "put", "lost", 1)
    bench.network.clear()
    bench.invoke(1, "put", "blocked", 1, strong=True)
    bench.deliver()
    for number in range(20):
        bench.invoke(0, "put", "free", number, strong=True)
        bench.deliver()
    return bench


def test_a_leader_that_is_far_ahead_needs_no_third_replica() -> None:
    bench = bench_with_a_leader_far_ahead()
    bench.crash(2)
    bench.settle()


def test_what_a_leader_far_ahead_accepted_does_not_keep_another_from_leading() -> None:
    bench = bench_with_a_leader_far_ahead()
    bench.isolate(1)
    while not any(isinstance(message, Prepare) for _, _, message in bench.network):
        bench.deliver()
        bench.beat()
    bench.network.clear()
    bench.crash(2)
    bench.cut.clear()
    bench.settle()


# --- what only a replica that is gone for good knew -----------------------------------------------


def deliver_if(bench: Bench, kept: Callable[[int, int, Message], bool]) -> None:
    """Deliver what is kept, lose the rest."""
    while bench.network:
        sender, receiver, message = bench.network.popleft()
        if kept(sender, receiver, message):
            bench.receive(receiver, sender, message)


def test_a_decision_that_only_a_dead_replica_knew_is_made_again() -> None:
    """Replica 1 decides, promises that it has, and dies before it can tell what."""
    bench = leading_bench(1)
    bench.invoke(1, "put", "a", 1, strong=True)
    deliver_if(bench, lambda _, receiver, message: receiver == 1 or not isinstance(message, Vote))
    assert [len(bench[index].committed_ids()) for index in range(3)] == [0, 1, 0]
    bench.isolate(1)
    while not any(isinstance(message, Prepare) for _, _, message in bench.network):
        bench.deliver()
        bench.beat()
    bench.cut.clear()
    deliver_if(
        bench,
        lambda sender, receiver, message: (
            (isinstance(message, Prepare) and receiver == 1)
            or (isinstance(message, Promise) and sender == 1)
        ),
    )
    bench.crash(1)
    bench.settle()
    assert bench[0].state() == {"a": 1}


@pytest.mark.parametrize("behind", [0, 2])
def test_whoever_is_behind_does_not_wait_for_a_dead_replica_for_ever(behind: int) -> None:
    """It heard that replica 1 is furthest ahead, but only the other one is there to be asked."""
    bench = leading_bench(1)

    def heard(_: int, receiver: int, message: Message) -> bool:
        return receiver != behind or isinstance(message, CastMessage)

    for number in range(5):
        bench.invoke(1, "put", "a", number, strong=True)
        deliver_if(bench, heard)
    bench.invoke(1, "put", "a", "last", strong=True)
    deliver_if(
        bench,
        lambda sender, receiver, message: (
            heard(sender, receiver, message) and (receiver == 1 or not isinstance(message, Vote))
        ),
    )
    assert bench[1].committed_length() == 6
    assert bench[2 - behind].committed_length() == 5
    assert bench[behind].committed_length() == 0
    bench.receive(behind, 1, Progress(6))
    bench.crash(1)
    bench.settle()
    assert bench[behind].state() == {"a": "last"}


# --- where only some have a vote ----------------------------------------------------------------

FIRST = Ballot(1, 0)


def test_a_primary_decides_alone_and_at_once() -> None:
    world = World(acceptors=1)
    world.tick()
    assert world.sent()[0] == Prepare(FIRST, 0)
    assert world.cab.leader.phase is LeaderPhase.LEADING
    world.arrive(A)
    assert world.step(world.cab.cab_cast, A) == [Accept(FIRST, 0, (A,)), Vote(FIRST, 0)]
    assert world.delivered == [A]


def test_two_of_three_voters_decide_however_many_members_there_are() -> None:
    world = World(size=7, acceptors=3)
    ballot = world.lead()
    world.arrive(A)
    world.step(world.cab.cab_cast, A)
    assert world.delivered == []
    world.step(world.cab.on_vote, Vote(ballot, 0), 2)
    assert world.delivered == [A]


def test_who_has_no_vote_neither_promises_nor_votes() -> None:
    world = World(index=1, acceptors=1)
    world.arrive(A)
    assert world.step(world.cab.on_prepare, Prepare(FIRST, 0), 0) == []
    assert world.step(world.cab.on_accept, Accept(FIRST, 0, (A,)), 0) == []
    assert world.cab.acceptor.promised == Ballot(0, 0)
    assert world.cab.acceptor.accepted == {}


def test_who_has_no_vote_learns() -> None:
    world = World(index=1, acceptors=1)
    world.arrive(A, B)
    world.step(world.cab.on_accept, Accept(FIRST, 0, (A,)), 0)
    assert world.proposed == [(0, (A,))]
    assert world.delivered == []
    world.step(world.cab.on_vote, Vote(FIRST, 0), 0)
    assert world.delivered == [A]
    world.step(world.cab.on_vote, Vote(FIRST, 1), 0)
    world.step(world.cab.on_accept, Accept(FIRST, 1, (B,)), 0)
    assert world.delivered == [A, B]


def test_who_has_no_vote_catches_up_and_helps_others_to() -> None:
    world = World(index=1, acceptors=1)
    world.arrive(A)
    world.step(world.cab.on_decisions, Decisions(0, ((A,),)), 2)
    assert world.delivered == [A]
    assert world.step(world.cab.on_catch_up, CatchUp(0), 0) == [Decisions(0, ((A,),))]


def test_who_has_no_vote_never_campaigns() -> None:
    world = World(index=1, acceptors=1)
    heartbeat = Heartbeat(Ballot(0, 0), 1, (1, 2))
    for ticks in range(60):
        if ticks % 2 == 0:
            world.omega.on_heartbeat(heartbeat, 2)
        world.tick()
    assert Probe.CAMPAIGN not in world.probes.counts
    assert not [each for each in world.sent() if isinstance(each, Prepare)]
