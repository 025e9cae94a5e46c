"""Journal: records that survive a crash, in order.

Rules:

- Group commit: one write and one sync at a time, asynchronous or on a thread. The records appended
  meanwhile share the next sync. `append` never waits for the disk. Records without a waiter
  are written together with the next ones that have one.
- `durable_position` advances only after the disk has confirmed a write, and in order.
- A `CheckpointRecord` begins a new segment. Once it is durable, the older segments are removed.
- A slow checkpoint has a reserved slot and is written concurrently with later records. If that
  fails or is interrupted, the checkpoint does not exist and the older segments stay.
- A full or failing disk only causes delay: the records wait in memory, nothing becomes durable, and
  `fault` states the cause. `retry` tries again, and writing continues if it succeeds.
- If the writer thread itself fails, the journal `is_broken` and never becomes durable again.
- One process at a time can open the directory.

`segments` defines the format on disk. The caller bounds the records that wait in memory.
"""

import errno
import queue
import threading
import traceback
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from creekdb.errors import DiskFailed, DiskFull, StorageFault
from creekdb.protocol.messages import CheckpointRecord, Record, encode
from creekdb.server.storage.file_ops import SYSTEM_FILE_OPS, DirectoryLock, FileOps
from creekdb.server.storage.segment_writer import (
    CheckpointAbandoned,
    CheckpointSlot,
    CommitGroup,
    SegmentWriter,
    WriteResult,
)
from creekdb.server.storage.segments import UNKNOWN_OWNER, read_segment_chain

DEFERRED_BYTES_MAX: Final = 1024 * 1024
"""Upper bound for records without a waiter. Beyond it, they are written at once."""


class JournalLimits(NamedTuple):
    """Sizes of the parts of a journal."""

    segment_bytes: int = 64 * 1024 * 1024
    group_bytes_max: int = 4 * 1024 * 1024
    """Upper bound for the records of one sync, so that none takes long. A larger record has its
    own."""


JOURNAL_LIMITS: Final = JournalLimits()

_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)


