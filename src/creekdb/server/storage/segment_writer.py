"""Records of a journal on their way to the disk, and the place of an image that comes later.

Writing the files of a journal: groups behind each other, new segments, old ones removed.

What it leaves behind at any moment, however it is interrupted, is what `segments` can read.
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
    """The place of an image that is yet to come."""

    __slots__ = ("position", "resolved", "segment_number")

    def __init__(self, position: int) -> None:
        self.position = position
        self.segment_number: int | None = None
        """Of its segment, once all before it is durable."""
        self.resolved = threading.Event()
        """Has it a number, or will it never have one?"""


class CommitGroup:
    """Records that are made durable together."""

    __slots__ = (
        "checkpoint_path",
        "checkpoint_slot",
        "chunks",
        "first_position",
        "is_checkpoint",
        "payloads",
        "segment_number",
        "size_bytes",
    )

    def __init__(self, first: int, image: bool, room: CheckpointSlot | None = None) -> None:
        self.first_position = first
        self.is_checkpoint = image
        self.checkpoint_slot = room
        """None of them: where they would be, an image comes later."""
        self.payloads: list[bytes] = []
        self.chunks: Iterable[bytes] | None = None
        """What makes up an image that is the only record of the group."""
        self.segment_number: int | None = None
        """Of the file of that image, however often it is tried."""
        self.checkpoint_path: Path | None = None
        """Where that image is, once it is written."""
        self.size_bytes = 0

    @property
    def has_only_records(self) -> bool:
        """Has it nothing but records, none of which is an image?"""
        return not self.is_checkpoint and self.checkpoint_slot is None


class WriteResult(NamedTuple):
    """What came of writing a group."""

    fault: StorageFault | None = None
    is_fatal: bool = False


CHECKPOINT_SYNC_BYTES: Final = 4 * 1024 * 1024
"""Of an image, between two syncs: so no other sync has to wait for much of it."""
PREALLOCATION_BYTES: Final = 1024 * 1024
"""How much is zeroed at a time. The write that crosses the end brings the next zeros along."""

ASYNC_WRITE_BYTES_MAX: Final = 256 * 1024
"""More is written by the thread: summing it up would hold up the loop."""


class _AsyncWrite(NamedTuple):
    """A group that the system writes."""

    size_bytes: int
    end_offset: int
    file_bytes: int
    on_written: Callable[[bool], None]


class SegmentWriter:
    """Puts one group behind the other, each durable before the next; begins new segments.

    What the system writes is begun and heard of on the loop; all else may belong to a thread. They
    have nothing in common but for the file that is written to, and a group is with one of them.

    After an error the segment is left behind. What a failed sync covered may be gone although it
    can still be read, so the group is written again, to another file.
    """

    __slots__ = (
        "_async_write",
        "_directory",
        "_end_offset",
        "_file",
        "_file_bytes",
        "_file_ops",
        "_is_suspect",
        "_log",
        "_salt",
        "_segment_bytes",
        "_segment_number",
        "_segment_paths",
        "_skipped_checkpoints",
    )

    def __init__(
        self, directory: Path, segment_bytes: int, calls: FileOps, log: Callable[[str], None]
    ) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._file_ops = calls
        self._log = log
        self._segment_paths: list[Path] = []
        """Every segment that may still exist, oldest first."""
        self._segment_number = 0
        self._skipped_checkpoints = 0
        """Numbers that were given to images since the last segment was begun."""
        self._file: int | None = None
        self._salt = 0
        self._end_offset = 0
        self._file_bytes = 0
        """The file is this long, zeros included."""
        self._async_write: _AsyncWrite | None = None
        self._is_suspect = False
        """Did the system fail to write what was begun? Then the segment is left behind."""

    def resume(self, chain: SegmentChain) -> None:
        """Go on behind what was found, once it is durable: a process that was killed may have
        left groups which only its system has seen."""
        calls = self._file_ops
        for path in chain.obsolete_paths:
            if path.suffix == UNFINISHED_SUFFIX:
                calls.unlink(path)
        self._segment_paths = [
            path for path in chain.obsolete_paths if path.suffix != UNFINISHED_SUFFIX
        ]
        self._segment_paths += chain.segment_paths
        tail = chain.tail
        if tail is None:
            return
        self._segment_number = tail.header.number
        self._file = calls.open(tail.path)
        self._salt = tail.header.salt
        self._end_offset = tail.end_offset
        self._file_bytes = tail.file_bytes
        if tail.torn_tail is not None:
            calls.truncate(self._file, tail.end_offset)
            self._file_bytes = tail.end_offset
        if tail.last_group_offset > SEGMENT_HEADER_BYTES:
            # Its sync may have failed; then only what is written again is sure to be written.
            self._write_fully(self._file, tail.last_group, tail.last_group_offset)
        calls.fdatasync(self._file)
        calls.sync_directory(self._directory)
        self._remove_oldest(len(self._segment_paths) - len(chain.segment_paths))

    def write(self, first: int, payloads: Sequence[bytes], size: int, image: bool) -> None:
        """Make a group durable. Raises OSError; then it may be there or not, and comes again."""
        if self._is_suspect:
            self._abandon_segment()
        if image or self._file is None or self._end_offset + size > self._segment_bytes:
            self.close()
            self._create_segment(first, payloads, image)
        else:
            self._append_group(self._file, first, payloads)

    def reserve_checkpoint(self) -> int:
        """The number of an image that is yet to come: what is written next begins a segment behind
        it."""
        self.close()
        self._segment_number += 1
        self._skipped_checkpoints += 1
        return self._segment_number

    def install_checkpoint(self, path: Path) -> None:
        """It is there now: remove what is older."""
        insort(self._segment_paths, path)
        self._remove_oldest(self._segment_paths.index(path))

    def remove_older_segments(self) -> None:
        """The segment that is written begins with an image: remove those before it."""
        self._remove_oldest(len(self._segment_paths) - 1)

    def close(self) -> None:
        if self._file is not None:
            self._close_file(self._file)
            self._file = None

    def start_write(
        self, first: int, payloads: Sequence[bytes], size: int, written: Callable[[bool], None]
    ) -> bool:
        """Have the system make a group durable, and go on. When `written` is told that it is not,
        `write` has to. False: so it has at once."""
        file = self._file
        if file is None or self._is_suspect or size > ASYNC_WRITE_BYTES_MAX:
            return False
        if self._end_offset + size > self._segment_bytes:
            return False
        data, end, room = self._encode_append(first, payloads)
        self._async_write = _AsyncWrite(len(data), end, room, written)
        return self._file_ops.start_durable_write(
            file, data, self._end_offset, self._finish_async_write
        )

    def wait_for_write(self) -> bool:
        """For what was begun, if there is something."""
        return self._file_ops.wait_for_write()

    def _finish_async_write(self, result: int) -> None:
        begun = self._async_write
        assert begun is not None
        if result == begun.size_bytes:
            self._end_offset, self._file_bytes = begun.end_offset, begun.file_bytes
        else:
            self._is_suspect = True
        begun.on_written(result == begun.size_bytes)

    def _append_group(self, file: int, first: int, payloads: Sequence[bytes]) -> None:
        data, end, room = self._encode_append(first, payloads)
        try:
            self._file_ops.write_durably(file, data, self._end_offset)
        except OSError:
            self._abandon_segment()
            raise
        self._end_offset, self._file_bytes = end, room

    def _encode_append(self, first: int, payloads: Sequence[bytes]) -> tuple[bytes, int, int]:
        """What to write for a group; where it ends; how long the file is then."""
        data = encode_group(first, self._salt, payloads)
        end = self._end_offset + len(data)
        room = self._file_bytes
        if end > room:
            room = self._preallocated_bytes(end)
            data += bytes(room - end)
        return data, end, room

    def _abandon_segment(self) -> None:
        self._is_suspect = False
        if self._file is not None:
            # Whether this works or not, what is read later is the same: it only makes space.
            with suppress(OSError):
                self._file_ops.truncate(self._file, self._end_offset)
            self.close()

    def _create_segment(self, first: int, payloads: Sequence[bytes], image: bool) -> None:
        calls = self._file_ops
        self._segment_number += 1
        salt = int.from_bytes(os.urandom(4))
        segment = SegmentHeader(
            self._segment_number, first, image, salt, 0 if image else self._skipped_checkpoints
        )
        data = encode_segment_header(segment) + encode_group(first, salt, payloads)
        room = self._preallocated_bytes(len(data))
        path = self._directory / segment_file_name(self._segment_number)
        unfinished = path.with_name(path.name + UNFINISHED_SUFFIX)
        file = calls.create(unfinished)
        try:
            calls.write_durably(file, data + bytes(room - len(data)), 0)
            calls.rename(unfinished, path)
        except OSError:
            self._close_file(file)
            # If it stays, it takes up space until the next start, and nothing else.
            with suppress(OSError):
                calls.unlink(unfinished)
            raise
        self._segment_paths.append(path)
        try:
            calls.sync_directory(self._directory)
        except OSError:
            self._close_file(file)
            raise
        self._file, self._salt, self._end_offset, self._file_bytes = file, salt, len(data), room
        self._skipped_checkpoints = 0

    def _close_file(self, file: int) -> None:
        # What counts was synced: that closing fails means nothing any more.
        with suppress(OSError):
            self._file_ops.close(file)

    def _write_fully(self, file: int, data: bytes, offset: int) -> None:
        _write_fully(self._file_ops, file, data, offset)

    def _remove_oldest(self, count: int) -> None:
        """Remove the oldest files. What cannot be removed is tried again at the next image."""
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
    calls: FileOps,
    number: int,
    position: int,
    pieces: Iterable[bytes],
    is_wanted: Callable[[], bool],
) -> Path | None:
    """Make an image durable, for which room was left, beside what else is written. None if it was
    not wanted any more. Raises OSError; then it is not there."""
    salt = int.from_bytes(os.urandom(4))
    head = encode_segment_header(SegmentHeader(number, position, True, salt))
    path = directory / segment_file_name(number)
    unfinished = path.with_name(path.name + UNFINISHED_SUFFIX)
    file = calls.create(unfinished)
    try:
        end, synced = 0, 0
        for piece in (head, *encode_group_chunks(position, salt, 1, pieces)):
            if not is_wanted():
                calls.unlink(unfinished)
                return None
            _write_fully(calls, file, piece, end)
            end += len(piece)
            if end - synced >= CHECKPOINT_SYNC_BYTES:
                calls.fdatasync(file)
                synced = end
        calls.fdatasync(file)
        calls.rename(unfinished, path)
    except OSError:
        with suppress(OSError):
            calls.unlink(unfinished)
        raise
    finally:
        with suppress(OSError):
            calls.close(file)
    calls.sync_directory(directory)
    return path


def _write_fully(calls: FileOps, file: int, data: bytes, offset: int) -> None:
    rest = memoryview(data)
    while rest:
        written = calls.write(file, rest, offset)
        rest, offset = rest[written:], offset + written
