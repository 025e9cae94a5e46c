"""Validation of messages: rejected messages and their reasons."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.protocol import validation
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.membership.configuration import MEMBERSHIP_KEY
from creekdb.protocol.messages import (
    Accept,
    AcceptedValue,
    Ballot,
    Cast,
    CatchUp,
    Checkpoint,
    Decisions,
    Heartbeat,
    Message,
    Prepare,
    Progress,
    Promise,
    Pull,
    PullResponse,
    Reject,
    Snapshot,
    Summary,
    Vote,
)
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.validation import COUNTER_LIMIT, MessageRejection
from tests.unit.protocol.strategies import messages

SETTINGS = Settings(members=(0, 1, 2), window=2)
OWN_BALLOT, PEER_BALLOT = Ballot(3, 1), Ballot(3, 2)
"""Ballots of replicas 1 and 2. Replica 1 sends every message below."""
BATCH = (Dot(0, 1), Dot(2, 5))


def reason_for(message: Message, sender: int = 1) -> MessageRejection | None:
    return validation.rejection_reason(message, sender, SETTINGS)


def weak(
    replica: int = 1, event: int = 1, timestamp: int = 5, context: Dots | None = None
) -> Request:
    return Request(timestamp, Dot(replica, event), Operation("touch"), False, context)


def strong(context: Dots | None, event: int = 4) -> Request:
    return Request(5, Dot(1, event), Operation("touch"), True, context)


def promise(*accepted: AcceptedValue, ballot: Ballot = OWN_BALLOT, decided: int = 2) -> Promise:
    return Promise(ballot, decided, accepted)


def accepted(
    instance: int = 2, ballot: Ballot = OWN_BALLOT, batch: tuple[Dot, ...] = BATCH
) -> AcceptedValue:
    return AcceptedValue(instance, ballot, batch)


def snapshot(
    instance: int = 3,
    length: int = 3,
    ids: Dots = Dots({0: (1, 3), 2: (4, 5)}),  # noqa: B008 - immutable
    timestamp: int = 9,
    outcomes: tuple[tuple[Dot, Outcome], ...] = (),
    members: tuple[Any, ...] = (0, ((0, ""), (1, ""), (2, "")), ()),
) -> Snapshot:
    state = (("a", 1), (MEMBERSHIP_KEY, members))
    return Snapshot(Checkpoint(instance, length, ids, timestamp, state, outcomes))


VALID: dict[str, Message] = {
    "no request": Cast(()),
    "a weak request": Cast((weak(),)),
    "a strong request": Cast((strong(Dots()),)),
    "a strong request with a context": Cast((strong(Dots({0: (1, 9), 1: (1, 4)})),)),
    "pulled requests of other replicas": PullResponse((weak(0), weak(2))),
    "an empty summary": Summary(Dots()),
    "a summary": Summary(Dots({0: (1, 3, 7, 9)})),
    "a pull": Pull(Dots({2: (5, 6)})),
    "the first heartbeat": Heartbeat(NO_BALLOT, None, (1,)),
    "a heartbeat": Heartbeat(PEER_BALLOT, 2, (0, 1, 2)),
    "a prepare": Prepare(OWN_BALLOT, 0),
    "a promise": promise(),
    "a promise with values": promise(accepted(2), accepted(3, Ballot(1, 0), ())),
    "a promise up to the horizon": promise(accepted(2 + 15)),
    "an accept": Accept(OWN_BALLOT, 7, BATCH),
    "an accept of an empty batch": Accept(OWN_BALLOT, 7, ()),
    "a vote in the ballot of another replica": Vote(PEER_BALLOT, 7),
    "a reject": Reject(PEER_BALLOT),
    "progress": Progress(0),
    "a catch-up": CatchUp(4),
    "decisions": Decisions(3, (BATCH, ())),
    "a snapshot": snapshot(outcomes=((Dot(0, 2), Outcome(1)),)),
    "a timestamp far ahead": Cast((weak(timestamp=2**61),)),
}


@pytest.mark.parametrize("message", VALID.values(), ids=VALID.keys())
def test_messages_of_correct_replicas_are_accepted(message: Message) -> None:
    assert reason_for(message) is None


@pytest.mark.parametrize("sender", [3, -1, 2**62])
@given(message=messages)
def test_messages_of_non_members_are_rejected(message: Message, sender: int) -> None:
    assert reason_for(message, sender) == MessageRejection.NOT_A_MEMBER


INVALID: dict[str, tuple[MessageRejection, Message]] = {
    "a request of another replica": (MessageRejection.SENDER_MISMATCH, Cast((weak(), weak(2)))),
    "a request of a non-member": (MessageRejection.BAD_ID, PullResponse((weak(3),))),
    "event 0": (MessageRejection.BAD_ID, Cast((weak(event=0),))),
    "a negative event": (MessageRejection.BAD_ID, PullResponse((weak(event=-4),))),
    "an event beyond the limit": (MessageRejection.BAD_ID, Cast((weak(event=COUNTER_LIMIT),))),
    "a negative timestamp": (MessageRejection.BAD_TIMESTAMP, Cast((weak(timestamp=-1),))),
    "a timestamp beyond the limit": (
        MessageRejection.BAD_TIMESTAMP,
        Cast((weak(timestamp=COUNTER_LIMIT),)),
    ),
    "a weak request with a context": (MessageRejection.BAD_CONTEXT, Cast((weak(context=Dots()),))),
    "a strong request without a context": (MessageRejection.BAD_CONTEXT, Cast((strong(None),))),
    "an invalid second request": (MessageRejection.BAD_CONTEXT, Cast((weak(), strong(None)))),
    "a context with a non-member": (
        MessageRejection.BAD_CONTEXT,
        Cast((strong(Dots({9: (1, 2)})),)),
    ),
    "a context out of order": (MessageRejection.BAD_CONTEXT, Cast((strong(Dots({0: (5, 2)})),))),
    "a context beyond the limit": (
        MessageRejection.BAD_CONTEXT,
        Cast((strong(Dots({0: (1, COUNTER_LIMIT)})),)),
    ),
    "a request in its own context": (
        MessageRejection.BAD_CONTEXT,
        Cast((strong(Dots({1: (1, 5)})),)),
    ),
    "a later own request in a context": (
        MessageRejection.BAD_CONTEXT,
        Cast((strong(Dots({1: (6, 7)})),)),
    ),
    "a summary with a non-member": (MessageRejection.BAD_DOTS, Summary(Dots({3: (1, 2)}))),
    "a summary with an open range": (MessageRejection.BAD_DOTS, Summary(Dots({0: (1,)}))),
    "a summary with an empty range": (MessageRejection.BAD_DOTS, Summary(Dots({0: ()}))),
    "a summary beyond the limit": (
        MessageRejection.BAD_DOTS,
        Summary(Dots({0: (1, COUNTER_LIMIT)})),
    ),
    "a pull of event 0": (MessageRejection.BAD_DOTS, Pull(Dots({0: (0, 2)}))),
    "a pull of overlapping ranges": (MessageRejection.BAD_DOTS, Pull(Dots({0: (1, 4, 3, 6)}))),
    "a heartbeat that trusts a non-member": (
        MessageRejection.NOT_A_MEMBER,
        Heartbeat(OWN_BALLOT, 3, (1,)),
    ),
    "a heartbeat that reaches a non-member": (
        MessageRejection.NOT_A_MEMBER,
        Heartbeat(OWN_BALLOT, 1, (1, 3)),
    ),
    "a heartbeat with a repeated member": (
        MessageRejection.NOT_A_MEMBER,
        Heartbeat(OWN_BALLOT, 1, (1, 1)),
    ),
    "a heartbeat with an unowned ballot": (
        MessageRejection.BAD_BALLOT,
        Heartbeat(Ballot(1, 3), 1, (1,)),
    ),
    "a heartbeat with a round below 0": (
        MessageRejection.BAD_BALLOT,
        Heartbeat(Ballot(-1, 0), 1, (1,)),
    ),
    "a prepare of another owner": (MessageRejection.SENDER_MISMATCH, Prepare(PEER_BALLOT, 0)),
    "a prepare of no ballot": (MessageRejection.BAD_BALLOT, Prepare(NO_BALLOT, 0)),
    "a prepare beyond the limit": (
        MessageRejection.BAD_BALLOT,
        Prepare(Ballot(COUNTER_LIMIT, 1), 0),
    ),
    "a prepare below 0": (MessageRejection.BAD_INSTANCE, Prepare(OWN_BALLOT, -1)),
    "an accept of another owner": (MessageRejection.SENDER_MISMATCH, Accept(PEER_BALLOT, 0, BATCH)),
    "an accept below 0": (MessageRejection.BAD_INSTANCE, Accept(OWN_BALLOT, -1, BATCH)),
    "an accept of a repeated id": (
        MessageRejection.BAD_BATCH,
        Accept(OWN_BALLOT, 0, (*BATCH, BATCH[0])),
    ),
    "an accept of a non-member's id": (
        MessageRejection.BAD_ID,
        Accept(OWN_BALLOT, 0, (Dot(3, 1),)),
    ),
    "an accept of event 0": (MessageRejection.BAD_ID, Accept(OWN_BALLOT, 0, (Dot(0, 0),))),
    "a promise of no ballot": (MessageRejection.BAD_BALLOT, promise(ballot=NO_BALLOT)),
    "a promise below 0": (MessageRejection.BAD_INSTANCE, promise(decided=-1)),
    "a promise beyond the limit": (MessageRejection.BAD_INSTANCE, promise(decided=COUNTER_LIMIT)),
    "a promise of a decided instance": (MessageRejection.BAD_INSTANCE, promise(accepted(1))),
    "a promise of a repeated instance": (
        MessageRejection.BAD_INSTANCE,
        promise(accepted(2), accepted(2)),
    ),
    "a promise beyond the horizon": (MessageRejection.BAD_INSTANCE, promise(accepted(2 + 16))),
    "a promise far beyond the horizon": (MessageRejection.BAD_INSTANCE, promise(accepted(2**61))),
    "a promise of a higher ballot": (
        MessageRejection.BAD_BALLOT,
        promise(accepted(ballot=Ballot(4, 0))),
    ),
    "a promise of an unowned ballot": (
        MessageRejection.BAD_BALLOT,
        promise(accepted(ballot=Ballot(1, 7))),
    ),
    "a promise of a repeated id": (
        MessageRejection.BAD_BATCH,
        promise(accepted(batch=(BATCH[0], BATCH[0]))),
    ),
    "a vote of no ballot": (MessageRejection.BAD_BALLOT, Vote(NO_BALLOT, 0)),
    "a vote in an unowned ballot": (MessageRejection.BAD_BALLOT, Vote(Ballot(1, 3), 0)),
    "a vote below 0": (MessageRejection.BAD_INSTANCE, Vote(OWN_BALLOT, -1)),
    "a vote beyond the limit": (MessageRejection.BAD_INSTANCE, Vote(OWN_BALLOT, COUNTER_LIMIT)),
    "a reject for an unowned ballot": (MessageRejection.BAD_BALLOT, Reject(Ballot(1, 3))),
    "progress below 0": (MessageRejection.BAD_INSTANCE, Progress(-1)),
    "progress beyond the limit": (MessageRejection.BAD_INSTANCE, Progress(COUNTER_LIMIT)),
    "a catch-up below 0": (MessageRejection.BAD_INSTANCE, CatchUp(-1)),
    "decisions below 0": (MessageRejection.BAD_INSTANCE, Decisions(-1, (BATCH,))),
    "decisions of a repeated id": (
        MessageRejection.BAD_BATCH,
        Decisions(0, (BATCH, (BATCH[1], BATCH[1]))),
    ),
    "decisions of a non-member's id": (MessageRejection.BAD_ID, Decisions(0, ((), (Dot(5, 1),)))),
    "a snapshot of another length": (MessageRejection.BAD_CHECKPOINT, snapshot(length=4)),
    "a snapshot of negative length": (MessageRejection.BAD_CHECKPOINT, snapshot(length=-3)),
    "a snapshot below 0": (MessageRejection.BAD_CHECKPOINT, snapshot(instance=-1)),
    "a snapshot with a negative timestamp": (
        MessageRejection.BAD_CHECKPOINT,
        snapshot(timestamp=-1),
    ),
    "a snapshot with a non-member": (
        MessageRejection.BAD_CHECKPOINT,
        snapshot(ids=Dots({3: (1, 4)})),
    ),
    "a snapshot with malformed dots": (
        MessageRejection.BAD_CHECKPOINT,
        snapshot(ids=Dots({0: (4, 1)})),
    ),
    "a snapshot with unordered members": (
        MessageRejection.BAD_CHECKPOINT,
        snapshot(members=(1, ((2, ""), (0, "")), ())),
    ),
    "a snapshot without members": (MessageRejection.BAD_CHECKPOINT, snapshot(members=(1, (), ()))),
    "a snapshot with an uncovered outcome": (
        MessageRejection.BAD_CHECKPOINT,
        snapshot(outcomes=((Dot(1, 1), Outcome()),)),
    ),
}


@pytest.mark.parametrize(("reason", "message"), INVALID.values(), ids=INVALID.keys())
def test_invalid_messages_are_rejected_with_their_reason(
    reason: MessageRejection, message: Message
) -> None:
    assert reason_for(message) == reason


NON_VOTER: dict[str, tuple[MessageRejection, Message]] = {
    "a prepare": (MessageRejection.BAD_BALLOT, Prepare(OWN_BALLOT, 0)),
    "a proposal": (MessageRejection.BAD_BALLOT, Accept(OWN_BALLOT, 7, BATCH)),
    "a promise": (MessageRejection.NOT_A_VOTER, promise(ballot=Ballot(3, 0))),
    "a vote": (MessageRejection.NOT_A_VOTER, Vote(Ballot(3, 0), 7)),
    "a heartbeat with its ballot": (MessageRejection.BAD_BALLOT, Heartbeat(OWN_BALLOT, 0, (1,))),
    "a reject with its ballot": (MessageRejection.BAD_BALLOT, Reject(OWN_BALLOT)),
}


@pytest.mark.parametrize(("reason", "message"), NON_VOTER.values(), ids=NON_VOTER.keys())
def test_non_voters_can_neither_lead_nor_vote(reason: MessageRejection, message: Message) -> None:
    settings = Settings(members=(0, 1, 2), window=2, acceptors=1)
    assert reason_for(message) is None
    assert validation.rejection_reason(message, 1, settings) == reason


@pytest.mark.parametrize(
    "message",
    [Prepare(Ballot(3, 0), 0), Vote(Ballot(3, 0), 7), promise(ballot=Ballot(3, 0), decided=2)],
)
def test_voters_are_accepted_among_non_voters(message: Message) -> None:
    assert validation.rejection_reason(message, 0, Settings(members=(0, 1, 2), acceptors=1)) is None


@given(messages, st.integers(-2, 4))
def test_validation_is_total_and_deterministic(message: Message, sender: int) -> None:
    reason = reason_for(message, sender)
    assert reason is None or reason
    assert reason_for(message, sender) == reason
