"""What leaves before the disk is done, and nothing else does."""

import pytest

from creekdb.protocol.durability import ProposalFilter, required_record_count
from creekdb.protocol.effects import Send
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import (
    Accept,
    Accepted,
    AcceptedValue,
    Ballot,
    Cast,
    Decided,
    Prepare,
    Promised,
    Received,
    Record,
    Vote,
)
from creekdb.protocol.request import Operation, Request

BALLOT = Ballot(1, 0)
REQUEST = Request(10, Dot(0, 1), Operation("touch"), False)

PROPOSAL = Send((1, 2), Accept(BALLOT, 0, (REQUEST.id,)))
VOTE = Send((1, 2), Vote(BALLOT, 0))
PREPARE = Send((1, 2), Prepare(BALLOT, 0))
CAST = Send((1, 2), Cast((REQUEST,)))

DECIDED = Decided(0, (REQUEST.id,))
ACCEPTED = Accepted(AcceptedValue(0, BALLOT, (REQUEST.id,)))


def test_a_proposal_leaves_at_once_and_nothing_beside_it() -> None:
    at_once, rest = ProposalFilter().split((PROPOSAL, VOTE), end=5, durable=3)

    assert (list(at_once), list(rest)) == ([PROPOSAL], [VOTE])


def test_a_proposal_waits_for_requests_that_leave_with_it() -> None:
    sends = (CAST, PROPOSAL)

    assert ProposalFilter().split(sends, end=5, durable=3) == ((), sends)


@pytest.mark.parametrize(("durable", "leaves"), [(4, False), (5, True), (6, True)])
def test_a_proposal_waits_for_its_ballot(durable: int, leaves: bool) -> None:
    proposals = ProposalFilter()
    proposals.split((PREPARE,), end=5, durable=3)

    at_once, rest = proposals.split((PROPOSAL,), end=7, durable=durable)

    assert (list(at_once), list(rest)) == (([PROPOSAL], []) if leaves else ([], [PROPOSAL]))


def test_a_proposal_waits_for_a_ballot_that_is_made_with_it() -> None:
    """Where one acceptor is a majority."""
    sends = (PREPARE, PROPOSAL)

    assert ProposalFilter().split(sends, end=5, durable=4) == ((), sends)


@pytest.mark.parametrize(
    ("records", "count"),
    [
        ((), 0),
        ((DECIDED, DECIDED), 0),
        ((ACCEPTED, DECIDED), 1),
        ((DECIDED, ACCEPTED), 2),
        ((Received(REQUEST), Promised(BALLOT), DECIDED, ACCEPTED, DECIDED), 4),
    ],
)
def test_answers_wait_for_all_but_decisions_at_the_end(
    records: tuple[Record, ...], count: int
) -> None:
    assert required_record_count(records) == count
