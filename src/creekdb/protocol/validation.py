"""What is refused at the door: messages that no correct member of this cluster can have sent.

`problem` knows the cluster, `contradiction` also what this replica knows. A message that is refused
is counted and changes nothing. Messages that are merely late, such as a ballot from the past, are
correct: the protocol answers them. Where the members were changed and not everybody knows yet, what
one cannot understand of the others is refused, too: who is behind learns of it by catching up.
"""

from collections.abc import Iterable
from typing import Protocol, assert_never

from creekdb.errors import BadValue
from creekdb.protocol.checkpoint.stream import AssembledSnapshot, IncomingMessage
from creekdb.protocol.consensus.omega import NO_BALLOT
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.membership.configuration import find_configuration
from creekdb.protocol.messages import (
    Accept,
    Ballot,
    Cast,
    CatchUp,
    Checkpoint,
    Decisions,
    Heartbeat,
    Prepare,
    Progress,
    Promise,
    Pull,
    PullResponse,
    RecoveryQuery,
    RecoveryResponse,
    Reject,
    Snapshot,
    Summary,
    Vote,
)
from creekdb.protocol.request import Batch, Request
from creekdb.protocol.settings import Settings

COUNTER_LIMIT = 2**62
"""No counter or timestamp of a correct replica gets there."""

NOT_A_MEMBER = "from a stranger"
REMOVED_MEMBER = "from one who was removed"
OTHER_EPOCH = "a ballot of earlier or later members"
UNAPPROVED_MEMBERS = "of members that only we could have let in, and did not"
UNKNOWN_MESSAGE = "not one of our messages"
BAD_DOTS = "a set of dots that is none"
BAD_ID = "an identifier that nobody can have issued"
BAD_TIMESTAMP = "a timestamp out of range"
BAD_CONTEXT = "a causal context that no correct replica can have"
BAD_BALLOT = "a ballot that nobody can own"
BAD_INSTANCE = "an instance out of range"
BAD_BATCH = "a batch that no leader can propose"
BAD_CHECKPOINT = "a checkpoint that contradicts itself"
SENDER_MISMATCH = "in the name of another replica"
NOT_A_VOTER = "a promise or a vote of one who has none"
ID_REUSED = "another request under an identifier we know"
NEVER_ISSUED = "a request in our name that we never issued"
IMPLAUSIBLE_JUMP = "a ballot or timestamp that nobody can have reached"
WEAK_IN_BATCH = "a weak request, proposed as if it were strong"
CONFLICTING_BATCH = "another batch in the same ballot"

BALLOT_JUMP_MAX = 2**32
"""How many elections a replica may have missed."""
TIMESTAMP_PLAUSIBLE_MAX = 2**61
TIMESTAMP_JUMP_MAX = 2**50
"""A clock may be wrong by millennia; beyond that, timestamps may only go on from known ones."""


class ValidationState(Protocol):
    """What a replica knows, as far as messages can contradict it."""

    index: int

    def last_event(self) -> int:
        """The number of the last request issued here."""

    def max_round(self) -> int: ...

    def max_timestamp(self) -> int: ...

    def has_weak_request(self, batch: Batch) -> bool:
        """Is one of them known, and known to be weak?"""

    def has_conflicting_request(self, requests: tuple[Request, ...]) -> bool:
        """Is another request known by an identifier of one of these?"""

    def has_conflicting_batch(self, ballot: Ballot, instance: int, batch: Batch) -> bool:
        """Is another batch known of the same ballot?"""

    def can_install(self, checkpoint: Checkpoint) -> bool:
        """Does it hold all that is committed here?"""


def rejection_reason(message: object, sender: int, settings: Settings) -> str | None:
    """Why this message is refused by everyone, or None."""
    voters, ever = settings.voters, settings.all_replicas
    if sender not in settings.members:
        return NOT_A_MEMBER
    match message:  # what comes most often stands first
        case Vote(ballot=ballot, instance=instance):
            if sender not in voters:
                return NOT_A_VOTER
            return _check_ballot(ballot, settings) or _check_instance(instance)
        case Cast(requests=requests):
            for request in requests:
                if request.id.replica != sender:
                    return SENDER_MISMATCH
                if (found := _check_request(request, ever)) is not None:
                    return found
            return None
        case Accept(ballot=ballot, instance=instance, batch=batch):
            return (
                _check_ballot_owner(ballot, sender, settings)
                or _check_instance(instance)
                or _check_batch(batch, ever)
            )
        case Progress(delivered=delivered, stable_instance=settled):
            return _check_instance(delivered) or (
                None if 0 <= settled <= delivered else BAD_INSTANCE
            )
        case PullResponse(requests=requests):
            return requests_rejection_reason(requests, ever)
        case Summary(received=dots) | Pull(wanted=dots):
            return _check_dots(dots, ever)
        case Heartbeat(ballot=ballot, leader=leader, reachable=hears):
            if leader is not None and leader not in ever:
                return NOT_A_MEMBER
            if any(each not in ever for each in hears) or len(set(hears)) < len(hears):
                return NOT_A_MEMBER
            return None if ballot == NO_BALLOT else _check_ballot_up_to_epoch(ballot, settings)
        case Prepare(ballot=ballot, first=instance):
            return _check_ballot_owner(ballot, sender, settings) or _check_instance(instance)
        case Promise():
            return (
                NOT_A_VOTER if sender not in voters else _check_promise(message, settings, voters)
            )
        case Reject(promised=ballot):
            return _check_ballot(ballot, settings)
        case CatchUp(first=instance):
            return _check_instance(instance)
        case Decisions(first=instance, batches=batches):
            return _check_instance(instance) or _first_reason(
                _check_batch(batch, ever) for batch in batches
            )
        case Snapshot(checkpoint=checkpoint):
            return _check_checkpoint(checkpoint, settings)
        case AssembledSnapshot(checkpoint=checkpoint, loader=intake):
            return (
                _check_checkpoint(checkpoint, settings)
                if intake.has_unique_keys()
                else BAD_CHECKPOINT
            )
        case RecoveryQuery(ballot=ballot, delivered=delivered):
            found = _check_ballot(ballot, settings, settings.members) or _check_instance(delivered)
            return found or (None if ballot.replica == sender else SENDER_MISMATCH)
        case RecoveryResponse(ballot=ballot, decided=decided, accepted=accepted, received=dots):
            told = Promise(ballot, decided, accepted)
            return _check_dots(dots, ever) or _check_promise(told, settings, settings.members)
        case _:
            return UNKNOWN_MESSAGE


