"""Effects that leave before the disk write completes."""

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


def test_only_the_proposal_is_immediate() -> None:
    immediate, deferred = ProposalFilter().split((PROPOSAL, VOTE), end=5, durable=3)

    assert (list(immediate), list(deferred)) == ([PROPOSAL], [VOTE])


def test_proposal_waits_for_casts_of_the_same_batch() -> None:
    sends = (CAST, PROPOSAL)

    assert ProposalFilter().split(sends, end=5, durable=3) == ((), sends)


@pytest.mark.parametrize(("durable", "is_immediate"), [(4, False), (5, True), (6, True)])
def test_proposal_waits_until_its_ballot_is_durable(durable: int, is_immediate: bool) -> None:
    proposal_filter = ProposalFilter()
    proposal_filter.split((PREPARE,), end=5, durable=3)

    immediate, deferred = proposal_filter.split((PROPOSAL,), end=7, durable=durable)

    assert (list(immediate), list(deferred)) == (
        ([PROPOSAL], []) if is_immediate else ([], [PROPOSAL])
    )


def test_proposal_waits_for_a_ballot_of_the_same_batch() -> None:
    """One acceptor is a majority, so the replica leads at once."""
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
def test_responses_wait_for_all_but_trailing_decisions(
    records: tuple[Record, ...], count: int
) -> None:
    assert required_record_count(records) == count
