"""The leader: campaigns, takes over what others accepted, and proposes what has arrived."""

from collections.abc import Iterable

import pytest

from creekdb.protocol.consensus.leader import Leader, LeaderPhase
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Accept, AcceptedValue, Ballot, Prepare, Promise
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probe, Probes
from creekdb.protocol.request import Batch
from creekdb.protocol.settings import Settings

MINE = Ballot(3, 0)
X: Batch = (Dot(1, 1),)
Y: Batch = (Dot(2, 1),)


class World:
    """A leader at replica 0 of three; its own promise is the first."""

    def __init__(self, **settings: int) -> None:
        self.settings = Settings(members=(0, 1, 2), **settings)
        self.outbox, self.probes = Outbox(), Probes()
        self.accepted_here: list[Accept] = []
        self.decided: set[int] = set()
        self.first_undecided = 0
        self.stuck: set[int] = set()
        self.leader = Leader(
            0,
            self.settings,
            self.outbox,
            self.probes,
            self.accepted_here.append,
            lambda instance: instance in self.decided,
            lambda instance: instance in self.stuck,
        )

    def sent(self) -> list[object]:
        return [each.message for each in self.outbox.take().send]

    def campaign(self, ballot: Ballot = MINE, first: int = 0) -> None:
        prepare = self.leader.campaign(ballot, first)
        assert self.sent() == [prepare]
        assert not self.promised(Promise(ballot, first, ()), 0)

    def promised(self, promise: Promise, sender: int) -> bool:
        """Is it enough, with this promise?"""
        self.leader.on_promise(promise, sender)
        return self.leader.has_majority_promise()

    def lead(self, *accepted: AcceptedValue, start: int = 0, ready: Iterable[Dot] = ()) -> None:
        self.campaign()
        assert self.promised(Promise(MINE, 0, accepted), 1)
        self.leader.start(start, ready)

    def proposals(self) -> list[tuple[int, Batch]]:
        """What was proposed since the last time, here and to the peers alike."""
        here = [*self.accepted_here]
        self.accepted_here.clear()
        assert self.sent() == here
        assert all(each.ballot == MINE for each in here)
        return [(each.instance, each.batch) for each in here]

    def pump(self) -> list[tuple[int, Batch]]:
        while self.leader.propose_queued(self.first_undecided):
            pass
        return self.proposals()


@pytest.fixture
def world() -> World:
    return World()


def test_a_campaign_asks_every_peer(world: World) -> None:
    assert world.leader.campaign(MINE, 4) == Prepare(MINE, 4)
    (send,) = world.outbox.take().send
    assert (send.to, send.message) == ((1, 2), Prepare(MINE, 4))
    assert world.leader.phase is LeaderPhase.PREPARING


def test_a_majority_of_promises_makes_a_leader(world: World) -> None:
    world.campaign()
    assert world.promised(Promise(MINE, 0, ()), 2)
    world.leader.start(0, ())
    assert world.leader.phase is LeaderPhase.LEADING
    assert world.proposals() == []


def test_one_promise_told_twice_makes_no_leader(world: World) -> None:
    world.campaign()
    assert not world.promised(Promise(MINE, 0, ()), 0)


@pytest.mark.parametrize("ballot", [Ballot(2, 0), Ballot(4, 0), Ballot(3, 1)])
def test_a_promise_for_another_ballot_does_not_count(world: World, ballot: Ballot) -> None:
    world.campaign()
    assert not world.promised(Promise(ballot, 0, ()), 1)


def test_a_promise_that_comes_after_the_lead_does_not_count(world: World) -> None:
    world.lead()
    assert not world.promised(Promise(MINE, 9, ()), 2)
    assert world.leader.phase is LeaderPhase.LEADING


def test_what_was_accepted_is_proposed_again_in_the_new_ballot(world: World) -> None:
    world.lead(AcceptedValue(0, Ballot(1, 1), X), AcceptedValue(1, Ballot(1, 1), Y))
    assert world.proposals() == [(0, X), (1, Y)]
    assert world.probes.counts[Probe.VALUE_RECOVERED] == 2


def test_the_value_of_the_highest_ballot_wins() -> None:
    for mine, other, winner in ((1, 2, Y), (2, 1, X)):
        world = World()
        prepare = world.leader.campaign(MINE, 0)
        world.sent()
        one = AcceptedValue(0, Ballot(mine, 1), X)
        two = AcceptedValue(0, Ballot(other, 2), Y)
        assert not world.promised(Promise(prepare.ballot, 0, (one,)), 0)
        assert world.promised(Promise(prepare.ballot, 0, (two,)), 1)
        world.leader.start(0, ())
        assert world.proposals() == [(0, winner)]


def test_gaps_are_closed_with_empty_batches(world: World) -> None:
    world.lead(AcceptedValue(2, Ballot(1, 1), X))
    assert world.proposals() == [(0, ()), (1, ()), (2, X)]
    assert world.probes.counts[Probe.GAP_FILLED] == 2


def test_an_instance_that_is_decided_here_is_passed_over(world: World) -> None:
    world.decided.add(1)
    world.lead(AcceptedValue(2, Ballot(1, 1), X))
    assert world.proposals() == [(0, ()), (2, X)]


