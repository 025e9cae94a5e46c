"""Messages between processes, and their encoding in frames.

A frame is its length in four bytes, followed by one message in msgpack. Both sides of a connection
send a hello first. A peer with an incompatible version, or of another cluster, is rejected with the
reason. After the hello, replicas exchange protocol messages, state digests and snapshot parts.
Clients and replicas exchange the messages defined below.

No message contains code: a client names an operation that the replica defines.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from creekdb.errors import DECODE_ERRORS, MalformedMessage
from creekdb.protocol.checkpoint.stream import SnapshotPart as SnapshotPart
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.rollback_detection import StateEvidence
from creekdb.protocol.messages import Message
from creekdb.protocol.request import Outcome
from creekdb.protocol.values import freeze
from creekdb.sql.table_rows import TableDescription as TableDescription
from creekdb.wire.framing import FrameDecoder as FrameDecoder
from creekdb.wire.framing import frame_payload as frame_payload
from creekdb.wire.pieces import NO_PIECES, Piece
from creekdb.wire.tentative import TentativeImage as TentativeImage

WIRE_VERSION: Final = 1
"""Version of the messages. It increases when a process with the old version would misinterpret a
new message. A field added at the end of a message, with a default, needs no new version: older
processes ignore it."""
OLDEST_WIRE_VERSION: Final = 1
"""Oldest version that this process still supports. It is the version of the previous release, so
that a cluster can be upgraded replica by replica."""

PEER_FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
"""Upper bound for a frame between replicas. The state of a snapshot is sent before it, in parts."""
CLIENT_FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
HELLO_FRAME_BYTES_MAX: Final = 64 * 1024
"""Upper bound for a frame before the hello of its sender."""


def common_version(version: int, oldest: int) -> int | None:
    """Return the latest version that both sides support, or None.

    `version` and `oldest` are the bounds of the other side. If `oldest` is 0, it supports only
    `version`.
    """
    common = min(version, WIRE_VERSION)
    return common if common >= max(oldest or version, OLDEST_WIRE_VERSION) else None


# --- between replicas -------------------------------------------------------------------------


IDENTITY_FEATURE: Final = "identity"
"""Feature of a replica that executes the choice of a cluster's identity."""

CHANGES_FEATURE: Final = "changes"
"""Feature of a replica that keeps changes and sends them to replicas that lack some."""

BATCH_FEATURE: Final = "batch"
"""Feature of a replica that executes batches."""

STAGING_FEATURE: Final = "staging"
"""Feature of a replica that executes the operations of `creekdb.wire.staging`."""

APPLICATION_BYTES_FEATURE: Final = "application_bytes"
"""Feature of a replica that executes applications of a bounded number of bytes
(`creekdb.wire.sink_ledgers`)."""

BUILD_PREFIX: Final = "build "
"""Start of the feature that names the kind of build of a replica: compiled or interpreted."""

OperationArity: TypeAlias = tuple[str, int, int | None]
"""Name of an operation, and the minimum and maximum number of arguments. None means no maximum."""


