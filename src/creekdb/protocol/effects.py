"""Outputs of a replica: effects for its driver and events for observers.

A replica performs no I/O. Each input fills its `Outbox`. The driver takes the `Effects` and applies
them. The fields of `Effects` are declared in the order in which the driver must honour them.
"""

import enum
from typing import Any, NamedTuple, TypeAlias

import msgspec

from creekdb.protocol.checkpoint.stream import (
    EncodedCheckpoint,
    StreamedCheckpoint,
    StreamedSnapshot,
)
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import AcceptedValue, Ballot, Message, Record
from creekdb.protocol.request import Batch, Outcome, Request
from creekdb.protocol.values import Key


class Send(msgspec.Struct, frozen=True):
    to: tuple[int, ...]
    message: Message


class ResponseKind(enum.StrEnum):
    """Kind of a response to a client (Section 1, point 4)."""

    TENTATIVE = "tentative"
    STABLE = "stable"
    FINAL = "final"
    """Final result of a weak operation that already had a tentative response. `changed` is set if
    the two differ."""


class ObservedOrder(msgspec.Struct, frozen=True):
    """Serialisation on which a response was computed: the first `settled` requests of `committed`,
    followed by `ids`."""

    settled: int
    ids: tuple[Dot, ...]
    timestamp: int | None = None
    """Timestamp of a request that only its replica executed. Other requests have a cast."""


class Response(msgspec.Struct, frozen=True):
    """Response for the local client that issued the request `id` in `session`."""

    id: Dot
    session: int
    kind: ResponseKind
    outcome: Outcome
    changed: bool = False
    observed: ObservedOrder | None = None
    """Set on tentative responses if `record_orders` is enabled."""


class TaskKind(enum.Enum):
    EXECUTE = "execute"
    ROLLBACK = "rollback"


class Task(msgspec.Struct, frozen=True):
    """Unit of execution. The driver calls `run(task)`, charges a core for the work, and then
    reports `completed(task, …)`. The replica then decides whether the result is still valid."""

    number: int
    kind: TaskKind
    request: Request


class DataLossKind(enum.Enum):
    REQUESTS = "requests"
    """A peer holds a request of this replica that this replica does not have.

    No request is sent before it is durable. So the disk has lost the request, and with it the
    promises made before, or the data directory is an older copy."""
    MEMBERS = "members"
    """Replicas are members that only this replica can have admitted, and it has no record of it."""


class DataLost(msgspec.Struct, frozen=True):
    """Proof that records which counted as durable are gone. `sender` sent the proof."""

    kind: DataLossKind
    sender: int


# --- events for observers -----------------------------------------------------------------------


class RbCast(msgspec.Struct, frozen=True):
    """The replica RB-cast this request and, if it is strong, CAB-cast its identifier."""

    request: Request


class RbDelivered(msgspec.Struct, frozen=True):
    id: Dot


class CabDelivered(msgspec.Struct, frozen=True):
    id: Dot
    instance: int


class Committed(msgspec.Struct, frozen=True):
    """The request took the position `index`, counted from 0, on `committed`."""

    id: Dot
    index: int


class CheckpointInstalled(msgspec.Struct, frozen=True):
    """A checkpoint replaced the first `length` requests of `committed`."""

    instance: int
    length: int
    ids: Dots


class BallotPromised(msgspec.Struct, frozen=True):
    """The acceptor promised this ballot and reported the values accepted from `first` on."""

    ballot: Ballot
    first: int
    decided: int
    accepted: tuple[AcceptedValue, ...]


class Voted(msgspec.Struct, frozen=True):
    """The acceptor voted for this batch, or repeated its vote."""

    ballot: Ballot
    instance: int
    batch: Batch


class FirstVoted(msgspec.Struct, frozen=True):
    """The acceptor voted for this batch before it had the proposal of the leader."""

    ballot: Ballot
    instance: int
    batch: Batch


class SpeculativelyExecuted(msgspec.Struct, frozen=True):
    """A request was executed before its order was decided. The scheme withholds the response until
    the decision."""

    id: Dot
    outcome: Outcome


class Digest(msgspec.Struct, frozen=True):
    """Digest of the state after the first `length` requests of `committed`. It is the same at every
    replica, unless an operation is not deterministic."""

    length: int
    value: int
    requests: tuple[Request, ...]
    """Requests since the previous digest."""


class StableChange(msgspec.Struct, frozen=True):
    """Request that became stable, with its final outcome and the values that it wrote."""

    commit_index: int
    """Commit index: the number of requests of `committed` up to this one."""
    request: Request
    outcome: Outcome
    changed: bool | None
    """True if the last tentative response differed from the outcome. None if this replica sent no
    response, because another one issued the request, or because it restarted since."""
    writes: dict[Key, Any]
    """Value of each written register after the request, `ABSENT` if the request deleted it."""
    before: dict[Key, Any] | None = None
    """Value of each written register before the request, `ABSENT` if there was none. None unless
    `report_changes` is 2."""


class ChangesSkipped(NamedTuple):
    """A checkpoint replaced the first `length` requests of `committed`, which have no changes."""

    length: int


ReportedChange: TypeAlias = StableChange | ChangesSkipped

Event: TypeAlias = (
    RbCast
    | RbDelivered
    | CabDelivered
    | Committed
    | CheckpointInstalled
    | BallotPromised
    | Voted
    | SpeculativelyExecuted
    | FirstVoted
)


class Effects(msgspec.Struct, frozen=True):
    data_lost: DataLost | None = None
    """If set, the driver must stop the replica before it sends anything else. A replica without
    its records may contradict its own promises and votes."""
    persist: tuple[Record, ...] = ()
    """To be durable, in this order, before any `send` or `respond` of this or a later batch is
    sent. A `CheckpointRecord` allows the driver to drop every record before it."""
    send: tuple[Send, ...] = ()
    """In any order, each at most once. The protocol tolerates loss, duplication and reordering."""
    respond: tuple[Response, ...] = ()
    """In this order per session."""
    tasks: tuple[Task, ...] = ()
    """To be run at once. Tasks do not wait for `persist`."""
    events: tuple[Event, ...] = ()
    """In the order of occurrence. The driver may record or ignore them."""
    digests: tuple[Digest, ...] = ()
    """Emitted if `digest_every` is set, for comparison with the digests of other replicas."""
    checkpoints: tuple[StreamedCheckpoint | EncodedCheckpoint, ...] = ()
    """Emitted if `drafts` is set, instead of checkpoints in `persist` that no message waits for.

    A checkpoint may become durable at any time, or never. Once durable, it allows the driver to
    drop the records before it, and no others. The driver must consume or close its registers.
    An `EncodedCheckpoint`, assembled from a received snapshot, is a record at its position among
    those in `persist`."""
    snapshots: tuple[StreamedSnapshot, ...] = ()
    """Emitted if `drafts` is set, instead of snapshots in `send`, with the same obligation."""
    wake_at: int | None = None
    """Local clock, in microseconds, at which the driver calls `wake`, once. Replaces an earlier
    request. A wake that is late or lost only delays proposals, until the next tick at most."""
    changes: tuple[ReportedChange, ...] = ()
    """Emitted if `report_changes` is set, in commit order. Like a `send`, a change is visible to
    others only once the records of this and earlier batches are durable."""