def requests_rejection_reason(requests: tuple[Request, ...], ever: tuple[int, ...]) -> str | None:
    return _first_reason(_check_request(request, ever) for request in requests)


def contradiction_reason(message: IncomingMessage, knowledge: ValidationState) -> str | None:
    """Why this well-formed message is refused by a replica that knows what it knows, or None."""
    match message:  # what comes most often stands first
        case Vote():
            return _check_ballot_jump(message.ballot, knowledge)
        case Cast(requests=requests) | PullResponse(requests=requests):
            return _check_requests_against_state(requests, knowledge)
        case Accept(ballot=ballot, instance=instance, batch=batch):
            found = _check_ballot_jump(ballot, knowledge) or _check_proposed_batch(batch, knowledge)
            if found is None and knowledge.has_conflicting_batch(ballot, instance, batch):
                return CONFLICTING_BATCH
            return found
        case Progress() | Pull() | CatchUp() | RecoveryResponse():
            return None
        case Heartbeat() | Prepare() | RecoveryQuery():
            return _check_ballot_jump(message.ballot, knowledge)
        case Promise(ballot=ballot, accepted=accepted):
            named = (_check_issued(value.batch, knowledge) for value in accepted)
            return _check_ballot_jump(ballot, knowledge) or _first_reason(named)
        case Reject(promised=ballot):
            return _check_ballot_jump(ballot, knowledge)
        case Summary(received=dots):
            return NEVER_ISSUED if dots.last(knowledge.index) > knowledge.last_event() else None
        case Decisions(batches=batches):
            return _first_reason(_check_proposed_batch(batch, knowledge) for batch in batches)
        case Snapshot(checkpoint=checkpoint) | AssembledSnapshot(checkpoint=checkpoint):
            return _check_installable(checkpoint, knowledge)
        case _:
            assert_never(message)


def _check_ballot_jump(ballot: Ballot, knowledge: ValidationState) -> str | None:
    beyond = ballot.round - BALLOT_JUMP_MAX
    return IMPLAUSIBLE_JUMP if beyond > 0 and beyond > knowledge.max_round() else None


def _check_requests_against_state(
    requests: tuple[Request, ...], knowledge: ValidationState
) -> str | None:
    here, last = knowledge.index, knowledge.last_event()
    contents: dict[Dot, Request] = {}
    for request in requests:
        id, context = request.id, request.context
        replica, event = id
        if request.timestamp > TIMESTAMP_PLAUSIBLE_MAX and _is_implausible_timestamp(
            request.timestamp, knowledge
        ):
            return IMPLAUSIBLE_JUMP
        if replica == here and event > last:
            return NEVER_ISSUED
        if context is not None and _last_event(context, here) > last:
            return NEVER_ISSUED
        if contents.setdefault(id, request) is not request and contents[id] != request:
            return ID_REUSED
    return ID_REUSED if knowledge.has_conflicting_request(requests) else None


def _is_implausible_timestamp(timestamp: int, knowledge: ValidationState) -> bool:
    if timestamp <= TIMESTAMP_PLAUSIBLE_MAX:
        return False
    return timestamp > knowledge.max_timestamp() + TIMESTAMP_JUMP_MAX


def _check_issued(batch: Batch, knowledge: ValidationState) -> str | None:
    here, last = knowledge.index, knowledge.last_event()
    for replica, event in batch:
        if replica == here and event > last:
            return NEVER_ISSUED
    return None


def _check_proposed_batch(batch: Batch, knowledge: ValidationState) -> str | None:
    found = _check_issued(batch, knowledge)
    return WEAK_IN_BATCH if found is None and knowledge.has_weak_request(batch) else found


