"""The acceptor: what it promises, what it votes for, and what is on disk before it says so."""

from typing import Any

import pytest

from creekdb.protocol.consensus.acceptor import STALE_BALLOT, Acceptor
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.effects import Effects, Send
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import (
    Accept,
    Accepted,
    AcceptedValue,
    Ballot,
    Prepare,
    Promise,
    Promised,
    Reject,
    Vote,
)
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probe, Probes
from creekdb.protocol.request import Batch

LOW, HIGH = Ballot(1, 1), Ballot(2, 2)
X: Batch = (Dot(1, 1),)
Y: Batch = (Dot(2, 1), Dot(1, 2))


class World:
    """An acceptor at replica 0 of three, and everything around it."""

    def __init__(self) -> None:
        self.outbox, self.probes = Outbox(), Probes()
        self.voted: list[tuple[Ballot, int]] = []
        self.refused: list[str] = []
        self.waiting: set[int] = set()
        """Instances whose predicate does not hold yet."""
        self.acceptor = Acceptor(
            (1, 2),
            self.outbox,
            self.probes,
            lambda instance, batch: instance in self.waiting,
            lambda ballot, instance: self.voted.append((ballot, instance)),
            self.refused.append,
        )

    def effects(self) -> Effects:
        return self.outbox.take()

    def prepare(self, ballot: Ballot, first: int = 0, decided: int = 0) -> Effects:
        self.acceptor.on_prepare(Prepare(ballot, first), ballot.replica, decided)
        return self.effects()

    def accept(self, ballot: Ballot, instance: int, batch: Batch) -> Effects:
        self.acceptor.on_accept(Accept(ballot, instance, batch), ballot.replica)
        return self.effects()


@pytest.fixture
def world() -> World:
    return World()


def sent(effects: Effects) -> list[Any]:
    return [(each.to, each.message) for each in effects.send]


def test_a_promise_is_on_disk_before_it_is_sent(world: World) -> None:
    effects = world.prepare(LOW)
    assert effects.persist == (Promised(LOW),)
    assert effects.send == (Send((1,), Promise(LOW, 0, ())),)
    assert world.acceptor.promised == LOW


def test_the_same_prepare_is_promised_again_without_another_write(world: World) -> None:
    world.prepare(LOW)
    effects = world.prepare(LOW)
    assert effects.persist == ()
    assert sent(effects) == [((1,), Promise(LOW, 0, ()))]


def test_a_prepare_from_the_past_is_refused_counted_and_told_what_is_promised(world: World) -> None:
    world.prepare(HIGH)
    effects = world.prepare(LOW)
    assert effects.persist == ()
    assert sent(effects) == [((1,), Reject(HIGH))]
    assert world.acceptor.promised == HIGH
    assert world.refused == [STALE_BALLOT]


def test_an_accept_from_the_past_gets_no_vote(world: World) -> None:
    world.prepare(HIGH)
    effects = world.accept(LOW, 0, X)
    assert effects.persist == ()
    assert sent(effects) == [((1,), Reject(HIGH))]
    assert world.acceptor.accepted == {}
    assert world.voted == []
    assert world.refused == [STALE_BALLOT]


def test_a_vote_is_on_disk_before_everyone_hears_of_it(world: World) -> None:
    world.prepare(LOW)
    effects = world.accept(LOW, 3, X)
    assert effects.persist == (Accepted(AcceptedValue(3, LOW, X)),)
    assert sent(effects) == [((1, 2), Vote(LOW, 3))]
    assert world.voted == [(LOW, 3)]


def test_an_accept_of_a_higher_ballot_raises_the_promise(world: World) -> None:
    world.accept(HIGH, 0, X)
    assert world.acceptor.promised == HIGH
    assert sent(world.prepare(LOW)) == [((1,), Reject(HIGH))]


def test_a_raised_promise_is_on_disk_even_when_the_vote_waits(world: World) -> None:
    world.waiting.add(0)
    assert world.accept(HIGH, 0, X).persist == (Promised(HIGH),)


def test_a_repeated_accept_is_voted_for_again_without_another_write(world: World) -> None:
    world.accept(LOW, 0, X)
    effects = world.accept(LOW, 0, X)
    assert effects.persist == ()
    assert sent(effects) == [((1, 2), Vote(LOW, 0))]


def test_a_higher_ballot_may_replace_an_accepted_value(world: World) -> None:
    world.accept(LOW, 0, X)
    world.accept(HIGH, 0, Y)
    assert world.acceptor.accepted == {0: AcceptedValue(0, HIGH, Y)}


