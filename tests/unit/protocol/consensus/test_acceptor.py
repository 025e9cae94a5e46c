"""Acceptor: promises, votes, deferred votes and durability."""

from typing import Any

import pytest

from creekdb.protocol.consensus.acceptor import Acceptor
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.effects import Effects, Send
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import (
    Accept,
    Accepted,
    AcceptedValue,
    Ballot,
    FirstVote,
    Prepare,
    Promise,
    Promised,
    Reject,
    Vote,
)
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Batch
from creekdb.protocol.settings import Settings
from creekdb.protocol.shared_variables import SharedVariables
from creekdb.protocol.validation import MessageRejection

LOW, HIGH = Ballot(1, 1), Ballot(2, 2)
X: Batch = (Dot(1, 1),)
Y: Batch = (Dot(2, 1), Dot(1, 2))


class AcceptorHarness:
    """Acceptor of replica 0 of three, with its collaborators."""

    def __init__(self) -> None:
        self.shared = SharedVariables(0, Settings(members=(0, 1, 2)))
        self.outbox, self.probes = self.shared.outbox, self.shared.probes
        self.voted: list[tuple[Ballot, int]] = []
        self.blocked: set[int] = set()
        """Instances whose predicate does not hold yet."""
        self.acceptor = Acceptor(
            self.shared,
            lambda instance, batch: instance in self.blocked,
            lambda ballot, instance: self.voted.append((ballot, instance)),
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
def harness() -> AcceptorHarness:
    return AcceptorHarness()


def sent(effects: Effects) -> list[Any]:
    return [(each.to, each.message) for each in effects.send]


def test_promise_is_persisted_before_it_is_sent(harness: AcceptorHarness) -> None:
    effects = harness.prepare(LOW)
    assert effects.persist == (Promised(LOW),)
    assert effects.send == (Send((1,), Promise(LOW, 0, ())),)
    assert harness.acceptor.promised == LOW


def test_repeated_prepare_is_promised_without_another_write(harness: AcceptorHarness) -> None:
    harness.prepare(LOW)
    effects = harness.prepare(LOW)
    assert effects.persist == ()
    assert sent(effects) == [((1,), Promise(LOW, 0, ()))]


def test_stale_prepare_is_counted_and_rejected_with_the_promised_ballot(
    harness: AcceptorHarness,
) -> None:
    harness.prepare(HIGH)
    effects = harness.prepare(LOW)
    assert effects.persist == ()
    assert sent(effects) == [((1,), Reject(HIGH))]
    assert harness.acceptor.promised == HIGH
    assert harness.shared.rejected == {MessageRejection.STALE_BALLOT: 1}


def test_stale_accept_gets_no_vote(harness: AcceptorHarness) -> None:
    harness.prepare(HIGH)
    effects = harness.accept(LOW, 0, X)
    assert effects.persist == ()
    assert sent(effects) == [((1,), Reject(HIGH))]
    assert harness.acceptor.accepted == {}
    assert harness.voted == []
    assert harness.shared.rejected == {MessageRejection.STALE_BALLOT: 1}


def test_vote_is_persisted_before_it_is_sent(harness: AcceptorHarness) -> None:
    harness.prepare(LOW)
    effects = harness.accept(LOW, 3, X)
    assert effects.persist == (Accepted(AcceptedValue(3, LOW, X)),)
    assert sent(effects) == [((1, 2), Vote(LOW, 3))]
    assert harness.voted == [(LOW, 3)]


def test_accept_of_a_higher_ballot_raises_the_promise(harness: AcceptorHarness) -> None:
    harness.accept(HIGH, 0, X)
    assert harness.acceptor.promised == HIGH
    assert sent(harness.prepare(LOW)) == [((1,), Reject(HIGH))]


def test_raised_promise_is_persisted_while_the_vote_is_deferred(harness: AcceptorHarness) -> None:
    harness.blocked.add(0)
    assert harness.accept(HIGH, 0, X).persist == (Promised(HIGH),)


def test_repeated_accept_repeats_the_vote_without_another_write(harness: AcceptorHarness) -> None:
    harness.accept(LOW, 0, X)
    effects = harness.accept(LOW, 0, X)
    assert effects.persist == ()
    assert sent(effects) == [((1, 2), Vote(LOW, 0))]


def test_higher_ballot_replaces_an_accepted_value(harness: AcceptorHarness) -> None:
    harness.accept(LOW, 0, X)
    harness.accept(HIGH, 0, Y)
    assert harness.acceptor.accepted == {0: AcceptedValue(0, HIGH, Y)}


def test_promise_reports_values_from_the_first_requested_instance(harness: AcceptorHarness) -> None:
    for instance in (4, 2, 3):
        harness.accept(LOW, instance, X)
    promise = Promise(HIGH, 0, tuple(AcceptedValue(each, LOW, X) for each in (3, 4)))
    assert sent(harness.prepare(HIGH, first=3)) == [((2,), promise)]


def test_promise_reports_no_values_of_decided_instances(harness: AcceptorHarness) -> None:
    for instance in (2, 3):
        harness.accept(LOW, instance, X)
    promise = Promise(HIGH, 3, (AcceptedValue(3, LOW, X),))
    assert sent(harness.prepare(HIGH, first=0, decided=3)) == [((2,), promise)]


def test_vote_waits_for_its_predicate_and_is_not_dropped(harness: AcceptorHarness) -> None:
    harness.blocked.add(0)
    effects = harness.accept(LOW, 0, X)
    assert effects.send == ()
    assert harness.acceptor.accepted == {}
    assert harness.acceptor.is_deferred(0)
    assert harness.probes.counts[Probe.VOTE_DEFERRED] == 1

    harness.blocked.clear()
    harness.acceptor.resume(0)
    assert sent(harness.effects()) == [((1, 2), Vote(LOW, 0))]
    assert not harness.acceptor.is_deferred(0)


def test_deferred_vote_is_void_after_a_higher_promise(harness: AcceptorHarness) -> None:
    harness.blocked.add(0)
    harness.accept(LOW, 0, X)
    harness.prepare(HIGH)
    harness.blocked.clear()
    harness.acceptor.resume(0)
    assert harness.effects().send == ()
    assert harness.voted == []
    assert harness.acceptor.accepted == {}
    assert harness.probes.counts[Probe.VOTE_OVERTAKEN] == 1


def test_higher_ballot_replaces_a_deferred_vote(harness: AcceptorHarness) -> None:
    harness.blocked.add(0)
    harness.accept(LOW, 0, X)
    harness.blocked.clear()
    assert sent(harness.accept(HIGH, 0, Y)) == [((1, 2), Vote(HIGH, 0))]
    harness.acceptor.resume(0)
    assert harness.effects().send == ()
    assert harness.acceptor.accepted[0].batch == Y


def test_repeated_accept_is_deferred_once(harness: AcceptorHarness) -> None:
    harness.blocked.add(0)
    for _ in range(3):
        harness.accept(LOW, 0, X)
    assert harness.probes.counts[Probe.VOTE_DEFERRED] == 1
    harness.blocked.clear()
    harness.acceptor.resume(0)
    harness.acceptor.resume(0)
    assert harness.voted == [(LOW, 0)]


def test_resumed_vote_may_be_deferred_again(harness: AcceptorHarness) -> None:
    harness.blocked.add(0)
    harness.accept(LOW, 0, X)
    harness.acceptor.resume(0)
    assert harness.acceptor.is_deferred(0)
    assert harness.voted == []


def test_deferred_vote_is_void_after_a_membership_change(harness: AcceptorHarness) -> None:
    """A replica that has not applied the change might count the vote."""
    harness.blocked.add(0)
    harness.accept(LOW, 0, X)
    harness.blocked.clear()
    harness.acceptor.reconfigure()
    harness.acceptor.resume(0)
    assert harness.voted == []
    assert harness.effects() == Effects()


def test_votes_in_decided_instances_are_discarded(harness: AcceptorHarness) -> None:
    harness.blocked.add(1)
    for instance in (0, 1, 2):
        harness.accept(LOW, instance, X)
    harness.acceptor.discard_below(2)
    assert list(harness.acceptor.accepted) == [2]
    assert not harness.acceptor.is_deferred(1)


def test_promise_survives_a_restart(harness: AcceptorHarness) -> None:
    harness.acceptor.restore(HIGH, ())
    assert sent(harness.prepare(LOW)) == [((1,), Reject(HIGH))]


def test_accepted_ballot_is_a_promise_after_a_restart(harness: AcceptorHarness) -> None:
    harness.acceptor.restore(NO_BALLOT, [AcceptedValue(0, HIGH, X)])
    assert harness.acceptor.promised == HIGH
    assert sent(harness.accept(LOW, 0, Y)) == [((1,), Reject(HIGH))]
    assert harness.acceptor.accepted == {0: AcceptedValue(0, HIGH, X)}


def test_acceptor_without_peers_votes_without_messages() -> None:
    shared, voted = SharedVariables(0, Settings(members=(0,))), list[tuple[Ballot, int]]()
    acceptor = Acceptor(
        shared,
        lambda instance, batch: False,
        lambda ballot, instance: voted.append((ballot, instance)),
    )
    own = Ballot(1, 0)
    acceptor.on_accept(Accept(own, 0, X), 0)
    acceptor.on_accept(Accept(NO_BALLOT, 0, X), 0)
    assert shared.outbox.take().send == ()
    assert voted == [(own, 0)]


def test_a_first_vote_is_recorded_sent_and_reported(harness: AcceptorHarness) -> None:
    harness.prepare(LOW)

    assert harness.acceptor.cast_first_vote(LOW, 3, X)
    effects = harness.effects()
    value = AcceptedValue(~3, LOW, X)
    assert effects.persist == (Accepted(value),)
    assert effects.send == (Send((1, 2), FirstVote(LOW, 3, X)),)
    assert harness.prepare(HIGH).send == (Send((2,), Promise(HIGH, 0, (value,))),)
    assert harness.prepare(HIGH, first=3).send[0].message == Promise(HIGH, 0, (value,))
    assert harness.prepare(HIGH, first=4).send[0].message == Promise(HIGH, 0, ())


def test_a_second_vote_follows_the_leader_after_another_first_vote(
    harness: AcceptorHarness,
) -> None:
    harness.prepare(LOW)
    harness.acceptor.cast_first_vote(LOW, 0, X)
    harness.effects()

    assert harness.accept(LOW, 0, Y).persist == (Accepted(AcceptedValue(0, LOW, Y)),)
    reported = harness.prepare(HIGH).send[0].message
    assert reported == Promise(HIGH, 0, (AcceptedValue(~0, LOW, X), AcceptedValue(0, LOW, Y)))


def test_an_acceptor_votes_first_only_once_and_in_the_promised_ballot(
    harness: AcceptorHarness,
) -> None:
    harness.prepare(HIGH)
    assert not harness.acceptor.cast_first_vote(LOW, 0, X)
    assert harness.acceptor.cast_first_vote(HIGH, 0, X)
    assert not harness.acceptor.cast_first_vote(HIGH, 0, Y)
    harness.accept(HIGH, 1, X)
    assert not harness.acceptor.cast_first_vote(HIGH, 1, Y)


def test_first_votes_in_decided_instances_are_discarded(harness: AcceptorHarness) -> None:
    harness.prepare(LOW)
    for instance in (0, 1):
        harness.acceptor.cast_first_vote(LOW, instance, X)
    harness.acceptor.discard_below(1)

    assert list(harness.acceptor.accepted) == [~1]


def test_the_vote_of_a_leader_in_an_open_ballot_carries_its_batch(
    harness: AcceptorHarness,
) -> None:
    own = Ballot(3, 0)
    harness.blocked = {1}

    assert harness.acceptor.accept_own(Accept(own, 0, X))
    assert not harness.acceptor.accept_own(Accept(own, 1, X))
    assert not harness.acceptor.accept_own(Accept(HIGH, 2, X))
    assert harness.voted == [(own, 0)]
    effects = harness.effects()
    assert effects.persist == (Promised(own), Accepted(AcceptedValue(0, own, X)))
    assert effects.send == (Send((1, 2), FirstVote(own, 0, X)),)
