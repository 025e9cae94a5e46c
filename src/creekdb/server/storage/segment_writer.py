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
from creekdb.server.storage.file_ops import Calls
from creekdb.server.storage.segments import (
    SEGMENT_HEADER_BYTES,
    UNFINISHED,
    Chain,
    Segment,
    group_bytes_of,
    group_pieces_of,
    name_of,
    segment_bytes_of,
)


class Room:
    """The place of an image that is yet to come."""

    __slots__ = ("number", "position", "ready")

    def __init__(self, position: int) -> None:
        self.position = position
        self.number: int | None = None
        """Of its segment, once all before it is durable."""
        self.ready = threading.Event()
        """Has it a number, or will it never have one?"""


class Group:
    """Records that are made durable together."""

    __slots__ = ("first", "image", "number", "path", "payloads", "pieces", "room", "size")

    def __init__(self, first: int, image: bool, room: Room | None = None) -> None:
        self.first = first
        self.image = image
        self.room = room
        """None of them: where they would be, an image comes later."""
        self.payloads: list[bytes] = []
        self.pieces: Iterable[bytes] | None = None
        """What makes up an image that is the only record of the group."""
        self.number: int | None = None
        """Of the file of that image, however often it is tried."""
        self.path: Path | None = None
        """Where that image is, once it is written."""
        self.size = 0

    @property
    def is_plain(self) -> bool:
        """Has it nothing but records, none of which is an image?"""
        return not self.image and self.room is None


class Done(NamedTuple):
    """What came of writing a group."""

    fault: StorageFault | None = None
    broken: bool = False


IMAGE_SYNC_BYTES: Final = 4 * 1024 * 1024
"""Of an image, between two syncs: so no other sync has to wait for much of it."""
ROOM_BYTES: Final = 1024 * 1024
"""How much is zeroed at a time. The write that crosses the end brings the next zeros along."""

BEGUN_BYTES_MAX: Final = 256 * 1024
"""More is written by the thread: summing it up would hold up the loop."""


class _Begun(NamedTuple):
    """A group that the system writes."""

    size: int
    end: int
    room: int
    written: Callable[[bool], None]


