"""Messages between replicas and records on disk.

Both are closed unions, `Message` and `Record`. All values are immutable and encode to msgpack
arrays with an integer tag. A tag is never reused.

Each `Record` names the messages that must not be sent before it is durable. Drivers do not need
this distinction. They write records in order, and hold back every effect emitted after a record
until that record is on disk.
"""

from typing import Any, NamedTuple, TypeAlias

import msgspec

from creekdb.errors import DECODE_ERRORS, MalformedMessage
from creekdb.protocol.ids.version_vector import Dot, Dots
from creekdb.protocol.request import Batch, Outcome, Request
from creekdb.protocol.values import SCALAR_TYPES, Key, freeze


class Ballot(NamedTuple):
    """Term of a leader. Rounds compare first; replicas break ties, so no two leaders share one."""

    round: int
    replica: int

    def __str__(self) -> str:
        return f"{self.round}@{self.replica}"


class AcceptedValue(NamedTuple):
    """Last vote of an acceptor in an instance, of one kind.

    A *first vote* precedes the proposal of the leader (`creekdb.protocol.consensus.fast_path`), and
    has the complement of its instance. So messages and records that list votes can list both kinds,
    and their encoding without a fast path is that of votes alone.
    """

    instance: int
    """Instance of a second vote, or the complement `~instance` of a first vote."""
    ballot: Ballot
    batch: Batch

    @property
    def is_first(self) -> bool:
        """True for a first vote."""
        return self.instance < 0

    @property
    def true_instance(self) -> int:
        return ~self.instance if self.instance < 0 else self.instance

    @property
    def rank(self) -> tuple[Ballot, bool]:
        """Sort key of votes in one instance. Of those that promises report, the greatest counts."""
        return self.ballot, self.instance >= 0


class Checkpoint(msgspec.Struct, frozen=True, array_like=True):
    """Prefix of `committed`, represented by the state that it produced."""

    instance: int
    """First instance of consensus whose deliveries are not in the prefix."""
    length: int
    """Number of requests in the prefix."""
    ids: Dots
    timestamp: int
    """Upper bound of the timestamps in the prefix."""
    state: tuple[tuple[Key, Any], ...]
    """Registers, in key order."""
    outcomes: tuple[tuple[Dot, Outcome], ...]
    """Stable responses that the issuing replicas may not have computed yet."""
    deleted: tuple[Key, ...] = ()
    """Registers of the initial state that have been deleted, in key order."""

    def __post_init__(self) -> None:
        # The state may be large, so items that are already frozen are reused.
        state = [
            item if type(item[1]) in SCALAR_TYPES else (item[0], freeze(item[1]))
            for item in self.state
        ]
        msgspec.structs.force_setattr(self, "state", tuple(state))


# --- reliable broadcast -----------------------------------------------------------------------