def test_a_promise_tells_what_was_accepted_from_the_first_instance_asked_for(world: World) -> None:
    for instance in (4, 2, 3):
        world.accept(LOW, instance, X)
    promise = Promise(HIGH, 0, tuple(AcceptedValue(each, LOW, X) for each in (3, 4)))
    assert sent(world.prepare(HIGH, first=3)) == [((2,), promise)]


def test_a_promise_tells_nothing_of_decided_instances_but_that_they_are(world: World) -> None:
    for instance in (2, 3):
        world.accept(LOW, instance, X)
    promise = Promise(HIGH, 3, (AcceptedValue(3, LOW, X),))
    assert sent(world.prepare(HIGH, first=0, decided=3)) == [((2,), promise)]


def test_a_vote_waits_for_its_predicate_and_is_not_dropped(world: World) -> None:
    world.waiting.add(0)
    effects = world.accept(LOW, 0, X)
    assert effects.send == ()
    assert world.acceptor.accepted == {}
    assert world.acceptor.is_deferred(0)
    assert world.probes.counts[Probe.VOTE_DEFERRED] == 1

    world.waiting.clear()
    world.acceptor.resume(0)
    assert sent(world.effects()) == [((1, 2), Vote(LOW, 0))]
    assert not world.acceptor.is_deferred(0)


def test_a_deferred_vote_is_void_once_a_higher_ballot_was_promised(world: World) -> None:
    world.waiting.add(0)
    world.accept(LOW, 0, X)
    world.prepare(HIGH)
    world.waiting.clear()
    world.acceptor.resume(0)
    assert world.effects().send == ()
    assert world.voted == []
    assert world.acceptor.accepted == {}
    assert world.probes.counts[Probe.VOTE_OVERTAKEN] == 1


def test_a_deferred_vote_gives_way_to_a_higher_ballot(world: World) -> None:
    world.waiting.add(0)
    world.accept(LOW, 0, X)
    world.waiting.clear()
    assert sent(world.accept(HIGH, 0, Y)) == [((1, 2), Vote(HIGH, 0))]
    world.acceptor.resume(0)
    assert world.effects().send == ()
    assert world.acceptor.accepted[0].batch == Y


def test_an_accept_that_is_repeated_while_it_waits_waits_once(world: World) -> None:
    world.waiting.add(0)
    for _ in range(3):
        world.accept(LOW, 0, X)
    assert world.probes.counts[Probe.VOTE_DEFERRED] == 1
    world.waiting.clear()
    world.acceptor.resume(0)
    world.acceptor.resume(0)
    assert world.voted == [(LOW, 0)]


def test_a_vote_may_have_to_wait_again(world: World) -> None:
    world.waiting.add(0)
    world.accept(LOW, 0, X)
    world.acceptor.resume(0)
    assert world.acceptor.is_deferred(0)
    assert world.voted == []


def test_a_deferred_vote_is_void_once_there_are_other_members(world: World) -> None:
    """Who has not heard of them might count it."""
    world.waiting.add(0)
    world.accept(LOW, 0, X)
    world.waiting.clear()
    world.acceptor.reconfigure((1, 2, 3))
    world.acceptor.resume(0)
    assert world.voted == []
    assert world.effects() == Effects()


def test_what_is_decided_is_forgotten(world: World) -> None:
    world.waiting.add(1)
    for instance in (0, 1, 2):
        world.accept(LOW, instance, X)
    world.acceptor.discard_below(2)
    assert list(world.acceptor.accepted) == [2]
    assert not world.acceptor.is_deferred(1)


def test_a_restart_forgets_no_promise(world: World) -> None:
    world.acceptor.restore(HIGH, {})
    assert sent(world.prepare(LOW)) == [((1,), Reject(HIGH))]


def test_a_vote_is_a_promise_across_a_restart_too(world: World) -> None:
    world.acceptor.restore(NO_BALLOT, {0: AcceptedValue(0, HIGH, X)})
    assert world.acceptor.promised == HIGH
    assert sent(world.accept(LOW, 0, Y)) == [((1,), Reject(HIGH))]
    assert world.acceptor.accepted == {0: AcceptedValue(0, HIGH, X)}


def test_an_acceptor_without_peers_votes_for_itself_in_silence() -> None:
    outbox, voted = Outbox(), list[tuple[Ballot, int]]()
    acceptor = Acceptor(
        (),
        outbox,
        Probes(),
        lambda instance, batch: False,
        lambda ballot, instance: voted.append((ballot, instance)),
        lambda reason: None,
    )
    own = Ballot(1, 0)
    acceptor.on_accept(Accept(own, 0, X), 0)
    acceptor.on_accept(Accept(NO_BALLOT, 0, X), 0)
    assert outbox.take().send == ()
    assert voted == [(own, 0)]
