"""Images and snapshots, drawn a few registers in a turn of the loop.

However large the state is, a turn handles no more than `REGISTERS_MAX` of it; whatever else there
is to do has its turns in between. One is drawn at a time. An image that still waits when the next
one comes is worth nothing any more, and so is a snapshot for the same replica.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol

from creekdb.protocol.checkpoint.stream import Array, ImageDraft, SnapshotDraft, encoded
from creekdb.protocol.messages import Snapshot
from creekdb.server.storage.segment_writer import Room

REGISTERS_MAX: Final = 256
"""In one turn of the loop."""
TURN_BYTES: Final = 128 * 1024
"""What a turn encodes, more or less: of registers that hold much it handles fewer."""


class Album(Protocol):
    """Where images are kept."""

    def put_image(self, room: Room, pieces: Iterable[bytes], over: Callable[[], None]) -> None: ...


class _Drawing(NamedTuple):
    draft: ImageDraft | SnapshotDraft
    place: Room | int
    """Of an image, where it is to be; of a snapshot, what must be durable before it leaves."""
    held: Array
    deleted: Array


class DrawnSnapshot(NamedTuple):
    to: int
    snapshot: Snapshot
    """Without registers."""
    held: Array
    deleted: Array


class Drawings:
    """`leave` gets a snapshot that is ready, and the position that must be durable first. `gate` is
    held while a replica is looked at."""

    def __init__(
        self,
        album: Album,
        gate: AbstractContextManager[None],
        leave: Callable[[int, DrawnSnapshot], None],
    ) -> None:
        self._album = album
        self._gate = gate
        self._leave = leave
        self._loop = asyncio.get_running_loop()
        self._waiting: list[_Drawing] = []
        """The first one is being drawn, unless it is an image and the one before is not on disk."""
        self._is_drawing = False
        self._is_writing = False
        self._most = REGISTERS_MAX

    def image(self, draft: ImageDraft, room: Room) -> None:
        self._add(_Drawing(draft, room, Array(), Array()))

    def snapshot(self, draft: SnapshotDraft, position: int) -> None:
        self._add(_Drawing(draft, position, Array(), Array()))

    def halt(self) -> None:
        for each in self._waiting:
            each.draft.registers.close()
        self._waiting.clear()

    def _add(self, drawing: _Drawing) -> None:
        begun = self._waiting[:1] if self._is_drawing else []
        kept = list(begun)
        for each in self._waiting[len(begun) :]:
            if _is_outdated(each, drawing):
                each.draft.registers.close()
            else:
                kept.append(each)
        self._waiting = [*kept, drawing]
        self._go_on()

    def _go_on(self) -> None:
        if self._is_drawing or not self._waiting:
            return
        if self._is_writing and isinstance(self._waiting[0].draft, ImageDraft):
            return
        self._is_drawing = True
        self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        if not self._waiting:  # it was halted
            self._is_drawing = False
            return
        draft, place, held, deleted = self._waiting[0]
        with self._gate:
            found = draft.registers.take(self._most)
        if found is not None:
            size = held.extend(found[0]) + deleted.extend(found[1])
            self._most = max(1, self._most // 2) if size > TURN_BYTES else self._more(size)
            self._loop.call_soon(self._turn)
            return
        del self._waiting[0]
        self._is_drawing = False
        if isinstance(draft, ImageDraft):
            assert isinstance(place, Room)
            self._is_writing = True
            self._album.put_image(place, encoded(draft.image, held, deleted), self._written)
        else:
            assert isinstance(place, int)
            self._leave(place, DrawnSnapshot(draft.to, draft.snapshot, held, deleted))
        self._go_on()

    def _more(self, size: int) -> int:
        return min(REGISTERS_MAX, self._most * 2) if size * 2 < TURN_BYTES else self._most

    def _written(self) -> None:
        self._is_writing = False
        self._go_on()


def _is_outdated(old: _Drawing, new: _Drawing) -> bool:
    if isinstance(old.draft, ImageDraft):
        return isinstance(new.draft, ImageDraft)
    return isinstance(new.draft, SnapshotDraft) and old.draft.to == new.draft.to
