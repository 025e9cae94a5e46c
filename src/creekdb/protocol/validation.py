"""Validation of incoming messages: rejects those that no correct member can have sent.

`rejection_reason` checks a message against the configuration of the cluster, `contradiction_reason`
against the state of this replica. A rejected message is counted and changes no state. A message
that is merely late, such as one with a stale ballot, is valid, and the protocol responds to it.
While a membership change spreads, messages of another epoch are rejected too. A replica that is
behind learns of the change by catching up.
"""

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING, assert_never

from creekdb.errors import BadValue
from creekdb.protocol.checkpoint.stream import AssembledSnapshot, IncomingMessage
from creekdb.protocol.consensus.fast_quorums import fast_quorum
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
    FirstVote,
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

if TYPE_CHECKING:
    from creekdb.protocol.stack import ProtocolStack

COUNTER_LIMIT = 2**62
"""Upper bound, exclusive, for the counters and timestamps of a correct replica."""


class MessageRejection(enum.StrEnum):
    """Reason for rejecting a message; the label of its counter."""

    NOT_A_MEMBER = "not_a_member"
    """The sender, or a replica that the message names, is not a member."""
    REMOVED_MEMBER = "removed_member"
    """The sender has been removed."""
    OTHER_EPOCH = "other_epoch"
    """The ballot belongs to the members of an earlier or later epoch."""
    UNAPPROVED_MEMBERS = "unapproved_members"
    """The message implies members that only this replica could have admitted, and did not."""
    UNKNOWN_MESSAGE = "unknown_message"
    """The type of the message is unknown."""
    BAD_DOTS = "bad_dots"
    """A set of dots is malformed."""
    BAD_ID = "bad_id"
    """No replica can have issued the identifier."""
    BAD_TIMESTAMP = "bad_timestamp"
    """A timestamp is out of range."""
    BAD_CONTEXT = "bad_context"
    """No correct replica can have this causal context."""
    BAD_BALLOT = "bad_ballot"
    """No replica can own the ballot."""
    BAD_INSTANCE = "bad_instance"
    """An instance is out of range."""
    BAD_BATCH = "bad_batch"
    """No leader can propose the batch."""
    BAD_CHECKPOINT = "bad_checkpoint"
    """A checkpoint is inconsistent, or misses requests that are committed here."""
    SENDER_MISMATCH = "sender_mismatch"
    """The sender uses the identity of another replica."""
    NOT_A_VOTER = "not_a_voter"
    """A promise or vote comes from a member without a vote."""
    ID_REUSED = "id_reused"
    """Another request with the same identifier is known."""
    NEVER_ISSUED = "never_issued"
    """The message names a request of this replica that it never issued."""
    IMPLAUSIBLE_JUMP = "implausible_jump"
    """No replica can have reached the ballot or timestamp yet."""
    WEAK_IN_BATCH = "weak_in_batch"
    """A batch ends with a weak request, so that no strong request follows this cut."""
    BAD_CUT = "bad_cut"
    """A batch extends the context of a strong request by a weak request that is later."""
    CONFLICTING_BATCH = "conflicting_batch"
    """Another batch was proposed in the same ballot."""
    STALE_BALLOT = "stale_ballot"
    """The ballot is below the promised one."""
    NEVER_CAST_ID = "never_cast_id"
    """A pull names identifiers that this replica has not received."""


BALLOT_JUMP_MAX = 2**32
"""Number of elections that a replica may have missed."""
TIMESTAMP_PLAUSIBLE_MAX = 2**61
TIMESTAMP_JUMP_MAX = 2**50
"""A clock may be wrong by millennia. Later timestamps may only be this far above known ones, in
microseconds."""


