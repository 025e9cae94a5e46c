"""Model of the disk of one node: an ordered log with group commit and crashes.

Rules:

- Group commit: one fsync at a time; records that arrive during an fsync share the next one.
- A crash keeps the durable prefix. Of the remaining records, a random prefix may survive too. The
  record after it may be torn; a restart detects and truncates it.
- A durable `CheckpointRecord` replaces all records before it.
- A streamed checkpoint has a reserved position, which counts as a record. It is written
  concurrently with later records and then replaces all earlier ones. A crash during the write
  leaves nothing of it. Some writes fail.
- A write to a failing disk fails when its fsync ends. From then on the disk has a fault, and the
  records wait in memory. The write is repeated until it succeeds.
- With `notice_us_max`, the replica learns some time later that records are durable.
- A lost disk is empty, and a rolled-back one holds earlier records; positions continue to count.
- With an fsync latency of zero and without a failure, records are durable at once and no event is
  scheduled.
- A disk with `kept=False` is free: every record counts as durable, nothing is encoded, and a crash
  loses everything. It is for experiments of the paper, which measured without disks.

Records are stored encoded and decoded on restart, so that a run covers the codec.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from creekdb.protocol.messages import CheckpointRecord, Record, decode_record, encode
from creekdb.simulation.kernel.simulated_time import EventHandle, EventHeap
from creekdb.simulation.models.parameters import DiskModel

RETRY_US = 2_000
"""Time between a failed write and the next attempt, in microseconds."""
CHECKPOINT_FAILURE_PROBABILITY = 0.1
"""Probability that writing a streamed checkpoint fails, as if the disk had been full."""
_RESERVED = b""
"""Log entry at the reserved position of a streamed checkpoint."""


class _StreamedWrite(NamedTuple):
    position: int
    data: bytes
    on_done: Callable[[], None]


class Disk:
    __slots__ = (
        "_crashes",
        "_dropped",
        "_fsync",
        "_heap",
        "_log",
        "_model",
        "_on_durable",
        "_on_failure",
        "_pending_checkpoints",
        "_random",
        "_streamed_checkpoint",
        "durable_position",
        "extra_fsync_us",
        "failing",
        "fsyncs",
        "has_fault",
        "lost_records",
        "on_next_fsync",
        "torn_records",
    )

    def __init__(
        self,
        heap: EventHeap,
        model: DiskModel,
        random: Random,
        on_durable: Callable[[], None],
        on_failure: Callable[[], None],
    ) -> None:
        self._heap = heap
        self._model = model
        self._random = random
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._log: list[bytes] = []
        self._dropped = 0
        """Number of records that checkpoints replaced; positions include them, the log does not."""
        self._pending_checkpoints: list[int] = []
        """Positions of checkpoints that are not durable yet."""
        self._streamed_checkpoint: _StreamedWrite | None = None
        """Checkpoint that waits for the records before it, or None."""
        self._fsync: EventHandle | None = None
        self._crashes = 0
        self.durable_position = 0
        """Position up to which all records are durable."""
        self.extra_fsync_us = 0
        """Additional fsync latency of a slow disk, in microseconds."""
        self.failing = 0
        """1 while every write fails, otherwise 0."""
        self.has_fault = False
        """True if the last write failed, so that no record becomes durable at present."""
        self.on_next_fsync: Callable[[], None] | None = None
        """Callback that runs once, in the middle of the next fsync."""
        self.fsyncs = 0
        self.lost_records = 0
        self.torn_records = 0

    @property
    def end_position(self) -> int:
        """Position after the last record."""
        return self._dropped + len(self._log)

    def write_initial(self, record: Record) -> None:
        """Write a durable record before the first start of the replica."""
        self._log.append(encode(record))
        self._advance_durable(self.end_position)

    def append(self, records: Sequence[Record]) -> None:
        """Write a batch; `on_durable` is called when it is durable, unless it is at once."""
        if not self._model.kept:
            self._skip(len(records))
            return
        log = self._log
        for record in records:
            if type(record) is CheckpointRecord:
                self._pending_checkpoints.append(self._dropped + len(log))
            log.append(encode(record))
        self._sync()

    def reserve_checkpoint(self) -> int:
        """Reserve and return the position of a checkpoint that is written later, or never."""
        position = self.end_position
        if self._model.kept:
            self._log.append(_RESERVED)
            self._sync()
        else:
            self._skip(1)
        return position

    def append_checkpoint(self, chunks: Iterable[bytes]) -> None:
        """Write an encoded checkpoint like any record."""
        self.append((decode_record(b"".join(chunks)),))

    def write_checkpoint(
        self, slot: int, chunks: Iterable[bytes], on_done: Callable[[], None]
    ) -> None:
        """Write a checkpoint at its reserved position, once all records before it are durable.

        One checkpoint is written at a time. `on_done` is called when it is durable or has failed.
        """
        if self._model.kept:
            self._streamed_checkpoint = _StreamedWrite(slot, b"".join(chunks), on_done)
            self._start_checkpoint()
        else:
            on_done()

    def crash(self) -> None:
        self._crashes += 1
        self.has_fault = False
        if self._fsync is not None:
            self._heap.cancel(self._fsync)
            self._fsync = None
        pending = self.end_position - self.durable_position
        survivors = self._random.randint(0, pending) if pending else 0
        if survivors < pending:
            self.lost_records += pending - survivors
            self.torn_records += self._random.random() < 0.5
            del self._log[self.durable_position + survivors - self._dropped :]
        self._streamed_checkpoint = None
        self._advance_durable(self.end_position)
        self._pending_checkpoints.clear()

    def erase(self) -> None:
        """Erase the disk of a node that is down."""
        self._dropped, self._log = self.end_position, []
        self.durable_position = self.end_position

    def copy(self) -> list[bytes]:
        """Return a copy of the durable records."""
        return self._log[: self.durable_position - self._dropped]

    def replace(self, copy: list[bytes]) -> None:
        """Replace the records of a node that is down by a copy made before."""
        self.erase()
        self._log = list(copy)
        self.durable_position = self.end_position

    def read(self) -> list[Record]:
        """Return the records that a restart reads."""
        return [decode_record(data) for data in self._log if data]

    def read_durable(self) -> Iterator[Record]:
        """Yield the durable records, which survive any crash."""
        for data in self._log[: self.durable_position - self._dropped]:
            if data:
                yield decode_record(data)

    def encoded_records(self) -> list[bytes]:
        return list(self._log)

    def _skip(self, count: int) -> None:
        """Count records that are not kept."""
        self._dropped += count
        self.durable_position = self.end_position

    def _sync(self) -> None:
        if self._fsync is not None:
            return
        if self._model.fsync_us_max + self.extra_fsync_us + self.failing:
            self._start_fsync()
        else:
            self.fsyncs += 1
            self._advance_durable(self.end_position)

    def _delay_us(self) -> int:
        model = self._model
        return self._random.randint(model.fsync_us_min, model.fsync_us_max) + self.extra_fsync_us

    def _start_fsync(self) -> None:
        delay_us = self._delay_us()
        self._fsync = self._heap.schedule_after(delay_us, self._fsync_done, self.end_position)
        if self.on_next_fsync is not None:
            self._heap.schedule_after(self._random.randint(0, delay_us), self.on_next_fsync)
            self.on_next_fsync = None

    def _fsync_done(self, covered: int) -> None:
        if self.failing:
            self.has_fault = True
            self._fsync = self._heap.schedule_after(RETRY_US, self._start_fsync)
            self._on_failure()
            return
        self.fsyncs += 1
        self._fsync = None
        self.has_fault = False
        self._advance_durable(covered)
        if self.end_position > covered:
            self._start_fsync()
        if self._model.notice_us_max:
            delay_us = self._random.randint(0, self._model.notice_us_max)
            self._heap.schedule_after(delay_us, self._notify, self._crashes)
        else:
            self._on_durable()

    def _notify(self, crashes: int) -> None:
        if crashes == self._crashes:
            self._on_durable()

    def _start_checkpoint(self) -> None:
        write = self._streamed_checkpoint
        if write is not None and write.position < self.durable_position:
            self._streamed_checkpoint = None
            self._heap.schedule_after(
                self._delay_us(), self._checkpoint_written, self._crashes, write
            )

    def _checkpoint_written(self, crashes: int, write: _StreamedWrite) -> None:
        if crashes != self._crashes:
            return  # a crash tore it
        has_failed = self._random.random() < CHECKPOINT_FAILURE_PROBABILITY or self.failing
        if not has_failed and write.position >= self._dropped:
            self.fsyncs += 1
            del self._log[: write.position - self._dropped]
            self._dropped = write.position
            self._log[0] = write.data
        write.on_done()

    def _advance_durable(self, position: int) -> None:
        self.durable_position = position
        while self._pending_checkpoints and self._pending_checkpoints[0] < position:
            checkpoint_position = self._pending_checkpoints.pop(0)
            del self._log[: checkpoint_position - self._dropped]
            self._dropped = checkpoint_position
        self._start_checkpoint()
