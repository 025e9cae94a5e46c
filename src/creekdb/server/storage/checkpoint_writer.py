"""Images and snapshots, drawn a few registers in a turn of the loop.

However large the state is, a turn handles no more than `REGISTERS_MAX` of it; whatever else there
is to do has its turns in between. One is drawn at a time. An image that still waits when the next
one comes is worth nothing any more, and so is a snapshot for the same replica.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol

from creekdb.protocol.checkpoint.stream import (
    ArrayEncoder,
    StreamedCheckpoint,
    StreamedSnapshot,
    encode_chunks,
)
from creekdb.protocol.messages import Snapshot
from creekdb.server.storage.segment_writer import CheckpointSlot

REGISTERS_PER_TURN_MAX: Final = 256
"""In one turn of the loop."""
TURN_BYTES_TARGET: Final = 128 * 1024
"""What a turn encodes, more or less: of registers that hold much it handles fewer."""


class CheckpointStore(Protocol):
    """Where images are kept."""

    def write_checkpoint(
        self, room: CheckpointSlot, pieces: Iterable[bytes], over: Callable[[], None]
    ) -> None: ...


class _EncodingJob(NamedTuple):
    draft: StreamedCheckpoint | StreamedSnapshot
    target: CheckpointSlot | int
    """Of an image, where it is to be; of a snapshot, what must be durable before it leaves."""
    live: ArrayEncoder
    deleted: ArrayEncoder


class EncodedSnapshot(NamedTuple):
    to: int
    snapshot: Snapshot
    """Without registers."""
    live: ArrayEncoder
    deleted: ArrayEncoder


class CheckpointWriter:
    """`leave` gets a snapshot that is ready, and the position that must be durable first. `gate` is
    held while a replica is looked at."""

    def __init__(
        self,
        album: CheckpointStore,
        gate: AbstractContextManager[None],
        leave: Callable[[int, EncodedSnapshot], None],
    ) -> None:
        self._store = album
        self._replica_lock = gate
        self._send_snapshot = leave
        self._loop = asyncio.get_running_loop()
        self._jobs: list[_EncodingJob] = []
        """The first one is being drawn, unless it is an image and the one before is not on disk."""
        self._is_encoding = False
        self._is_writing = False
        self._registers_per_turn = REGISTERS_PER_TURN_MAX

    def add_checkpoint(self, draft: StreamedCheckpoint, room: CheckpointSlot) -> None:
        self._enqueue(_EncodingJob(draft, room, ArrayEncoder(), ArrayEncoder()))

    def add_snapshot(self, draft: StreamedSnapshot, position: int) -> None:
        self._enqueue(_EncodingJob(draft, position, ArrayEncoder(), ArrayEncoder()))

    def halt(self) -> None:
        for each in self._jobs:
            each.draft.registers.close()
        self._jobs.clear()

    def _enqueue(self, drawing: _EncodingJob) -> None:
        begun = self._jobs[:1] if self._is_encoding else []
        kept = list(begun)
        for each in self._jobs[len(begun) :]:
            if _is_superseded(each, drawing):
                each.draft.registers.close()
            else:
                kept.append(each)
        self._jobs = [*kept, drawing]
        self._schedule()

    def _schedule(self) -> None:
        if self._is_encoding or not self._jobs:
            return
        if self._is_writing and isinstance(self._jobs[0].draft, StreamedCheckpoint):
            return
        self._is_encoding = True
        self._loop.call_soon(self._encode_some)

    def _encode_some(self) -> None:
        if not self._jobs:  # it was halted
            self._is_encoding = False
            return
        draft, place, held, deleted = self._jobs[0]
        with self._replica_lock:
            found = draft.registers.take(self._registers_per_turn)
        if found is not None:
            size = held.extend(found[0]) + deleted.extend(found[1])
            self._registers_per_turn = (
                max(1, self._registers_per_turn // 2)
                if size > TURN_BYTES_TARGET
                else self._grow_turn(size)
            )
            self._loop.call_soon(self._encode_some)
            return
        del self._jobs[0]
        self._is_encoding = False
        if isinstance(draft, StreamedCheckpoint):
            assert isinstance(place, CheckpointSlot)
            self._is_writing = True
            self._store.write_checkpoint(
                place, encode_chunks(draft.record, held, deleted), self._finish_checkpoint
            )
        else:
            assert isinstance(place, int)
            self._send_snapshot(place, EncodedSnapshot(draft.to, draft.snapshot, held, deleted))
        self._schedule()

    def _grow_turn(self, size: int) -> int:
        return (
            min(REGISTERS_PER_TURN_MAX, self._registers_per_turn * 2)
            if size * 2 < TURN_BYTES_TARGET
            else self._registers_per_turn
        )

    def _finish_checkpoint(self) -> None:
        self._is_writing = False
        self._schedule()


def _is_superseded(old: _EncodingJob, new: _EncodingJob) -> bool:
    if isinstance(old.draft, StreamedCheckpoint):
        return isinstance(new.draft, StreamedCheckpoint)
    return isinstance(new.draft, StreamedSnapshot) and old.draft.to == new.draft.to
