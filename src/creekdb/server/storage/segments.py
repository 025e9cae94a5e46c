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

FORMAT_VERSION: Final = 2
READABLE_VERSIONS: Final = (1, FORMAT_VERSION)
"""The first one knew no images that may be missing; else it is the same."""
SEGMENT_SUFFIX: Final = ".journal"
UNFINISHED_SUFFIX: Final = ".new"

_SEGMENT_MAGIC = b"CREEKLOG"
_SEGMENT_HEADER = struct.Struct(">8sIQQBI")
_CHECKPOINT_KIND = 1
"""What a segment is: 0, this, or this and how many images before it may be missing."""
_GROUP_MAGIC = b"GRP\xc1"
_GROUP_HEADER = struct.Struct(">4sQQI")
_CRC = struct.Struct(">I")
_ARRAY_HEADER = struct.Struct(">BI")
_ARRAY_TAG = 0xDD
SEGMENT_HEADER_BYTES = _SEGMENT_HEADER.size + _CRC.size
_GROUP_HEADER_BYTES = _GROUP_HEADER.size + _CRC.size

_decode = msgspec.msgpack.Decoder(list[Record]).decode


class SegmentHeader(NamedTuple):
    number: int
    first_position: int
    """The position of its first record."""
    is_checkpoint: bool
    salt: int
    """Every checksum begins with it: bytes of another file are never taken for a group."""
    skipped_checkpoints: int = 0
    """The numbers before it, so many, are for images, which may be missing."""


class TornTail(NamedTuple):
    """What a crash tore: the file ends at `offset` now."""

    path: Path
    offset: int
    size_bytes: int

    def __str__(self) -> str:
        return (
            f"cut {self.size_bytes} bytes that a crash tore off {self.path} at byte {self.offset}"
        )


class SegmentChain(NamedTuple):
    """What a folder holds."""

    records: list[Record]
    first_position: int
    """The position of the first record."""
    end_position: int
    """The position behind the last one."""
    segment_paths: list[Path]
    """The files of which it was read."""
    obsolete_paths: list[Path]
    """Files that an image replaced, or that never got their name."""
    tail: "SegmentTail | None"


class SegmentTail(NamedTuple):
    """The last segment of a chain."""

    path: Path
    header: SegmentHeader
    last_group_offset: int
    """Where the last group begins."""
    end_offset: int
    """Where the last group ends."""
    last_group: bytes
    """The last group."""
    file_bytes: int
    torn_tail: TornTail | None


def segment_file_name(number: int) -> str:
    return f"{number:012}{SEGMENT_SUFFIX}"


# --- writing down -----------------------------------------------------------------------------


def encode_segment_header(segment: SegmentHeader) -> bytes:
    what = (
        _CHECKPOINT_KIND
        if segment.is_checkpoint
        else segment.skipped_checkpoints and _CHECKPOINT_KIND + segment.skipped_checkpoints
    )
    head = _SEGMENT_HEADER.pack(
        _SEGMENT_MAGIC, FORMAT_VERSION, segment.number, segment.first_position, what, segment.salt
    )
    return head + _CRC.pack(crc32(head))


def encode_group(first: int, salt: int, payloads: Sequence[bytes]) -> bytes:
    return b"".join(encode_group_chunks(first, salt, len(payloads), payloads))


def encode_group_chunks(first: int, salt: int, count: int, pieces: Iterable[bytes]) -> list[bytes]:
    """A group of so many records, which come in any number of pieces."""
    body = [_ARRAY_HEADER.pack(_ARRAY_TAG, count), *pieces]
    length, checksum = 0, salt
    for piece in body:
        length += len(piece)
        checksum = crc32(piece, checksum)
    head = _GROUP_HEADER.pack(_GROUP_MAGIC, first, length, checksum)
    return [head + _CRC.pack(crc32(head, salt)), *body]


# --- reading back -----------------------------------------------------------------------------


class _GroupHeader(NamedTuple):
    first_position: int
    body_bytes: int
    checksum: int


def _decode_group_header(data: bytes, at: int, salt: int) -> _GroupHeader | None:
    """The header of a group, if there is a sound one."""
    if at + _GROUP_HEADER_BYTES > len(data):
        return None
    magic, first, length, checksum = _GROUP_HEADER.unpack_from(data, at)
    (own,) = _CRC.unpack_from(data, at + _GROUP_HEADER.size)
    if magic != _GROUP_MAGIC or own != crc32(data[at : at + _GROUP_HEADER.size], salt):
        return None
    return _GroupHeader(first, length, checksum)


def _decode_group_body(
    data: bytes, at: int, segment: SegmentHeader, position: int
) -> memoryview | None:
    """The records of the group that must stand here, if it is sound."""
    head = _decode_group_header(data, at, segment.salt)
    if head is None or head.first_position != position:
        return None
    begin = at + _GROUP_HEADER_BYTES
    body = memoryview(data)[begin : begin + head.body_bytes]
    if len(body) < head.body_bytes or crc32(body, segment.salt) != head.checksum:
        return None
    return body


def _has_later_group(data: bytes, at: int, segment: SegmentHeader, position: int) -> bool:
    """Does a group that comes after this position have a header at or behind `at`?"""
    at = data.find(_GROUP_MAGIC, at)
    while at >= 0:
        head = _decode_group_header(data, at, segment.salt)
        if head is not None and head.first_position > position:
            return True
        at = data.find(_GROUP_MAGIC, at + 1)
    return False


