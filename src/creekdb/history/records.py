"""Record schema for the observations of clients and replicas in a run, simulated or live.

Clients observe operations and their responses. Replicas log casts, deliveries, commits, promises
and votes. Each incarnation has its own log: a crash ends a log, and a restart begins the next one.
The schema contains no judgement. The checkers judge, and they read nothing but these records.

The stored form of an event is the event itself with a tag and a time.
"""

from typing import Any, TypeAlias, assert_never

import msgspec

from creekdb.protocol.effects import (
    BallotPromised,
    CabDelivered,
    CheckpointInstalled,
    Committed,
    Event,
    ObservedOrder,
    RbCast,
    RbDelivered,
    ResponseKind,
    SpeculativelyExecuted,
    Voted,
)
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.membership.configuration import MEMBERSHIP_OPERATION, Configuration
from creekdb.protocol.messages import AcceptedValue, Ballot
from creekdb.protocol.request import NOOP, Batch, Operation, Outcome, Request
from creekdb.protocol.settings import ROUNDS_PER_EPOCH
from creekdb.protocol.values import Key

__all__ = [
    "MEMBERSHIP_OPERATION",
    "NOOP",
    "ROUNDS_PER_EPOCH",
    "AcceptedValue",
    "Ballot",
    "BallotPromised",
    "Batch",
    "CabDelivered",
    "CheckpointInstalled",
    "Committed",
    "Configuration",
    "Dot",
    "Dots",
    "Event",
    "FinalState",
    "History",
    "Key",
    "LoggedEvent",
    "ObservedOrder",
    "Operation",
    "OperationRecord",
    "Outcome",
    "RbCast",
    "RbDelivered",
    "ReplicaLog",
    "Request",
    "ResponseKind",
    "ResponseRecord",
    "SchemeGuarantees",
    "SpeculativelyExecuted",
    "Voted",
]


class ResponseRecord(msgspec.Struct, frozen=True):
    """A response that the client received."""

    at_us: int
    kind: ResponseKind
    outcome: Outcome
    changed: bool = False
    """True if a final response differs from the tentative one."""
    observed: ObservedOrder | None = None
    """Serialisation on which a tentative response was computed, if the run recorded it."""


class OperationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An operation as observed by its client. Without a response its result is unknown.

    The replica assigned `id`. A crash may lose a request before it is durable, and therefore
    before another replica receives it. A later request of the replica may then have the same `id`,
    but another `incarnation`. A read-only operation that its replica executed alone has an `id`
    with a negative event number, and no other replica receives it.
    """

    session: int
    replica: int
    incarnation: int
    id: Dot
    operation: Operation
    strong: bool
    invoked_us: int
    responses: tuple[ResponseRecord, ...] = msgspec.field(default=(), name="answers")

    @property
    def tentative(self) -> ResponseRecord | None:
        """The first tentative response."""
        return next((each for each in self.responses if each.kind is ResponseKind.TENTATIVE), None)

    @property
    def stable(self) -> ResponseRecord | None:
        return next((each for each in self.responses if each.kind is ResponseKind.STABLE), None)

    @property
    def final(self) -> ResponseRecord | None:
        return next((each for each in self.responses if each.kind is ResponseKind.FINAL), None)

    @property
    def is_local(self) -> bool:
        """True if the operation is read-only and not part of the common order."""
        return self.id.event < 0


class LoggedEvent(msgspec.Struct, frozen=True):
    at_us: int
    event: Event


class ReplicaLog(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one incarnation of a replica, in order.

    After a restart the log begins with the state recovered from disk: a `CheckpointInstalled` if
    there was a checkpoint, then deliveries and commits.
    """

    replica: int
    incarnation: int
    started_us: int
    crashed_us: int | None
    events: tuple[LoggedEvent, ...]
    visible_count: int | None = None
    """Number of events that other processes could observe; None for all. The remaining events were
    lost: the replica crashed before the records that precede them were durable, and sent nothing
    that depends on them."""
    has_empty_disk: bool = False
    """True if the incarnation began with an empty disk, and recovered nothing."""
    is_removed: bool = False
    """True if the incarnation ended because the replica was removed and no longer needed."""

    @property
    def visible_events(self) -> tuple[LoggedEvent, ...]:
        return self.events[: self.visible_count]

    @property
    def lost_events(self) -> tuple[LoggedEvent, ...]:
        return () if self.visible_count is None else self.events[self.visible_count :]


