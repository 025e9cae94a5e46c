"""Recovery from disk loss: queries, responses and the recovered state."""

import pytest

from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet
from creekdb.protocol.membership.disk_loss_recovery import JOINED_BALLOT, DiskLossRecovery
from creekdb.protocol.messages import AcceptedValue, Ballot, RecoveryQuery, RecoveryResponse
from creekdb.protocol.settings import Settings
from creekdb.protocol.shared_variables import SharedVariables

OWN, LOW, HIGH = Ballot(1, 0), Ballot(0, 1), Ballot(0, 2)
ONE, OTHER = (Dot(1, 1),), (Dot(2, 1),)


@pytest.fixture
def recovery() -> DiskLossRecovery:
    """Recovery of replica 0 of three, after its first query."""
    created = DiskLossRecovery(SharedVariables(0, Settings(members=(0, 1, 2))))
    created.tick(0)
    return created


def response(
    *accepted: AcceptedValue,
    ballot: Ballot = OWN,
    promised: Ballot = OWN,
    is_recovering: bool = False,
    decided: int = 0,
    received: Dots | None = None,
) -> RecoveryResponse:
    return RecoveryResponse(ballot, promised, is_recovering, decided, accepted, received or Dots())


@pytest.mark.parametrize("first", [1, 2])
def test_value_of_the_highest_ballot_is_accepted(recovery: DiskLossRecovery, first: int) -> None:
    """The order of the responses does not matter."""
    responses = {
        1: response(AcceptedValue(4, HIGH, ONE)),
        2: response(AcceptedValue(4, LOW, OTHER)),
    }
    for sender in (first, 3 - first):
        recovery.on_response(responses[sender], sender)

    assert list(recovery.accepted(4)) == [AcceptedValue(4, HIGH, ONE)]
    assert list(recovery.accepted(5)) == []


def test_recovery_waits_for_all_members_and_their_reported_state(
    recovery: DiskLossRecovery,
) -> None:
    received_here = DotSet([Dot(1, 1)])
    recovery.on_response(response(received=received_here.freeze(), decided=2), 1)
    assert recovery.awaited_members() == (2,)
    assert not recovery.is_complete(2, received_here)
    recovery.on_response(response(), 2)

    assert recovery.awaited_members() == ()
    assert recovery.is_complete(2, received_here)
    assert not recovery.is_complete(1, received_here)
    assert not recovery.is_complete(2, DotSet())


def test_higher_promise_repeats_the_query_to_members_with_state() -> None:
    shared = SharedVariables(0, Settings(members=(0, 1, 2, 3)))
    outbox, recovery = shared.outbox, DiskLossRecovery(shared)
    recovery.tick(0)
    recovery.on_response(response(is_recovering=True), 1)
    recovery.on_response(response(), 2)
    outbox.take()
    recovery.on_response(response(promised=Ballot(7, 3)), 3)

    query = RecoveryQuery(Ballot(8, 0), 0)
    assert [(each.to, each.message) for each in outbox.take().send] == [((2, 3), query)]
    recovery.on_response(response(), 2)  # for the previous ballot
    assert recovery.awaited_members() == (2, 3)
    for sender in (2, 3):
        recovery.on_response(response(ballot=query.ballot, promised=query.ballot), sender)
    assert recovery.awaited_members() == ()
    assert recovery.promised() == query.ballot


def test_no_real_ballot_is_promised_in_a_new_cluster(recovery: DiskLossRecovery) -> None:
    for sender in (1, 2):
        recovery.on_response(response(is_recovering=True), sender)

    assert recovery.is_new_cluster()
    assert recovery.promised() == JOINED_BALLOT


def test_first_votes_are_restored_beside_second_votes(recovery: DiskLossRecovery) -> None:
    first, second = AcceptedValue(~4, HIGH, ONE), AcceptedValue(4, LOW, OTHER)
    recovery.on_response(response(first, second), 1)
    recovery.on_response(response(AcceptedValue(~4, LOW, OTHER)), 2)

    assert set(recovery.accepted(4)) == {first, second}
    assert list(recovery.accepted(5)) == []
