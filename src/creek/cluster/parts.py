"""Snapshots on their way from one replica to another: in parts, with other messages between them.

The sender has a part leave only when what it wrote before has mostly left, so that a heartbeat
never waits behind more than a part. The receiver puts the parts together; a connection that breaks
takes them with it, and what comes on the next one begins anew.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from creek.cluster.drawing import DrawnSnapshot
from creek.cluster.wire import PEER_FRAME_MAX, Part, frame_of, framed
from creek.errors import MalformedMessage
from creek.protocol.drafts import Array, array_head
from creek.protocol.messages import Checkpoint, Snapshot
from creek.protocol.values import Key

PART_BYTES: Final = 256 * 1024
REGISTERS_MOST: Final = 2**28
"""Of one snapshot."""

_encode: Final = msgspec.msgpack.Encoder().encode
_PART: Final = _encode(Part(0, 0, (), ()))[:2]
"""Its array of five, and its tag."""


def frames_of(drawn: DrawnSnapshot) -> Iterator[bytes]:
    """Each made when it is to leave."""
    yield from _part_frames(drawn.held, drawn.deleted)
    frame = frame_of(drawn.snapshot)
    if len(frame) > PEER_FRAME_MAX:
        frame = frame_of(_without_outcomes(drawn.snapshot))
    yield frame


def _without_outcomes(snapshot: Snapshot) -> Snapshot:
    """Who can do without them: clients ask again."""
    return Snapshot(msgspec.structs.replace(snapshot.checkpoint, outcomes=()))


def _part_frames(held: Array, deleted: Array) -> Iterator[bytes]:
    before, left = 0, held.count + deleted.count
    nothing = array_head(0)
    for array in (held, deleted):
        for count, pieces in _gathered(array):
            left -= count
            body = [array_head(count), *pieces]
            body = [*body, nothing] if array is held else [nothing, *body]
            yield framed(b"".join((_PART, _encode(before), _encode(left), *body)))
            before += count


def _gathered(array: Array) -> Iterator[tuple[int, list[bytes]]]:
    """Pieces that are sent together."""
    count, size, pieces = 0, 0, list[bytes]()
    for items, data in array.parts:
        count, size = count + items, size + len(data)
        pieces.append(data)
        if size >= PART_BYTES:
            yield count, pieces
            count, size, pieces = 0, 0, []
    if pieces:
        yield count, pieces


class Assembly:
    """The parts that came on one connection."""

    __slots__ = ("_deleted", "_held", "_left")

    def __init__(self) -> None:
        self._held: list[tuple[Key, Any]] = []
        self._deleted: list[Key] = []
        self._left = 0

    def add(self, part: Part) -> None:
        before, count = len(self._held) + len(self._deleted), len(part.held) + len(part.deleted)
        if part.before != before or (before and part.left + count != self._left):
            raise MalformedMessage("parts of a snapshot that do not belong together")
        if before + count + part.left > REGISTERS_MOST:
            raise MalformedMessage("parts of a snapshot that is too large")
        self._held += part.held
        self._deleted += part.deleted
        self._left = part.left

    def whole(self, snapshot: Snapshot) -> Snapshot:
        """With the registers that came before it."""
        if self._left:
            raise MalformedMessage("a snapshot before its last part")
        if not self._held and not self._deleted:
            return snapshot
        held, deleted = tuple(self._held), tuple(self._deleted)
        self._held, self._deleted = [], []
        checkpoint: Checkpoint = msgspec.structs.replace(snapshot.checkpoint, deleted=deleted)
        # As it came in parts, it is frozen: to look at all of it again would hold up the loop.
        msgspec.structs.force_setattr(checkpoint, "state", held)
        return Snapshot(checkpoint)
