"""Writing of journal segments: commit groups, new segments, checkpoints, removal of old segments.

At any moment, and however it is interrupted, the directory is in a state that `segments` can read.
"""

import os
import threading
from bisect import insort
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from creekdb.errors import StorageFault
from creekdb.server.storage.file_ops import FileOps
from creekdb.server.storage.segments import (
    UNFINISHED_SUFFIX,
    UNKNOWN_OWNER,
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
        checkpoint_slot: CheckpointSlot | None = None,
        chunks: Iterable[bytes] | None = None,
        size_bytes: int = 0,
    ) -> None:
        self.first_position = first_position
        self.checkpoint_slot = checkpoint_slot
        """Slot that the group reserves instead of writing records. None if it has records."""
        self.chunks = chunks
        """Encoded checkpoint that the group writes into its slot. None if it is written later."""
        self.checkpoint_path: Path | None = None
        """Path of that checkpoint, once it is written."""
        self.payloads: list[bytes] = []
        self.size_bytes = size_bytes


class WriteResult(NamedTuple):
    """Result of writing a commit group."""

    fault: StorageFault | None = None
    is_fatal: bool = False


class CheckpointAbandoned(Exception):
    """The journal closes before a checkpoint is complete."""


SYNC_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a new file between two syncs. Small steps keep the syncs of other files short."""
PREALLOCATION_BYTES: Final = 1024 * 1024
"""Zeros added to a file at a time. The write that crosses the end appends the next zeros."""

ASYNC_WRITE_BYTES_MAX: Final = 256 * 1024
"""Upper bound for asynchronous groups. The checksum of a larger one would block the event loop."""


class SegmentWriter:
    """Writer that appends commit groups, each durable before the next, and creates segments.

    Asynchronous writes start and end on the event loop. The other methods may run on a thread. Both
    use the same file, but a group belongs to one of them at a time.

    After an error, the writer abandons the segment. Data of a failed sync may be lost even though
    it can still be read, so the group is written again to another file.
    """

    def __init__(
        self,
        directory: Path,
        segment_bytes: int,
        file_ops: FileOps,
        log: Callable[[str], None],
        owner: int = UNKNOWN_OWNER,
    ) -> None:
        """`owner` is recorded in each segment."""
        self._directory = directory
        self._owner = owner
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
        if tail.torn_bytes:
            file_ops.truncate(self._file, tail.end_offset)
            self._file_bytes = tail.end_offset
            self._log(
                f"truncated {tail.path} at byte {tail.end_offset}: a crash left an incomplete "
                f"write of {tail.torn_bytes} bytes"
            )
        if tail.last_group_offset > tail.header.size_bytes:
            # The sync of the last group may have failed. Only data written again is durable then.
            file_ops.write_fully(self._file, tail.last_group, tail.last_group_offset)
        file_ops.fdatasync(self._file)
        file_ops.sync_directory(self._directory)
        self._remove_oldest(len(self._segment_paths) - len(chain.segment_paths))

    def write(self, group: CommitGroup) -> None:
        """Make a group durable.

        Raise OSError, in which case the group may exist or not, and the caller retries.
        """
        if self._is_suspect:
            self._abandon_segment()
        size = group.size_bytes
        if self._file is None or self._end_offset + size > self._segment_bytes:
            self.close()
            self._create_segment(group)
            return
        data, end, file_bytes = self._encode_append(group)
        try:
            self._file_ops.write_durably(self._file, data, self._end_offset)
        except OSError:
            self._abandon_segment()
            raise
        self._end_offset, self._file_bytes = end, file_bytes

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

    def close(self) -> None:
        if self._file is not None:
            self._close_file(self._file)
            self._file = None

    def start_write(self, group: CommitGroup, on_written: Callable[[bool], None]) -> bool:
        """Start an asynchronous write of a group, or return False.

        `on_written` receives True if the group is durable. If it receives False, or this method
        returns False, the caller must use `write`.
        """
        file = self._file
        size = group.size_bytes
        if file is None or self._is_suspect or size > ASYNC_WRITE_BYTES_MAX:
            return False
        if self._end_offset + size > self._segment_bytes:
            return False
        data, end, file_bytes = self._encode_append(group)

        def finish(result: int) -> None:
            if result == len(data):
                self._end_offset, self._file_bytes = end, file_bytes
            else:
                self._is_suspect = True
            on_written(result == len(data))

        return self._file_ops.start_durable_write(file, data, self._end_offset, finish)

    def _encode_append(self, group: CommitGroup) -> tuple[bytes, int, int]:
        """Return the data of a group, its end, and the length of the file with preallocation."""
        data = encode_group(group.first_position, self._salt, group.payloads)
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

    def _create_segment(self, group: CommitGroup) -> None:
        self._segment_number += 1
        position, salt = group.first_position, int.from_bytes(os.urandom(4))
        header = SegmentHeader(
            self._segment_number, position, False, salt, self._skipped_checkpoints, self._owner
        )
        data = encode_segment_header(header) + encode_group(position, salt, group.payloads)
        file_bytes = self._preallocated_bytes(len(data))
        path = self._directory / segment_file_name(self._segment_number)
        file = self._create_file(path, (data + bytes(file_bytes - len(data)),))
        self._segment_paths.append(path)
        try:
            self._file_ops.sync_directory(self._directory)
        except OSError:
            self._close_file(file)
            raise
        self._file, self._salt = file, salt
        self._end_offset, self._file_bytes = len(data), file_bytes
        self._skipped_checkpoints = 0

    def write_checkpoint(
        self,
        slot: CheckpointSlot,
        chunks: Iterable[bytes],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> Path:
        """Write a checkpoint durably into its reserved segment, concurrently with other writes.

        Raise `CheckpointAbandoned` once it is not wanted any more, or OSError. In both cases, no
        checkpoint exists.
        """
        assert slot.segment_number is not None
        salt = int.from_bytes(os.urandom(4))
        header = SegmentHeader(slot.segment_number, slot.position, True, salt, owner=self._owner)
        group = encode_group_chunks(slot.position, salt, 1, chunks)
        path = self._directory / segment_file_name(slot.segment_number)
        self._close_file(
            self._create_file(path, (encode_segment_header(header), *group), is_wanted)
        )
        self._file_ops.sync_directory(self._directory)
        return path

    def _create_file(
        self, path: Path, chunks: Iterable[bytes], is_wanted: Callable[[], bool] = lambda: True
    ) -> int:
        """Write a file durably, and return its descriptor. The file gets its name at the end."""
        file_ops = self._file_ops
        unfinished = path.with_name(path.name + UNFINISHED_SUFFIX)
        file = file_ops.create(unfinished)
        try:
            end = synced = 0
            for chunk in chunks:
                if not is_wanted():
                    raise CheckpointAbandoned
                file_ops.write_fully(file, chunk, end)
                end += len(chunk)
                if end - synced >= SYNC_BYTES:
                    file_ops.fdatasync(file)
                    synced = end
            file_ops.fdatasync(file)
            file_ops.rename(unfinished, path)
        except Exception:
            self._close_file(file)
            # A file that stays only takes up space until the next start.
            with suppress(OSError):
                file_ops.unlink(unfinished)
            raise
        return file

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
