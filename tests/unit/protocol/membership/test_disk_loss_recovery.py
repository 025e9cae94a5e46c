"""One that begins with nothing, and what it takes from what others tell."""

import pytest

from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet
from creekdb.protocol.membership.disk_loss_recovery import JOINED_BALLOT, DiskLossRecovery
from creekdb.protocol.messages import AcceptedValue, Ballot, RecoveryQuery, RecoveryResponse
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.settings import Settings

OWN, LOW, HIGH = Ballot(1, 0), Ballot(0, 1), Ballot(0, 2)
ONE, OTHER = (Dot(1, 1),), (Dot(2, 1),)


@pytest.fixture
def newcomer() -> DiskLossRecovery:
    """Replica 0 of three, which has asked the others."""
    made = DiskLossRecovery(0, Settings(members=(0, 1, 2)), Outbox())
    made.tick(1, 0)
    return made


def known(
    *accepted: AcceptedValue,
    ballot: Ballot = OWN,
    promised: Ballot = OWN,
    anew: bool = False,
    decided: int = 0,
    received: Dots | None = None,
) -> RecoveryResponse:
    return RecoveryResponse(ballot, promised, anew, decided, accepted, received or Dots())


@pytest.mark.parametrize("first", [1, 2])
def test_of_what_was_accepted_the_value_of_the_highest_ballot_is_accepted(
    newcomer: DiskLossRecovery, first: int
) -> None:
    """Whoever tells of it first."""
    told = {1: known(AcceptedValue(4, HIGH, ONE)), 2: known(AcceptedValue(4, LOW, OTHER))}
    for sender in (first, 3 - first):
        newcomer.on_response(told[sender], sender)

    assert list(newcomer.accepted(4)) == [AcceptedValue(4, HIGH, ONE)]
    assert list(newcomer.accepted(5)) == []


def test_it_waits_for_all_others_and_for_what_they_have(newcomer: DiskLossRecovery) -> None:
    here = DotSet([Dot(1, 1)])
    newcomer.on_response(known(received=here.freeze(), decided=2), 1)
    assert newcomer.awaited_members() == (2,)
    assert not newcomer.is_complete(2, here)
    newcomer.on_response(known(), 2)

    assert newcomer.awaited_members() == ()
    assert newcomer.is_complete(2, here)
    assert not newcomer.is_complete(1, here)
    assert not newcomer.is_complete(2, DotSet())


def test_a_higher_promise_makes_it_ask_all_again_but_those_who_know_nothing() -> None:
    outbox = Outbox()
    newcomer = DiskLossRecovery(0, Settings(members=(0, 1, 2, 3)), outbox)
    newcomer.tick(1, 0)
    newcomer.on_response(known(anew=True), 1)
    newcomer.on_response(known(), 2)
    outbox.take()
    newcomer.on_response(known(promised=Ballot(7, 3)), 3)

    asked = RecoveryQuery(Ballot(8, 0), 0)
    assert [(each.to, each.message) for each in outbox.take().send] == [((2, 3), asked)]
    newcomer.on_response(known(), 2)  # of the ballot before
    assert newcomer.awaited_members() == (2, 3)
    for sender in (2, 3):
        newcomer.on_response(known(ballot=asked.ballot, promised=asked.ballot), sender)
    assert newcomer.awaited_members() == ()
    assert newcomer.promised() == asked.ballot


def test_where_all_begin_with_nothing_no_ballot_is_promised(newcomer: DiskLossRecovery) -> None:
    for sender in (1, 2):
        newcomer.on_response(known(anew=True), sender)

    assert newcomer.is_new_cluster()
    assert newcomer.promised() == JOINED_BALLOT
