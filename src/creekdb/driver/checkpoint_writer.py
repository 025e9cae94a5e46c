"""Checkpoints and snapshots, encoded a few registers per turn, and appended among the records.

A turn encodes at most `registers_max` registers, however large the state is, and other work runs
between the turns. One job is encoded at a time, and one checkpoint is written at a time. A newer
checkpoint replaces a queued one, and a newer snapshot replaces a queued one for the same replica.

The driver provides the turns: the event loop of a live replica, or simulated time.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from creekdb.protocol.checkpoint.stream import (
    ArrayEncoder,
    EncodedCheckpoint,
    EncodedSnapshot,
    StreamedCheckpoint,
    StreamedSnapshot,
    encode_chunks,
)
from creekdb.protocol.messages import Record

REGISTERS_PER_TURN_MAX: Final = 256
"""Upper bound for the registers of one turn."""
TURN_BYTES_TARGET: Final = 128 * 1024
"""Approximate number of bytes encoded per turn. Of large registers, fewer are encoded."""

Slot = TypeVar("Slot")
"""Reserved position of a checkpoint among the records."""


class CheckpointStore(Protocol[Slot]):
    """Journal of records and checkpoints."""

    def append(self, records: Sequence[Record]) -> object: ...

    def append_checkpoint(self, chunks: Iterable[bytes]) -> object:
        """Append an encoded checkpoint like any record."""

    def reserve_checkpoint(self) -> Slot:
        """Reserve a slot, which counts as one record, for a checkpoint of all appended records."""

    def write_checkpoint(
        self, slot: Slot, chunks: Iterable[bytes], on_done: Callable[[], None]
    ) -> None:
        """Write a checkpoint. Call `on_done` when it is durable or has failed."""


class _EncodingJob(NamedTuple):
    source: StreamedCheckpoint | StreamedSnapshot
    on_encoded: Callable[[ArrayEncoder, ArrayEncoder], None]
    live: ArrayEncoder
    deleted: ArrayEncoder


class CheckpointWriter(Generic[Slot]):
    """Queue of checkpoints and snapshots to encode.

    - `send_snapshot` receives an encoded snapshot, and the position that must be durable before it
      is sent.
    - `schedule` runs a function in a later turn.
    - `replica_lock` is held while the state of the replica is read.
    """

    def __init__(
        self,
        store: CheckpointStore[Slot],
        send_snapshot: Callable[[EncodedSnapshot, int], None],
        schedule: Callable[[Callable[[], None]], object],
        replica_lock: AbstractContextManager[None] | None = None,
        registers_max: int = REGISTERS_PER_TURN_MAX,
    ) -> None:
        self._store = store
        self._send_snapshot = send_snapshot
        self._schedule_turn = schedule
        self._replica_lock = replica_lock or nullcontext()
        self._registers_max = registers_max
        self._registers_per_turn = registers_max
        self._jobs: list[_EncodingJob] = []
        """Queued jobs. The first is being encoded, unless it is a checkpoint and the previous
        checkpoint is not on disk yet."""
        self._is_encoding = False
        self._is_writing = False

    def append(
        self,
        records: Sequence[Record],
        checkpoints: Sequence[StreamedCheckpoint | EncodedCheckpoint],
    ) -> None:
        """Append the records of a batch, with its checkpoints at their positions among them."""
        appended = 0
        for checkpoint in checkpoints:
            if appended < checkpoint.preceding_records:
                self._store.append(records[appended : checkpoint.preceding_records])
                appended = checkpoint.preceding_records
            if isinstance(checkpoint, EncodedCheckpoint):
                self._store.append_checkpoint(checkpoint.chunks())
            else:
                self.add_checkpoint(checkpoint, self._store.reserve_checkpoint())
        if appended < len(records):
            self._store.append(records[appended:])

    def add_checkpoint(self, checkpoint: StreamedCheckpoint, slot: Slot) -> None:
        def write(live: ArrayEncoder, deleted: ArrayEncoder) -> None:
            self._is_writing = True
            chunks = encode_chunks(checkpoint.record, live, deleted)
            self._store.write_checkpoint(slot, chunks, self._finish_checkpoint)

        self._enqueue(_EncodingJob(checkpoint, write, ArrayEncoder(), ArrayEncoder()))

    def add_snapshot(self, snapshot: StreamedSnapshot, position: int) -> None:
        def send(live: ArrayEncoder, deleted: ArrayEncoder) -> None:
            encoded = EncodedSnapshot(snapshot.to, snapshot.snapshot, live, deleted)
            self._send_snapshot(encoded, position)

        self._enqueue(_EncodingJob(snapshot, send, ArrayEncoder(), ArrayEncoder()))

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
        self._schedule_turn(self._encode_some)

    def _encode_some(self) -> None:
        if not self._jobs:  # after `halt`
            self._is_encoding = False
            return
        source, on_encoded, live, deleted = self._jobs[0]
        with self._replica_lock:
            registers = source.registers.take(self._registers_per_turn)
        if registers is not None:
            self._adapt_turn(live.extend(registers[0]) + deleted.extend(registers[1]))
            self._schedule_turn(self._encode_some)
            return
        del self._jobs[0]
        self._is_encoding = False
        on_encoded(live, deleted)
        self._schedule()

    def _adapt_turn(self, size: int) -> None:
        if size > TURN_BYTES_TARGET:
            self._registers_per_turn = max(1, self._registers_per_turn // 2)
        elif size * 2 < TURN_BYTES_TARGET:
            self._registers_per_turn = min(self._registers_max, self._registers_per_turn * 2)

    def _finish_checkpoint(self) -> None:
        self._is_writing = False
        self._schedule()


def _is_superseded(old: _EncodingJob, new: _EncodingJob) -> bool:
    if isinstance(old.source, StreamedCheckpoint):
        return isinstance(new.source, StreamedCheckpoint)
    return isinstance(new.source, StreamedSnapshot) and old.source.to == new.source.to
