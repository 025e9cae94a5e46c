"""Encoding of checkpoints and snapshots, a few registers per iteration of the event loop.

An iteration encodes at most `REGISTERS_PER_TURN_MAX` registers, however large the state is, and
other work runs between the iterations. One job is encoded at a time. A newer checkpoint replaces a
queued one, and a newer snapshot replaces a queued one for the same replica.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol

from creekdb.protocol.checkpoint.stream import (
    ArrayEncoder,
    EncodedSnapshot,
    StreamedCheckpoint,
    StreamedSnapshot,
    encode_chunks,
)
from creekdb.server.storage.segment_writer import CheckpointSlot

REGISTERS_PER_TURN_MAX: Final = 256
"""Upper bound for the registers of one iteration."""
TURN_BYTES_TARGET: Final = 128 * 1024
"""Approximate number of bytes encoded per iteration. Of large registers, fewer are encoded."""


class CheckpointStore(Protocol):
    """Destination of checkpoints."""

    def write_checkpoint(
        self, slot: CheckpointSlot, chunks: Iterable[bytes], on_done: Callable[[], None]
    ) -> None: ...


class _EncodingJob(NamedTuple):
    source: StreamedCheckpoint | StreamedSnapshot
    target: CheckpointSlot | int
    """Slot of a checkpoint, or journal position that must be durable before a snapshot is sent."""
    live: ArrayEncoder
    deleted: ArrayEncoder


class CheckpointWriter:
    """Queue of checkpoints and snapshots to encode.

    `send_snapshot` receives an encoded snapshot, and the position that must be durable before it is
    sent. `replica_lock` is held while the state of the replica is read.
    """

    def __init__(
        self,
        store: CheckpointStore,
        replica_lock: AbstractContextManager[None],
        send_snapshot: Callable[[int, EncodedSnapshot], None],
    ) -> None:
        self._store = store
        self._replica_lock = replica_lock
        self._send_snapshot = send_snapshot
        self._loop = asyncio.get_running_loop()
        self._jobs: list[_EncodingJob] = []
        """Queued jobs. The first is being encoded, unless it is a checkpoint and the previous
        checkpoint is not on disk yet."""
        self._is_encoding = False
        self._is_writing = False
        self._registers_per_turn = REGISTERS_PER_TURN_MAX

    def add_checkpoint(self, checkpoint: StreamedCheckpoint, slot: CheckpointSlot) -> None:
        self._enqueue(_EncodingJob(checkpoint, slot, ArrayEncoder(), ArrayEncoder()))

    def add_snapshot(self, snapshot: StreamedSnapshot, position: int) -> None:
        self._enqueue(_EncodingJob(snapshot, position, ArrayEncoder(), ArrayEncoder()))

    def halt(self) -> None:
        for job in self._jobs:
            job.source.registers.close()
        self._jobs.clear()

    def _enqueue(self, new: _EncodingJob) -> None:
        started = self._jobs[:1] if self._is_encoding else []
        retained = list(started)
        for job in self._jobs[len(started) :]:
            if _is_superseded(job, new):
                job.source.registers.close()
            else:
                retained.append(job)
        self._jobs = [*retained, new]
        self._schedule()

    def _schedule(self) -> None:
        if self._is_encoding or not self._jobs:
            return
        if self._is_writing and isinstance(self._jobs[0].source, StreamedCheckpoint):
            return
        self._is_encoding = True
        self._loop.call_soon(self._encode_some)

    def _encode_some(self) -> None:
        if not self._jobs:  # after `halt`
            self._is_encoding = False
            return
        source, target, live, deleted = self._jobs[0]
        with self._replica_lock:
            registers = source.registers.take(self._registers_per_turn)
        if registers is not None:
            size = live.extend(registers[0]) + deleted.extend(registers[1])
            self._registers_per_turn = (
                max(1, self._registers_per_turn // 2)
                if size > TURN_BYTES_TARGET
                else self._grow_turn(size)
            )
            self._loop.call_soon(self._encode_some)
            return
        del self._jobs[0]
        self._is_encoding = False
        if isinstance(source, StreamedCheckpoint):
            assert isinstance(target, CheckpointSlot)
            self._is_writing = True
            self._store.write_checkpoint(
                target, encode_chunks(source.record, live, deleted), self._finish_checkpoint
            )
        else:
            assert isinstance(target, int)
            self._send_snapshot(target, EncodedSnapshot(source.to, source.snapshot, live, deleted))
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
    if isinstance(old.source, StreamedCheckpoint):
        return isinstance(new.source, StreamedCheckpoint)
    return isinstance(new.source, StreamedSnapshot) and old.source.to == new.source.to
