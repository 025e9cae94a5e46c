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

from creekdb.protocol.messages import Checkpoint, Image, Message, Snapshot
from creekdb.protocol.values import Key

ITEMS_MAX: Final = 256
"""Encoded at a time."""


class Registers(Protocol):
    """Those of a state, as they were at one moment."""

    @property
    def count(self) -> int:
        """How many there are, about."""

    def take(self, most: int) -> tuple[list[tuple[Key, Any]], list[Key]] | None:
        """The next ones, at most so many: what they hold, and which were deleted. Perhaps none of
        either; None when there are no more."""

    def close(self) -> None:
        """Nobody takes any more."""


class Collected:
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


class Draft(NamedTuple):
    checkpoint: Checkpoint
    """Without registers."""
    registers: Registers


def draft_of(checkpoint: Checkpoint) -> Draft:
    bare = msgspec.structs.replace(checkpoint, state=(), deleted=())
    return Draft(bare, Collected(checkpoint))


class ImageDraft(NamedTuple):
    after: int
    """So many of the records that it comes with come before it; it stands for them, too."""
    image: Image
    """Without registers."""
    registers: Registers


class SnapshotDraft(NamedTuple):
    to: int
    snapshot: Snapshot
    """Without registers."""
    registers: Registers


class Intake(Protocol):
    """Where registers are taken in that are to be a state: a few at a time, in any order."""

    def add(self, held: Sequence[tuple[Key, Any]], deleted: Sequence[Key]) -> None: ...

    def is_sound(self) -> bool:
        """Was no register taken in twice?"""

    def give_up(self, most: int) -> bool:
        """Forget at most so many of the registers that are here: those that were not wanted, or
        that were replaced. False when there are none any more."""


# --- encoding ---------------------------------------------------------------------------------

_encode: Final = msgspec.msgpack.Encoder().encode
_ARRAY: Final = struct.Struct(">BI")
_ARRAY_TAG: Final = 0xDD
_SHORT: Final = 0x90
"""An array of less than 16: so many more."""


class Array:
    """An array that is encoded in pieces."""

    __slots__ = ("count", "parts")

    def __init__(self) -> None:
        self.count = 0
        self.parts: list[tuple[int, bytes]] = []
        """So many items each, one after the other."""

    def extend(self, items: Sequence[object]) -> int:
        """Answers how many bytes that takes."""
        if not items:
            return 0
        data = _encode(items)[_head_bytes(len(items)) :]
        self.count += len(items)
        self.parts.append((len(items), data))
        return len(data)

    def pieces(self) -> list[bytes]:
        return [array_head(self.count), *(data for _, data in self.parts)]


def array_head(count: int) -> bytes:
    return _ARRAY.pack(_ARRAY_TAG, count)


def encoded(draft: Image | Snapshot, held: Array, deleted: Array) -> Iterator[bytes]:
    """The whole in pieces, with these registers: each piece is made when it is asked for. What it
    is made of cannot change, so that may be in another thread."""
    found = draft.checkpoint
    yield _short(1 + len(draft.__struct_fields__))
    yield _encode(draft.__struct_config__.tag)
    yield _short(len(found.__struct_fields__))
    yield from map(_encode, (found.instance, found.length, found.ids, found.timestamp))
    yield from held.pieces()
    yield from _in_pieces(found.outcomes)
    yield from deleted.pieces()
    for name in draft.__struct_fields__[1:]:
        value = getattr(draft, name)
        if type(value) is tuple:
            yield from _in_pieces(value)
        else:
            yield _encode(value)


def _in_pieces(items: tuple[object, ...]) -> Iterator[bytes]:
    yield array_head(len(items))
    for first in range(0, len(items), ITEMS_MAX):
        some = items[first : first + ITEMS_MAX]
        yield _encode(some)[_head_bytes(len(some)) :]


def _short(length: int) -> bytes:
    return bytes((_SHORT + length,))


def _head_bytes(length: int) -> int:
    if length < 16:
        return 1
    return 3 if length < 2**16 else 5


# --- what is brought --------------------------------------------------------------------------


class Brought(NamedTuple):
    """A snapshot that came in parts."""

    checkpoint: Checkpoint
    """With no register but that of the members, if there is one."""
    intake: Intake
    held: Array
    deleted: Array


class DrawnImage(NamedTuple):
    """An image whose registers are encoded already."""

    after: int
    """So many of the records that it comes with come before it; it stands for them, too."""
    image: Image
    """With no register but that of the members, if there is one."""
    held: Array
    deleted: Array

    def pieces(self) -> Iterator[bytes]:
        return encoded(self.image, self.held, self.deleted)


Given: TypeAlias = Message | Brought
"""What a replica may be given by another one."""