class FinalState(msgspec.Struct, frozen=True, kw_only=True):
    """Final state of a replica. `committed` begins at position `first`, after a checkpoint."""

    replica: int
    first: int
    committed: tuple[Dot, ...]
    tentative: tuple[Dot, ...]
    state: tuple[tuple[Key, Any], ...]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    `quiescent` is True if the run ended with all faults healed and enough time to stabilise. The
    clients had then stopped, and the replicas in `final_states` were up and idle. Liveness and
    convergence can only be required of such runs. `members` are the initial members; the committed
    requests contain all changes. `guarantees` are those of the scheme that the replicas ran.
    """

    config: dict[str, Any]
    datatype: str
    members: tuple[int, ...]
    guarantees: SchemeGuarantees = SchemeGuarantees()
    quiescent: bool
    operations: tuple[OperationRecord, ...]
    logs: tuple[ReplicaLog, ...]
    final_states: tuple[FinalState, ...]

    @property
    def voters(self) -> tuple[int, ...]:
        return self.guarantees.voters or self.members


class _StoredCast(msgspec.Struct, frozen=True, array_like=True, tag=1):
    at_us: int
    request: Request


class _StoredRbDelivered(msgspec.Struct, frozen=True, array_like=True, tag=2):
    at_us: int
    id: Dot


class _StoredCabDelivered(msgspec.Struct, frozen=True, array_like=True, tag=3):
    at_us: int
    id: Dot
    instance: int


class _StoredCommitted(msgspec.Struct, frozen=True, array_like=True, tag=4):
    at_us: int
    id: Dot
    index: int


class _StoredInstalled(msgspec.Struct, frozen=True, array_like=True, tag=5):
    at_us: int
    instance: int
    length: int
    ids: Dots


class _StoredPromised(msgspec.Struct, frozen=True, array_like=True, tag=6):
    at_us: int
    ballot: Ballot
    first: int
    decided: int
    accepted: tuple[AcceptedValue, ...]


class _StoredVoted(msgspec.Struct, frozen=True, array_like=True, tag=7):
    at_us: int
    ballot: Ballot
    instance: int
    batch: Batch


class _StoredSpeculated(msgspec.Struct, frozen=True, array_like=True, tag=8):
    at_us: int
    id: Dot
    outcome: Outcome


StoredEvent: TypeAlias = (
    _StoredCast
    | _StoredRbDelivered
    | _StoredCabDelivered
    | _StoredCommitted
    | _StoredInstalled
    | _StoredPromised
    | _StoredVoted
    | _StoredSpeculated
)


def encode_event(at_us: int, event: Event) -> StoredEvent:
    match event:
        case RbCast():
            return _StoredCast(at_us, event.request)
        case RbDelivered():
            return _StoredRbDelivered(at_us, event.id)
        case CabDelivered():
            return _StoredCabDelivered(at_us, event.id, event.instance)
        case Committed():
            return _StoredCommitted(at_us, event.id, event.index)
        case CheckpointInstalled():
            return _StoredInstalled(at_us, event.instance, event.length, event.ids)
        case BallotPromised():
            return _StoredPromised(at_us, event.ballot, event.first, event.decided, event.accepted)
        case Voted():
            return _StoredVoted(at_us, event.ballot, event.instance, event.batch)
        case SpeculativelyExecuted():
            return _StoredSpeculated(at_us, event.id, event.outcome)
        case _:
            assert_never(event)


def decode_event(stored: StoredEvent) -> LoggedEvent:
    match stored:
        case _StoredCast():
            return LoggedEvent(stored.at_us, RbCast(stored.request))
        case _StoredRbDelivered():
            return LoggedEvent(stored.at_us, RbDelivered(stored.id))
        case _StoredCabDelivered():
            return LoggedEvent(stored.at_us, CabDelivered(stored.id, stored.instance))
        case _StoredCommitted():
            return LoggedEvent(stored.at_us, Committed(stored.id, stored.index))
        case _StoredInstalled():
            installed = CheckpointInstalled(stored.instance, stored.length, stored.ids)
            return LoggedEvent(stored.at_us, installed)
        case _StoredPromised():
            promised = BallotPromised(stored.ballot, stored.first, stored.decided, stored.accepted)
            return LoggedEvent(stored.at_us, promised)
        case _StoredVoted():
            return LoggedEvent(stored.at_us, Voted(stored.ballot, stored.instance, stored.batch))
        case _StoredSpeculated():
            return LoggedEvent(stored.at_us, SpeculativelyExecuted(stored.id, stored.outcome))
        case _:
            assert_never(stored)
