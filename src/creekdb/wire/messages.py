"""What travels between processes: frames, and what is said in them.

A frame is its length in four bytes, and then one message in msgpack. On every connection both sides
first say who they are; whoever speaks another version, or belongs to another cluster, is told so
and left alone. Between replicas, what follows are the protocol's own messages, digests of the
state, and parts of snapshots; between a client and a replica, those below.

Nothing here runs code that came over the wire: a client names an operation that the replica knows.
"""

from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from creekdb.errors import MalformedMessage
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Message
from creekdb.protocol.request import Outcome
from creekdb.protocol.values import Key, freeze
from creekdb.wire.framing import FrameDecoder as FrameDecoder
from creekdb.wire.framing import frame_payload as frame_payload

WIRE_VERSION: Final = 1
"""Raised when one who speaks the old version would misunderstand the new one. Fields that are added
at the end of a message, with a default, do not raise it: who does not know them leaves them out."""
OLDEST_WIRE_VERSION: Final = 1
"""The oldest version that is still spoken with who knows no later one: that of the release before,
so that a cluster can be upgraded replica by replica."""

PEER_FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes. What a snapshot holds of the state comes before it, in parts."""
CLIENT_FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
HELLO_FRAME_BYTES_MAX: Final = 64 * 1024
"""Of who has not said yet who it is."""


def common_version(version: int, oldest: int) -> int | None:
    """The version to talk in with one who speaks these; None when there is none. One who does not
    tell its oldest speaks only the one."""
    common = min(version, WIRE_VERSION)
    return common if common >= max(oldest or version, OLDEST_WIRE_VERSION) else None


# --- between replicas -------------------------------------------------------------------------


OperationArity: TypeAlias = tuple[str, int, int | None]
"""An operation by its name, and how many arguments it takes: from so many to so many, or any."""


class PeerHello(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """From both sides; then the protocol's messages."""

    version: int
    cluster: str
    replica: int
    members: tuple[int, ...]
    datatype: str
    client_address: str = ""
    """Where clients find it."""
    epoch: int = 0
    """Which `members` these are."""
    peer_address: str = ""
    """Where replicas find it, for one that does not know it yet."""
    http_url: str = ""
    """Where browsers find it: the beginning of an address."""
    oldest_version: int = 0
    """The oldest version that it speaks as well."""
    operations: tuple[OperationArity, ...] = ()
    """What it can carry out; nothing, if it does not say."""


