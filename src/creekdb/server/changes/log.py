"""Change log: the changes of a replica in segments, under a retention.

The log has a *next index*, which the next appended change must have. A replica that installs a
snapshot skips indices: the log then begins another segment, and has a gap before it. A reader at an
index inside a gap, or before the first segment, gets None: this replica does not keep the change.

Appending writes to the page cache of the system and does not wait for the disk. `sync` makes what
was appended durable. After a crash of the process nothing is lost; after a power failure the
changes since the last `sync` may be.
"""

import os
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import randbits
from typing import Final

from creekdb.errors import StorageFault
from creekdb.server.changes.retention import Retention
from creekdb.server.changes.segments import (
    FRAME_HEADER_BYTES,
    MARK_BYTES,
    SEGMENT_HEADER_BYTES,
    SEGMENT_SUFFIX,
    Frame,
    SegmentHeader,
    encode_frame,
    encode_segment_header,
    read_closing_frame,
    read_frames,
    read_segment_header,
    scan_segment,
    segment_file_name,
)
from creekdb.server.storage.file_ops import SYSTEM_FILE_OPS, FileOps

FIRST_INDEX: Final = 1
DROPPED_FILE: Final = "dropped"
"""File with the index before which the retention has dropped changes, or all members lack them. It
distinguishes these from changes that the replica copies from its peers."""


def wall_clock_us() -> int:
    return time.time_ns() // 1000


class Segment:
    """One file of a change log."""

    def __init__(self, path: Path, header: SegmentHeader) -> None:
        self.path = path
        self.header = header
        self.first = self.end = header.first
        self.size_bytes = SEGMENT_HEADER_BYTES
        self.first_written_us = self.last_written_us = 0
        self.marks: list[tuple[int, int]] = [(header.first, SEGMENT_HEADER_BYTES)]
        self._has_all_marks = True

    def load(self) -> bool:
        """Find the extent of the file. Return False if the segment was not closed.

        Only such a segment is read. Its end may be incomplete, after a crash.
        """
        closing = read_closing_frame(self.path, self.header)
        if closing is not None:
            self.end, self.last_written_us = closing.first, closing.written_us
            self.size_bytes = self.path.stat().st_size - FRAME_HEADER_BYTES
            self._has_all_marks = False
            return True
        scanned = scan_segment(self.path, self.header)
        self.end, self.size_bytes, self.last_written_us, self.marks = scanned
        return False

    def record(self, frame: Frame, size_bytes: int, written_us: int) -> None:
        """Record a frame that was appended."""
        if self.size_bytes - self.marks[-1][1] >= MARK_BYTES:
            self.marks.append((frame.first, self.size_bytes))
        self.end = frame.end
        self.size_bytes += size_bytes
        self.first_written_us = self.first_written_us or written_us
        self.last_written_us = written_us

    def read(self, start: int, bytes_max: int) -> list[Frame]:
        """Return frames from index `start` on. May run in any thread.

        The result is empty if the segment is damaged there.
        """
        if not self._has_all_marks:
            self.marks, self._has_all_marks = scan_segment(self.path, self.header).marks, True
        mark = self.marks[bisect_right(self.marks, start, key=lambda mark: mark[0]) - 1]
        end = self.end  # bytes after it may be those of a write that failed
        file = os.open(self.path, os.O_RDONLY)
        try:
            frames = read_frames(file, self.header.salt, mark[1], start, bytes_max)
            return [frame for frame in frames if frame.end <= end]
        finally:
            os.close(file)


