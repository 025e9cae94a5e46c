"""What a replica asks its driver to do, and what it lets observers see.

A replica performs no I/O. Each input fills its `Outbox`; the driver takes the `Effects` and carries
them out. The fields of `Effects` stand in the order in which the driver must honour them.
"""

import enum
from typing import TypeAlias

import msgspec

from creekdb.protocol.checkpoint.stream import (
    EncodedCheckpoint,
    StreamedCheckpoint,
    StreamedSnapshot,
)
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.messages import AcceptedValue, Ballot, Message, Record
from creekdb.protocol.request import Batch, Outcome, Request


class Send(msgspec.Struct, frozen=True):
    to: tuple[int, ...]
    message: Message


class ResponseKind(enum.Enum):
    """Which answer a client gets (Section 1, point 4)."""

    TENTATIVE = "tentative"
    STABLE = "stable"
    FINAL = "final"
    """How a weak operation that was answered long ago ended: `changed` if otherwise than told."""


class ObservedOrder(msgspec.Struct, frozen=True):
    """The serialization that an answer was computed on: the first `settled` requests of
    `committed`, and then these."""

    settled: int
    ids: tuple[Dot, ...]


class Response(msgspec.Struct, frozen=True):
    """An answer for the local client that issued the request `id` in `session`."""

    id: Dot
    session: int
    kind: ResponseKind
    outcome: Outcome
    changed: bool = False
    observed: ObservedOrder | None = None
    """Of a tentative answer, where `record_orders` asks for it."""


class TaskKind(enum.Enum):
    EXECUTE = "execute"
    ROLLBACK = "rollback"


class Task(msgspec.Struct, frozen=True):
    """A piece of execution: the driver calls `run(task)`, lets it take its time on a core, and then
    reports `completed(task, …)`. The replica decides then whether the result still counts."""

    number: int
    kind: TaskKind
    request: Request


# --- what observers see -----------------------------------------------------------------------


class RbCast(msgspec.Struct, frozen=True):
    """The replica RB-cast this request and, when it is strong, CAB-cast its identifier."""

    request: Request


class RbDelivered(msgspec.Struct, frozen=True):
    id: Dot


class CabDelivered(msgspec.Struct, frozen=True):
    id: Dot
    instance: int


class Committed(msgspec.Struct, frozen=True):
    """The request took this place, counted from 0, on `committed`."""

    id: Dot
    index: int


class CheckpointInstalled(msgspec.Struct, frozen=True):
    """A checkpoint took the place of the first `length` requests of `committed`."""

    instance: int
    length: int
    ids: Dots


class BallotPromised(msgspec.Struct, frozen=True):
    """The acceptor promised this ballot, asked for what it accepted from `first` on."""

    ballot: Ballot
    first: int
    decided: int
    accepted: tuple[AcceptedValue, ...]


class Voted(msgspec.Struct, frozen=True):
    """The acceptor voted for this batch, or told of it again."""

    ballot: Ballot
    instance: int
    batch: Batch


class SpeculativelyExecuted(msgspec.Struct, frozen=True):
    """A request was executed before its order was decided, by a scheme that keeps the answer to
    itself until then."""

    id: Dot
    outcome: Outcome


class Digest(msgspec.Struct, frozen=True):
    """What the state came to after the first `length` requests of `committed`: the same at every
    replica, unless an operation is not deterministic."""

    length: int
    value: int
    requests: tuple[Request, ...]
    """Those since the digest before this one."""


Event: TypeAlias = (
    RbCast
    | RbDelivered
    | CabDelivered
    | Committed
    | CheckpointInstalled
    | BallotPromised
    | Voted
    | SpeculativelyExecuted
)


class Effects(msgspec.Struct, frozen=True):
    persist: tuple[Record, ...] = ()
    """Durable, in this order, before any `send` or `respond` of this or a later batch leaves.
    An `CheckpointRecord` allows the driver to drop every record that came before it."""
    send: tuple[Send, ...] = ()
    """In any order, each at most once: the protocol survives loss, duplication and reordering."""
    respond: tuple[Response, ...] = ()
    """In this order per session."""
    tasks: tuple[Task, ...] = ()
    """To run at once, whether or not `persist` is done yet."""
    events: tuple[Event, ...] = ()
    """In the order they happened; to ignore or to record."""
    digests: tuple[Digest, ...] = ()
    """Where `digest_every` asks for them: to be compared with those of other replicas."""
    checkpoints: tuple[StreamedCheckpoint | EncodedCheckpoint, ...] = ()
    """Where `drafts` asks for them, instead of those in `persist` that nothing waits for: to be
    durable at some time, or never. One that is, allows the driver to drop every record that came
    before it, and no other. Its registers are to be taken, or closed. One that is drawn already,
    since its registers were brought in parts, is a record at its place among those in `persist`."""
    snapshots: tuple[StreamedSnapshot, ...] = ()
    """Likewise, instead of those in `send`, and with the same obligation."""
