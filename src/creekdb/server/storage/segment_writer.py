"""Writing of journal segments: commit groups, new segments, checkpoints, removal of old segments.

At any moment, and however it is interrupted, the directory is in a state that `segments` can read.
"""

import os
import threading
from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from creekdb.errors import StorageFault
from creekdb.server.storage.file_ops import FileOps
from creekdb.server.storage.segments import (
    SEGMENT_HEADER_BYTES,
    UNFINISHED_SUFFIX,
    SegmentChain,
    SegmentHeader,
    encode_group,
    encode_group_chunks,
    encode_segment_header,
    segment_file_name,
)


class CheckpointSlot:
    """Reserved position and segment number of a checkpoint that is written later."""

    __slots__ = ("position", "resolved", "segment_number")

    def __init__(self, position: int) -> None:
        self.position = position
        self.segment_number: int | None = None
        """Number of the checkpoint's segment, once all earlier records are durable."""
        self.resolved = threading.Event()
        """Set when the slot has a number, or will never have one."""


class CommitGroup:
    """Records that are made durable together."""

    def __init__(
        self,
        first_position: int,
        is_checkpoint: bool,
        checkpoint_slot: CheckpointSlot | None = None,
    ) -> None:
        self.first_position = first_position
        self.is_checkpoint = is_checkpoint
        self.checkpoint_slot = checkpoint_slot
        """Slot that the group reserves instead of writing records."""
        self.payloads: list[bytes] = []
        self.chunks: Iterable[bytes] | None = None
        """Encoded checkpoint, if it is the only record of the group."""
        self.segment_number: int | None = None
        """Number of that checkpoint's segment. A retry uses the same number."""
        self.checkpoint_path: Path | None = None
        """Path of that checkpoint, once it is written."""
        self.size_bytes = 0

    @property
    def has_only_records(self) -> bool:
        """True if the group consists of records other than checkpoints."""
        return not self.is_checkpoint and self.checkpoint_slot is None


class WriteResult(NamedTuple):
    """Result of writing a commit group."""

    fault: StorageFault | None = None
    is_fatal: bool = False