def damage_fault(path: Path, offset: int, what: str) -> StorageFault:
    return StorageFault(
        f"{path} is damaged at byte {offset}: {what}. Nothing was changed. What is lost here "
        f"counted as safe: move {path.parent} away and start this replica as one that lost its disk"
    )


@contextmanager
def _paused_gc() -> Iterator[None]:
    """Everything that is read is kept: looking for garbage in it doubles the time it takes."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def read_segment_chain(directory: Path) -> SegmentChain:
    """Everything that is there, in order; changes nothing. Raises `StorageFault`."""
    try:
        paths = sorted(directory.iterdir())
        names = [path for path in paths if path.suffix == SEGMENT_SUFFIX]
        useless = [path for path in paths if path.suffix == UNFINISHED_SUFFIX]
        segments: list[tuple[Path, SegmentHeader]] = []
        for path in reversed(names):
            segments.append((path, _read_segment_header(path)))
            if segments[-1][1].is_checkpoint:
                break
        segments.reverse()
        useless += names[: len(names) - len(segments)]
        with _paused_gc():
            return _read_chain(segments, useless)
    except OSError as error:
        raise StorageFault(
            f"cannot read {error.filename or directory}: {error.strerror}"
        ) from error


def _read_segment_header(path: Path) -> SegmentHeader:
    with path.open("rb") as file:
        data = file.read(SEGMENT_HEADER_BYTES)
    if len(data) < SEGMENT_HEADER_BYTES:
        raise damage_fault(path, len(data), "its header is cut short")
    magic, version, number, first, what, salt = _SEGMENT_HEADER.unpack_from(data)
    if magic != _SEGMENT_MAGIC:
        raise damage_fault(path, 0, "it does not begin like a segment of a journal")
    if version not in READABLE_VERSIONS:
        raise StorageFault(
            f"{path} is written in version {version} of the format, and version "
            f"{FORMAT_VERSION} is read: "
            "start the release that wrote it"
        )
    if _CRC.unpack_from(data, _SEGMENT_HEADER.size) != (crc32(data[: _SEGMENT_HEADER.size]),):
        raise damage_fault(path, 0, "the checksum of its header is wrong")
    if path.name != segment_file_name(number):
        raise damage_fault(path, 0, f"it was written as {segment_file_name(number)}")
    return SegmentHeader(
        number, first, what == _CHECKPOINT_KIND, salt, max(0, what - _CHECKPOINT_KIND)
    )


def _read_chain(segments: list[tuple[Path, SegmentHeader]], useless: list[Path]) -> SegmentChain:
    records: list[Record] = []
    if not segments:
        return SegmentChain(records, 0, 0, [], useless, None)
    path, segment = segments[0]
    begin = segment.first_position
    if begin > segment.skipped_checkpoints and not segment.is_checkpoint:
        raise damage_fault(path, 0, f"{begin} records come before it, and their files are missing")
    for (path, segment), (_, following) in pairwise(segments):
        _read_closed_segment(path, segment, _end_position(segment, following), records)
    path, segment = segments[-1]
    known = len(records)
    tail = _read_last_segment(path, segment, records)
    end = segment.first_position + len(records) - known
    return SegmentChain(records, begin, end, [path for path, _ in segments], useless, tail)


def _end_position(segment: SegmentHeader, following: SegmentHeader) -> int:
    """Where a segment ends if this one follows: images in between may be missing. One that failed
    when it was begun behind such an image holds nothing: the next one begins where it did."""
    skipped = following.first_position - following.skipped_checkpoints
    if segment.is_checkpoint and segment.first_position >= skipped:
        return segment.first_position + 1
    return max(segment.first_position, skipped)


def _read_closed_segment(
    path: Path, segment: SegmentHeader, until: int, records: list[Record]
) -> None:
    """Read a segment that others follow."""
    data = path.read_bytes()
    at, position = SEGMENT_HEADER_BYTES, segment.first_position
    while position < until:
        body = _decode_group_body(data, at, segment, position)
        if body is None:
            break
        position += _decode_records(path, at, body, records)
        at += _GROUP_HEADER_BYTES + len(body)
    if position != until:
        raise damage_fault(path, at, f"records from {position} on are not sound, and others follow")


def _read_last_segment(path: Path, segment: SegmentHeader, records: list[Record]) -> SegmentTail:
    """Read the last segment, and find out how it ends."""
    data = path.read_bytes()
    last = end = SEGMENT_HEADER_BYTES
    position = segment.first_position
    while (body := _decode_group_body(data, end, segment, position)) is not None:
        position += _decode_records(path, end, body, records)
        last, end = end, end + _GROUP_HEADER_BYTES + len(body)
    written = len(data.rstrip(b"\0"))
    if end == SEGMENT_HEADER_BYTES:
        raise damage_fault(path, end, "its first records are not sound")
    if written > end and _has_later_group(data, end, segment, position):
        raise damage_fault(
            path, end, f"records from {position} on are not sound, and others follow"
        )
    cut = TornTail(path, end, written - end) if written > end else None
    return SegmentTail(path, segment, last, end, data[last:end], len(data), cut)


def _decode_records(path: Path, at: int, body: memoryview, records: list[Record]) -> int:
    try:
        found = _decode(body)
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        raise StorageFault(
            f"{path} holds records at byte {at} that this release does not know ({error}): "
            "start the release that wrote them"
        ) from error
    records += found
    return len(found)