def rejection_reason(message: object, sender: int, settings: Settings) -> MessageRejection | None:
    """Return the reason for which every replica rejects this message, or None."""
    voters, replicas = settings.voters, settings.all_replicas
    if sender not in settings.members:
        return MessageRejection.NOT_A_MEMBER
    match message:  # most frequent messages first
        case Vote(ballot=ballot, instance=instance):
            if sender not in voters:
                return MessageRejection.NOT_A_VOTER
            return _check_ballot(ballot, settings) or _check_instance(instance)
        case FirstVote(ballot=ballot, instance=instance, batch=batch):
            reason = _check_ballot(ballot, settings)
            if reason is None and sender not in fast_quorum(voters, ballot):
                return MessageRejection.NOT_A_VOTER
            return reason or _check_instance(instance) or _check_batch(batch, replicas)
        case Cast(requests=requests):
            for request in requests:
                if request.id.replica != sender:
                    return MessageRejection.SENDER_MISMATCH
                if (reason := _check_request(request, replicas)) is not None:
                    return reason
            return None
        case Accept(ballot=ballot, instance=instance, batch=batch):
            return (
                _check_ballot_owner(ballot, sender, settings)
                or _check_instance(instance)
                or _check_batch(batch, replicas)
            )
        case Progress(delivered=delivered, stable_instance=stable_instance):
            return _check_instance(delivered) or (
                None if 0 <= stable_instance <= delivered else MessageRejection.BAD_INSTANCE
            )
        case PullResponse(requests=requests):
            return requests_rejection_reason(requests, replicas)
        case Summary(received=dots) | Pull(wanted=dots):
            return _check_dots(dots, replicas)
        case Heartbeat(ballot=ballot, leader=leader, reachable=reachable):
            named = reachable if leader is None else (*reachable, leader)
            if any(each not in replicas for each in named) or len(set(reachable)) < len(reachable):
                return MessageRejection.NOT_A_MEMBER
            return None if ballot == NO_BALLOT else _check_ballot_up_to_epoch(ballot, settings)
        case Prepare(ballot=ballot, first=instance):
            return _check_ballot_owner(ballot, sender, settings) or _check_instance(instance)
        case Promise():
            if sender not in voters:
                return MessageRejection.NOT_A_VOTER
            return _check_promise(message, settings, voters)
        case Reject(promised=ballot):
            return _check_ballot(ballot, settings)
        case CatchUp(first=instance):
            return _check_instance(instance)
        case Decisions(first=instance, batches=batches):
            return _check_instance(instance) or _first_reason(
                _check_batch(batch, replicas) for batch in batches
            )
        case Snapshot(checkpoint=checkpoint):
            return _check_checkpoint(checkpoint, settings)
        case AssembledSnapshot(checkpoint=checkpoint, loader=loader):
            if not loader.has_unique_keys():
                return MessageRejection.BAD_CHECKPOINT
            return _check_checkpoint(checkpoint, settings)
        case RecoveryQuery(ballot=ballot, delivered=delivered):
            reason = _check_ballot(ballot, settings, settings.members) or _check_instance(delivered)
            return reason or (
                None if ballot.replica == sender else MessageRejection.SENDER_MISMATCH
            )
        case RecoveryResponse(ballot=ballot, decided=decided, accepted=accepted, received=dots):
            promise = Promise(ballot, decided, accepted)
            return _check_dots(dots, replicas) or _check_promise(
                promise, settings, settings.members
            )
        case _:
            return MessageRejection.UNKNOWN_MESSAGE


def requests_rejection_reason(
    requests: tuple[Request, ...], replicas: tuple[int, ...]
) -> MessageRejection | None:
    return _first_reason(_check_request(request, replicas) for request in requests)


def contradiction_reason(
    message: IncomingMessage, sender: int, stack: "ProtocolStack"
) -> MessageRejection | None:
    """Return the reason for which this replica rejects a well-formed message, or None."""
    match message:  # most frequent messages first
        case Vote() | Heartbeat() | Prepare() | RecoveryQuery():
            return _check_ballot_jump(message.ballot, stack)
        case Cast(requests=requests) | PullResponse(requests=requests):
            return _check_requests_against_stack(requests, stack)
        case FirstVote(ballot=ballot, batch=batch) if sender != ballot.replica:
            return _check_ballot_jump(ballot, stack) or _check_issued(batch, stack)
        case (
            Accept(ballot=ballot, instance=instance, batch=batch)
            | FirstVote(ballot=ballot, instance=instance, batch=batch)
        ):
            reason = _check_ballot_jump(ballot, stack) or _check_proposed_batch(batch, stack)
            if reason is None and stack.cab.learner.has_conflicting_batch(ballot, instance, batch):
                return MessageRejection.CONFLICTING_BATCH
            return reason
        case Progress() | Pull() | CatchUp() | RecoveryResponse():
            return None
        case Promise(ballot=ballot, accepted=accepted):
            reasons = (_check_issued(value.batch, stack) for value in accepted)
            return _check_ballot_jump(ballot, stack) or _first_reason(reasons)
        case Reject(promised=ballot):
            return _check_ballot_jump(ballot, stack)
        case Summary(received=dots):
            is_issued = dots.last(stack.index) <= stack.last_event()
            return None if is_issued else MessageRejection.NEVER_ISSUED
        case Decisions(batches=batches):
            return _first_reason(_check_proposed_batch(batch, stack) for batch in batches)
        case Snapshot(checkpoint=checkpoint) | AssembledSnapshot(checkpoint=checkpoint):
            return _check_installable(checkpoint, stack)
        case _:
            assert_never(message)