class Journal:
    """Journal in one directory.

    With a `loop`, the system or a thread writes, and the callbacks run on the loop. Without one,
    `flush` writes and calls them.

    `on_failure` is called after each failed attempt to write. All methods belong to the thread of
    the loop. Only `open`, `flush` and `close` wait for the disk.
    """

    def __init__(
        self,
        directory: Path,
        *,
        limits: JournalLimits = JOURNAL_LIMITS,
        loop: AbstractEventLoop | None = None,
        on_failure: Callable[[StorageFault], None] = lambda fault: None,
        log: Callable[[str], None] = lambda line: None,
        file_ops: FileOps = SYSTEM_FILE_OPS,
        owner: int = UNKNOWN_OWNER,
    ) -> None:
        """`owner` is recorded in each segment. Segments of other owners are rejected."""
        self._directory = directory
        self._owner = owner
        self._loop = loop
        self._on_durable: Callable[[], None] = lambda: None
        self._on_failure = on_failure
        self._log = log
        self._file_ops = file_ops
        self._group_bytes_max = limits.group_bytes_max
        self._writer = SegmentWriter(directory, limits.segment_bytes, file_ops, log, owner)
        """Writer of segments. It belongs to the thread that writes the first group."""
        self._directory_lock = DirectoryLock(directory, file_ops)
        self._pending_groups: deque[CommitGroup] = deque()
        """Groups that are not durable yet. The first may be in progress."""
        self._requested_position = 0
        """Position up to which records have a waiter."""
        self._is_writing = False
        """True while the first group is being written."""
        self._is_first_group_sealed = False
        """True if the first group has been submitted once. Then no record is added to it."""
        self._is_retry_requested = False
        self._is_closing = False
        self._writer_thread: threading.Thread | None = None
        self._write_queue: queue.SimpleQueue[CommitGroup | Path | None] = queue.SimpleQueue()
        """Input of the writer thread: groups, paths of durable checkpoints, None at the end."""
        self._write_results: queue.SimpleQueue[WriteResult] = queue.SimpleQueue()
        self._checkpoint_thread: threading.Thread | None = None
        self._checkpoint_queue: queue.SimpleQueue[
            tuple[CheckpointSlot, Iterable[bytes], Callable[[], None]] | None
        ]
        self._checkpoint_queue = queue.SimpleQueue()
        """Input of the checkpoint thread: checkpoints to write, None at the end."""
        self.end_position = 0
        """Position after the last appended record."""
        self.durable_position = 0
        """Position before which all records are durable."""
        self.pending_bytes = 0
        self.fault: StorageFault | None = None
        """Cause why no record becomes durable at present, or None."""
        self.is_broken = False
        """True if `fault` is permanent."""
        self.sync_count = 0

    def subscribe(self, on_durable: Callable[[], None]) -> None:
        """Call `on_durable` after each sync from now on."""
        self._on_durable = on_durable

    # --- opening and closing ------------------------------------------------------------------

    def open(self) -> list[Record]:
        """Return the durable records from the last checkpoint on, in order. Call this once.

        Raise `DirectoryInUse`, `UsageError` if a file does not belong to this journal, or
        `StorageFault` if the records are damaged or cannot be read.
        """
        try:
            self._directory_lock.open()
        except OSError as error:
            raise StorageFault(f"cannot use {self._directory}: {error.strerror}") from error
        try:
            records = self._recover()
            if self._loop is not None:
                self._start_threads(self._loop)
        except BaseException:
            self._writer.close()
            self._file_ops.detach()
            self._directory_lock.close()
            raise
        return records

    def _start_threads(self, loop: AbstractEventLoop) -> None:
        writer = threading.Thread(target=self._run_writer, name="journal", daemon=True)
        checkpoints = threading.Thread(
            target=self._run_checkpoint_writer, name="checkpoints", daemon=True
        )
        writer.start()
        checkpoints.start()
        self._writer_thread, self._checkpoint_thread = writer, checkpoints
        self._file_ops.attach(loop)

    def close(self) -> None:
        """Write the pending records, unless the disk has failed, and unlock the directory."""
        if not self._directory_lock.is_open:
            return
        self._is_closing = True
        self._abandon_checkpoint_slots()
        if self._checkpoint_thread is not None:
            self._checkpoint_queue.put(None)
            self._checkpoint_thread.join()
        self._drain()
        if self._writer_thread is not None:
            self._write_queue.put(None)
            self._writer_thread.join()
        if self.durable_position < self.end_position:
            self._log(
                f"{self.end_position - self.durable_position} records were never written: "
                f"{self.fault}"
            )
        self._file_ops.detach()
        self._writer.close()
        self._directory_lock.close()

    # --- appending ----------------------------------------------------------------------------

    def append(self, records: Sequence[Record], sync: bool = True) -> int:
        """Append records, and return the position after them.

        They are durable when `durable_position` reaches it. Without `sync`, that happens together
        with later records. If one of the records cannot be encoded, none is appended.
        """
        encoded = [(encode(record), type(record) is CheckpointRecord) for record in records]
        self._check_open()
        groups = self._pending_groups
        for payload, is_checkpoint in encoded:
            if is_checkpoint:
                self._append_slot((payload,), len(payload))
                continue
            group = groups[-1] if groups else None
            if (
                group is None
                or (self._is_first_group_sealed and group is groups[0])
                or group.checkpoint_slot is not None
                or group.size_bytes + len(payload) > self._group_bytes_max
            ):
                group = CommitGroup(self.end_position)
                groups.append(group)
            group.payloads.append(payload)
            group.size_bytes += len(payload)
            self.pending_bytes += len(payload)
            self.end_position += 1
        if sync or self.pending_bytes > DEFERRED_BYTES_MAX:
            self.request_sync()
        return self.end_position

    def request_sync(self) -> None:
        """Start to make all appended records durable."""
        self._requested_position = self.end_position
        if self._writer_thread is not None and not self._is_writing and self._can_write():
            self._start_write()

    def append_checkpoint(self, chunks: Iterable[bytes]) -> int:
        """Append an encoded checkpoint like any record, and return the position after it.

        The thread that writes the chunks also iterates over them.
        """
        self._check_open()
        self._append_slot(chunks)
        self.request_sync()
        return self.end_position

    def reserve_checkpoint(self) -> CheckpointSlot:
        """Reserve a slot for a checkpoint of all appended records. It counts as one record."""
        self._check_open()
        slot = self._append_slot()
        self.request_sync()
        return slot

    def _append_slot(
        self, chunks: Iterable[bytes] | None = None, size_bytes: int = 0
    ) -> CheckpointSlot:
        """Append the slot of a checkpoint, which is written later if `chunks` is None."""
        slot = CheckpointSlot(self.end_position)
        self._pending_groups.append(CommitGroup(self.end_position, slot, chunks, size_bytes))
        self.pending_bytes += size_bytes
        self.end_position += 1
        return slot

    def write_checkpoint(
        self,
        slot: CheckpointSlot,
        chunks: Iterable[bytes],
        on_done: Callable[[], None] = lambda: None,
    ) -> None:
        """Write an encoded checkpoint into its slot.

        The thread that writes the chunks also iterates over them. `on_done` is called when the
        checkpoint is durable, or has failed.
        """
        if self._checkpoint_thread is None:
            self._drain()
            self._write_checkpoint(slot, chunks, on_done)
        else:
            self._checkpoint_queue.put((slot, chunks, on_done))

    def flush(self) -> None:
        """Wait until all records are durable. Raise `fault` if they cannot become so."""
        self._drain()
        if self.durable_position < self.end_position and self.fault is not None:
            raise self.fault

    def retry(self) -> None:
        """Write again after a failure. Without one, or once broken, this does nothing."""
        self._is_retry_requested = self.fault is not None and not self.is_broken
        self.request_sync()

    # --- writing ------------------------------------------------------------------------------

    def _can_write(self) -> bool:
        return bool(self._pending_groups) and (self.fault is None or self._is_retry_requested)

    def _start_write(self) -> None:
        """Start writing the first group."""
        self._is_writing, self._is_first_group_sealed, self._is_retry_requested = True, True, False
        group = self._pending_groups[0]
        if not self._is_async_write_started(group):
            self._write_queue.put(group)

    def _is_async_write_started(self, group: CommitGroup) -> bool:
        """Return True if the system writes the group. If not, the thread reports the cause."""
        if self._writer_thread is None or group.checkpoint_slot is not None:
            return False
        try:
            return self._writer.start_write(group, self._finish_async_write)
        except Exception:  # noqa: BLE001 - the thread fails with the same error, and reports it
            self._log(traceback.format_exc())
            return False

    def _finish_async_write(self, is_durable: bool) -> None:
        """Finish the first group, or hand it to the thread if the system could not write it."""
        if self.is_broken:
            return
        if is_durable:
            self._finish_group(WriteResult())
        else:
            self._write_queue.put(self._pending_groups[0])

    def _drain(self) -> None:
        """Wait until all groups are written, or the disk fails."""
        while self._is_writing or self._can_write():
            if not self._is_writing:
                self._start_write()
            if self._writer_thread is None:
                try:
                    self._run_writer_once()
                except BaseException:
                    self._is_writing = False
                    raise
            if not self._file_ops.wait_for_write():
                self._finish_group(self._write_results.get())

    def _collect_results(self) -> None:
        """Finish the groups that the thread has written, unless `_drain` has done so."""
        while not self._write_results.empty():
            self._finish_group(self._write_results.get())

    def _finish_group(self, result: WriteResult) -> None:
        self._is_writing = False
        if result.fault is not None:
            self.fault, self.is_broken = result.fault, result.is_fatal
            if result.is_fatal:
                self._abandon_checkpoint_slots()
            self._on_failure(result.fault)
            return
        group = self._pending_groups.popleft()
        self._is_first_group_sealed = False
        self.fault = None
        self.durable_position = group.first_position + (len(group.payloads) or 1)
        self.pending_bytes -= group.size_bytes
        self.sync_count += group.checkpoint_slot is None or group.chunks is not None
        if (
            self._writer_thread is not None
            and self._pending_groups
            and self._pending_groups[0].first_position < self._requested_position
        ):
            self._start_write()
        self._on_durable()

    def _abandon_checkpoint_slots(self) -> None:
        for group in self._pending_groups:
            if group.checkpoint_slot is not None:
                group.checkpoint_slot.resolved.set()

    # --- threads ------------------------------------------------------------------------------

    def _run_writer(self) -> None:
        try:
            while self._run_writer_once():
                pass
        except Exception as error:  # noqa: BLE001 - reported, because others wait for the result
            self._log(traceback.format_exc())
            fault = DiskFailed(f"the writer thread of {self._directory} failed: {error!r}")
            self._write_results.put(WriteResult(fault, is_fatal=True))
            self._call_in_loop(self._collect_results)

    def _run_writer_once(self) -> bool:
        """Handle one item of the write queue. Return False at its end."""
        item = self._write_queue.get()
        if item is None:
            return False
        if isinstance(item, Path):
            self._writer.install_checkpoint(item)
            return True
        fault: StorageFault | None = None
        try:
            self._write_group(item)
        except OSError as error:
            fault = self._storage_fault(error)
        self._write_results.put(WriteResult(fault))
        if self._writer_thread is not None:
            self._call_in_loop(self._collect_results)
        if item.checkpoint_path is not None:
            self._writer.install_checkpoint(item.checkpoint_path)
        return True

    def _write_group(self, group: CommitGroup) -> None:
        slot = group.checkpoint_slot
        if slot is None:
            self._writer.write(group)
            return
        if slot.segment_number is None:
            slot.segment_number = self._writer.reserve_checkpoint()
        if group.chunks is not None:
            group.chunks = chunks = list(group.chunks)  # kept for a retry
            group.checkpoint_path = self._writer.write_checkpoint(slot, chunks)
        slot.resolved.set()

    def _run_checkpoint_writer(self) -> None:
        while (item := self._checkpoint_queue.get()) is not None:
            self._write_checkpoint(*item)

    def _write_checkpoint(
        self, slot: CheckpointSlot, chunks: Iterable[bytes], on_done: Callable[[], None]
    ) -> None:
        try:
            if self._writer_thread is not None:
                slot.resolved.wait()
            if slot.segment_number is not None and self._is_running():
                path = self._writer.write_checkpoint(slot, chunks, self._is_running)
                if self._writer_thread is None:
                    self._writer.install_checkpoint(path)
                else:
                    self._write_queue.put(path)
        except CheckpointAbandoned:
            pass
        except Exception as error:  # noqa: BLE001 - the older segments still exist
            self._log(f"cannot write a checkpoint to {self._directory}: {error!r}")
        self._call_in_loop(on_done)

    def _is_running(self) -> bool:
        return not (self._is_closing or self.is_broken)

    def _check_open(self) -> None:
        if not self._directory_lock.is_open or self._is_closing:
            raise StorageFault(f"the journal in {self._directory} is not open")

    def _storage_fault(self, error: OSError) -> StorageFault:
        if error.errno in _DISK_FULL_ERRORS:
            return DiskFull(
                f"no space left in {self._directory}; calls are rejected until there is some"
            )
        return DiskFailed(f"cannot write to {self._directory}: {error.strerror}")

    def _call_in_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        if self._loop is None:
            callback(*arguments)
            return
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            # The loop was closed before the journal, so no waiter is left.
            self._log("the event loop was closed before the journal")

    # --- recovery -----------------------------------------------------------------------------

    def _recover(self) -> list[Record]:
        chain = read_segment_chain(self._directory, self._owner)
        try:
            self._writer.resume(chain)
        except OSError as error:
            raise self._storage_fault(error) from error
        self.end_position = self.durable_position = chain.end_position
        return chain.records
