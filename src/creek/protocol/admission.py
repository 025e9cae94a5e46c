"""What is refused at the door: messages that no correct member of this cluster can have sent.

`problem` is pure. A message with a problem is counted by the replica and changes nothing. Messages
that are merely late, such as a ballot from the past, are correct: the protocol answers them.
"""

from collections.abc import Iterable
from typing import assert_never

from creek.protocol.dots import Dot, Dots
from creek.protocol.messages import (
    Accept,
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
    Pulled,
    Reject,
    Snapshot,
    Summary,
    Vote,
)
from creek.protocol.request import Batch, Request
from creek.protocol.settings import Settings

LIMIT = 2**62
"""No counter or timestamp of a correct replica gets there."""

STRANGER = "from a stranger"
OTHER_TYPE = "not one of our messages"
BAD_DOTS = "a set of dots that is none"
BAD_ID = "an identifier that nobody can have issued"
BAD_TIMESTAMP = "a timestamp out of range"
BAD_CONTEXT = "a causal context that no correct replica can have"
BAD_BALLOT = "a ballot that nobody can own"
BAD_INSTANCE = "an instance out of range"
BAD_BATCH = "a batch that no leader can propose"
BAD_CHECKPOINT = "a checkpoint that contradicts itself"
NOT_YOURS = "in the name of another replica"
ID_REUSED = "another request under an identifier we know"


def problem(message: Message, sender: int, settings: Settings) -> str | None:
    """Why this message is refused, or None."""
    members = settings.members
    if sender not in members:
        return STRANGER
    match message:
        case Cast(requests=requests):
            if any(request.id.replica != sender for request in requests):
                return NOT_YOURS
            return _first(_request(request, members) for request in requests)
        case Pulled(requests=requests):
            return _first(_request(request, members) for request in requests)
        case Summary(received=dots) | Pull(wanted=dots):
            return _dots(dots, members)
        case Heartbeat(ballot=ballot, leader=leader, hears=hears):
            if leader is not None and leader not in members:
                return STRANGER
            if any(each not in members for each in hears) or len(set(hears)) < len(hears):
                return STRANGER
            return _ballot(ballot, members, least_round=0)
        case Prepare(ballot=ballot, first=instance):
            return _owned(ballot, sender, members) or _instance(instance)
        case Accept(ballot=ballot, instance=instance, batch=batch):
            return _owned(ballot, sender, members) or _instance(instance) or _batch(batch, members)
        case Promise():
            return _promise(message, settings)
        case Vote(ballot=ballot, instance=instance):
            return _ballot(ballot, members) or _instance(instance)
        case Reject(promised=ballot):
            return _ballot(ballot, members)
        case Progress(delivered=instance) | CatchUp(first=instance):
            return _instance(instance)
        case Decisions(first=instance, batches=batches):
            return _instance(instance) or _first(_batch(batch, members) for batch in batches)
        case Snapshot(checkpoint=checkpoint):
            return _checkpoint(checkpoint, members)
        case _:
            assert_never(message)


def _first(problems: Iterable[str | None]) -> str | None:
    return next((each for each in problems if each is not None), None)


def _id(id: Dot, members: tuple[int, ...]) -> str | None:
    return None if id.replica in members and 1 <= id.event < LIMIT else BAD_ID


def _dots(dots: Dots, members: tuple[int, ...]) -> str | None:
    if dots.problem() is not None:
        return BAD_DOTS
    for replica, ranges in dots.ranges.items():
        if replica not in members or ranges[-1] >= LIMIT:
            return BAD_DOTS
    return None


def _request(request: Request, members: tuple[int, ...]) -> str | None:
    if not 0 <= request.timestamp < LIMIT:
        return BAD_TIMESTAMP
    if request.strong != (request.context is not None):
        return BAD_CONTEXT
    if request.context is not None:
        if _dots(request.context, members) is not None:
            return BAD_CONTEXT
        own = request.context.ranges.get(request.id.replica, ())
        if own and own[-1] > request.id.event:
            return BAD_CONTEXT
    return _id(request.id, members)


def _ballot(ballot: Ballot, members: tuple[int, ...], least_round: int = 1) -> str | None:
    if ballot.round == 0 == least_round and ballot.replica == 0:
        return None
    return None if ballot.replica in members and 1 <= ballot.round < LIMIT else BAD_BALLOT


def _owned(ballot: Ballot, sender: int, members: tuple[int, ...]) -> str | None:
    return _ballot(ballot, members) or (None if ballot.replica == sender else NOT_YOURS)


def _instance(instance: int) -> str | None:
    return None if 0 <= instance < LIMIT else BAD_INSTANCE


def _batch(batch: Batch, members: tuple[int, ...]) -> str | None:
    if len(set(batch)) < len(batch):
        return BAD_BATCH
    return _first(_id(id, members) for id in batch)


def _promise(message: Promise, settings: Settings) -> str | None:
    members = settings.members
    instances = [value.instance for value in message.accepted]
    if len(set(instances)) < len(instances):
        return BAD_INSTANCE
    for value in message.accepted:
        if not 0 <= value.instance - message.decided < settings.horizon:
            return BAD_INSTANCE
        if value.ballot > message.ballot:
            return BAD_BALLOT
        found = _ballot(value.ballot, members) or _batch(value.batch, members)
        if found is not None:
            return found
    return _ballot(message.ballot, members) or _first(map(_instance, [message.decided, *instances]))


def _checkpoint(checkpoint: Checkpoint, members: tuple[int, ...]) -> str | None:
    if _dots(checkpoint.ids, members) is not None or len(checkpoint.ids) != checkpoint.length:
        return BAD_CHECKPOINT
    if _instance(checkpoint.instance) is not None or not 0 <= checkpoint.timestamp < LIMIT:
        return BAD_CHECKPOINT
    if any(id not in checkpoint.ids for id, _ in checkpoint.outcomes):
        return BAD_CHECKPOINT
    return None
