"""The one record schema of what clients and replicas saw in a run, simulated or live.

Clients see operations and their answers. Replicas log what they cast, delivered, committed,
promised and voted for, one log per incarnation: a crash ends a log, a restart begins the next.
Nothing here is judged; that is the checkers' work, and this schema is all they see of a run.

The stored form of events: as the events themselves, but with a tag and a time on each.
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
    """One response that reached the client."""

    at_us: int
    kind: ResponseKind
    outcome: Outcome
    changed: bool = False
    """Of a final answer: it is another than the client was told."""
    observed: ObservedOrder | None = None
    """The serialization that a tentative answer was computed on, where the run recorded it."""


class OperationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An operation as its client saw it. Without an answer its fate is unknown to the client.

    `id` is the identifier that the replica gave it. A request that was lost in a crash before it
    was durable, and so before anyone saw it, may share its `id` with a later one of the same
    replica; `incarnation` tells them apart. An operation that only read, and was answered by its
    replica alone, has an `id` with a negative event number: no other replica knows of it.
    """

    session: int
    replica: int
    incarnation: int
    id: Dot
    operation: Operation
    strong: bool
    invoked_us: int
    answers: tuple[ResponseRecord, ...] = ()

    @property
    def tentative(self) -> ResponseRecord | None:
        """The first tentative answer."""
        return next((each for each in self.answers if each.kind is ResponseKind.TENTATIVE), None)

    @property
    def stable(self) -> ResponseRecord | None:
        return next((each for each in self.answers if each.kind is ResponseKind.STABLE), None)

    @property
    def final(self) -> ResponseRecord | None:
        return next((each for each in self.answers if each.kind is ResponseKind.FINAL), None)

    @property
    def is_local(self) -> bool:
        """Was it kept from the order of all operations, because it only reads?"""
        return self.id.event < 0


class LoggedEvent(msgspec.Struct, frozen=True):
    at_us: int
    event: Event


class ReplicaLog(msgspec.Struct, frozen=True, kw_only=True):
    """What one incarnation of a replica did, in order. After a restart it begins with what was
    recovered from disk: an `CheckpointInstalled` when there was a checkpoint, then deliveries and
    commits."""

    replica: int
    incarnation: int
    started_us: int
    crashed_us: int | None
    events: tuple[LoggedEvent, ...]
    visible_count: int | None = None
    """How many of the events others could learn of; None for all. The rest it did in vain: it
    crashed before the records that came before them were durable, so nothing of them left."""
    has_empty_disk: bool = False
    """Did it begin with an empty disk? Then nothing was recovered of what came before."""
    is_removed: bool = False
    """Did it end because it was removed, and nobody needed it any more?"""

    @property
    def visible_events(self) -> tuple[LoggedEvent, ...]:
        return self.events[: self.visible_count]

    @property
    def lost_events(self) -> tuple[LoggedEvent, ...]:
        return () if self.visible_count is None else self.events[self.visible_count :]


class FinalState(msgspec.Struct, frozen=True, kw_only=True):
    """A replica at the end of the run. `committed` begins at `first`: before it, a checkpoint."""

    replica: int
    first: int
    committed: tuple[Dot, ...]
    tentative: tuple[Dot, ...]
    state: tuple[tuple[Key, Any], ...]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    `quiescent` says that the run ended healed and with time to settle: every fault was over,
    clients had stopped, and the replicas in `finals` were up and had nothing left to do. Only then
    can liveness and convergence be asked for. `members` are those at the beginning; what became of
    them is told by the committed requests. `terms`: what the replicas undertook.
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