def _check_installable(checkpoint: Checkpoint, knowledge: ValidationState) -> str | None:
    if _is_implausible_timestamp(checkpoint.timestamp, knowledge):
        return IMPLAUSIBLE_JUMP
    if checkpoint.ids.last(knowledge.index) > knowledge.last_event():
        return NEVER_ISSUED
    return None if knowledge.can_install(checkpoint) else BAD_CHECKPOINT


def _first_reason(problems: Iterable[str | None]) -> str | None:
    return next((each for each in problems if each is not None), None)


def _check_id(id: Dot, ever: tuple[int, ...]) -> str | None:
    replica, event = id
    return None if replica in ever and 1 <= event < COUNTER_LIMIT else BAD_ID


def _last_event(dots: Dots, replica: int) -> int:
    """The same as `Dots.last`: contexts are so many that it counts."""
    ranges = dots.ranges.get(replica)
    return ranges[-1] - 1 if ranges else 0


def _check_dots(dots: Dots, ever: tuple[int, ...]) -> str | None:
    holes = False
    for replica, ranges in dots.ranges.items():
        if replica not in ever or not ranges or ranges[-1] >= COUNTER_LIMIT:
            return BAD_DOTS
        if len(ranges) != 2:
            holes = True
        elif not 1 <= ranges[0] < ranges[1]:
            return BAD_DOTS
    return BAD_DOTS if holes and dots.validation_error() is not None else None


def _check_request(request: Request, ever: tuple[int, ...]) -> str | None:
    if not 0 <= request.timestamp < COUNTER_LIMIT:
        return BAD_TIMESTAMP
    id, context = request.id, request.context
    if request.strong != (context is not None):
        return BAD_CONTEXT
    if context is not None:
        if _check_dots(context, ever) is not None:
            return BAD_CONTEXT
        if _last_event(context, id.replica) >= id.event:
            return BAD_CONTEXT
    return _check_id(id, ever)


def _check_ballot(
    ballot: Ballot, settings: Settings, owners: tuple[int, ...] | None = None
) -> str | None:
    """One that the members of this epoch, and no others, vote in; a voter's, unless told."""
    if settings.first_round <= ballot.round < settings.end_round:
        return None if ballot.replica in (owners or settings.voters) else BAD_BALLOT
    return OTHER_EPOCH if 1 <= ballot.round < COUNTER_LIMIT else BAD_BALLOT


def _check_ballot_up_to_epoch(ballot: Ballot, settings: Settings) -> str | None:
    """One of this epoch or of an earlier one."""
    if ballot.round >= settings.first_round:
        return _check_ballot(ballot, settings)
    return None if ballot.replica in settings.all_replicas and ballot.round >= 1 else BAD_BALLOT


def _check_ballot_owner(ballot: Ballot, sender: int, settings: Settings) -> str | None:
    return _check_ballot(ballot, settings) or (
        None if ballot.replica == sender else SENDER_MISMATCH
    )


def _check_instance(instance: int) -> str | None:
    return None if 0 <= instance < COUNTER_LIMIT else BAD_INSTANCE


def _check_batch(batch: Batch, ever: tuple[int, ...]) -> str | None:
    if len(set(batch)) < len(batch):
        return BAD_BATCH
    for id in batch:
        if _check_id(id, ever) is not None:
            return BAD_ID
    return None


def _check_promise(message: Promise, settings: Settings, owners: tuple[int, ...]) -> str | None:
    instances = [value.instance for value in message.accepted]
    if len(set(instances)) < len(instances):
        return BAD_INSTANCE
    for value in message.accepted:
        if not 0 <= value.instance - message.decided < settings.horizon:
            return BAD_INSTANCE
        if value.ballot > message.ballot:
            return BAD_BALLOT
        found = _check_ballot_up_to_epoch(value.ballot, settings) or _check_batch(
            value.batch, settings.all_replicas
        )
        if found is not None:
            return found
    instances.append(message.decided)
    return _check_ballot(message.ballot, settings, owners) or _first_reason(
        map(_check_instance, instances)
    )


def _check_checkpoint(checkpoint: Checkpoint, settings: Settings) -> str | None:
    try:
        configuration = find_configuration(checkpoint.state)
    except BadValue:
        return BAD_CHECKPOINT
    if configuration is not None and configuration.epoch > settings.epoch:
        settings = settings.with_configuration(configuration)
    if (
        _check_dots(checkpoint.ids, settings.all_replicas) is not None
        or checkpoint.ids.count() != checkpoint.length
    ):
        return BAD_CHECKPOINT
    keys = {*(key for key, _ in checkpoint.state), *checkpoint.deleted}
    if len(keys) < len(checkpoint.state) + len(checkpoint.deleted):
        return BAD_CHECKPOINT
    if (
        _check_instance(checkpoint.instance) is not None
        or not 0 <= checkpoint.timestamp < COUNTER_LIMIT
    ):
        return BAD_CHECKPOINT
    if any(id not in checkpoint.ids for id, _ in checkpoint.outcomes):
        return BAD_CHECKPOINT
    return None
