"""Ω: who is trusted, who takes over, and who does not challenge whom."""

from collections.abc import Iterable

import pytest

from creekdb.protocol.consensus.omega import NO_BALLOT, Omega
from creekdb.protocol.effects import Send
from creekdb.protocol.messages import Ballot, Heartbeat
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probe, Probes
from creekdb.protocol.settings import Settings

EVERYONE = (0, 1, 2, 3, 4)


class World:
    """The oracle of one replica of five."""

    def __init__(
        self, index: int = 2, members: tuple[int, ...] = EVERYONE, acceptors: int = 0
    ) -> None:
        self.settings = Settings(
            members=members, acceptors=acceptors, heartbeat_ticks=2, suspect_ticks=4
        )
        self.outbox, self.probes = Outbox(), Probes()
        self.omega = Omega(index, self.settings, self.outbox, self.probes)
        self.ticks = 0

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.ticks += 1
            self.omega.tick(self.ticks)

    def hear(
        self,
        senders: Iterable[int],
        ballot: Ballot = NO_BALLOT,
        leader: int | None = None,
        hears: tuple[int, ...] = EVERYONE,
    ) -> None:
        for sender in senders:
            self.omega.on_heartbeat(Heartbeat(ballot, leader, hears), sender)


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("heard", [[], [3]])
def test_nobody_is_trusted_while_nobody_hears_a_majority(world: World, heard: list[int]) -> None:
    world.hear(heard, hears=(2, 3))
    world.tick()
    assert world.omega.leader is None


def test_the_least_able_replica_is_trusted_first(world: World) -> None:
    world.hear([0, 1, 3, 4])
    world.tick()
    assert world.omega.leader == 0


def test_a_replica_that_hears_some_and_is_heard_by_others_is_not_able(world: World) -> None:
    """It would prepare at those whose promises do not reach it."""
    world.hear([0], hears=(0, 1, 2))
    world.hear([1], hears=(1, 2, 3, 4))
    world.hear([3, 4], hears=(0, 1, 2, 3, 4))
    world.tick()
    assert world.omega.leader == 1


def test_a_replica_that_hears_too_few_is_not_able(world: World) -> None:
    world.hear([0], hears=(0, 1))
    world.hear([1, 3, 4])
    world.tick()
    assert world.omega.leader == 1


def test_the_owner_of_the_greatest_ballot_keeps_the_lead(world: World) -> None:
    world.hear([0, 1, 3], ballot=Ballot(1, 3))
    world.tick()
    assert world.omega.leader == 3
    world.hear([0], ballot=Ballot(2, 1))
    assert world.omega.leader == 1, "a greater ballot counts at once"


def test_a_lesser_ballot_changes_nothing(world: World) -> None:
    world.hear([0, 1, 3], ballot=Ballot(5, 3))
    world.omega.observe(Ballot(4, 1))
    world.tick()
    assert world.omega.max_ballot == Ballot(5, 3)
    assert world.omega.leader == 3


def test_a_silent_leader_is_suspected_and_another_trusted(world: World) -> None:
    world.hear([0, 1, 3, 4], ballot=Ballot(1, 3))
    world.tick()
    assert world.omega.leader == 3
    for _ in range(5):
        world.hear([0, 1, 4], ballot=Ballot(1, 3))
        world.tick()
    assert world.omega.leader == 0


def test_a_wrong_suspicion_makes_the_next_one_slower(world: World) -> None:
    world.hear([3])
    silence = [world.settings.suspect_ticks + 1, 7, 10]
    for ticks in silence:
        world.tick(ticks)
        world.hear([3])
    assert world.probes.counts[Probe.SUSPECTED_WRONGLY] == 3
    world.tick(13)
    world.hear([3])
    assert world.probes.counts[Probe.SUSPECTED_WRONGLY] == 3, "13 ticks are within its patience"


