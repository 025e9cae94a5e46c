"""Images and snapshots of which the registers are yet to be gone through.

A state may be large, and whoever writes it down must not be held up by that. A draft has everything
but the registers; these it has as they were when it was made, to be taken a few at a time. What
comes of it is what `messages.encode` gives of the whole, but for the order of the registers.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from creek.protocol.messages import Checkpoint, Image, Snapshot
from creek.protocol.values import Key


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


def encoded(draft: Image | Snapshot, held: Array, deleted: Array) -> list[bytes]:
    """The whole in pieces, with these registers."""
    found = draft.checkpoint
    fields = [getattr(draft, name) for name in draft.__struct_fields__[1:]]
    return [
        _short(2 + len(fields)),
        _encode(draft.__struct_config__.tag),
        _short(len(found.__struct_fields__)),
        *map(_encode, (found.instance, found.length, found.ids, found.timestamp)),
        *held.pieces(),
        _encode(found.outcomes),
        *deleted.pieces(),
        *map(_encode, fields),
    ]


def drawn(draft: Image | Snapshot, registers: Registers, most: int = 256) -> bytes:
    """The whole, encoded, with all of its registers: so many at a time."""
    held, deleted = Array(), Array()
    while (found := registers.take(most)) is not None:
        held.extend(found[0])
        deleted.extend(found[1])
    return b"".join(encoded(draft, held, deleted))


def _short(length: int) -> bytes:
    return bytes((_SHORT + length,))


def _head_bytes(length: int) -> int:
    if length < 16:
        return 1
    return 3 if length < 2**16 else 5