class PeerHello(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """First message of both sides of a connection between replicas."""

    version: int
    cluster: str
    replica: int
    members: tuple[int, ...]
    datatype: str
    client_address: str = ""
    """Address for clients."""
    epoch: int = 0
    """Epoch of the configuration that `members` belongs to."""
    peer_address: str = ""
    """Address for replicas that do not have it in their configuration."""
    http_url: str = ""
    """Base URL of the HTTP interface."""
    oldest_version: int = 0
    """Oldest supported version; 0 means `version`."""
    operations: tuple[OperationArity, ...] = ()
    """Operations that the replica can execute. Empty if it does not report them."""
    evidence: StateEvidence | None = None
    """Evidence against data directories that were replaced by older copies. None if the replica
    reports none."""
    features: tuple[str, ...] = ()
    """Internal operations that the replica can execute beyond those of the first release."""
    code_digests: tuple[bytes, ...] = ()
    """Digest of the code of each of `operations` (`creekdb.execution.operation_digest`). Empty if
    the replica reports none. A single digest is empty if the source is not available."""


class PeerRefused(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Reply, in place of a hello, to a replica that must not use the number that it claims.

    An older replica treats it as malformed, and redials.
    """

    reason: str
    """`ServerCounter`, or a value that only a newer replica declares."""
    message: str


class StateDigests(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Digests of the state after the given numbers of committed requests."""

    digests: tuple[tuple[int, int], ...]


class FeedFramesRequest(msgspec.Struct, frozen=True, array_like=True, tag=50):
    """Request for changes that the sender lacks. Only replicas with `CHANGES_FEATURE` get it."""

    number: int
    start: int
    stop: int
    """Index after the last change that the sender lacks."""
    bytes_max: int
    offset: int = NO_PIECES
    """Offset of the requested piece, if the first frame exceeds a message."""


class FeedFrames(msgspec.Struct, frozen=True, array_like=True, tag=51):
    """Response: frames of the change feed from the requested index on, or none."""

    number: int
    next: int
    """Without frames, the first later index that the replica has."""
    written_us: int = 0
    """Time of the newest frame, in microseconds since 1970. Without frames, it is 0 if the sender
    does not keep the change, and another value if it cannot read it."""
    frames: tuple[tuple[int, int, bytes], ...] = ()
    """First index, index after the last one, and encoded changes. The first frame may begin before
    the requested index."""
    piece: Piece | None = None
    """Piece of the encoded changes of the only frame, which are empty there."""


DeliveredPeerMessage: TypeAlias = Message | StateDigests | FeedFramesRequest | FeedFrames
PeerMessage: TypeAlias = DeliveredPeerMessage | SnapshotPart


# --- from a client ----------------------------------------------------------------------------


class ClientHello(msgspec.Struct, frozen=True, array_like=True, tag=10):
    version: int
    client: str
    """Identifier that no other client uses. Calls are deduplicated by it and by their numbers."""
    token: str = ""
    datatype: str = ""
    """Expected data type; empty accepts any."""
    oldest_version: int = 0
    """Oldest supported version; 0 means `version`."""


class CallRequest(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Request to execute an operation.

    `number` increases from call to call of a client. A retry has the number of the original call.
    """

    number: int
    operation: str
    arguments: tuple[Any, ...] = ()
    strong: bool = False
    session: int = 0
    after: tuple[Dot, ...] = ()
    """Requests that the replica must have delivered before it issues the call."""
    wait_ms: int = 0
    """Time limit for the arrival of `after`, in milliseconds; 0 selects the replica's limit."""
    is_single_response: bool = False
    """True if the client needs one response: the first of a weak call, the stable one of a strong
    call."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "arguments", freeze(self.arguments))


class CancelResponses(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Request for no more responses to a call. The call still takes effect."""

    number: int


class StatusRequest(msgspec.Struct, frozen=True, array_like=True, tag=13):
    number: int


class BackupRequest(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """Request to capture the committed state for a backup."""

    number: int
    has_operations: bool = False
    """True if the backup should contain the committed operations that the replica still has."""


class BackupPartRequest(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """Request for the next part of the backup."""

    number: int


class ChangesRequest(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """Request for the next part of the change feed."""

    number: int
    start: int
    """Index of the first change; `EARLIEST` or `LATEST` of `creekdb.wire.changes`."""
    cluster: str = ""
    """Identity of the cluster that the position belongs to; empty accepts any."""
    prefix: str | tuple[str | int, ...] | None = None
    """Prefix of the keys whose changes are sent. None sends all changes."""
    wait_ms: int = 0
    """Time to wait for a change if there is none, in milliseconds."""
    table: str = ""
    """SQL table whose changes are sent, instead of those of a prefix."""
    view: str = ""
    """One of `creekdb.wire.tentative.VIEWS`."""
    stamp: int = -1
    """In the tentative view, stamp of the last received image, or -1."""
    offset: int = NO_PIECES
    """Offset of the requested piece, if the change at `start` exceeds a part."""


class SnapshotRequest(msgspec.Struct, frozen=True, array_like=True, tag=17):
    """Request to open a leased snapshot."""

    number: int
    lease_ms: int
    """Time without a read after which the snapshot ends, in milliseconds."""
    partitions: int = 1
    """Number of ranges that the split keys should make."""
    prefix: str | tuple[str | int, ...] | None = None
    table: str = ""
    """SQL table to describe, and to split instead of a prefix."""


class SnapshotRead(msgspec.Struct, frozen=True, array_like=True, tag=18):
    """Request for a page of a leased snapshot."""

    number: int
    id: str
    start: str | int | tuple[str | int, ...] | None = None
    """First key, or None."""
    stop: str | int | tuple[str | int, ...] | None = None
    """Key before which the range ends, or None."""
    prefix: str | tuple[str | int, ...] | None = None


class SnapshotRelease(msgspec.Struct, frozen=True, array_like=True, tag=19):
    """Notification that a leased snapshot is no longer needed. There is no response."""

    id: str


ClientMessage: TypeAlias = (
    ClientHello
    | CallRequest
    | CancelResponses
    | StatusRequest
    | BackupRequest
    | BackupPartRequest
    | ChangesRequest
    | SnapshotRequest
    | SnapshotRead
    | SnapshotRelease
)


# --- to a client ------------------------------------------------------------------------------


ParameterSpec: TypeAlias = tuple[str, bool, bool, Any]
"""Name, `is_required`, `is_variadic` and default (`creekdb.execution.parameters.Parameter`)."""
OperationSignature: TypeAlias = tuple[str, str, tuple[ParameterSpec, ...]]
"""Name of an operation, its signature as text, and its parameters."""


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=20):
    version: int
    cluster: str
    replica: int
    datatype: str
    operations: tuple[tuple[str, bool], ...]
    """Names of the operations, and True for those that only read."""
    not_ready_reason: str = ""
    """Reason why the replica is not ready. Until it is, calls wait."""
    signatures: tuple[OperationSignature, ...] = ()
    """Signatures of the operations, for clients without the data type. Empty if the replica does
    not report them."""


class CallIssued(msgspec.Struct, frozen=True, array_like=True, tag=21):
    """Notification that the call has an identifier. From now on, it may take effect."""

    number: int
    id: Dot


class CallResponse(msgspec.Struct, frozen=True, array_like=True, tag=22):
    """One response to a call. Iterating over a client's call yields these."""

    number: int
    """Number of the call."""
    kind: str
    """`ResponseKind`."""
    value: Any = None
    """Return value of the operation."""
    error: str | None = None
    """Error that the operation raised, or None."""
    changed: bool = False
    """True if the response differs from the first one."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "value", freeze(self.value))


class Rejected(msgspec.Struct, frozen=True, array_like=True, tag=23):
    """Notification that a call gets no more responses."""

    number: int
    reason: str
    """`RejectReason`, or a value that only a newer replica declares."""
    message: str
    is_certain: bool = True
    """True if the call certainly takes no effect."""


class StatusResponse(msgspec.Struct, frozen=True, array_like=True, tag=24):
    number: int
    status: dict[str, Any]


class ConnectionRejected(msgspec.Struct, frozen=True, array_like=True, tag=25):
    """Last message of a connection that the replica closes."""

    reason: str
    """`RejectReason`, or a value that only a newer replica declares."""
    message: str


class BackupStarted(msgspec.Struct, frozen=True, array_like=True, tag=26):
    """Notification that the state is captured and its parts can be requested."""

    number: int
    committed_count: int
    """Number of committed requests in the backup."""
    register_count: int
    """Approximate number of registers in the backup."""


class BackupPart(msgspec.Struct, frozen=True, array_like=True, tag=27):
    """One part of a backup."""

    number: int
    data: bytes
    registers_done: int
    """Number of registers sent so far."""
    is_last: bool


class ChangesPart(msgspec.Struct, frozen=True, array_like=True, tag=28):
    """Changes from one index to another. There may be none."""

    number: int
    cluster: str
    """Identity of the cluster."""
    first: int
    """First index of the part. Encoded changes before it must be skipped."""
    end: int
    """Index after the part, at which the next request continues."""
    newest: int
    """Index of the last change of the replica, which may not be readable yet."""
    bodies: tuple[bytes, ...] = ()
    """Encoded lists of changes (`creekdb.wire.changes.decode_changes`)."""
    table: TableDescription | None = None
    """The requested table, as the newest state of the replica describes it."""
    image: TentativeImage | None = None
    """In the tentative view, the requests that are not final, if the part has no changes and the
    image is not the one of the request. None otherwise."""
    piece: Piece | None = None
    """Piece of the only body, which exceeds a part. `bodies` is then empty."""


class ChangesRejected(msgspec.Struct, frozen=True, array_like=True, tag=29):
    """Notification that the replica cannot send the requested changes."""

    number: int
    reason: str
    message: str
    first: int = 0
    """First index from which on the replica keeps all changes."""
    newest: int = 0
    """Index of the last change that the replica has."""


class SnapshotOpened(msgspec.Struct, frozen=True, array_like=True, tag=30):
    """Notification that a leased snapshot can be read."""

    number: int
    id: str
    cluster: str
    """Identity of the cluster; empty if it keeps no changes."""
    index: int
    """Number of committed requests that the state includes."""
    lease_ms: int
    splits: tuple[str | int | tuple[str | int, ...], ...] = ()
    table: TableDescription | None = None
    """The requested table, as the state of the snapshot describes it."""


class SnapshotPage(msgspec.Struct, frozen=True, array_like=True, tag=31):
    """Registers of a leased snapshot, in key order."""

    number: int
    items: tuple[tuple[str | int | tuple[str | int, ...], Any], ...]
    next: str | int | tuple[str | int, ...] | None = None
    """Key of the next page, or None at the end."""


ServerMessage: TypeAlias = (
    Welcome
    | CallIssued
    | CallResponse
    | Rejected
    | StatusResponse
    | ConnectionRejected
    | BackupStarted
    | BackupPart
    | ChangesPart
    | ChangesRejected
    | SnapshotOpened
    | SnapshotPage
)

_RESPONSE_TAG: Final = CallResponse.__struct_config__.tag
_encode = msgspec.msgpack.Encoder().encode


def encode_frame(
    message: PeerHello | PeerRefused | PeerMessage | ClientMessage | ServerMessage,
) -> bytes:
    return frame_payload(_encode(message))


def encode_response_frame(number: int, kind: str, outcome: Outcome, changed: bool = False) -> bytes:
    """Return the frame of a `CallResponse` without creating the object, which saves time."""
    response = (_RESPONSE_TAG, number, kind, outcome.value, outcome.error, changed)
    return frame_payload(_encode(response))


def _decode_function(message_type: Any) -> Callable[[bytes], Any]:
    """Return the function that decodes a payload of that type, or raises `MalformedMessage`."""
    decode_payload = msgspec.msgpack.Decoder(message_type).decode

    def decode(payload: bytes) -> Any:
        try:
            return decode_payload(payload)
        except DECODE_ERRORS as error:
            raise MalformedMessage(str(error)) from error

    return decode


decode_peer_hello: Final[Callable[[bytes], PeerHello]] = _decode_function(PeerHello)
decode_peer_reply: Final[Callable[[bytes], PeerHello | PeerRefused]] = _decode_function(
    PeerHello | PeerRefused
)
decode_peer_message: Final[Callable[[bytes], PeerMessage]] = _decode_function(PeerMessage)
decode_client_message: Final[Callable[[bytes], ClientMessage]] = _decode_function(ClientMessage)
decode_server_message: Final[Callable[[bytes], ServerMessage]] = _decode_function(ServerMessage)