def _check_ballot_jump(ballot: Ballot, stack: "ProtocolStack") -> MessageRejection | None:
    excess = ballot.round - BALLOT_JUMP_MAX
    if excess > 0 and excess > max(stack.omega.max_ballot.round, stack.settings.first_round):
        return MessageRejection.IMPLAUSIBLE_JUMP
    return None


def _check_requests_against_stack(
    requests: tuple[Request, ...], stack: "ProtocolStack"
) -> MessageRejection | None:
    index, last, timestamp_max = stack.index, stack.last_event(), _timestamp_max(stack)
    seen: dict[Dot, Request] = {}
    for request in requests:
        id, context = request.id, request.context
        replica, event = id
        if request.timestamp > timestamp_max:
            return MessageRejection.IMPLAUSIBLE_JUMP
        if replica == index and event > last:
            return MessageRejection.NEVER_ISSUED
        if context is not None and _last_event(context, index) > last:
            return MessageRejection.NEVER_ISSUED
        if seen.setdefault(id, request) is not request and seen[id] != request:
            return MessageRejection.ID_REUSED
    has_conflict = stack.reliable_broadcast.has_conflicting_request(requests)
    return MessageRejection.ID_REUSED if has_conflict else None


def _timestamp_max(stack: "ProtocolStack") -> int:
    return max(TIMESTAMP_PLAUSIBLE_MAX, stack.clock.last + TIMESTAMP_JUMP_MAX)


def _check_issued(batch: Batch, stack: "ProtocolStack") -> MessageRejection | None:
    index, last = stack.index, stack.last_event()
    for replica, event in batch:
        if replica == index and event > last:
            return MessageRejection.NEVER_ISSUED
    return None


def _check_proposed_batch(batch: Batch, stack: "ProtocolStack") -> MessageRejection | None:
    reason = _check_issued(batch, stack)
    if reason is not None or not batch:
        return reason
    requests, is_cast = stack.requests, stack.cab.is_cast
    if not is_cast(batch[-1]) and requests.is_weak(batch[-1]):
        return MessageRejection.WEAK_IN_BATCH
    timestamp_max = 0
    for id in batch:
        if is_cast(id):
            if timestamp_max > requests.timestamp_of(id):
                return MessageRejection.BAD_CUT
            timestamp_max = 0
        elif requests.is_weak(id):
            timestamp_max = max(timestamp_max, requests.timestamp_of(id))
    return None


def _check_installable(checkpoint: Checkpoint, stack: "ProtocolStack") -> MessageRejection | None:
    if checkpoint.timestamp > _timestamp_max(stack):
        return MessageRejection.IMPLAUSIBLE_JUMP
    if checkpoint.ids.last(stack.index) > stack.last_event():
        return MessageRejection.NEVER_ISSUED
    is_late = checkpoint.instance <= stack.cab.learner.delivered  # the stack ignores it
    if is_late or stack.requests.can_install(checkpoint):
        return None
    return MessageRejection.BAD_CHECKPOINT


def _first_reason(reasons: Iterable[MessageRejection | None]) -> MessageRejection | None:
    return next((each for each in reasons if each is not None), None)


def _check_id(id: Dot, replicas: tuple[int, ...]) -> MessageRejection | None:
    replica, event = id
    return None if replica in replicas and 1 <= event < COUNTER_LIMIT else MessageRejection.BAD_ID


def _last_event(dots: Dots, replica: int) -> int:
    """Return `Dots.last`, inlined because contexts are numerous."""
    ranges = dots.ranges.get(replica)
    return ranges[-1] - 1 if ranges else 0