def test_what_is_decided_by_the_time_it_leads_is_not_proposed_again(world: World) -> None:
    world.lead(AcceptedValue(2, Ballot(1, 1), X), AcceptedValue(4, Ballot(1, 1), X), start=3)
    assert world.proposals() == [(3, ()), (4, X)]


def test_the_best_informed_of_those_who_promised_is_known(world: World) -> None:
    world.campaign()
    world.promised(Promise(MINE, 4, ()), 2)
    assert world.leader.most_advanced_promise() == (4, 2)
    world.promised(Promise(MINE, 4, ()), 1)
    assert world.leader.most_advanced_promise() == (4, 1)


def test_what_is_ready_is_proposed_after_what_was_recovered(world: World) -> None:
    world.lead(AcceptedValue(0, Ballot(1, 1), X), ready=[*X, Dot(1, 2), Dot(2, 2)])
    assert world.proposals() == [(0, X)]
    assert world.pump() == [(1, (Dot(1, 2), Dot(2, 2)))]


def test_a_batch_holds_what_has_arrived_up_to_the_limit() -> None:
    world = World(batch_limit=2)
    world.lead()
    for event in range(1, 6):
        world.leader.enqueue(Dot(1, event))
    assert world.pump() == [
        (0, (Dot(1, 1), Dot(1, 2))),
        (1, (Dot(1, 3), Dot(1, 4))),
        (2, (Dot(1, 5),)),
    ]


def test_only_a_window_of_instances_is_under_way() -> None:
    world = World(window=2, batch_limit=1)
    world.lead()
    for event in range(1, 5):
        world.leader.enqueue(Dot(1, event))
    assert [instance for instance, _ in world.pump()] == [0, 1]
    assert world.probes.counts[Probe.WINDOW_FULL] >= 1
    world.leader.on_decided(1)
    assert world.pump() == [], "the first one is undecided still"
    world.leader.on_decided(0)
    world.first_undecided = 2
    assert [instance for instance, _ in world.pump()] == [2, 3]


def test_what_is_proposed_is_not_proposed_again_until_it_is_delivered(world: World) -> None:
    world.lead()
    world.leader.enqueue(Dot(1, 1))
    world.leader.enqueue(Dot(1, 1))
    assert world.pump() == [(0, X)]
    world.leader.enqueue(Dot(1, 1))
    assert world.pump() == []
    world.leader.on_delivered(Dot(1, 1))
    world.leader.enqueue(Dot(1, 1))
    assert world.pump() == [(1, X)]


def test_who_does_not_lead_proposes_nothing(world: World) -> None:
    world.leader.enqueue(Dot(1, 1))
    assert world.pump() == []
    world.campaign()
    world.leader.enqueue(Dot(1, 1))
    assert world.pump() == []


def test_a_higher_ballot_ends_the_lead_and_forgets_what_was_under_way(world: World) -> None:
    world.lead()
    world.leader.enqueue(Dot(1, 1))
    world.pump()
    for other, phase in (
        (MINE, LeaderPhase.LEADING),
        (Ballot(2, 2), LeaderPhase.LEADING),
        (Ballot(3, 1), LeaderPhase.FOLLOWING),
    ):
        world.leader.observe_ballot(other)
        assert world.leader.phase is phase
    assert not world.leader.tick(1_000)
    assert world.sent() == []
    assert world.probes.counts[Probe.CAMPAIGN_OUTBID] == 1


def test_a_prepare_is_repeated_to_those_who_have_not_promised() -> None:
    world = World(retry_ticks=3)
    world.campaign()
    assert not any(world.leader.tick(ticks) for ticks in (1, 2))
    assert world.sent() == []
    world.leader.tick(3)
    (send,) = world.outbox.take().send
    assert (send.to, send.message) == ((1, 2), Prepare(MINE, 0))


def test_an_accept_is_repeated_until_it_is_decided() -> None:
    world = World(retry_ticks=3)
    world.lead()
    world.leader.enqueue(Dot(1, 1))
    world.pump()
    world.leader.tick(2)
    assert world.sent() == []
    for ticks in (3, 6):
        world.leader.tick(ticks)
        assert world.sent() == [Accept(MINE, 0, X)]
    world.leader.on_decided(0)
    world.leader.tick(9)
    assert world.sent() == []


def test_an_instance_that_nobody_can_vote_for_calls_for_a_new_ballot() -> None:
    world = World(stuck_ticks=5)
    world.lead()
    world.leader.enqueue(Dot(1, 1))
    world.pump()
    assert not world.leader.tick(5), "it is only slow"
    world.stuck.add(0)
    assert world.leader.tick(6)
    assert world.probes.counts[Probe.STUCK_INSTANCE] == 1


def test_a_new_campaign_starts_from_nothing(world: World) -> None:
    world.lead()
    world.leader.enqueue(Dot(1, 1))
    world.campaign(Ballot(4, 0))
    assert not world.leader.propose_queued(0)
    assert world.leader.phase is LeaderPhase.PREPARING
    assert not world.promised(Promise(Ballot(4, 0), 0, ()), 0)


@pytest.mark.parametrize("ballot", [MINE, Ballot(2, 0), Ballot(9, 1)])
def test_a_ballot_must_be_higher_and_ones_own(world: World, ballot: Ballot) -> None:
    world.campaign()
    with pytest.raises(AssertionError):
        world.leader.campaign(ballot, 0)