class Writer:
    """Puts one group behind the other, each durable before the next; begins new segments.

    What the system writes is begun and heard of on the loop; all else may belong to a thread. They
    have nothing in common but for the file that is written to, and a group is with one of them.

    After an error the segment is left behind. What a failed sync covered may be gone although it
    can still be read, so the group is written again, to another file.
    """

    __slots__ = (
        "_begun",
        "_calls",
        "_directory",
        "_end",
        "_file",
        "_log",
        "_number",
        "_paths",
        "_room",
        "_salt",
        "_segment_bytes",
        "_skipped",
        "_suspect",
    )

    def __init__(
        self, directory: Path, segment_bytes: int, calls: Calls, log: Callable[[str], None]
    ) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._calls = calls
        self._log = log
        self._paths: list[Path] = []
        """Every segment that may still exist, oldest first."""
        self._number = 0
        self._skipped = 0
        """Numbers that were given to images since the last segment was begun."""
        self._file: int | None = None
        self._salt = 0
        self._end = 0
        self._room = 0
        """The file is this long, zeros included."""
        self._begun: _Begun | None = None
        self._suspect = False
        """Did the system fail to write what was begun? Then the segment is left behind."""

    def resume(self, chain: Chain) -> None:
        """Go on behind what was found, once it is durable: a process that was killed may have
        left groups which only its system has seen."""
        calls = self._calls
        for path in chain.useless:
            if path.suffix == UNFINISHED:
                calls.unlink(path)
        self._paths = [path for path in chain.useless if path.suffix != UNFINISHED]
        self._paths += chain.segments
        tail = chain.tail
        if tail is None:
            return
        self._number = tail.segment.number
        self._file = calls.open(tail.path)
        self._salt = tail.segment.salt
        self._end = tail.end
        self._room = tail.size
        if tail.cut is not None:
            calls.truncate(self._file, tail.end)
            self._room = tail.end
        if tail.last > SEGMENT_HEADER_BYTES:
            # Its sync may have failed; then only what is written again is sure to be written.
            self._write(self._file, tail.group, tail.last)
        calls.fdatasync(self._file)
        calls.sync_directory(self._directory)
        self._forget(len(self._paths) - len(chain.segments))

    def write(self, first: int, payloads: Sequence[bytes], size: int, image: bool) -> None:
        """Make a group durable. Raises OSError; then it may be there or not, and comes again."""
        if self._suspect:
            self._leave_behind()
        if image or self._file is None or self._end + size > self._segment_bytes:
            self.close()
            self._begin(first, payloads, image)
        else:
            self._extend(self._file, first, payloads)

    def leave_room(self) -> int:
        """The number of an image that is yet to come: what is written next begins a segment behind
        it."""
        self.close()
        self._number += 1
        self._skipped += 1
        return self._number

    def add_image(self, path: Path) -> None:
        """It is there now: remove what is older."""
        insort(self._paths, path)
        self._forget(self._paths.index(path))

    def forget_older(self) -> None:
        """The segment that is written begins with an image: remove those before it."""
        self._forget(len(self._paths) - 1)

    def close(self) -> None:
        if self._file is not None:
            self._discard(self._file)
            self._file = None

    def begin(
        self, first: int, payloads: Sequence[bytes], size: int, written: Callable[[bool], None]
    ) -> bool:
        """Have the system make a group durable, and go on. When `written` is told that it is not,
        `write` has to. False: so it has at once."""
        file = self._file
        if file is None or self._suspect or size > BEGUN_BYTES_MAX:
            return False
        if self._end + size > self._segment_bytes:
            return False
        data, end, room = self._extension(first, payloads)
        self._begun = _Begun(len(data), end, room, written)
        return self._calls.begin_through(file, data, self._end, self._wrote)

    def wait(self) -> bool:
        """For what was begun, if there is something."""
        return self._calls.wait()

    def _wrote(self, result: int) -> None:
        begun = self._begun
        assert begun is not None
        if result == begun.size:
            self._end, self._room = begun.end, begun.room
        else:
            self._suspect = True
        begun.written(result == begun.size)

    def _extend(self, file: int, first: int, payloads: Sequence[bytes]) -> None:
        data, end, room = self._extension(first, payloads)
        try:
            self._calls.write_through(file, data, self._end)
        except OSError:
            self._leave_behind()
            raise
        self._end, self._room = end, room

    def _extension(self, first: int, payloads: Sequence[bytes]) -> tuple[bytes, int, int]:
        """What to write for a group; where it ends; how long the file is then."""
        data = group_bytes_of(first, self._salt, payloads)
        end = self._end + len(data)
        room = self._room
        if end > room:
            room = self._room_for(end)
            data += bytes(room - end)
        return data, end, room

    def _leave_behind(self) -> None:
        self._suspect = False
        if self._file is not None:
            # Whether this works or not, what is read later is the same: it only makes space.
            with suppress(OSError):
                self._calls.truncate(self._file, self._end)
            self.close()

    def _begin(self, first: int, payloads: Sequence[bytes], image: bool) -> None:
        calls = self._calls
        self._number += 1
        salt = int.from_bytes(os.urandom(4))
        segment = Segment(self._number, first, image, salt, 0 if image else self._skipped)
        data = segment_bytes_of(segment) + group_bytes_of(first, salt, payloads)
        room = self._room_for(len(data))
        path = self._directory / name_of(self._number)
        unfinished = path.with_name(path.name + UNFINISHED)
        file = calls.create(unfinished)
        try:
            calls.write_through(file, data + bytes(room - len(data)), 0)
            calls.rename(unfinished, path)
        except OSError:
            self._discard(file)
            # If it stays, it takes up space until the next start, and nothing else.
            with suppress(OSError):
                calls.unlink(unfinished)
            raise
        self._paths.append(path)
        try:
            calls.sync_directory(self._directory)
        except OSError:
            self._discard(file)
            raise
        self._file, self._salt, self._end, self._room = file, salt, len(data), room
        self._skipped = 0

    def _discard(self, file: int) -> None:
        # What counts was synced: that closing fails means nothing any more.
        with suppress(OSError):
            self._calls.close(file)

    def _write(self, file: int, data: bytes, offset: int) -> None:
        _write(self._calls, file, data, offset)

    def _forget(self, count: int) -> None:
        """Remove the oldest files. What cannot be removed is tried again at the next image."""
        try:
            for path in self._paths[:count]:
                with suppress(FileNotFoundError):
                    self._calls.unlink(path)
                self._paths.remove(path)
            if count:
                self._calls.sync_directory(self._directory)
        except OSError as error:
            self._log(f"cannot remove {error.filename or self._directory}: {error.strerror}")

    def _room_for(self, end: int) -> int:
        step = min(ROOM_BYTES, self._segment_bytes)
        return max(end, min(-(-end // step) * step, self._segment_bytes))


def write_image(
    directory: Path,
    calls: Calls,
    number: int,
    position: int,
    pieces: Iterable[bytes],
    is_wanted: Callable[[], bool],
) -> Path | None:
    """Make an image durable, for which room was left, beside what else is written. None if it was
    not wanted any more. Raises OSError; then it is not there."""
    salt = int.from_bytes(os.urandom(4))
    head = segment_bytes_of(Segment(number, position, True, salt))
    path = directory / name_of(number)
    unfinished = path.with_name(path.name + UNFINISHED)
    file = calls.create(unfinished)
    try:
        end, synced = 0, 0
        for piece in (head, *group_pieces_of(position, salt, 1, pieces)):
            if not is_wanted():
                calls.unlink(unfinished)
                return None
            _write(calls, file, piece, end)
            end += len(piece)
            if end - synced >= IMAGE_SYNC_BYTES:
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


def _write(calls: Calls, file: int, data: bytes, offset: int) -> None:
    rest = memoryview(data)
    while rest:
        written = calls.write(file, rest, offset)
        rest, offset = rest[written:], offset + written
