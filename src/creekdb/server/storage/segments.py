"""The files of a journal: how records lie in them, and how they are read back.

    segment  magic, version, number, first position, what it is, salt, CRC; then groups
    group    magic, first position, length, CRC of the records, CRC of this header; then the
             records, as one msgpack array
    zeros    behind the last group: room made beforehand, so that a sync notes no new length

A *position* counts the records since the journal began. A *group* is what one sync made durable:
the next one is written only when this one is on disk. The rules that follow from it:

- A group that is damaged while a later one has left a header was durable once: that is a fault.
  With nothing behind it, it is what a crash tore, was never told durable, and is cut off.
- A segment gets its name when its first group is on disk: whatever has a name begins well.
- A segment ends where the next one begins. What stands behind that is a group of which the disk did
  not say that it was written, and which is repeated in the next segment.
- Reading starts at the last segment that begins with an image; the ones before it are of no use.
- An image that takes its time is written beside the segments after it, which say that its number,
  and its one position, may be missing: that is an image that was never finished.

That bytes which are on disk stay there while others are written beside them is relied on.
"""

import gc
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

from creekdb.errors import StorageFault
from creekdb.protocol.messages import Record

VERSION: Final = 2
READABLE: Final = (1, VERSION)
"""The first one knew no images that may be missing; else it is the same."""
SUFFIX: Final = ".journal"
UNFINISHED: Final = ".new"

_SEGMENT_MAGIC = b"CREEKLOG"
_SEGMENT = struct.Struct(">8sIQQBI")
_IMAGE = 1
"""What a segment is: 0, this, or this and how many images before it may be missing."""
_GROUP_MAGIC = b"GRP\xc1"
_GROUP = struct.Struct(">4sQQI")
_CRC = struct.Struct(">I")
_ARRAY = struct.Struct(">BI")
_ARRAY_TAG = 0xDD
SEGMENT_HEADER_BYTES = _SEGMENT.size + _CRC.size
_GROUP_BYTES = _GROUP.size + _CRC.size

_decode = msgspec.msgpack.Decoder(list[Record]).decode


class Segment(NamedTuple):
    number: int
    first: int
    """The position of its first record."""
    image: bool
    salt: int
    """Every checksum begins with it: bytes of another file are never taken for a group."""
    skipped: int = 0
    """The numbers before it, so many, are for images, which may be missing."""


class Cut(NamedTuple):
    """What a crash tore: the file ends at `offset` now."""

    path: Path
    offset: int
    size: int

    def __str__(self) -> str:
        return f"cut {self.size} bytes that a crash tore off {self.path} at byte {self.offset}"


class Chain(NamedTuple):
    """What a folder holds."""

    records: list[Record]
    first: int
    """The position of the first record."""
    end: int
    """The position behind the last one."""
    segments: list[Path]
    """The files of which it was read."""
    useless: list[Path]
    """Files that an image replaced, or that never got their name."""
    tail: "Tail | None"


class Tail(NamedTuple):
    """The last segment of a chain."""

    path: Path
    segment: Segment
    last: int
    """Where the last group begins."""
    end: int
    """Where the last group ends."""
    group: bytes
    """The last group."""
    size: int
    cut: Cut | None


def name_of(number: int) -> str:
    return f"{number:012}{SUFFIX}"


# --- writing down -----------------------------------------------------------------------------


def segment_bytes_of(segment: Segment) -> bytes:
    what = _IMAGE if segment.image else segment.skipped and _IMAGE + segment.skipped
    head = _SEGMENT.pack(_SEGMENT_MAGIC, VERSION, segment.number, segment.first, what, segment.salt)
    return head + _CRC.pack(crc32(head))


def group_bytes_of(first: int, salt: int, payloads: Sequence[bytes]) -> bytes:
    return b"".join(group_pieces_of(first, salt, len(payloads), payloads))


def group_pieces_of(first: int, salt: int, count: int, pieces: Iterable[bytes]) -> list[bytes]:
    """A group of so many records, which come in any number of pieces."""
    body = [_ARRAY.pack(_ARRAY_TAG, count), *pieces]
    length, checksum = 0, salt
    for piece in body:
        length += len(piece)
        checksum = crc32(piece, checksum)
    head = _GROUP.pack(_GROUP_MAGIC, first, length, checksum)
    return [head + _CRC.pack(crc32(head, salt)), *body]


# --- reading back -----------------------------------------------------------------------------


class _Head(NamedTuple):
    first: int
    length: int
    checksum: int


def _head_at(data: bytes, at: int, salt: int) -> _Head | None:
    """The header of a group, if there is a sound one."""
    if at + _GROUP_BYTES > len(data):
        return None
    magic, first, length, checksum = _GROUP.unpack_from(data, at)
    (own,) = _CRC.unpack_from(data, at + _GROUP.size)
    if magic != _GROUP_MAGIC or own != crc32(data[at : at + _GROUP.size], salt):
        return None
    return _Head(first, length, checksum)


def _body_at(data: bytes, at: int, segment: Segment, position: int) -> memoryview | None:
    """The records of the group that must stand here, if it is sound."""
    head = _head_at(data, at, segment.salt)
    if head is None or head.first != position:
        return None
    begin = at + _GROUP_BYTES
    body = memoryview(data)[begin : begin + head.length]
    if len(body) < head.length or crc32(body, segment.salt) != head.checksum:
        return None
    return body