CHECKPOINT_SYNC_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a checkpoint between two syncs. Small steps keep the syncs of other files short."""
PREALLOCATION_BYTES: Final = 1024 * 1024
"""Zeros added to a file at a time. The write that crosses the end appends the next zeros."""

ASYNC_WRITE_BYTES_MAX: Final = 256 * 1024
"""Upper bound for asynchronous groups. The checksum of a larger one would block the event loop."""


class _AsyncWrite(NamedTuple):
    """Asynchronous write in progress."""

    size_bytes: int
    end_offset: int
    file_bytes: int
    on_written: Callable[[bool], None]


class SegmentWriter:
    """Writer that appends commit groups, each durable before the next, and creates segments.

    Asynchronous writes start and end on the event loop. The other methods may run on a thread. Both
    use the same file, but a group belongs to one of them at a time.

    After an error, the writer abandons the segment. Data of a failed sync may be lost even though
    it can still be read, so the group is written again to another file.
    """

    def __init__(
        self, directory: Path, segment_bytes: int, file_ops: FileOps, log: Callable[[str], None]
    ) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._file_ops = file_ops
        self._log = log
        self._segment_paths: list[Path] = []
        """Paths of all segments that may still exist, oldest first."""
        self._segment_number = 0
        self._skipped_checkpoints = 0
        """Number of checkpoint slots reserved since the creation of the last segment."""
        self._file: int | None = None
        self._salt = 0
        self._end_offset = 0
        self._file_bytes = 0
        """Length of the file, including preallocated zeros."""
        self._async_write: _AsyncWrite | None = None
        self._is_suspect = False
        """True if an asynchronous write failed. Then the segment is abandoned."""

    def resume(self, chain: SegmentChain) -> None:
        """Continue after the existing records, and make them durable first.

        A process that was killed may have left groups that only the page cache contains.
        """
        file_ops = self._file_ops
        for path in chain.obsolete_paths:
            if path.suffix == UNFINISHED_SUFFIX:
                file_ops.unlink(path)
        self._segment_paths = [
            path for path in chain.obsolete_paths if path.suffix != UNFINISHED_SUFFIX
        ]
        self._segment_paths += chain.segment_paths
        tail = chain.tail
        if tail is None:
            return
        self._segment_number = tail.header.number
        self._file = file_ops.open(tail.path)
        self._salt = tail.header.salt
        self._end_offset = tail.end_offset
        self._file_bytes = tail.file_bytes
        if tail.torn_tail is not None:
            file_ops.truncate(self._file, tail.end_offset)
            self._file_bytes = tail.end_offset
        if tail.last_group_offset > SEGMENT_HEADER_BYTES:
            # The sync of the last group may have failed. Only data written again is durable then.
            _write_fully(self._file_ops, self._file, tail.last_group, tail.last_group_offset)
        file_ops.fdatasync(self._file)
        file_ops.sync_directory(self._directory)
        self._remove_oldest(len(self._segment_paths) - len(chain.segment_paths))

    def write(
        self, first_position: int, payloads: Sequence[bytes], size: int, is_checkpoint: bool
    ) -> None:
        """Make a group durable.

        Raise OSError, in which case the group may exist or not, and the caller retries.
        """
        if self._is_suspect:
            self._abandon_segment()
        if is_checkpoint or self._file is None or self._end_offset + size > self._segment_bytes:
            self.close()
            self._create_segment(first_position, payloads, is_checkpoint)
        else:
            self._append_group(self._file, first_position, payloads)

    def reserve_checkpoint(self) -> int:
        """Return the segment number of a later checkpoint. The next group starts a new segment."""
        self.close()
        self._segment_number += 1
        self._skipped_checkpoints += 1
        return self._segment_number

    def install_checkpoint(self, path: Path) -> None:
        """Register a complete checkpoint, and remove the older segments."""
        insort(self._segment_paths, path)
        self._remove_oldest(self._segment_paths.index(path))

    def remove_older_segments(self) -> None:
        """Remove the segments before the current one, which begins with a checkpoint."""
        self._remove_oldest(len(self._segment_paths) - 1)

    def close(self) -> None:
        if self._file is not None:
            self._close_file(self._file)
            self._file = None

    def start_write(
        self,
        first_position: int,
        payloads: Sequence[bytes],
        size: int,
        on_written: Callable[[bool], None],
    ) -> bool:
        """Start an asynchronous write of a group, or return False.

        `on_written` receives True if the group is durable. If it receives False, or this method
        returns False, the caller must use `write`.
        """
        file = self._file
        if file is None or self._is_suspect or size > ASYNC_WRITE_BYTES_MAX:
            return False
        if self._end_offset + size > self._segment_bytes:
            return False
        data, end, file_bytes = self._encode_append(first_position, payloads)
        self._async_write = _AsyncWrite(len(data), end, file_bytes, on_written)
        return self._file_ops.start_durable_write(
            file, data, self._end_offset, self._finish_async_write
        )

    def wait_for_write(self) -> bool:
        """Block until the asynchronous write is complete. Return False if there is none."""
        return self._file_ops.wait_for_write()

    def _finish_async_write(self, result: int) -> None:
        write = self._async_write
        assert write is not None
        if result == write.size_bytes:
            self._end_offset, self._file_bytes = write.end_offset, write.file_bytes
        else:
            self._is_suspect = True
        write.on_written(result == write.size_bytes)

    def _append_group(self, file: int, first_position: int, payloads: Sequence[bytes]) -> None:
        data, end, file_bytes = self._encode_append(first_position, payloads)
        try:
            self._file_ops.write_durably(file, data, self._end_offset)
        except OSError:
            self._abandon_segment()
            raise
        self._end_offset, self._file_bytes = end, file_bytes

    def _encode_append(
        self, first_position: int, payloads: Sequence[bytes]
    ) -> tuple[bytes, int, int]:
        """Return the data of a group, its end, and the length of the file with preallocation."""
        data = encode_group(first_position, self._salt, payloads)
        end = self._end_offset + len(data)
        file_bytes = self._file_bytes
        if end > file_bytes:
            file_bytes = self._preallocated_bytes(end)
            data += bytes(file_bytes - end)
        return data, end, file_bytes

    def _abandon_segment(self) -> None:
        self._is_suspect = False
        if self._file is not None:
            # Truncation only frees space: readers ignore the rest of the segment in any case.
            with suppress(OSError):
                self._file_ops.truncate(self._file, self._end_offset)
            self.close()

    def _create_segment(
        self, first_position: int, payloads: Sequence[bytes], is_checkpoint: bool
    ) -> None:
        file_ops = self._file_ops
        self._segment_number += 1
        salt = int.from_bytes(os.urandom(4))
        skipped = 0 if is_checkpoint else self._skipped_checkpoints
        header = SegmentHeader(self._segment_number, first_position, is_checkpoint, salt, skipped)
        data = encode_segment_header(header) + encode_group(first_position, salt, payloads)
        file_bytes = self._preallocated_bytes(len(data))
        path = self._directory / segment_file_name(self._segment_number)
        unfinished = path.with_name(path.name + UNFINISHED_SUFFIX)
        file = file_ops.create(unfinished)
        try:
            file_ops.write_durably(file, data + bytes(file_bytes - len(data)), 0)
            file_ops.rename(unfinished, path)
        except OSError:
            self._close_file(file)
            # A file that stays only takes up space until the next start.
            with suppress(OSError):
                file_ops.unlink(unfinished)
            raise
        self._segment_paths.append(path)
        try:
            file_ops.sync_directory(self._directory)
        except OSError:
            self._close_file(file)
            raise
        self._file, self._salt = file, salt
        self._end_offset, self._file_bytes = len(data), file_bytes
        self._skipped_checkpoints = 0

    def _close_file(self, file: int) -> None:
        # The data is already synced, so a failure to close is harmless.
        with suppress(OSError):
            self._file_ops.close(file)

    def _remove_oldest(self, count: int) -> None:
        """Remove the oldest segments. After a failure, the next checkpoint retries."""
        try:
            for path in self._segment_paths[:count]:
                with suppress(FileNotFoundError):
                    self._file_ops.unlink(path)
                self._segment_paths.remove(path)
            if count:
                self._file_ops.sync_directory(self._directory)
        except OSError as error:
            self._log(f"cannot remove {error.filename or self._directory}: {error.strerror}")

    def _preallocated_bytes(self, end: int) -> int:
        step = min(PREALLOCATION_BYTES, self._segment_bytes)
        return max(end, min(-(-end // step) * step, self._segment_bytes))


def write_checkpoint_segment(
    directory: Path,
    file_ops: FileOps,
    number: int,
    position: int,
    chunks: Iterable[bytes],
    is_wanted: Callable[[], bool],
) -> Path | None:
    """Write a checkpoint durably into its reserved segment, concurrently with other writes.

    Return None if it is no longer wanted. Raise OSError, in which case no checkpoint exists.
    """
    salt = int.from_bytes(os.urandom(4))
    header = encode_segment_header(SegmentHeader(number, position, True, salt))
    path = directory / segment_file_name(number)
    unfinished = path.with_name(path.name + UNFINISHED_SUFFIX)
    file = file_ops.create(unfinished)
    try:
        end, synced = 0, 0
        for chunk in (header, *encode_group_chunks(position, salt, 1, chunks)):
            if not is_wanted():
                file_ops.unlink(unfinished)
                return None
            _write_fully(file_ops, file, chunk, end)
            end += len(chunk)
            if end - synced >= CHECKPOINT_SYNC_BYTES:
                file_ops.fdatasync(file)
                synced = end
        file_ops.fdatasync(file)
        file_ops.rename(unfinished, path)
    except OSError:
        with suppress(OSError):
            file_ops.unlink(unfinished)
        raise
    finally:
        with suppress(OSError):
            file_ops.close(file)
    file_ops.sync_directory(directory)
    return path


def _write_fully(file_ops: FileOps, file: int, data: bytes, offset: int) -> None:
    remaining = memoryview(data)
    while remaining:
        written = file_ops.write(file, remaining, offset)
        remaining, offset = remaining[written:], offset + written