class ChangeLog:
    """Segments of one replica, in the order of their indices."""

    def __init__(
        self,
        directory: Path,
        retention: Retention,
        owner: int = 0,
        file_ops: FileOps = SYSTEM_FILE_OPS,
        now_us: Callable[[], int] = wall_clock_us,
    ) -> None:
        self._directory = directory
        self._retention = retention
        self._owner = owner
        self._file_ops = file_ops
        self._now_us = now_us
        self._segments: list[Segment] = []
        self._file: int | None = None
        """File of the last segment, or None if the next append begins a segment."""
        self._fill: Segment | None = None
        """Open segment of changes that were copied from a peer."""
        self._fill_file = -1
        self._dropped_index = FIRST_INDEX
        """Index before which the retention has dropped changes, or all members lack them."""
        self.next_index = FIRST_INDEX

    # --- lifecycle ----------------------------------------------------------------------------

    def open(self) -> None:
        """Find the segments, and close those that a crash interrupted."""
        try:
            if not self._directory.exists():
                self._directory.mkdir()
                self._file_ops.sync_directory(self._directory.parent)
            self._dropped_index = self._read_dropped_index()
            for path in sorted(self._directory.glob(f"*{SEGMENT_SUFFIX}")):
                header = read_segment_header(path, self._owner)
                if header is None:
                    self._file_ops.unlink(path)  # its first write was interrupted
                    continue
                segment = Segment(path, header)
                is_closed = segment.load()
                if segment.end == segment.first:
                    self._file_ops.unlink(path)
                    continue
                if not is_closed:
                    self._close_interrupted(segment)
                self._segments.append(segment)
        except OSError as error:
            raise StorageFault(
                f"cannot read {error.filename or self._directory}: {error.strerror}"
            ) from error
        if self._segments:
            self.next_index = self._segments[-1].end

    def close(self) -> None:
        """Make the changes durable, as far as the disk permits, and close the last segment."""
        with suppress(OSError):
            self._close_fill()
        with suppress(OSError):
            self._close_segment()

    def _close_interrupted(self, segment: Segment) -> None:
        """Cut the incomplete end of a segment, and close it.

        What the process wrote before it was killed may not be on the disk yet. `sync` covers later
        segments only.
        """
        file = self._file_ops.open(segment.path)
        try:
            self._file_ops.truncate(file, segment.size_bytes)
        except BaseException:
            self._file_ops.close(file)
            raise
        with suppress(OSError):  # the disk may be full
            self._finish_file(segment, file)

    # --- writing ------------------------------------------------------------------------------

    def append(self, frame: Frame) -> None:
        """Append a frame that begins with the next index. Raise OSError."""
        assert frame.first == self.next_index, f"{frame.first} is not the next change"
        now_us = self._now_us()
        if self._file is not None and self._is_segment_full(now_us):
            self._close_segment()
        if self._file is None:
            self._begin_segment(frame.first)
        assert self._file is not None
        segment = self._segments[-1]
        data = encode_frame(segment.header.salt, frame, now_us)
        self._file_ops.write_fully(self._file, data, segment.size_bytes)
        segment.record(frame, len(data), now_us)
        self.next_index = frame.end

    def skip_to(self, index: int) -> None:
        """Continue at a later index, after a gap. Earlier changes stay readable."""
        assert index > self.next_index
        with suppress(OSError):
            self._close_segment()
        self.next_index = index

    def sync(self) -> None:
        """Make all appended changes durable. May run in any thread. Raise OSError."""
        file = self._file
        if file is not None:
            duplicate = os.dup(file)  # the loop may close the segment meanwhile
            try:
                self._file_ops.fdatasync(duplicate)
                self._file_ops.sync_directory(self._directory)
            finally:
                os.close(duplicate)

    def expire(self) -> None:
        """Remove segments whose changes are older, or larger in total, than the retention."""
        oldest_us = self._now_us() - int(self._retention.seconds * 1_000_000)
        dropped_before = self._dropped_index
        while len(self._segments) > 1:
            segment = self._segments[0]
            is_old = segment.last_written_us < oldest_us
            if not is_old and self.size_bytes <= self._retention.bytes_max:
                break
            with suppress(OSError):
                if segment is self._fill:
                    self._close_fill()
            self._dropped_index = segment.end
            del self._segments[0]
            with suppress(OSError):
                self._file_ops.unlink(segment.path)
        if self._dropped_index > dropped_before:
            self._write_dropped_index()

    @property
    def dropped_index(self) -> int:
        """Index before which changes are not copied from others."""
        return self._dropped_index

    def drop_before(self, index: int) -> None:
        """Do not copy changes before this index from others. The replica has none of them."""
        self._dropped_index = index
        self._write_dropped_index()

    def _write_dropped_index(self) -> None:
        with suppress(OSError):
            file = self._file_ops.create(self._directory / DROPPED_FILE)
            try:
                self._file_ops.write_fully(file, b"%d\n" % self._dropped_index, 0)
            finally:
                self._file_ops.close(file)

    def _read_dropped_index(self) -> int:
        """Return the stored index. Without one, peers report which changes have expired."""
        try:
            return max(FIRST_INDEX, int((self._directory / DROPPED_FILE).read_bytes()))
        except (FileNotFoundError, ValueError):
            return FIRST_INDEX

    def _is_segment_full(self, now_us: int) -> bool:
        segment, retention = self._segments[-1], self._retention
        age_us = now_us - segment.first_written_us
        return segment.size_bytes >= retention.segment_bytes or age_us >= retention.segment_us

    # --- gaps ---------------------------------------------------------------------------------

    def gaps(self) -> list[tuple[int, int]]:
        """Return the ranges that this replica lacks and may copy from others.

        Nothing is copied before the first segment if the retention would soon drop it.
        """
        retention = self._retention
        gaps: list[tuple[int, int]] = []
        start = self._dropped_index
        if self.size_bytes + 2 * retention.segment_bytes > retention.bytes_max and self._segments:
            start = max(start, self._segments[0].first)
        for segment in self._segments:
            if start < segment.first:
                gaps.append((start, segment.first))
            start = max(start, segment.end)
        if start < self.next_index:
            gaps.append((start, self.next_index))
        return gaps

    def next_kept(self, index: int) -> int:
        """Return the first index from `index` on that this replica keeps, or the next index."""
        for segment in self._segments:
            if index < segment.end:
                return max(index, segment.first)
        return max(index, self.next_index)

    def fill(self, frames: Sequence[Frame], written_us: int) -> None:
        """Add frames that continue each other, inside a gap. Raise OSError.

        `written_us` is the time at which they were written first.
        """
        fill = self._fill
        for frame in frames:
            if fill is not None and (
                fill.end != frame.first or fill.size_bytes >= self._retention.segment_bytes
            ):
                self._close_fill()
                fill = None
            if fill is None:
                fill, self._fill_file = self._create_segment(frame.first)
                self._fill = fill
            data = encode_frame(fill.header.salt, frame, written_us)
            self._file_ops.write_fully(self._fill_file, data, fill.size_bytes)
            if fill.end == fill.first:
                self._segments.insert(self._segment_number(frame.first), fill)
            fill.record(frame, len(data), written_us)
        if fill is not None and not any(start == fill.end for start, _ in self.gaps()):
            self._close_fill()

    def _close_fill(self) -> None:
        fill, self._fill = self._fill, None
        if fill is not None:
            self._finish_file(fill, self._fill_file)

    def _segment_number(self, index: int) -> int:
        return bisect_right(self._segments, index, key=lambda segment: segment.first)

    # --- damage -------------------------------------------------------------------------------

    def drop_damage(self, segment: Segment, index: int) -> int:
        """End a closed segment before its first damaged frame. Return the index of that frame.

        The rest of the segment is then a gap. Return 0 if the change at `index` is not damaged, or
        if the segment is still written: a restart ends it there. Raise OSError.
        """
        is_open = segment is self._fill or (self._file is not None and self.is_last(segment))
        if is_open or segment not in self._segments or not segment.first <= index < segment.end:
            return 0
        scanned = scan_segment(segment.path, segment.header)
        if scanned.end > index:
            return 0
        if scanned.end == segment.first:
            self._file_ops.unlink(segment.path)
            self._segments.remove(segment)
        else:
            file = self._file_ops.open(segment.path)
            try:
                self._file_ops.truncate(file, scanned.end_offset)
            finally:
                self._file_ops.close(file)
            segment.end, segment.size_bytes = scanned.end, scanned.end_offset
            segment.marks = scanned.marks
        return scanned.end

    # --- segments -----------------------------------------------------------------------------

    def _begin_segment(self, first: int) -> None:
        segment, self._file = self._create_segment(first)
        self._segments.append(segment)

    def _create_segment(self, first: int) -> tuple[Segment, int]:
        header = SegmentHeader(first, randbits(32), self._owner)
        path = self._directory / segment_file_name(first)
        file = self._file_ops.create(path)
        try:
            self._file_ops.write_fully(file, encode_segment_header(header), 0)
        except BaseException:
            self._file_ops.close(file)
            raise
        return Segment(path, header), file

    def _close_segment(self) -> None:
        """Make the last segment durable, and write its closing frame."""
        file, self._file = self._file, None
        if file is not None:
            self._finish_file(self._segments[-1], file)

    def _finish_file(self, segment: Segment, file: int) -> None:
        """Make the segment durable, write the closing frame, and close its file.

        The closing frame states that all frames before it are intact. So it comes after the sync: a
        power failure must not keep it and lose others.
        """
        try:
            self._file_ops.fdatasync(file)
            self._file_ops.sync_directory(self._directory)
            closing = Frame(segment.end, segment.end, b"")
            end = encode_frame(segment.header.salt, closing, segment.last_written_us)
            self._file_ops.write_fully(file, end, segment.size_bytes)
        finally:
            self._file_ops.close(file)

    # --- reading ------------------------------------------------------------------------------

    @property
    def first_index(self) -> int:
        """First index from which on this replica keeps every change, up to the next index."""
        first = self.next_index
        for segment in reversed(self._segments):
            if segment.end != first:
                break
            first = segment.first
        return first

    @property
    def earliest_index(self) -> int:
        """First index that this replica keeps. There may be gaps after it."""
        return self._segments[0].first if self._segments else self.next_index

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    def find(self, index: int) -> Segment | None:
        """Return the segment with this index, or None if this replica does not keep it."""
        at = self._segment_number(index) - 1
        if at < 0 or index >= self._segments[at].end:
            return None
        return self._segments[at]

    def is_last(self, segment: Segment) -> bool:
        """True if the segment is the last one, which usually is in the page cache."""
        return segment is self._segments[-1]
