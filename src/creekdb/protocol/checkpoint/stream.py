"""Checkpoints and snapshots whose registers are streamed.

A state may be large, and writing it must not block the replica. A streamed checkpoint has all
fields but the registers. Those come from a cursor over one point in time, a few at a time. The
result equals the encoding of the whole by `messages.encode`, except for the order of the registers.

Nor must loading a state block the replica. A snapshot that arrives in parts is loaded part by part,
and its registers are encoded again for the checkpoint on disk. After the last part, the remaining
work is independent of the number of registers.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from creekdb.protocol.messages import Checkpoint, CheckpointRecord, Message, Snapshot
from creekdb.protocol.values import Key, freeze

CHUNK_ITEMS_MAX: Final = 256
"""Number of items encoded at a time."""


class RegisterCursor(Protocol):
    """Cursor over the registers of a state at one point in time."""

    @property
    def count(self) -> int:
        """Approximate number of registers."""

    def take(self, limit: int) -> tuple[list[tuple[Key, Any]], list[Key]] | None:
        """Return the next registers and deleted keys, at most `limit`. Both may be empty; None at
        the end."""

    def close(self) -> None:
        """Release the cursor."""


class InMemoryRegisterCursor:
    """Cursor over the registers of a complete checkpoint."""

    __slots__ = ("_at", "_checkpoint", "count")

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._at = 0
        self.count = len(checkpoint.state)

    def take(self, limit: int) -> tuple[list[tuple[Key, Any]], list[Key]] | None:
        live, deleted = self._checkpoint.state, self._checkpoint.deleted
        begin, self._at = self._at, self._at + limit
        if begin < len(live):
            return list(live[begin : self._at]), []
        begin -= -(-len(live) // limit) * limit
        return ([], list(deleted[begin : begin + limit])) if begin < len(deleted) else None

    def close(self) -> None:
        pass


class LazyCheckpoint(NamedTuple):
    checkpoint: Checkpoint
    """Without registers."""
    registers: RegisterCursor


def lazy_checkpoint_of(checkpoint: Checkpoint) -> LazyCheckpoint:
    bare = msgspec.structs.replace(checkpoint, state=(), deleted=())
    return LazyCheckpoint(bare, InMemoryRegisterCursor(checkpoint))


class StreamedCheckpoint(NamedTuple):
    preceding_records: int
    """Number of records in the same batch that precede it. It replaces those too."""
    record: CheckpointRecord
    """Record whose registers are empty; they are in `registers`."""
    registers: RegisterCursor


class StreamedSnapshot(NamedTuple):
    to: int
    snapshot: Snapshot
    """Snapshot whose registers are empty; they are in `registers`."""
    registers: RegisterCursor


class RegisterLoader(Protocol):
    """Destination for the registers of a new state, a few at a time and in any order."""

    def add(self, live: Sequence[tuple[Key, Any]], deleted: Sequence[Key]) -> None: ...

    def has_unique_keys(self) -> bool:
        """True if no register was added twice."""

    def discard(self, limit: int) -> bool:
        """Discard at most `limit` of the unused or replaced registers; False if none remain."""


# --- encoding ---------------------------------------------------------------------------------

_encode: Final = msgspec.msgpack.Encoder().encode
_ARRAY32: Final = struct.Struct(">BI")
_ARRAY32_TAG: Final = 0xDD
_FIXARRAY_TAG: Final = 0x90
"""Tag of an array of less than 16 items, to which the length is added."""


class ArrayEncoder:
    """Array that is encoded in chunks."""

    __slots__ = ("chunks_by_count", "count")

    def __init__(self) -> None:
        self.count = 0
        self.chunks_by_count: list[tuple[int, bytes]] = []
        """Number of items and encoding of each chunk."""

    def extend(self, items: Sequence[object]) -> int:
        """Append items and return the size of their encoding, in bytes."""
        if not items:
            return 0
        data = _encode(items)[_header_size(len(items)) :]
        self.count += len(items)
        self.chunks_by_count.append((len(items), data))
        return len(data)

    def chunks(self) -> list[bytes]:
        return [array_header(self.count), *(data for _, data in self.chunks_by_count)]


def array_header(count: int) -> bytes:
    return _ARRAY32.pack(_ARRAY32_TAG, count)


def encode_chunks(
    container: CheckpointRecord | Snapshot, live: ArrayEncoder, deleted: ArrayEncoder
) -> Iterator[bytes]:
    """Yield the encoding of `container` with these registers. Each chunk is encoded on demand. All
    parts are immutable, so that may happen in another thread."""
    checkpoint = container.checkpoint
    yield _fixarray_header(1 + len(container.__struct_fields__))
    yield _encode(container.__struct_config__.tag)
    yield _fixarray_header(len(checkpoint.__struct_fields__))
    yield from map(
        _encode, (checkpoint.instance, checkpoint.length, checkpoint.ids, checkpoint.timestamp)
    )
    yield from live.chunks()
    yield from _array_chunks(checkpoint.outcomes)
    yield from deleted.chunks()
    for name in container.__struct_fields__[1:]:
        value = getattr(container, name)
        if type(value) is tuple:
            yield from _array_chunks(value)
        else:
            yield _encode(value)


def _array_chunks(items: tuple[object, ...]) -> Iterator[bytes]:
    yield array_header(len(items))
    for first in range(0, len(items), CHUNK_ITEMS_MAX):
        chunk = items[first : first + CHUNK_ITEMS_MAX]
        yield _encode(chunk)[_header_size(len(chunk)) :]


def _fixarray_header(length: int) -> bytes:
    return bytes((_FIXARRAY_TAG + length,))


def _header_size(length: int) -> int:
    if length < 16:
        return 1
    return 3 if length < 2**16 else 5


class EncodedSnapshot(NamedTuple):
    """Snapshot for one replica, ready to be sent."""

    to: int
    snapshot: Snapshot
    """Snapshot without its registers."""
    live: ArrayEncoder
    deleted: ArrayEncoder


# --- received snapshots -----------------------------------------------------------------------


class SnapshotPart(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Registers of the snapshot that follows. The snapshot itself contains none."""

    preceding_count: int
    """Number of registers in earlier parts."""
    remaining_count: int
    """Number of registers in later parts."""
    live: tuple[tuple[Key, Any], ...]
    deleted: tuple[Key, ...]

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(
            self, "live", tuple([(key, freeze(value)) for key, value in self.live])
        )


class AssembledSnapshot(NamedTuple):
    """Snapshot that was received in parts."""

    checkpoint: Checkpoint
    """Without registers, except for the membership register if there is one."""
    loader: RegisterLoader
    live: ArrayEncoder
    deleted: ArrayEncoder


class EncodedCheckpoint(NamedTuple):
    """Checkpoint whose registers are already encoded."""

    preceding_records: int
    """Number of records in the same batch that precede it. It replaces those too."""
    record: CheckpointRecord
    """Without registers, except for the membership register if there is one."""
    live: ArrayEncoder
    deleted: ArrayEncoder

    def chunks(self) -> Iterator[bytes]:
        return encode_chunks(self.record, self.live, self.deleted)


IncomingMessage: TypeAlias = Message | AssembledSnapshot
"""Message that a replica may receive from another one."""