class Cast(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """Requests pushed by the replica that issued them. Also CAB-casts those that are strong."""

    requests: tuple[Request, ...]


class Summary(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Anti-entropy: all identifiers that the sender has received."""

    received: Dots


class Pull(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Request for the requests with these identifiers."""

    wanted: Dots


class PullResponse(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """Response to `Pull` with some of the wanted requests."""

    requests: tuple[Request, ...]


# --- Ω ----------------------------------------------------------------------------------------


class Heartbeat(msgspec.Struct, frozen=True, array_like=True, tag=20):
    """Liveness signal with the greatest known ballot, the trusted leader and the reachable
    members."""

    ballot: Ballot
    leader: int | None
    reachable: tuple[int, ...]


# --- indirect Multi-Paxos ---------------------------------------------------------------------


class Prepare(msgspec.Struct, frozen=True, array_like=True, tag=30):
    """Phase 1a, for every instance from `first` on."""

    ballot: Ballot
    first: int


class Promise(msgspec.Struct, frozen=True, array_like=True, tag=31):
    """Phase 1b. Instances below `decided` are decided; `accepted` lists votes in later ones."""

    ballot: Ballot
    decided: int
    accepted: tuple[AcceptedValue, ...]


class Accept(msgspec.Struct, frozen=True, array_like=True, tag=32):
    """Phase 2a."""

    ballot: Ballot
    instance: int
    batch: Batch


class Vote(msgspec.Struct, frozen=True, array_like=True, tag=33):
    """Phase 2b, sent to all: the sender accepted the batch of this ballot in this instance."""

    ballot: Ballot
    instance: int


class FirstVote(msgspec.Struct, frozen=True, array_like=True, tag=39):
    """Vote with its batch, sent to all. From the owner of the ballot, it is phase 2a and 2b in one,
    and opens the ballot. From other members of the fast quorum, it precedes the proposal."""

    ballot: Ballot
    instance: int
    batch: Batch


class Reject(msgspec.Struct, frozen=True, array_like=True, tag=34):
    """Response to a `Prepare` or `Accept` whose ballot is below `promised`."""

    promised: Ballot


class Progress(msgspec.Struct, frozen=True, array_like=True, tag=35):
    """The sender has delivered every instance below `delivered`, and executed the deliveries of
    those below `stable_instance`."""

    delivered: int
    stable_instance: int = 0


class CatchUp(msgspec.Struct, frozen=True, array_like=True, tag=36):
    """Request for the decisions from `first` on."""

    first: int


class Decisions(msgspec.Struct, frozen=True, array_like=True, tag=37):
    """Response to `CatchUp`: the batches of consecutive instances."""

    first: int
    batches: tuple[Batch, ...]


class Snapshot(msgspec.Struct, frozen=True, array_like=True, tag=38):
    """Response to `CatchUp` or `Pull` if the requested data has been discarded."""

    checkpoint: Checkpoint


# --- recovery from disk loss ------------------------------------------------------------------


class RecoveryQuery(msgspec.Struct, frozen=True, array_like=True, tag=40):
    """Query of a replica with an empty disk, which may have lost another disk. It asks for a
    promise of `ballot` and for the protocol state of the receiver."""

    ballot: Ballot
    delivered: int = 0
    """The sender has the effects of all instances below this one."""


class RecoveryResponse(msgspec.Struct, frozen=True, array_like=True, tag=41):
    """Response to `RecoveryQuery`."""

    ballot: Ballot
    """Ballot of the query."""
    promised: Ballot
    """Promised ballot of the sender. If it is above `ballot`, the other fields are void."""
    is_recovering: bool
    """True if the sender started with an empty disk too."""
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
    | FirstVote
    | Reject
    | Progress
    | CatchUp
    | Decisions
    | Snapshot
    | RecoveryQuery
    | RecoveryResponse
)


# --- records on disk --------------------------------------------------------------------------


class Received(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A request, issued here or received.

    Precedes its `Cast` and its first response, so no event number is used twice. Precedes a `Vote`
    for it, or for a request that has it in its context, so no decided request is lost.
    """

    request: Request


class Promised(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Precedes the `Promise`, a `Prepare` of this replica, and a `Vote` in the ballot."""

    ballot: Ballot


class Accepted(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Precedes the `Vote` or `FirstVote` for the value."""

    value: AcceptedValue


class Decided(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Precedes a `Progress` that covers the instance. Losing it loses no decision, because a
    majority has accepted the batch."""

    instance: int
    batch: Batch


class CheckpointRecord(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The whole durable state in one record. The driver may drop every record before it."""

    checkpoint: Checkpoint
    promised: Ballot
    accepted: tuple[AcceptedValue, ...]
    decided: tuple[tuple[int, Batch], ...]
    requests: tuple[Request, ...]


Record: TypeAlias = CheckpointRecord | Received | Promised | Accepted | Decided


_encoder = msgspec.msgpack.Encoder()
_message_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_record_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def encode(item: Message | Record) -> bytes:
    return _encoder.encode(item)


def decode_message(data: bytes) -> Message:
    try:
        return _message_decoder.decode(data)
    except DECODE_ERRORS as error:
        raise MalformedMessage(str(error)) from error


def decode_record(data: bytes) -> Record:
    try:
        return _record_decoder.decode(data)
    except DECODE_ERRORS as error:
        raise MalformedMessage(str(error)) from error
