"""What must survive a crash: records in order, durable in order.

Rules it keeps:

- Group commit: one write and one sync at a time, by the system beside all else, or on a thread; the
  records that are appended meanwhile share the next. Appending never waits for the disk. Records
  that nobody waits for yet are written with the next that somebody does.
- Nothing is `durable` before the disk said so, and nothing before what was appended before it.
- An `CheckpointRecord` begins a new segment. Once it is durable, the older segments are removed.
- An image that takes its time has room left for it, and is written beside what comes after it. If
  that fails, or is interrupted, it is as if there had been none: the older segments stay.
- A disk that is full or fails changes nothing but the time: what was appended waits in memory,
  nothing becomes durable, `failed` says why. `retry` tries again, and goes on if it can.
- If the thread itself breaks off, nothing can go on: it is `broken`, and nobody waits for it.
- One process has the folder, and a second one is told so.

How it lies on disk is the business of `segments`. How much may wait in memory is the caller's.
"""

import errno
import queue
import threading
import traceback
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from creekdb.errors import DiskFailed, DiskFull, StorageFault
from creekdb.protocol.messages import CheckpointRecord, Record, encode
from creekdb.server.storage.file_ops import SYSTEM_FILE_OPS, DirectoryLock, FileOps
from creekdb.server.storage.segment_writer import (
    CheckpointSlot,
    CommitGroup,
    SegmentWriter,
    WriteResult,
    write_checkpoint_segment,
)
from creekdb.server.storage.segments import TornTail, read_segment_chain

SEGMENT_BYTES: Final = 64 * 1024 * 1024
GROUP_BYTES_MAX: Final = 4 * 1024 * 1024
"""More does not share one sync, so that none takes long. A greater record has one of its own."""
DEFERRED_BYTES_MAX: Final = 1024 * 1024
"""More is not kept waiting until somebody waits for it."""

_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)


def _do_nothing() -> None:
    pass


def _ignore(_: object) -> None:
    pass