def test_patience_has_an_end(world: World) -> None:
    world.hear([3])
    for _ in range(20):
        world.tick(world.settings.suspect_ticks_max + 1)
        world.hear([3])
    assert world.probes.counts[Probe.SUSPECTED_WRONGLY] == 20


def test_a_leader_that_only_others_hear_is_followed(world: World) -> None:
    world.hear([0, 1, 4], ballot=Ballot(1, 3), leader=3)
    world.tick()
    assert world.omega.leader == 3
    assert world.probes.counts[Probe.LEADER_FOLLOWED_UNHEARD] == 1


def test_a_leader_that_too_few_others_hear_is_not_followed(world: World) -> None:
    world.hear([0], ballot=Ballot(1, 3), leader=3)
    world.hear([1, 4], ballot=Ballot(1, 3), leader=None)
    world.tick()
    assert world.omega.leader == 0


def test_a_heartbeat_passes_on_trust_only_at_first_hand(world: World) -> None:
    world.hear([0, 1, 4], ballot=Ballot(1, 3), leader=3)
    world.tick(2)
    (send,) = world.outbox.take().send
    assert send == Send((0, 1, 3, 4), Heartbeat(Ballot(1, 3), None, (0, 1, 2, 4)))


def test_a_heartbeat_tells_ballot_leader_and_who_is_heard(world: World) -> None:
    world.hear([0, 1, 3], ballot=Ballot(1, 3))
    world.tick()
    assert world.outbox.take().send == ()
    world.tick()
    (send,) = world.outbox.take().send
    assert send == Send((0, 1, 3, 4), Heartbeat(Ballot(1, 3), 3, (0, 1, 2, 3)))


def test_a_replica_that_hears_a_majority_may_trust_itself() -> None:
    world = World(index=0)
    world.hear([3, 4])
    world.tick()
    assert world.omega.leader == 0


def test_a_replica_cut_off_trusts_nobody(world: World) -> None:
    world.hear([0, 1, 3, 4], ballot=Ballot(1, 2))
    world.tick()
    assert world.omega.leader == 2
    world.tick(10)
    assert world.omega.leader is None


def test_a_replica_alone_in_its_cluster_leads_it_in_silence() -> None:
    world = World(index=0, members=(0,))
    world.tick(5)
    assert world.omega.leader == 0
    assert world.outbox.take().send == ()


# --- where only some have a vote ----------------------------------------------------------------


def test_a_primary_leads_whoever_hears_it() -> None:
    world = World(index=0, acceptors=1)
    world.tick()
    assert world.omega.leader == 0
    world.hear([1, 2, 3, 4], hears=())
    world.tick(20)
    assert world.omega.leader == 0


@pytest.mark.parametrize("acceptors", [1, 2])
def test_who_has_no_vote_is_never_trusted(acceptors: int) -> None:
    world = World(acceptors=acceptors)
    world.hear([3, 4], leader=2)
    world.tick()
    assert world.omega.leader is None, "not even by itself"


def test_a_primary_that_is_heard_is_trusted_by_those_without_a_vote() -> None:
    world = World(acceptors=1)
    world.hear([0], hears=(0,))
    world.tick()
    assert world.omega.leader == 0


def test_a_majority_is_one_of_those_who_vote() -> None:
    world = World(acceptors=3)
    world.hear([0, 3, 4], hears=(0, 3, 4))
    world.tick()
    assert world.omega.leader is None, "replica 0 hears three of five, but one of three voters"
    world.hear([0, 1], hears=(0, 1))
    world.tick()
    assert world.omega.leader == 0


def test_trust_at_second_hand_needs_a_majority_of_those_who_vote() -> None:
    world = World(acceptors=3)
    world.hear([3, 4], ballot=Ballot(1, 1), leader=1)
    world.tick()
    assert world.omega.leader is None, "two who have no vote say so"
    world.hear([0], ballot=Ballot(1, 1), leader=1, hears=(0,))
    world.tick()
    assert world.omega.leader == 1