class StateDigests(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Lengths of `committed`, and the digests of the state there."""

    digests: tuple[tuple[int, int], ...]


class SnapshotPart(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Registers of the snapshot that follows, which has none itself: what they hold, and which were
    deleted."""

    preceding_count: int
    """So many came in other parts."""
    remaining_count: int
    """So many are yet to come."""
    live: tuple[tuple[Key, Any], ...]
    deleted: tuple[Key, ...]

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(
            self, "live", tuple([(key, freeze(value)) for key, value in self.live])
        )


DeliveredPeerMessage: TypeAlias = Message | StateDigests
PeerMessage: TypeAlias = DeliveredPeerMessage | SnapshotPart


# --- from a client ----------------------------------------------------------------------------


class ClientHello(msgspec.Struct, frozen=True, array_like=True, tag=10):
    version: int
    client: str
    """Its own, and never another's: what it asks for is executed once, however often it asks."""
    token: str = ""
    datatype: str = ""
    """What it expects to find; empty: whatever is there."""
    oldest_version: int = 0
    """The oldest version that it speaks as well."""


class CallRequest(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Please carry out an operation. `number`: of this client's calls, each greater than the last;
    asked again with the same number, it is the same call."""

    number: int
    operation: str
    arguments: tuple[Any, ...] = ()
    strong: bool = False
    session: int = 0
    after: tuple[Dot, ...] = ()
    """Only when the replica has these."""
    wait_ms: int = 0
    """For how long it may wait for them; 0: as long as the replica lets it."""
    is_single_response: bool = False
    """Only the answer that is waited for: of a weak call the first, of a strong one the stable."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "arguments", freeze(self.arguments))


class CancelResponses(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """No more answers to this call, please. What it does is done all the same."""

    number: int


class StatusRequest(msgspec.Struct, frozen=True, array_like=True, tag=13):
    number: int


class BackupRequest(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """Please take a copy of the committed state, as bytes of a backup."""

    number: int
    has_operations: bool = False
    """And of the operations that led to it, as far as they are at hand."""


class BackupPartRequest(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """Please tell the next piece of the copy."""

    number: int


ClientMessage: TypeAlias = (
    ClientHello | CallRequest | CancelResponses | StatusRequest | BackupRequest | BackupPartRequest
)


# --- to a client ------------------------------------------------------------------------------


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=20):
    version: int
    cluster: str
    replica: int
    datatype: str
    operations: tuple[tuple[str, bool], ...]
    """Names, and whether they only read."""
    not_ready_reason: str = ""
    """Why it takes no part yet: until then, calls wait."""


class CallIssued(msgspec.Struct, frozen=True, array_like=True, tag=21):
    """The call has its place among all requests. From now on it may be done."""

    number: int
    id: Dot


class CallResponse(msgspec.Struct, frozen=True, array_like=True, tag=22):
    """One of the answers to a call: iterating over a call gives these."""

    number: int
    """Of the call."""
    kind: str
    """`tentative`, `stable` or `final`."""
    value: Any = None
    """What the operation returned."""
    error: str | None = None
    """What it raised, if it did."""
    changed: bool = False
    """Is it another answer than was given first?"""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "value", freeze(self.value))


class Rejected(msgspec.Struct, frozen=True, array_like=True, tag=23):
    """There will be no answer."""

    number: int
    reason: str
    """`unknown_operation`, `bad_arguments`, `busy`, `disk`, `deadline`, `stopping`, `no_majority`,
    `untold` or `token`."""
    message: str
    is_certain: bool = True
    """Was it certainly not done?"""


class StatusResponse(msgspec.Struct, frozen=True, array_like=True, tag=24):
    number: int
    status: dict[str, Any]


class ConnectionRejected(msgspec.Struct, frozen=True, array_like=True, tag=25):
    """The connection is closed after this."""

    reason: str
    """`version`, `token`, `datatype`, `malformed`, `too_large`, `busy` or `frames.NO_TLS`."""
    message: str


class BackupStarted(msgspec.Struct, frozen=True, array_like=True, tag=26):
    """The copy is taken: its pieces can be asked for."""

    number: int
    committed_count: int
    """How many requests are committed in it."""
    register_count: int
    """How many registers will be told, about."""


class BackupPart(msgspec.Struct, frozen=True, array_like=True, tag=27):
    """A piece of the copy."""

    number: int
    data: bytes
    registers_done: int
    """Of the registers, those that were told so far."""
    is_last: bool


ServerMessage: TypeAlias = (
    Welcome
    | CallIssued
    | CallResponse
    | Rejected
    | StatusResponse
    | ConnectionRejected
    | BackupStarted
    | BackupPart
)

_Decoded = TypeVar("_Decoded")
_RESPONSE_TAG: Final = CallResponse.__struct_config__.tag
_encode = msgspec.msgpack.Encoder().encode
_peer_hello_decoder: msgspec.msgpack.Decoder[PeerHello] = msgspec.msgpack.Decoder(PeerHello)
_peer_message_decoder: msgspec.msgpack.Decoder[PeerMessage] = msgspec.msgpack.Decoder(PeerMessage)
_client_message_decoder: msgspec.msgpack.Decoder[ClientMessage] = msgspec.msgpack.Decoder(
    ClientMessage
)
_server_message_decoder: msgspec.msgpack.Decoder[ServerMessage] = msgspec.msgpack.Decoder(
    ServerMessage
)


def encode_frame(message: PeerHello | PeerMessage | ClientMessage | ServerMessage) -> bytes:
    return frame_payload(_encode(message))


def encode_response_frame(number: int, kind: str, outcome: Outcome, changed: bool = False) -> bytes:
    """The frame of an `Answer`, without making one: there are many."""
    answer = (_RESPONSE_TAG, number, kind, outcome.value, outcome.error, changed)
    return frame_payload(_encode(answer))


def decode_peer_hello(payload: bytes) -> PeerHello:
    return _decode(_peer_hello_decoder, payload)


def decode_peer_message(payload: bytes) -> PeerMessage:
    return _decode(_peer_message_decoder, payload)


def decode_client_message(payload: bytes) -> ClientMessage:
    return _decode(_client_message_decoder, payload)


def decode_server_message(payload: bytes) -> ServerMessage:
    return _decode(_server_message_decoder, payload)


def _decode(decoder: "msgspec.msgpack.Decoder[_Decoded]", payload: bytes) -> _Decoded:
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        raise MalformedMessage(str(error)) from error