class Journal:
    """With a `loop`, the system or a thread writes, and the callbacks are called on the loop.
    Without one, `flush` writes, and calls them.

    `on_durable` is called after each sync, `on_failure` after each attempt that failed. All methods
    belong to the thread of the loop; only `open`, `flush` and `close` wait for the disk.
    """

    def __init__(
        self,
        directory: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        loop: AbstractEventLoop | None = None,
        on_durable: Callable[[], None] = _do_nothing,
        on_failure: Callable[[StorageFault], None] = _ignore,
        log: Callable[[str], None] = _ignore,
        calls: FileOps = SYSTEM_FILE_OPS,
    ) -> None:
        self._directory = directory
        self._loop = loop
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._log = log
        self._file_ops = calls
        self._writer = SegmentWriter(directory, segment_bytes, calls, log)
        """Of whoever writes the first group."""
        self._directory_lock = DirectoryLock(directory, calls)
        self._pending_groups: deque[CommitGroup] = deque()
        """What is not durable yet; the first may be on its way."""
        self._requested_position = 0
        """Somebody waits for what stands before this position."""
        self._is_writing = False
        """Is the first group on its way?"""
        self._is_first_group_sealed = False
        """Is it, or was it tried? Then nothing is added to it."""
        self._is_retry_requested = False
        self._is_closing = False
        self._writer_thread: threading.Thread | None = None
        self._write_queue: queue.SimpleQueue[CommitGroup | Path | None] = queue.SimpleQueue()
        """For the thread: groups to write, and images that are durable now; None: there is no
        more."""
        self._write_results: queue.SimpleQueue[WriteResult] = queue.SimpleQueue()
        self._checkpoint_thread: threading.Thread | None = None
        self._checkpoint_queue: queue.SimpleQueue[
            tuple[CheckpointSlot, Iterable[bytes], Callable[[], None]] | None
        ]
        self._checkpoint_queue = queue.SimpleQueue()
        """Images that are to be written; None: there are no more."""
        self.end_position = 0
        """The position behind the last record that was appended."""
        self.durable_position = 0
        """The position up to which everything is durable."""
        self.pending_bytes = 0
        self.fault: StorageFault | None = None
        """Why nothing becomes durable at present."""
        self.is_broken = False
        """Is `failed` for good?"""
        self.torn_tail: TornTail | None = None
        """What `open` had to cut off."""
        self.sync_count = 0

    # --- opening and closing ------------------------------------------------------------------

    def open(self) -> list[Record]:
        """Everything durable since the last image, in order. To be called once.

        Raises `DirectoryInUse`, or `StorageFault` if what is there cannot be trusted or read.
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
        worker = threading.Thread(target=self._run_writer, name="journal", daemon=True)
        images = threading.Thread(target=self._run_checkpoint_writer, name="images", daemon=True)
        worker.start()
        images.start()
        self._writer_thread, self._checkpoint_thread = worker, images
        self._file_ops.attach(loop)

    def close(self) -> None:
        """Write what is waiting, unless the disk has failed, and give the folder free."""
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

    def append(self, records: Sequence[Record], hurry: bool = True) -> int:
        """Hand over records; the position behind them. They are durable when `durable` gets there:
        soon, or without `hurry` when somebody does.

        If one of them cannot be encoded, none is appended.
        """
        encoded = [(encode(record), type(record) is CheckpointRecord) for record in records]
        self._check_open()
        waiting = self._pending_groups
        for payload, image in encoded:
            group = waiting[-1] if waiting else None
            if (
                group is None
                or (self._is_first_group_sealed and group is waiting[0])
                or image
                or group.is_checkpoint
                or group.checkpoint_slot is not None
                or group.size_bytes + len(payload) > GROUP_BYTES_MAX
            ):
                group = CommitGroup(self.end_position, image)
                waiting.append(group)
            group.payloads.append(payload)
            group.size_bytes += len(payload)
            self.pending_bytes += len(payload)
            self.end_position += 1
        if hurry or self.pending_bytes > DEFERRED_BYTES_MAX:
            self.request_sync()
        return self.end_position

    def request_sync(self) -> None:
        """Somebody waits for what was appended so far."""
        self._requested_position = self.end_position
        if self._writer_thread is not None and not self._is_writing and self._can_write():
            self._start_write()

    def append_checkpoint(self, pieces: Iterable[bytes]) -> int:
        """An image that is a record like others, encoded: in pieces, which are made by the thread
        that writes them. Answers with the position behind it."""
        self._check_open()
        group = CommitGroup(self.end_position, True)
        group.chunks = pieces
        self._pending_groups.append(group)
        self.end_position += 1
        self.request_sync()
        return self.end_position

    def reserve_checkpoint(self) -> CheckpointSlot:
        """For an image of everything appended so far. It counts as a record that is durable."""
        self._check_open()
        room = CheckpointSlot(self.end_position)
        self._pending_groups.append(CommitGroup(self.end_position, False, room))
        self.end_position += 1
        self.request_sync()
        return room

    def write_checkpoint(
        self, room: CheckpointSlot, pieces: Iterable[bytes], over: Callable[[], None] = _do_nothing
    ) -> None:
        """The image that room was left for: encoded, in pieces, which are made by the thread that
        writes them. `over` is called when it is there, or when it will never be."""
        if self._checkpoint_thread is None:
            self._drain()
            self._write_checkpoint(room, pieces, over)
        else:
            self._checkpoint_queue.put((room, pieces, over))

    def flush(self) -> None:
        """Wait until everything appended is durable. Raises what `failed` says if it cannot be."""
        self._drain()
        if self.durable_position < self.end_position and self.fault is not None:
            raise self.fault

    def retry(self) -> None:
        """Try to write again after a failure. Without one, or once broken, this does nothing."""
        self._is_retry_requested = self.fault is not None and not self.is_broken
        self.request_sync()

    # --- writing ------------------------------------------------------------------------------

    def _can_write(self) -> bool:
        return bool(self._pending_groups) and (self.fault is None or self._is_retry_requested)

    def _start_write(self) -> None:
        """Have the first group written."""
        self._is_writing, self._is_first_group_sealed, self._is_retry_requested = True, True, False
        group = self._pending_groups[0]
        if not self._is_async_write_started(group):
            self._write_queue.put(group)

    def _is_async_write_started(self, group: CommitGroup) -> bool:
        """By the system. If not, for whatever reason, the thread finds out what is the matter."""
        if self._writer_thread is None or not group.has_only_records:
            return False
        try:
            return self._writer.start_write(
                group.first_position, group.payloads, group.size_bytes, self._finish_async_write
            )
        except Exception:  # noqa: BLE001 - it comes again where it is told
            self._log(traceback.format_exc())
            return False

    def _finish_async_write(self, durable: bool) -> None:
        """What the system did with the first group. If it could not, the thread tries."""
        if self.is_broken:
            return
        if durable:
            self._finish_group(WriteResult())
        else:
            self._write_queue.put(self._pending_groups[0])

    def _drain(self) -> None:
        """Wait for it."""
        while self._is_writing or self._can_write():
            if not self._is_writing:
                self._start_write()
            if self._writer_thread is None:
                try:
                    self._run_writer_once()
                except BaseException:
                    self._is_writing = False
                    raise
            if not self._writer.wait_for_write():
                self._finish_group(self._write_results.get())

    def _collect_results(self) -> None:
        """What the thread has done, unless somebody waited for it."""
        while not self._write_results.empty():
            self._finish_group(self._write_results.get())

    def _finish_group(self, done: WriteResult) -> None:
        self._is_writing = False
        if done.fault is not None:
            self.fault, self.is_broken = done.fault, done.is_fatal
            if done.is_fatal:
                self._abandon_checkpoint_slots()
            self._on_failure(done.fault)
            return
        group = self._pending_groups.popleft()
        self._is_first_group_sealed = False
        self.fault = None
        self.durable_position = group.first_position + (len(group.payloads) or 1)
        self.pending_bytes -= group.size_bytes
        self.sync_count += group.checkpoint_slot is None
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

    # --- what the threads do ------------------------------------------------------------------

    def _run_writer(self) -> None:
        try:
            while self._run_writer_once():
                pass
        except Exception as error:  # noqa: BLE001 - told to whoever waits, or they wait for ever
            self._log(traceback.format_exc())
            fault = DiskFailed(f"writing to {self._directory} broke off: {error!r}")
            self._write_results.put(WriteResult(fault, is_fatal=True))
            self._call_in_loop(self._collect_results)

    def _run_writer_once(self) -> bool:
        """False when there is no more to do."""
        to_do = self._write_queue.get()
        if to_do is None:
            return False
        if isinstance(to_do, Path):
            self._writer.install_checkpoint(to_do)
            return True
        fault: StorageFault | None = None
        try:
            self._write_group(to_do)
        except OSError as error:
            fault = self._storage_fault(error)
        self._write_results.put(WriteResult(fault))
        if self._writer_thread is not None:
            self._call_in_loop(self._collect_results)
        if to_do.checkpoint_path is not None:
            self._writer.install_checkpoint(to_do.checkpoint_path)
        elif to_do.is_checkpoint and fault is None:
            self._writer.remove_older_segments()
        return True

    def _write_group(self, group: CommitGroup) -> None:
        room = group.checkpoint_slot
        if group.chunks is not None:
            group.chunks = pieces = list(group.chunks)  # perhaps it is tried again
            if group.segment_number is None:
                group.segment_number = self._writer.reserve_checkpoint()
            calls, number, first = self._file_ops, group.segment_number, group.first_position
            group.checkpoint_path = write_checkpoint_segment(
                self._directory, calls, number, first, pieces, lambda: True
            )
        elif room is None:
            self._writer.write(
                group.first_position, group.payloads, group.size_bytes, group.is_checkpoint
            )
        else:
            room.segment_number = self._writer.reserve_checkpoint()
            room.resolved.set()

    def _run_checkpoint_writer(self) -> None:
        while (drawn := self._checkpoint_queue.get()) is not None:
            self._write_checkpoint(*drawn)

    def _write_checkpoint(
        self, room: CheckpointSlot, pieces: Iterable[bytes], over: Callable[[], None]
    ) -> None:
        try:
            if self._writer_thread is not None:
                room.resolved.wait()
            if room.segment_number is not None and self._is_running():
                path = write_checkpoint_segment(
                    *(self._directory, self._file_ops, room.segment_number, room.position, pieces),
                    self._is_running,
                )
                if path is not None and self._writer_thread is None:
                    self._writer.install_checkpoint(path)
                elif path is not None:
                    self._write_queue.put(path)
        except Exception as error:  # noqa: BLE001 - what was there before it is still there
            self._log(f"cannot write an image to {self._directory}: {error!r}")
        self._call_in_loop(over)

    def _is_running(self) -> bool:
        return not (self._is_closing or self.is_broken)

    def _check_open(self) -> None:
        if not self._directory_lock.is_open or self._is_closing:
            raise StorageFault(f"the journal in {self._directory} is not open")

    def _storage_fault(self, error: OSError) -> StorageFault:
        if error.errno in _DISK_FULL_ERRORS:
            return DiskFull(
                f"no space left in {self._directory}: nothing more is accepted until there is some"
            )
        return DiskFailed(f"cannot write to {self._directory}: {error.strerror}")

    def _call_in_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        if self._loop is None:
            callback(*arguments)
            return
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            # A loop that was closed first: whoever asked is gone.
            self._log("the loop was closed before the journal")

    # --- the folder ---------------------------------------------------------------------------

    def _recover(self) -> list[Record]:
        chain = read_segment_chain(self._directory)
        try:
            self._writer.resume(chain)
        except OSError as error:
            raise self._storage_fault(error) from error
        self.end_position = self.durable_position = chain.end_position
        if chain.tail is not None and chain.tail.torn_tail is not None:
            self.torn_tail = chain.tail.torn_tail
            self._log(str(self.torn_tail))
        return chain.records
