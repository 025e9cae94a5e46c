"""Record schema for the observations of clients and replicas in a run, simulated or live.

Clients observe operations and their responses. Replicas log casts, deliveries, commits, promises
and votes. Each incarnation has its own log: a crash ends a log, and a restart begins the next one.
The schema contains no judgement. The checkers judge, and they read nothing but these records.

The stored form of an event is the event itself with a tag and a time.
"""

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

import msgspec

from creekdb.protocol.effects import BallotPromised as BallotPromised
from creekdb.protocol.effects import CabDelivered as CabDelivered
from creekdb.protocol.effects import CheckpointInstalled as CheckpointInstalled
from creekdb.protocol.effects import Committed as Committed
from creekdb.protocol.effects import Event as Event
from creekdb.protocol.effects import FirstVoted as FirstVoted
from creekdb.protocol.effects import ObservedOrder as ObservedOrder
from creekdb.protocol.effects import RbCast as RbCast
from creekdb.protocol.effects import RbDelivered as RbDelivered
from creekdb.protocol.effects import ResponseKind as ResponseKind
from creekdb.protocol.effects import SpeculativelyExecuted as SpeculativelyExecuted
from creekdb.protocol.effects import Voted as Voted
from creekdb.protocol.guarantees import SchemeGuarantees as SchemeGuarantees
from creekdb.protocol.ids.version_vector import Dot as Dot
from creekdb.protocol.request import Operation as Operation
from creekdb.protocol.request import Outcome as Outcome
from creekdb.protocol.values import Key as Key


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


_EVENT_TYPES: tuple[type[Event], ...] = (
    RbCast,
    RbDelivered,
    CabDelivered,
    Committed,
    CheckpointInstalled,
    BallotPromised,
    Voted,
    SpeculativelyExecuted,
    FirstVoted,
)
"""Event types. The position of a type, counted from 1, is the tag of its stored form."""


def _stored_type(event_type: type[Event], tag: int) -> type[msgspec.Struct]:
    hints = get_type_hints(event_type)
    fields = [(name, hints[name]) for name in event_type.__struct_fields__]
    return msgspec.defstruct(
        f"Stored{event_type.__name__}",
        [("at_us", int), *fields],
        frozen=True,
        array_like=True,
        tag=tag,
    )


_STORED_TYPES: dict[type[Event], type[msgspec.Struct]] = {
    event_type: _stored_type(event_type, tag) for tag, event_type in enumerate(_EVENT_TYPES, 1)
}
_TYPES_BY_STORED = {stored: event_type for event_type, stored in _STORED_TYPES.items()}

if TYPE_CHECKING:
    StoredEvent: TypeAlias = msgspec.Struct
else:
    StoredEvent = reduce(or_, _TYPES_BY_STORED)


def encode_event(at_us: int, event: Event) -> StoredEvent:
    return _STORED_TYPES[type(event)](at_us, *msgspec.structs.astuple(event))


def decode_event(stored: StoredEvent) -> LoggedEvent:
    at_us, *values = msgspec.structs.astuple(stored)
    return LoggedEvent(at_us, _TYPES_BY_STORED[type(stored)](*values))
