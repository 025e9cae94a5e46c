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
from creekdb.protocol.values import Key, frozen
from creekdb.wire.framing import Frames as Frames
from creekdb.wire.framing import framed as framed

WIRE_VERSION: Final = 1
"""Raised when one who speaks the old version would misunderstand the new one. Fields that are added
at the end of a message, with a default, do not raise it: who does not know them leaves them out."""
WIRE_OLDEST: Final = 1
"""The oldest version that is still spoken with who knows no later one: that of the release before,
so that a cluster can be upgraded replica by replica."""

PEER_FRAME_MAX: Final = 64 * 1024 * 1024
"""Bytes. What a snapshot holds of the state comes before it, in parts."""
CLIENT_FRAME_MAX: Final = 4 * 1024 * 1024
HELLO_FRAME_MAX: Final = 64 * 1024
"""Of who has not said yet who it is."""


def common_version(version: int, oldest: int) -> int | None:
    """The version to talk in with one who speaks these; None when there is none. One who does not
    tell its oldest speaks only the one."""
    common = min(version, WIRE_VERSION)
    return common if common >= max(oldest or version, WIRE_OLDEST) else None


# --- between replicas -------------------------------------------------------------------------


Takes: TypeAlias = tuple[str, int, int | None]
"""An operation by its name, and how many arguments it takes: from so many to so many, or any."""


class PeerHello(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """From both sides; then the protocol's messages."""

    version: int
    cluster: str
    replica: int
    members: tuple[int, ...]
    datatype: str
    clients: str = ""
    """Where clients find it."""
    epoch: int = 0
    """Which `members` these are."""
    at: str = ""
    """Where replicas find it, for one that does not know it yet."""
    http: str = ""
    """Where browsers find it: the beginning of an address."""
    oldest: int = 0
    """The oldest version that it speaks as well."""
    operations: tuple[Takes, ...] = ()
    """What it can carry out; nothing, if it does not say."""


class Told(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Lengths of `committed`, and the digests of the state there."""

    digests: tuple[tuple[int, int], ...]


class Part(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Registers of the snapshot that follows, which has none itself: what they hold, and which were
    deleted."""

    before: int
    """So many came in other parts."""
    left: int
    """So many are yet to come."""
    held: tuple[tuple[Key, Any], ...]
    deleted: tuple[Key, ...]

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(
            self, "held", tuple([(key, frozen(value)) for key, value in self.held])
        )


Heard: TypeAlias = Message | Told
FromPeer: TypeAlias = Heard | Part


# --- from a client ----------------------------------------------------------------------------


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=10):
    version: int
    client: str
    """Its own, and never another's: what it asks for is executed once, however often it asks."""
    token: str = ""
    datatype: str = ""
    """What it expects to find; empty: whatever is there."""
    oldest: int = 0
    """The oldest version that it speaks as well."""


class Call(msgspec.Struct, frozen=True, array_like=True, tag=11):
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
    brief: bool = False
    """Only the answer that is waited for: of a weak call the first, of a strong one the stable."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "arguments", frozen(self.arguments))


class Enough(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """No more answers to this call, please. What it does is done all the same."""

    number: int


class StatusRequest(msgspec.Struct, frozen=True, array_like=True, tag=13):
    number: int


class CopyRequest(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """Please take a copy of the committed state, as bytes of a backup."""

    number: int
    operations: bool = False
    """And of the operations that led to it, as far as they are at hand."""


class MoreRequest(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """Please tell the next piece of the copy."""

    number: int


FromClient: TypeAlias = Hello | Call | Enough | StatusRequest | CopyRequest | MoreRequest


# --- to a client ------------------------------------------------------------------------------


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=20):
    version: int
    cluster: str
    replica: int
    datatype: str
    operations: tuple[tuple[str, bool], ...]
    """Names, and whether they only read."""
    waits: str = ""
    """Why it takes no part yet: until then, calls wait."""


class Issued(msgspec.Struct, frozen=True, array_like=True, tag=21):
    """The call has its place among all requests. From now on it may be done."""

    number: int
    id: Dot


class Answer(msgspec.Struct, frozen=True, array_like=True, tag=22):
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
        msgspec.structs.force_setattr(self, "value", frozen(self.value))


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=23):
    """There will be no answer."""

    number: int
    reason: str
    """`unknown_operation`, `bad_arguments`, `busy`, `disk`, `deadline`, `stopping`, `no_majority`,
    `untold` or `token`."""
    message: str
    certain: bool = True
    """Was it certainly not done?"""


class Status(msgspec.Struct, frozen=True, array_like=True, tag=24):
    number: int
    status: dict[str, Any]


class Denied(msgspec.Struct, frozen=True, array_like=True, tag=25):
    """The connection is closed after this."""

    reason: str
    """`version`, `token`, `datatype`, `malformed`, `too_large`, `busy` or `frames.NO_TLS`."""
    message: str


class CopyBegun(msgspec.Struct, frozen=True, array_like=True, tag=26):
    """The copy is taken: its pieces can be asked for."""

    number: int
    length: int
    """How many requests are committed in it."""
    registers: int
    """How many registers will be told, about."""


class Copied(msgspec.Struct, frozen=True, array_like=True, tag=27):
    """A piece of the copy."""

    number: int
    data: bytes
    done: int
    """Of the registers, those that were told so far."""
    last: bool


ToClient: TypeAlias = Welcome | Issued | Answer | Refused | Status | Denied | CopyBegun | Copied

_Said = TypeVar("_Said")
_ANSWER: Final = Answer.__struct_config__.tag
_encode = msgspec.msgpack.Encoder().encode
_peer_hello: msgspec.msgpack.Decoder[PeerHello] = msgspec.msgpack.Decoder(PeerHello)
_from_peer: msgspec.msgpack.Decoder[FromPeer] = msgspec.msgpack.Decoder(FromPeer)
_from_client: msgspec.msgpack.Decoder[FromClient] = msgspec.msgpack.Decoder(FromClient)
_to_client: msgspec.msgpack.Decoder[ToClient] = msgspec.msgpack.Decoder(ToClient)


def frame_of(message: PeerHello | FromPeer | FromClient | ToClient) -> bytes:
    return framed(_encode(message))


def answer_frame(number: int, kind: str, outcome: Outcome, changed: bool = False) -> bytes:
    """The frame of an `Answer`, without making one: there are many."""
    answer = (_ANSWER, number, kind, outcome.value, outcome.error, changed)
    return framed(_encode(answer))


def peer_hello(payload: bytes) -> PeerHello:
    return _decoded(_peer_hello, payload)


def from_peer(payload: bytes) -> FromPeer:
    return _decoded(_from_peer, payload)


def from_client(payload: bytes) -> FromClient:
    return _decoded(_from_client, payload)


def to_client(payload: bytes) -> ToClient:
    return _decoded(_to_client, payload)


def _decoded(decoder: "msgspec.msgpack.Decoder[_Said]", payload: bytes) -> _Said:
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        raise MalformedMessage(str(error)) from error
