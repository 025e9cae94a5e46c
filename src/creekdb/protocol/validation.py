"""What is refused at the door: messages that no correct member of this cluster can have sent.

`problem` knows the cluster, `contradiction` also what this replica knows. A message that is refused
is counted and changes nothing. Messages that are merely late, such as a ballot from the past, are
correct: the protocol answers them. Where the members were changed and not everybody knows yet, what
one cannot understand of the others is refused, too: who is behind learns of it by catching up.
"""

from collections.abc import Iterable
from typing import Protocol, assert_never

from creekdb.errors import BadValue
from creekdb.protocol.checkpoint.stream import Brought, Given
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.membership.configuration import configuration_in
from creekdb.protocol.messages import (
    Accept,
    Anew,
    Ballot,
    Cast,
    CatchUp,
    Checkpoint,
    Decisions,
    Heartbeat,
    Known,
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
from creekdb.protocol.request import Batch, Request
from creekdb.protocol.settings import Settings

LIMIT = 2**62
"""No counter or timestamp of a correct replica gets there."""

STRANGER = "from a stranger"
FORMER = "from one who was removed"
OTHER_MEMBERS = "a ballot of earlier or later members"
WITHOUT_US = "of members that only we could have let in, and did not"
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
NO_VOTE = "a promise or a vote of one who has none"
ID_REUSED = "another request under an identifier we know"
NOT_OURS = "a request in our name that we never issued"
TOO_FAR = "a ballot or timestamp that nobody can have reached"
WEAK_PROPOSED = "a weak request, proposed as if it were strong"
CONTRADICTION = "another batch in the same ballot"

BALLOT_LEAP_MAX = 2**32
"""How many elections a replica may have missed."""
TIMESTAMP_PLAUSIBLE = 2**61
TIMESTAMP_LEAP_MAX = 2**50
"""A clock may be wrong by millennia; beyond that, timestamps may only go on from known ones."""


class Knowledge(Protocol):
    """What a replica knows, as far as messages can contradict it."""

    index: int

    def last_event(self) -> int:
        """The number of the last request issued here."""

    def greatest_round(self) -> int: ...

    def greatest_timestamp(self) -> int: ...

    def names_weak(self, batch: Batch) -> bool:
        """Is one of them known, and known to be weak?"""

    def conflicts(self, requests: tuple[Request, ...]) -> bool:
        """Is another request known by an identifier of one of these?"""

    def contradicts(self, ballot: Ballot, instance: int, batch: Batch) -> bool:
        """Is another batch known of the same ballot?"""

    def may_install(self, checkpoint: Checkpoint) -> bool:
        """Does it hold all that is committed here?"""


def problem(message: object, sender: int, settings: Settings) -> str | None:
    """Why this message is refused by everyone, or None."""
    voters, ever = settings.voters, settings.ever
    if sender not in settings.members:
        return STRANGER
    match message:  # what comes most often stands first
        case Vote(ballot=ballot, instance=instance):
            if sender not in voters:
                return NO_VOTE
            return _ballot(ballot, settings) or _instance(instance)
        case Cast(requests=requests):
            for request in requests:
                if request.id.replica != sender:
                    return NOT_YOURS
                if (found := _request(request, ever)) is not None:
                    return found
            return None
        case Accept(ballot=ballot, instance=instance, batch=batch):
            return _owned(ballot, sender, settings) or _instance(instance) or _batch(batch, ever)
        case Progress(delivered=delivered, settled=settled):
            return _instance(delivered) or (None if 0 <= settled <= delivered else BAD_INSTANCE)
        case Pulled(requests=requests):
            return problem_of_requests(requests, ever)
        case Summary(received=dots) | Pull(wanted=dots):
            return _dots(dots, ever)
        case Heartbeat(ballot=ballot, leader=leader, hears=hears):
            if leader is not None and leader not in ever:
                return STRANGER
            if any(each not in ever for each in hears) or len(set(hears)) < len(hears):
                return STRANGER
            return None if ballot == NO_BALLOT else _ballot_so_far(ballot, settings)
        case Prepare(ballot=ballot, first=instance):
            return _owned(ballot, sender, settings) or _instance(instance)
        case Promise():
            return NO_VOTE if sender not in voters else _promise(message, settings, voters)
        case Reject(promised=ballot):
            return _ballot(ballot, settings)
        case CatchUp(first=instance):
            return _instance(instance)
        case Decisions(first=instance, batches=batches):
            return _instance(instance) or _first(_batch(batch, ever) for batch in batches)
        case Snapshot(checkpoint=checkpoint):
            return _checkpoint(checkpoint, settings)
        case Brought(checkpoint=checkpoint, intake=intake):
            return _checkpoint(checkpoint, settings) if intake.is_sound() else BAD_CHECKPOINT
        case Anew(ballot=ballot, delivered=delivered):
            found = _ballot(ballot, settings, settings.members) or _instance(delivered)
            return found or (None if ballot.replica == sender else NOT_YOURS)
        case Known(ballot=ballot, decided=decided, accepted=accepted, received=dots):
            told = Promise(ballot, decided, accepted)
            return _dots(dots, ever) or _promise(told, settings, settings.members)
        case _:
            return OTHER_TYPE


def problem_of_requests(requests: tuple[Request, ...], ever: tuple[int, ...]) -> str | None:
    return _first(_request(request, ever) for request in requests)


def contradiction(message: Given, knowledge: Knowledge) -> str | None:
    """Why this well-formed message is refused by a replica that knows what it knows, or None."""
    match message:  # what comes most often stands first
        case Vote():
            return _leap(message.ballot, knowledge)
        case Cast(requests=requests) | Pulled(requests=requests):
            return _requests(requests, knowledge)
        case Accept(ballot=ballot, instance=instance, batch=batch):
            found = _leap(ballot, knowledge) or _proposed(batch, knowledge)
            if found is None and knowledge.contradicts(ballot, instance, batch):
                return CONTRADICTION
            return found
        case Progress() | Pull() | CatchUp() | Known():
            return None
        case Heartbeat() | Prepare() | Anew():
            return _leap(message.ballot, knowledge)
        case Promise(ballot=ballot, accepted=accepted):
            named = (_named(value.batch, knowledge) for value in accepted)
            return _leap(ballot, knowledge) or _first(named)
        case Reject(promised=ballot):
            return _leap(ballot, knowledge)
        case Summary(received=dots):
            return NOT_OURS if dots.last(knowledge.index) > knowledge.last_event() else None
        case Decisions(batches=batches):
            return _first(_proposed(batch, knowledge) for batch in batches)
        case Snapshot(checkpoint=checkpoint) | Brought(checkpoint=checkpoint):
            return _installed(checkpoint, knowledge)
        case _:
            assert_never(message)


def _leap(ballot: Ballot, knowledge: Knowledge) -> str | None:
    beyond = ballot.round - BALLOT_LEAP_MAX
    return TOO_FAR if beyond > 0 and beyond > knowledge.greatest_round() else None


def _requests(requests: tuple[Request, ...], knowledge: Knowledge) -> str | None:
    here, last = knowledge.index, knowledge.last_event()
    contents: dict[Dot, Request] = {}
    for request in requests:
        id, context = request.id, request.context
        replica, event = id
        if request.timestamp > TIMESTAMP_PLAUSIBLE and _is_beyond(request.timestamp, knowledge):
            return TOO_FAR
        if replica == here and event > last:
            return NOT_OURS
        if context is not None and _last(context, here) > last:
            return NOT_OURS
        if contents.setdefault(id, request) is not request and contents[id] != request:
            return ID_REUSED
    return ID_REUSED if knowledge.conflicts(requests) else None


def _is_beyond(timestamp: int, knowledge: Knowledge) -> bool:
    if timestamp <= TIMESTAMP_PLAUSIBLE:
        return False
    return timestamp > knowledge.greatest_timestamp() + TIMESTAMP_LEAP_MAX


def _named(batch: Batch, knowledge: Knowledge) -> str | None:
    here, last = knowledge.index, knowledge.last_event()
    for replica, event in batch:
        if replica == here and event > last:
            return NOT_OURS
    return None


def _proposed(batch: Batch, knowledge: Knowledge) -> str | None:
    found = _named(batch, knowledge)
    return WEAK_PROPOSED if found is None and knowledge.names_weak(batch) else found


def _installed(checkpoint: Checkpoint, knowledge: Knowledge) -> str | None:
    if _is_beyond(checkpoint.timestamp, knowledge):
        return TOO_FAR
    if checkpoint.ids.last(knowledge.index) > knowledge.last_event():
        return NOT_OURS
    return None if knowledge.may_install(checkpoint) else BAD_CHECKPOINT


def _first(problems: Iterable[str | None]) -> str | None:
    return next((each for each in problems if each is not None), None)


def _id(id: Dot, ever: tuple[int, ...]) -> str | None:
    replica, event = id
    return None if replica in ever and 1 <= event < LIMIT else BAD_ID


def _last(dots: Dots, replica: int) -> int:
    """The same as `Dots.last`: contexts are so many that it counts."""
    ranges = dots.ranges.get(replica)
    return ranges[-1] - 1 if ranges else 0


def _dots(dots: Dots, ever: tuple[int, ...]) -> str | None:
    holes = False
    for replica, ranges in dots.ranges.items():
        if replica not in ever or not ranges or ranges[-1] >= LIMIT:
            return BAD_DOTS
        if len(ranges) != 2:
            holes = True
        elif not 1 <= ranges[0] < ranges[1]:
            return BAD_DOTS
    return BAD_DOTS if holes and dots.problem() is not None else None


def _request(request: Request, ever: tuple[int, ...]) -> str | None:
    if not 0 <= request.timestamp < LIMIT:
        return BAD_TIMESTAMP
    id, context = request.id, request.context
    if request.strong != (context is not None):
        return BAD_CONTEXT
    if context is not None:
        if _dots(context, ever) is not None:
            return BAD_CONTEXT
        if _last(context, id.replica) >= id.event:
            return BAD_CONTEXT
    return _id(id, ever)


def _ballot(
    ballot: Ballot, settings: Settings, owners: tuple[int, ...] | None = None
) -> str | None:
    """One that the members of this epoch, and no others, vote in; a voter's, unless told."""
    if settings.first_round <= ballot.round < settings.end_round:
        return None if ballot.replica in (owners or settings.voters) else BAD_BALLOT
    return OTHER_MEMBERS if 1 <= ballot.round < LIMIT else BAD_BALLOT


def _ballot_so_far(ballot: Ballot, settings: Settings) -> str | None:
    """One of this epoch or of an earlier one."""
    if ballot.round >= settings.first_round:
        return _ballot(ballot, settings)
    return None if ballot.replica in settings.ever and ballot.round >= 1 else BAD_BALLOT


def _owned(ballot: Ballot, sender: int, settings: Settings) -> str | None:
    return _ballot(ballot, settings) or (None if ballot.replica == sender else NOT_YOURS)


def _instance(instance: int) -> str | None:
    return None if 0 <= instance < LIMIT else BAD_INSTANCE


def _batch(batch: Batch, ever: tuple[int, ...]) -> str | None:
    if len(set(batch)) < len(batch):
        return BAD_BATCH
    for id in batch:
        if _id(id, ever) is not None:
            return BAD_ID
    return None


def _promise(message: Promise, settings: Settings, owners: tuple[int, ...]) -> str | None:
    instances = [value.instance for value in message.accepted]
    if len(set(instances)) < len(instances):
        return BAD_INSTANCE
    for value in message.accepted:
        if not 0 <= value.instance - message.decided < settings.horizon:
            return BAD_INSTANCE
        if value.ballot > message.ballot:
            return BAD_BALLOT
        found = _ballot_so_far(value.ballot, settings) or _batch(value.batch, settings.ever)
        if found is not None:
            return found
    instances.append(message.decided)
    return _ballot(message.ballot, settings, owners) or _first(map(_instance, instances))


def _checkpoint(checkpoint: Checkpoint, settings: Settings) -> str | None:
    try:
        configuration = configuration_in(checkpoint.state)
    except BadValue:
        return BAD_CHECKPOINT
    if configuration is not None and configuration.epoch > settings.epoch:
        settings = settings.changed_to(configuration)
    if (
        _dots(checkpoint.ids, settings.ever) is not None
        or checkpoint.ids.count() != checkpoint.length
    ):
        return BAD_CHECKPOINT
    keys = {*(key for key, _ in checkpoint.state), *checkpoint.deleted}
    if len(keys) < len(checkpoint.state) + len(checkpoint.deleted):
        return BAD_CHECKPOINT
    if _instance(checkpoint.instance) is not None or not 0 <= checkpoint.timestamp < LIMIT:
        return BAD_CHECKPOINT
    if any(id not in checkpoint.ids for id, _ in checkpoint.outcomes):
        return BAD_CHECKPOINT
    return None
