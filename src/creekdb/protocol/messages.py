"""Everything that replicas send each other, and everything they keep on disk.

Two closed unions, `Message` and `Record`. All of it is immutable, and encodes to msgpack arrays
with an integer tag: a tag, once given, is never reused.

Each `Record` says which message must not leave before it is durable. Drivers do not need to know:
they write records in order and hold back whatever was emitted after a record until it is on disk.
"""

from typing import Any, NamedTuple, TypeAlias

import msgspec

from creekdb.errors import MalformedMessage
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.request import Batch, Outcome, Request
from creekdb.protocol.values import SCALAR_TYPES, Key, freeze


class Ballot(NamedTuple):
    """A leader's term: rounds first, replicas to break ties, so no two leaders share one."""

    round: int
    replica: int

    def __str__(self) -> str:
        return f"{self.round}@{self.replica}"


class AcceptedValue(NamedTuple):
    """What an acceptor last voted for in an instance."""

    instance: int
    ballot: Ballot
    batch: Batch


class Checkpoint(msgspec.Struct, frozen=True, array_like=True):
    """A prefix of `committed`, summed up: what it did to the state instead of what it was."""

    instance: int
    """The first instance of consensus whose deliveries are not in the prefix."""
    length: int
    """How many requests the prefix holds."""
    ids: Dots
    timestamp: int
    """No request of the prefix is stamped later."""
    state: tuple[tuple[Key, Any], ...]
    """The registers, in key order."""
    outcomes: tuple[tuple[Dot, Outcome], ...]
    """Stable answers that the replicas which issued the requests may not have computed yet."""
    deleted: tuple[Key, ...] = ()
    """Registers that the data type begins with and that hold nothing any more, in key order."""

    def __post_init__(self) -> None:
        # As large as the state: what is frozen as it is, is left as it is.
        state = [
            item if type(item[1]) in SCALAR_TYPES else (item[0], freeze(item[1]))
            for item in self.state
        ]
        msgspec.structs.force_setattr(self, "state", tuple(state))


# --- reliable broadcast -----------------------------------------------------------------------


class Cast(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """Requests, pushed by the replica that issued them. A strong one is also CAB-cast by this."""

    requests: tuple[Request, ...]


class Summary(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Anti-entropy: everything that the sender has received."""

    received: Dots


class Pull(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Please send these."""

    wanted: Dots


class PullResponse(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """The answer to `Pull`: some of what was wanted."""

    requests: tuple[Request, ...]


# --- Ω ----------------------------------------------------------------------------------------


class Heartbeat(msgspec.Struct, frozen=True, array_like=True, tag=20):
    """I am alive; this is the greatest ballot I know, whom I trust, and whom I hear."""

    ballot: Ballot
    leader: int | None
    reachable: tuple[int, ...]


# --- indirect Multi-Paxos ---------------------------------------------------------------------


class Prepare(msgspec.Struct, frozen=True, array_like=True, tag=30):
    """Phase 1a, for every instance from `first` on."""

    ballot: Ballot
    first: int


class Promise(msgspec.Struct, frozen=True, array_like=True, tag=31):
    """Phase 1b. Every instance below `decided` is decided; `accepted` tells of those above."""

    ballot: Ballot
    decided: int
    accepted: tuple[AcceptedValue, ...]


class Accept(msgspec.Struct, frozen=True, array_like=True, tag=32):
    """Phase 2a."""

    ballot: Ballot
    instance: int
    batch: Batch


class Vote(msgspec.Struct, frozen=True, array_like=True, tag=33):
    """Phase 2b, to everyone: the sender accepted the batch of this ballot in this instance."""

    ballot: Ballot
    instance: int


class Reject(msgspec.Struct, frozen=True, array_like=True, tag=34):
    """The ballot of an earlier `Prepare` or `Accept` is behind `promised`."""

    promised: Ballot


class Progress(msgspec.Struct, frozen=True, array_like=True, tag=35):
    """Every instance below `delivered` has been delivered by the sender, and whatever those below
    `settled` delivered has been executed there."""

    delivered: int
    stable_instance: int = 0


class CatchUp(msgspec.Struct, frozen=True, array_like=True, tag=36):
    """Please tell me the decisions from `first` on."""

    first: int


class Decisions(msgspec.Struct, frozen=True, array_like=True, tag=37):
    """The answer to `CatchUp`: the batches of consecutive instances."""

    first: int
    batches: tuple[Batch, ...]


class Snapshot(msgspec.Struct, frozen=True, array_like=True, tag=38):
    """The answer to `CatchUp` or `Pull` when what was asked for is no longer kept."""

    checkpoint: Checkpoint


# --- a replica that begins with nothing -------------------------------------------------------


class RecoveryQuery(msgspec.Struct, frozen=True, array_like=True, tag=40):
    """The sender has an empty disk, and may have lost another. Please promise it this ballot, and
    tell it what you know."""

    ballot: Ballot
    delivered: int = 0
    """What the instances below this one delivered, it has."""


class RecoveryResponse(msgspec.Struct, frozen=True, array_like=True, tag=41):
    """The answer to `RecoveryQuery`."""

    ballot: Ballot
    """The one that was asked for."""
    promised: Ballot
    """What the sender has promised: if it is above `ballot`, nothing else counts."""
    is_recovering: bool
    """The sender begins with nothing as well."""
    decided: int
    accepted: tuple[AcceptedValue, ...]
    received: Dots


Message: TypeAlias = (
    Cast
    | Summary
    | Pull
    | PullResponse
    | Heartbeat
    | Prepare
    | Promise
    | Accept
    | Vote
    | Reject
    | Progress
    | CatchUp
    | Decisions
    | Snapshot
    | RecoveryQuery
    | RecoveryResponse
)


# --- what must be on disk ---------------------------------------------------------------------


class Received(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A request, issued here or received.

    Before its `RbCast` leaves and before its first answer: an event number is never used twice.
    Before a `Vote` for it or for a request that has it in its context: no decided request is lost.
    """

    request: Request


class Promised(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Before the `Promise`, before a `Prepare` of one's own, before a `Vote` in the ballot."""

    ballot: Ballot


class Accepted(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Before the `Vote` for it."""

    value: AcceptedValue


class Decided(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Before `GridProgress` tells of it. A majority has it accepted, so losing it loses no
    decision."""

    instance: int
    batch: Batch


class CheckpointRecord(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The whole durable state in one record: the driver may drop every record before it."""

    checkpoint: Checkpoint
    promised: Ballot
    accepted: tuple[AcceptedValue, ...]
    decided: tuple[tuple[int, Batch], ...]
    requests: tuple[Request, ...]


Record: TypeAlias = CheckpointRecord | Received | Promised | Accepted | Decided


_encoder = msgspec.msgpack.Encoder()
_message_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_record_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


_DECODE_ERRORS = (msgspec.DecodeError, ValueError, OverflowError, RecursionError)


def encode(item: Message | Record) -> bytes:
    return _encoder.encode(item)


def decode_message(data: bytes) -> Message:
    try:
        return _message_decoder.decode(data)
    except _DECODE_ERRORS as error:
        raise MalformedMessage(str(error)) from error


def decode_record(data: bytes) -> Record:
    try:
        return _record_decoder.decode(data)
    except _DECODE_ERRORS as error:
        raise MalformedMessage(str(error)) from error