def _check_dots(dots: Dots, replicas: tuple[int, ...]) -> MessageRejection | None:
    has_holes = False
    for replica, ranges in dots.ranges.items():
        if replica not in replicas or not ranges or ranges[-1] >= COUNTER_LIMIT:
            return MessageRejection.BAD_DOTS
        if len(ranges) != 2:
            has_holes = True
        elif not 1 <= ranges[0] < ranges[1]:
            return MessageRejection.BAD_DOTS
    return MessageRejection.BAD_DOTS if has_holes and not dots.is_well_formed() else None


def _check_request(request: Request, replicas: tuple[int, ...]) -> MessageRejection | None:
    if not 0 <= request.timestamp < COUNTER_LIMIT:
        return MessageRejection.BAD_TIMESTAMP
    id, context = request.id, request.context
    if request.strong != (context is not None):
        return MessageRejection.BAD_CONTEXT
    if context is not None and (
        _check_dots(context, replicas) is not None or _last_event(context, id.replica) >= id.event
    ):
        return MessageRejection.BAD_CONTEXT
    return _check_id(id, replicas)


def _check_ballot(
    ballot: Ballot, settings: Settings, owners: tuple[int, ...] | None = None
) -> MessageRejection | None:
    """Check for a ballot of this epoch, whose owner is in `owners` or, by default, a voter."""
    if settings.first_round <= ballot.round < settings.end_round:
        is_owner = ballot.replica in (owners or settings.voters)
        return None if is_owner else MessageRejection.BAD_BALLOT
    is_round = 1 <= ballot.round < COUNTER_LIMIT
    return MessageRejection.OTHER_EPOCH if is_round else MessageRejection.BAD_BALLOT


def _check_ballot_up_to_epoch(ballot: Ballot, settings: Settings) -> MessageRejection | None:
    """Check for a ballot of this epoch or an earlier one."""
    if ballot.round >= settings.first_round:
        return _check_ballot(ballot, settings)
    is_earlier = ballot.replica in settings.all_replicas and ballot.round >= 1
    return None if is_earlier else MessageRejection.BAD_BALLOT


def _check_ballot_owner(ballot: Ballot, sender: int, settings: Settings) -> MessageRejection | None:
    return _check_ballot(ballot, settings) or (
        None if ballot.replica == sender else MessageRejection.SENDER_MISMATCH
    )


def _check_instance(instance: int) -> MessageRejection | None:
    return None if 0 <= instance < COUNTER_LIMIT else MessageRejection.BAD_INSTANCE


def _check_batch(batch: Batch, replicas: tuple[int, ...]) -> MessageRejection | None:
    if len(set(batch)) < len(batch):
        return MessageRejection.BAD_BATCH
    for id in batch:
        if _check_id(id, replicas) is not None:
            return MessageRejection.BAD_ID
    return None


def _check_promise(
    message: Promise, settings: Settings, owners: tuple[int, ...]
) -> MessageRejection | None:
    instances = [value.instance for value in message.accepted]
    if len(set(instances)) < len(instances):
        return MessageRejection.BAD_INSTANCE
    for value in message.accepted:
        if not 0 <= value.true_instance - message.decided < settings.horizon:
            return MessageRejection.BAD_INSTANCE
        if value.ballot > message.ballot:
            return MessageRejection.BAD_BALLOT
        reason = _check_ballot_up_to_epoch(value.ballot, settings) or _check_batch(
            value.batch, settings.all_replicas
        )
        if reason is not None:
            return reason
    instances = [value.true_instance for value in message.accepted]
    instances.append(message.decided)
    return _check_ballot(message.ballot, settings, owners) or _first_reason(
        map(_check_instance, instances)
    )


def _check_checkpoint(checkpoint: Checkpoint, settings: Settings) -> MessageRejection | None:
    try:
        configuration = find_configuration(checkpoint.state)
        if configuration is not None and configuration.epoch > settings.epoch:
            settings = settings.with_configuration(configuration)
    except BadValue:
        return MessageRejection.BAD_CHECKPOINT
    keys = {*(key for key, _ in checkpoint.state), *checkpoint.deleted}
    is_valid = (
        _check_dots(checkpoint.ids, settings.all_replicas) is None
        and checkpoint.ids.count() == checkpoint.length
        and len(keys) == len(checkpoint.state) + len(checkpoint.deleted)
        and 0 <= checkpoint.instance < COUNTER_LIMIT
        and 0 <= checkpoint.timestamp < COUNTER_LIMIT
        and all(id in checkpoint.ids for id, _ in checkpoint.outcomes)
    )
    return None if is_valid else MessageRejection.BAD_CHECKPOINT