def _is_later_group(data: bytes, at: int, segment: Segment, position: int) -> bool:
    """Does a group that comes after this position have a header at or behind `at`?"""
    at = data.find(_GROUP_MAGIC, at)
    while at >= 0:
        head = _head_at(data, at, segment.salt)
        if head is not None and head.first > position:
            return True
        at = data.find(_GROUP_MAGIC, at + 1)
    return False


def damaged(path: Path, offset: int, what: str) -> StorageFault:
    return StorageFault(
        f"{path} is damaged at byte {offset}: {what}. Nothing was changed. What is lost here "
        f"counted as safe: move {path.parent} away and start this replica as one that lost its disk"
    )


@contextmanager
def _uncollected() -> Iterator[None]:
    """Everything that is read is kept: looking for garbage in it doubles the time it takes."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def read_chain(directory: Path) -> Chain:
    """Everything that is there, in order; changes nothing. Raises `StorageFault`."""
    try:
        paths = sorted(directory.iterdir())
        names = [path for path in paths if path.suffix == SUFFIX]
        useless = [path for path in paths if path.suffix == UNFINISHED]
        segments: list[tuple[Path, Segment]] = []
        for path in reversed(names):
            segments.append((path, _segment_of(path)))
            if segments[-1][1].image:
                break
        segments.reverse()
        useless += names[: len(names) - len(segments)]
        with _uncollected():
            return _read(segments, useless)
    except OSError as error:
        raise StorageFault(
            f"cannot read {error.filename or directory}: {error.strerror}"
        ) from error


def _segment_of(path: Path) -> Segment:
    with path.open("rb") as file:
        data = file.read(SEGMENT_HEADER_BYTES)
    if len(data) < SEGMENT_HEADER_BYTES:
        raise damaged(path, len(data), "its header is cut short")
    magic, version, number, first, what, salt = _SEGMENT.unpack_from(data)
    if magic != _SEGMENT_MAGIC:
        raise damaged(path, 0, "it does not begin like a segment of a journal")
    if version not in READABLE:
        raise StorageFault(
            f"{path} is written in version {version} of the format, and version {VERSION} is read: "
            "start the release that wrote it"
        )
    if _CRC.unpack_from(data, _SEGMENT.size) != (crc32(data[: _SEGMENT.size]),):
        raise damaged(path, 0, "the checksum of its header is wrong")
    if path.name != name_of(number):
        raise damaged(path, 0, f"it was written as {name_of(number)}")
    return Segment(number, first, what == _IMAGE, salt, max(0, what - _IMAGE))


def _read(segments: list[tuple[Path, Segment]], useless: list[Path]) -> Chain:
    records: list[Record] = []
    if not segments:
        return Chain(records, 0, 0, [], useless, None)
    path, segment = segments[0]
    begin = segment.first
    if begin > segment.skipped and not segment.image:
        raise damaged(path, 0, f"{begin} records come before it, and their files are missing")
    for (path, segment), (_, following) in pairwise(segments):
        _read_until(path, segment, _end_before(segment, following), records)
    path, segment = segments[-1]
    known = len(records)
    tail = _read_tail(path, segment, records)
    end = segment.first + len(records) - known
    return Chain(records, begin, end, [path for path, _ in segments], useless, tail)


def _end_before(segment: Segment, following: Segment) -> int:
    """Where a segment ends if this one follows: images in between may be missing. One that failed
    when it was begun behind such an image holds nothing: the next one begins where it did."""
    skipped = following.first - following.skipped
    if segment.image and segment.first >= skipped:
        return segment.first + 1
    return max(segment.first, skipped)


def _read_until(path: Path, segment: Segment, until: int, records: list[Record]) -> None:
    """Read a segment that others follow."""
    data = path.read_bytes()
    at, position = SEGMENT_HEADER_BYTES, segment.first
    while position < until:
        body = _body_at(data, at, segment, position)
        if body is None:
            break
        position += _take(path, at, body, records)
        at += _GROUP_BYTES + len(body)
    if position != until:
        raise damaged(path, at, f"records from {position} on are not sound, and others follow")


def _read_tail(path: Path, segment: Segment, records: list[Record]) -> Tail:
    """Read the last segment, and find out how it ends."""
    data = path.read_bytes()
    last = end = SEGMENT_HEADER_BYTES
    position = segment.first
    while (body := _body_at(data, end, segment, position)) is not None:
        position += _take(path, end, body, records)
        last, end = end, end + _GROUP_BYTES + len(body)
    written = len(data.rstrip(b"\0"))
    if end == SEGMENT_HEADER_BYTES:
        raise damaged(path, end, "its first records are not sound")
    if written > end and _is_later_group(data, end, segment, position):
        raise damaged(path, end, f"records from {position} on are not sound, and others follow")
    cut = Cut(path, end, written - end) if written > end else None
    return Tail(path, segment, last, end, data[last:end], len(data), cut)


def _take(path: Path, at: int, body: memoryview, records: list[Record]) -> int:
    try:
        found = _decode(body)
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        raise StorageFault(
            f"{path} holds records at byte {at} that this release does not know ({error}): "
            "start the release that wrote them"
        ) from error
    records += found
    return len(found)
