"""What is refused at the door, and for which reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.protocol import validation
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.ids.version_vector import Dot, Dots
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
from creekdb.protocol.validation import (
    BAD_BALLOT,
    BAD_BATCH,
    BAD_CHECKPOINT,
    BAD_CONTEXT,
    BAD_DOTS,
    BAD_ID,
    BAD_INSTANCE,
    BAD_TIMESTAMP,
    COUNTER_LIMIT,
    NOT_A_MEMBER,
    NOT_A_VOTER,
    SENDER_MISMATCH,
)
from tests.unit.protocol.strategies import messages

SETTINGS = Settings(members=(0, 1, 2), window=2)
MINE, YOURS = Ballot(3, 1), Ballot(3, 2)
"""Every message below comes from replica 1."""
X = (Dot(0, 1), Dot(2, 5))


def problem(message: Message, sender: int = 1) -> str | None:
    return validation.rejection_reason(message, sender, SETTINGS)


def weak(
    replica: int = 1, event: int = 1, timestamp: int = 5, context: Dots | None = None
) -> Request:
    return Request(timestamp, Dot(replica, event), Operation("touch"), False, context)


def strong(context: Dots | None, event: int = 4) -> Request:
    return Request(5, Dot(1, event), Operation("touch"), True, context)


def promise(*accepted: AcceptedValue, ballot: Ballot = MINE, decided: int = 2) -> Promise:
    return Promise(ballot, decided, accepted)


def accepted(instance: int = 2, ballot: Ballot = MINE, batch: tuple[Dot, ...] = X) -> AcceptedValue:
    return AcceptedValue(instance, ballot, batch)


def snapshot(
    instance: int = 3,
    length: int = 3,
    ids: Dots = Dots({0: (1, 3), 2: (4, 5)}),  # noqa: B008 - immutable
    timestamp: int = 9,
    outcomes: tuple[tuple[Dot, Outcome], ...] = (),
) -> Snapshot:
    return Snapshot(Checkpoint(instance, length, ids, timestamp, (("a", 1),), outcomes))


GOOD: dict[str, Message] = {
    "no request": Cast(()),
    "a weak request": Cast((weak(),)),
    "a strong request": Cast((strong(Dots()),)),
    "a strong request with a context": Cast((strong(Dots({0: (1, 9), 1: (1, 4)})),)),
    "requests of others, pulled": PullResponse((weak(0), weak(2))),
    "a summary of nothing": Summary(Dots()),
    "a summary": Summary(Dots({0: (1, 3, 7, 9)})),
    "a pull": Pull(Dots({2: (5, 6)})),
    "the first heartbeat": Heartbeat(NO_BALLOT, None, (1,)),
    "a heartbeat": Heartbeat(YOURS, 2, (0, 1, 2)),
    "a prepare": Prepare(MINE, 0),
    "a promise": promise(),
    "a promise with values": promise(accepted(2), accepted(3, Ballot(1, 0), ())),
    "a promise up to the horizon": promise(accepted(2 + 15)),
    "an accept": Accept(MINE, 7, X),
    "an accept of an empty batch": Accept(MINE, 7, ()),
    "a vote in the ballot of another": Vote(YOURS, 7),
    "a reject": Reject(YOURS),
    "progress": Progress(0),
    "a catch-up": CatchUp(4),
    "decisions": Decisions(3, (X, ())),
    "a snapshot": snapshot(outcomes=((Dot(0, 2), Outcome(1)),)),
    "a timestamp far ahead": Cast((weak(timestamp=2**61),)),
}


@pytest.mark.parametrize("message", GOOD.values(), ids=GOOD.keys())
def test_what_a_correct_replica_sends_is_admitted(message: Message) -> None:
    assert problem(message) is None


@pytest.mark.parametrize("sender", [3, -1, 2**62])
@given(message=messages)
def test_whatever_a_stranger_sends_is_refused(message: Message, sender: int) -> None:
    assert problem(message, sender) == NOT_A_MEMBER


BAD: dict[str, tuple[str, Message]] = {
    "a request of another": (SENDER_MISMATCH, Cast((weak(), weak(2)))),
    "a request of a stranger": (BAD_ID, PullResponse((weak(3),))),
    "event 0": (BAD_ID, Cast((weak(event=0),))),
    "a negative event": (BAD_ID, PullResponse((weak(event=-4),))),
    "an event beyond the limit": (BAD_ID, Cast((weak(event=COUNTER_LIMIT),))),
    "a negative timestamp": (BAD_TIMESTAMP, Cast((weak(timestamp=-1),))),
    "a timestamp beyond the limit": (BAD_TIMESTAMP, Cast((weak(timestamp=COUNTER_LIMIT),))),
    "a weak request with a context": (BAD_CONTEXT, Cast((weak(context=Dots()),))),
    "a strong request without": (BAD_CONTEXT, Cast((strong(None),))),
    "the second request is bad": (BAD_CONTEXT, Cast((weak(), strong(None)))),
    "a context of strangers": (BAD_CONTEXT, Cast((strong(Dots({9: (1, 2)})),))),
    "a context out of order": (BAD_CONTEXT, Cast((strong(Dots({0: (5, 2)})),))),
    "a context beyond the limit": (BAD_CONTEXT, Cast((strong(Dots({0: (1, COUNTER_LIMIT)})),))),
    "a request in its own context": (BAD_CONTEXT, Cast((strong(Dots({1: (1, 5)})),))),
    "one's own future in a context": (BAD_CONTEXT, Cast((strong(Dots({1: (6, 7)})),))),
    "a summary with a stranger": (BAD_DOTS, Summary(Dots({3: (1, 2)}))),
    "a summary with an open end": (BAD_DOTS, Summary(Dots({0: (1,)}))),
    "a summary with nothing in it": (BAD_DOTS, Summary(Dots({0: ()}))),
    "a summary beyond the limit": (BAD_DOTS, Summary(Dots({0: (1, COUNTER_LIMIT)}))),
    "a pull of event 0": (BAD_DOTS, Pull(Dots({0: (0, 2)}))),
    "a pull of overlapping ranges": (BAD_DOTS, Pull(Dots({0: (1, 4, 3, 6)}))),
    "a heartbeat that trusts a stranger": (NOT_A_MEMBER, Heartbeat(MINE, 3, (1,))),
    "a heartbeat that hears a stranger": (NOT_A_MEMBER, Heartbeat(MINE, 1, (1, 3))),
    "a heartbeat that hears double": (NOT_A_MEMBER, Heartbeat(MINE, 1, (1, 1))),
    "a heartbeat with a ballot of nobody": (BAD_BALLOT, Heartbeat(Ballot(1, 3), 1, (1,))),
    "a heartbeat with a round below 0": (BAD_BALLOT, Heartbeat(Ballot(-1, 0), 1, (1,))),
    "a prepare in the name of another": (SENDER_MISMATCH, Prepare(YOURS, 0)),
    "a prepare of no ballot": (BAD_BALLOT, Prepare(NO_BALLOT, 0)),
    "a prepare beyond the limit": (BAD_BALLOT, Prepare(Ballot(COUNTER_LIMIT, 1), 0)),
    "a prepare from below 0": (BAD_INSTANCE, Prepare(MINE, -1)),
    "an accept in the name of another": (SENDER_MISMATCH, Accept(YOURS, 0, X)),
    "an accept below 0": (BAD_INSTANCE, Accept(MINE, -1, X)),
    "an accept of one id twice": (BAD_BATCH, Accept(MINE, 0, (*X, X[0]))),
    "an accept of a stranger's id": (BAD_ID, Accept(MINE, 0, (Dot(3, 1),))),
    "an accept of event 0": (BAD_ID, Accept(MINE, 0, (Dot(0, 0),))),
    "a promise of no ballot": (BAD_BALLOT, promise(ballot=NO_BALLOT)),
    "a promise from below 0": (BAD_INSTANCE, promise(decided=-1)),
    "a promise beyond the limit": (BAD_INSTANCE, promise(decided=COUNTER_LIMIT)),
    "a promise of what is decided": (BAD_INSTANCE, promise(accepted(1))),
    "a promise of an instance twice": (BAD_INSTANCE, promise(accepted(2), accepted(2))),
    "a promise beyond the horizon": (BAD_INSTANCE, promise(accepted(2 + 16))),
    "a promise of the far future": (BAD_INSTANCE, promise(accepted(2**61))),
    "a promise of a higher ballot": (BAD_BALLOT, promise(accepted(ballot=Ballot(4, 0)))),
    "a promise of a value of nobody": (BAD_BALLOT, promise(accepted(ballot=Ballot(1, 7)))),
    "a promise of an id twice": (BAD_BATCH, promise(accepted(batch=(X[0], X[0])))),
    "a vote of no ballot": (BAD_BALLOT, Vote(NO_BALLOT, 0)),
    "a vote in a ballot of nobody": (BAD_BALLOT, Vote(Ballot(1, 3), 0)),
    "a vote below 0": (BAD_INSTANCE, Vote(MINE, -1)),
    "a vote beyond the limit": (BAD_INSTANCE, Vote(MINE, COUNTER_LIMIT)),
    "a reject for a ballot of nobody": (BAD_BALLOT, Reject(Ballot(1, 3))),
    "progress below 0": (BAD_INSTANCE, Progress(-1)),
    "progress beyond the limit": (BAD_INSTANCE, Progress(COUNTER_LIMIT)),
    "a catch-up from below 0": (BAD_INSTANCE, CatchUp(-1)),
    "decisions below 0": (BAD_INSTANCE, Decisions(-1, (X,))),
    "decisions of an id twice": (BAD_BATCH, Decisions(0, (X, (X[1], X[1])))),
    "decisions of a stranger's id": (BAD_ID, Decisions(0, ((), (Dot(5, 1),)))),
    "a snapshot of another length": (BAD_CHECKPOINT, snapshot(length=4)),
    "a snapshot of negative length": (BAD_CHECKPOINT, snapshot(length=-3)),
    "a snapshot below 0": (BAD_CHECKPOINT, snapshot(instance=-1)),
    "a snapshot from before time": (BAD_CHECKPOINT, snapshot(timestamp=-1)),
    "a snapshot of strangers": (BAD_CHECKPOINT, snapshot(ids=Dots({3: (1, 4)}))),
    "a snapshot of no set": (BAD_CHECKPOINT, snapshot(ids=Dots({0: (4, 1)}))),
    "a snapshot with a foreign answer": (
        BAD_CHECKPOINT,
        snapshot(outcomes=((Dot(1, 1), Outcome()),)),
    ),
}


@pytest.mark.parametrize(("reason", "message"), BAD.values(), ids=BAD.keys())
def test_what_no_correct_replica_sends_is_refused(reason: str, message: Message) -> None:
    assert problem(message) == reason


WITHOUT_A_VOTE: dict[str, tuple[str, Message]] = {
    "its own ballot": (BAD_BALLOT, Prepare(MINE, 0)),
    "a proposal": (BAD_BALLOT, Accept(MINE, 7, X)),
    "a promise": (NOT_A_VOTER, promise(ballot=Ballot(3, 0))),
    "a vote": (NOT_A_VOTER, Vote(Ballot(3, 0), 7)),
    "a ballot that it claims to know": (BAD_BALLOT, Heartbeat(MINE, 0, (1,))),
    "a ballot that it claims to have promised": (BAD_BALLOT, Reject(MINE)),
}


@pytest.mark.parametrize(("reason", "message"), WITHOUT_A_VOTE.values(), ids=WITHOUT_A_VOTE.keys())
def test_who_has_no_vote_can_neither_lead_nor_vote(reason: str, message: Message) -> None:
    settings = Settings(members=(0, 1, 2), window=2, acceptors=1)
    assert problem(message) is None
    assert validation.rejection_reason(message, 1, settings) == reason


@pytest.mark.parametrize(
    "message",
    [Prepare(Ballot(3, 0), 0), Vote(Ballot(3, 0), 7), promise(ballot=Ballot(3, 0), decided=2)],
)
def test_who_has_a_vote_is_admitted_whoever_else_has_none(message: Message) -> None:
    assert validation.rejection_reason(message, 0, Settings(members=(0, 1, 2), acceptors=1)) is None


@given(messages, st.integers(-2, 4))
def test_admission_always_answers(message: Message, sender: int) -> None:
    found = problem(message, sender)
    assert found is None or found
    assert problem(message, sender) == found
