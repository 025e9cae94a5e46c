"""Images and snapshots whose registers are gone through in time.

A state may be large, and whoever writes it down must not be held up by that. A draft has everything
but the registers; these it has as they were when it was made, to be taken a few at a time. What
comes of it is what `messages.encode` gives of the whole, but for the order of the registers.

Nor must whoever is given a state be held up by that. A snapshot that is brought in parts has its
registers taken in as they come, and encoded again for the image that has to be on disk. When the
last one is there, all that is left to do costs the same, however many they are.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from creekdb.protocol.messages import Checkpoint, CheckpointRecord, Message, Snapshot
from creekdb.protocol.values import Key

CHUNK_ITEMS_MAX: Final = 256
"""Encoded at a time."""


class RegisterCursor(Protocol):
    """Those of a state, as they were at one moment."""

    @property
    def count(self) -> int:
        """How many there are, about."""

    def take(self, most: int) -> tuple[list[tuple[Key, Any]], list[Key]] | None:
        """The next ones, at most so many: what they hold, and which were deleted. Perhaps none of
        either; None when there are no more."""

    def close(self) -> None:
        """Nobody takes any more."""


class InMemoryRegisterCursor:
    """Registers of a checkpoint that is there as a whole."""

    __slots__ = ("_at", "_checkpoint")

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._at = 0

    @property
    def count(self) -> int:
        return len(self._checkpoint.state)

    def take(self, most: int) -> tuple[list[tuple[Key, Any]], list[Key]] | None:
        held, deleted = self._checkpoint.state, self._checkpoint.deleted
        begin, self._at = self._at, self._at + most
        if begin < len(held):
            return list(held[begin : self._at]), []
        begin -= -(-len(held) // most) * most
        return ([], list(deleted[begin : begin + most])) if begin < len(deleted) else None

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
    """So many of the records that it comes with come before it; it stands for them, too."""
    record: CheckpointRecord
    """Without registers."""
    registers: RegisterCursor


class StreamedSnapshot(NamedTuple):
    to: int
    snapshot: Snapshot
    """Without registers."""
    registers: RegisterCursor


class RegisterLoader(Protocol):
    """Where registers are taken in that are to be a state: a few at a time, in any order."""

    def add(self, held: Sequence[tuple[Key, Any]], deleted: Sequence[Key]) -> None: ...

    def has_unique_keys(self) -> bool:
        """Was no register taken in twice?"""

    def discard(self, most: int) -> bool:
        """Forget at most so many of the registers that are here: those that were not wanted, or
        that were replaced. False when there are none any more."""


# --- encoding ---------------------------------------------------------------------------------

_encode: Final = msgspec.msgpack.Encoder().encode
_ARRAY32: Final = struct.Struct(">BI")
_ARRAY32_TAG: Final = 0xDD
_FIXARRAY_TAG: Final = 0x90
"""An array of less than 16: so many more."""


class ArrayEncoder:
    """An array that is encoded in pieces."""

    __slots__ = ("chunks_by_count", "count")

    def __init__(self) -> None:
        self.count = 0
        self.chunks_by_count: list[tuple[int, bytes]] = []
        """So many items each, one after the other."""

    def extend(self, items: Sequence[object]) -> int:
        """Answers how many bytes that takes."""
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
    draft: CheckpointRecord | Snapshot, held: ArrayEncoder, deleted: ArrayEncoder
) -> Iterator[bytes]:
    """The whole in pieces, with these registers: each piece is made when it is asked for. What it
    is made of cannot change, so that may be in another thread."""
    found = draft.checkpoint
    yield _fixarray_header(1 + len(draft.__struct_fields__))
    yield _encode(draft.__struct_config__.tag)
    yield _fixarray_header(len(found.__struct_fields__))
    yield from map(_encode, (found.instance, found.length, found.ids, found.timestamp))
    yield from held.chunks()
    yield from _array_chunks(found.outcomes)
    yield from deleted.chunks()
    for name in draft.__struct_fields__[1:]:
        value = getattr(draft, name)
        if type(value) is tuple:
            yield from _array_chunks(value)
        else:
            yield _encode(value)


def _array_chunks(items: tuple[object, ...]) -> Iterator[bytes]:
    yield array_header(len(items))
    for first in range(0, len(items), CHUNK_ITEMS_MAX):
        some = items[first : first + CHUNK_ITEMS_MAX]
        yield _encode(some)[_header_size(len(some)) :]


def _fixarray_header(length: int) -> bytes:
    return bytes((_FIXARRAY_TAG + length,))


def _header_size(length: int) -> int:
    if length < 16:
        return 1
    return 3 if length < 2**16 else 5


# --- what is brought --------------------------------------------------------------------------


class AssembledSnapshot(NamedTuple):
    """A snapshot that came in parts."""

    checkpoint: Checkpoint
    """With no register but that of the members, if there is one."""
    loader: RegisterLoader
    live: ArrayEncoder
    deleted: ArrayEncoder


class EncodedCheckpoint(NamedTuple):
    """An image whose registers are encoded already."""

    preceding_records: int
    """So many of the records that it comes with come before it; it stands for them, too."""
    record: CheckpointRecord
    """With no register but that of the members, if there is one."""
    live: ArrayEncoder
    deleted: ArrayEncoder

    def chunks(self) -> Iterator[bytes]:
        return encode_chunks(self.record, self.live, self.deleted)


IncomingMessage: TypeAlias = Message | AssembledSnapshot
"""What a replica may be given by another one."""
