"""Format of journal segments, and how they are read.

    segment  magic, version, number, first position, kind, salt, owner, CRC; then groups
    group    magic, first position, length, CRC of the records, CRC of this header; then the
             records, as one msgpack array
    zeros    after the last group: preallocated, so that a sync does not change the file length

A *position* counts the records since the journal began. A *group* is the unit of one sync: the next
group is written only when this one is on disk. This implies the following rules:

- A damaged group before the header of a later group was durable once, so it is a fault. A damaged
  group at the end is an incomplete write of a crash. It was never reported durable and is cut off.
- A segment gets its name when its first group is on disk. A named segment has a sound beginning.
- A segment ends where the next one begins. A group after that end was not confirmed by the disk,
  and the next segment repeats it.
- Reading starts at the last segment that begins with a checkpoint. Older segments are obsolete.
- A slow checkpoint is written concurrently with the segments after it. Their headers state that its
  segment number and its one position may be missing. A missing one was never finished.

The *owner* is a hash of the cluster, the replica and the data type. A segment of another owner is
rejected, so that files of two data directories never mix. Segments before version 3 have none.

The format relies on bytes on disk to stay intact while others are written next to them.
"""

import gc
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

from creekdb.errors import DECODE_ERRORS, StorageFault, UsageError
from creekdb.protocol.messages import Record

FORMAT_VERSION: Final = 3
READABLE_VERSIONS: Final = (1, 2, FORMAT_VERSION)
"""Versions that can be read. Version 1 has no missing checkpoints, and versions 1 and 2 have no
owner. They are otherwise equal."""
UNKNOWN_OWNER: Final = 0
"""Owner of segments that every replica may read, and of a journal that may read every segment."""
SEGMENT_SUFFIX: Final = ".journal"
UNFINISHED_SUFFIX: Final = ".new"

_SEGMENT_MAGIC = b"CREEKLOG"
_SEGMENT_HEADER = struct.Struct(">8sIQQBI")
_CHECKPOINT_KIND = 1
"""Kind of a segment: 0, this value for a checkpoint, or this value plus the number of
checkpoints before the segment that may be missing."""
_GROUP_MAGIC = b"GRP\xc1"
_GROUP_HEADER = struct.Struct(">4sQQI")
_OWNER = struct.Struct(">Q")
_CRC = struct.Struct(">I")
_ARRAY_HEADER = struct.Struct(">BI")
_ARRAY_TAG = 0xDD
SEGMENT_HEADER_BYTES = _SEGMENT_HEADER.size + _OWNER.size + _CRC.size
_FIRST_VERSION_WITH_OWNER = 3
_SEGMENT_NAME = re.compile(r"\d{12}\.journal")
_GROUP_HEADER_BYTES = _GROUP_HEADER.size + _CRC.size

_decode = msgspec.msgpack.Decoder(list[Record]).decode


class SegmentHeader(NamedTuple):
    """Header of a segment."""

    number: int
    first_position: int
    """Position of the first record."""
    is_checkpoint: bool
    salt: int
    """Initial value of every checksum, so that bytes of another file never pass as a group."""
    skipped_checkpoints: int = 0
    """Number of segments directly before this one that are checkpoints and may be missing."""
    owner: int = UNKNOWN_OWNER
    version: int = FORMAT_VERSION

    @property
    def size_bytes(self) -> int:
        has_owner = self.version >= _FIRST_VERSION_WITH_OWNER
        return SEGMENT_HEADER_BYTES if has_owner else SEGMENT_HEADER_BYTES - _OWNER.size


class SegmentChain(NamedTuple):
    """Content of a journal directory."""

    records: list[Record]
    first_position: int
    """Position of the first record."""
    end_position: int
    """Position after the last record."""
    segment_paths: list[Path]
    """Segments that contain the records."""
    obsolete_paths: list[Path]
    """Segments replaced by a checkpoint, and files that were never finished."""
    tail: "SegmentTail | None"


class SegmentTail(NamedTuple):
    """Last segment of a chain."""

    path: Path
    header: SegmentHeader
    last_group_offset: int
    """Offset of the last group."""
    end_offset: int
    """End of the last group."""
    last_group: bytes
    """Bytes of the last group."""
    file_bytes: int
    torn_bytes: int
    """Length of the incomplete write that a crash left after the last group, or 0."""


def segment_file_name(number: int) -> str:
    return f"{number:012}{SEGMENT_SUFFIX}"


# --- encoding ---------------------------------------------------------------------------------


def encode_segment_header(header: SegmentHeader) -> bytes:
    kind = (
        _CHECKPOINT_KIND
        if header.is_checkpoint
        else header.skipped_checkpoints and _CHECKPOINT_KIND + header.skipped_checkpoints
    )
    data = _SEGMENT_HEADER.pack(
        _SEGMENT_MAGIC, FORMAT_VERSION, header.number, header.first_position, kind, header.salt
    )
    data += _OWNER.pack(header.owner)
    return data + _CRC.pack(crc32(data))


def encode_group(first_position: int, salt: int, payloads: Sequence[bytes]) -> bytes:
    return b"".join(encode_group_chunks(first_position, salt, len(payloads), payloads))


def encode_group_chunks(
    first_position: int, salt: int, count: int, chunks: Iterable[bytes]
) -> list[bytes]:
    """Return a group of `count` records, which are split into any number of chunks."""
    body = [_ARRAY_HEADER.pack(_ARRAY_TAG, count), *chunks]
    length, checksum = 0, salt
    for chunk in body:
        length += len(chunk)
        checksum = crc32(chunk, checksum)
    header = _GROUP_HEADER.pack(_GROUP_MAGIC, first_position, length, checksum)
    return [header + _CRC.pack(crc32(header, salt)), *body]


# --- decoding ---------------------------------------------------------------------------------


class _GroupHeader(NamedTuple):
    first_position: int
    body_bytes: int
    checksum: int


def _decode_group_header(data: bytes, at: int, salt: int) -> _GroupHeader | None:
    """Return the group header at an offset, or None if there is no intact one."""
    if at + _GROUP_HEADER_BYTES > len(data):
        return None
    magic, first_position, length, checksum = _GROUP_HEADER.unpack_from(data, at)
    (header_checksum,) = _CRC.unpack_from(data, at + _GROUP_HEADER.size)
    if magic != _GROUP_MAGIC or header_checksum != crc32(data[at : at + _GROUP_HEADER.size], salt):
        return None
    return _GroupHeader(first_position, length, checksum)


def _decode_group_body(
    data: bytes, at: int, segment: SegmentHeader, position: int
) -> memoryview | None:
    """Return the records of the group expected at an offset, or None if it is damaged."""
    header = _decode_group_header(data, at, segment.salt)
    if header is None or header.first_position != position:
        return None
    begin = at + _GROUP_HEADER_BYTES
    body = memoryview(data)[begin : begin + header.body_bytes]
    if len(body) < header.body_bytes or crc32(body, segment.salt) != header.checksum:
        return None
    return body


def _has_later_group(data: bytes, at: int, segment: SegmentHeader, position: int) -> bool:
    """Return True if the header of a group after `position` exists at or after `at`."""
    at = data.find(_GROUP_MAGIC, at)
    while at >= 0:
        header = _decode_group_header(data, at, segment.salt)
        if header is not None and header.first_position > position:
            return True
        at = data.find(_GROUP_MAGIC, at + 1)
    return False


def damage_fault(path: Path, offset: int, cause: str) -> StorageFault:
    return StorageFault(
        f"{path} is damaged at byte {offset}: {cause}. Nothing was changed. Durable records are "
        f"lost: move {path.parent} away, and start this replica as one that lost its disk"
    )


@contextmanager
def _paused_gc() -> Iterator[None]:
    """Disable garbage collection. The records stay alive, and scanning them doubles the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def read_segment_chain(directory: Path, owner: int = UNKNOWN_OWNER) -> SegmentChain:
    """Read all segments of a directory without changing it.

    Raise `StorageFault`, or `UsageError` if a file does not belong to the journal of `owner`.
    """
    try:
        paths = sorted(directory.iterdir())
        segment_paths = [path for path in paths if path.suffix == SEGMENT_SUFFIX]
        for path in segment_paths:
            if _SEGMENT_NAME.fullmatch(path.name) is None:
                raise UsageError(f"{path} is not a segment of a journal; move it away")
        obsolete = [
            path
            for path in paths
            if path.suffix == UNFINISHED_SUFFIX and _SEGMENT_NAME.fullmatch(path.stem)
        ]
        segments: list[tuple[Path, SegmentHeader]] = []
        for path in reversed(segment_paths):
            segments.append((path, _read_segment_header(path)))
            if owner and segments[-1][1].owner not in (owner, UNKNOWN_OWNER):
                raise UsageError(
                    f"{path} was written by another replica, or for another cluster or data type; "
                    "choose the directory of this replica, or an empty one to fetch the state from "
                    "the others"
                )
            if segments[-1][1].is_checkpoint:
                break
        segments.reverse()
        obsolete += segment_paths[: len(segment_paths) - len(segments)]
        with _paused_gc():
            return _read_chain(segments, obsolete)
    except OSError as error:
        raise StorageFault(
            f"cannot read {error.filename or directory}: {error.strerror}"
        ) from error


def _read_segment_header(path: Path) -> SegmentHeader:
    with path.open("rb") as file:
        data = file.read(SEGMENT_HEADER_BYTES)
    if len(data) < _SEGMENT_HEADER.size:
        raise damage_fault(path, len(data), "the header is truncated")
    magic, version, number, first_position, kind, salt = _SEGMENT_HEADER.unpack_from(data)
    if magic != _SEGMENT_MAGIC:
        raise damage_fault(path, 0, "the file is not a journal segment")
    if version not in READABLE_VERSIONS:
        raise StorageFault(
            f"{path} has format version {version}, but this release reads versions up to "
            f"{FORMAT_VERSION}; start the release that wrote the file"
        )
    header = SegmentHeader(
        number,
        first_position,
        kind == _CHECKPOINT_KIND,
        salt,
        max(0, kind - _CHECKPOINT_KIND),
        version=version,
    )
    if len(data) < header.size_bytes:
        raise damage_fault(path, len(data), "the header is truncated")
    checksum_at = header.size_bytes - _CRC.size
    if _CRC.unpack_from(data, checksum_at) != (crc32(data[:checksum_at]),):
        raise damage_fault(path, 0, "the header checksum is wrong")
    if path.name != segment_file_name(number):
        raise damage_fault(path, 0, f"the header is that of {segment_file_name(number)}")
    if version < _FIRST_VERSION_WITH_OWNER:
        return header
    (owner,) = _OWNER.unpack_from(data, _SEGMENT_HEADER.size)
    return header._replace(owner=owner)


def _read_chain(segments: list[tuple[Path, SegmentHeader]], obsolete: list[Path]) -> SegmentChain:
    records: list[Record] = []
    if not segments:
        return SegmentChain(records, 0, 0, [], obsolete, None)
    path, segment = segments[0]
    begin = segment.first_position
    if begin > segment.skipped_checkpoints and not segment.is_checkpoint:
        raise damage_fault(path, 0, f"the segments of {begin} earlier records are missing")
    for (path, segment), (_, following) in pairwise(segments):
        _read_closed_segment(path, segment, _end_position(segment, following), records)
    path, segment = segments[-1]
    earlier = len(records)
    tail = _read_last_segment(path, segment, records)
    end = segment.first_position + len(records) - earlier
    return SegmentChain(records, begin, end, [path for path, _ in segments], obsolete, tail)


def _end_position(segment: SegmentHeader, following: SegmentHeader) -> int:
    """Return the end of a segment before `following`. Checkpoints between them may be missing.

    A segment that failed at its creation after such a checkpoint is empty. The next one begins at
    the same position.
    """
    skipped = following.first_position - following.skipped_checkpoints
    if segment.is_checkpoint and segment.first_position >= skipped:
        return segment.first_position + 1
    return max(segment.first_position, skipped)


def _read_closed_segment(
    path: Path, segment: SegmentHeader, end_position: int, records: list[Record]
) -> None:
    """Read a segment that others follow."""
    data = path.read_bytes()
    at, position = segment.size_bytes, segment.first_position
    while position < end_position:
        body = _decode_group_body(data, at, segment, position)
        if body is None:
            break
        position += _decode_records(path, at, body, records)
        at += _GROUP_HEADER_BYTES + len(body)
    if position != end_position:
        raise damage_fault(
            path, at, f"records from {position} on are damaged, but later ones exist"
        )


def _read_last_segment(path: Path, segment: SegmentHeader, records: list[Record]) -> SegmentTail:
    """Read the last segment, and find its end."""
    data = path.read_bytes()
    last = end = segment.size_bytes
    position = segment.first_position
    while (body := _decode_group_body(data, end, segment, position)) is not None:
        position += _decode_records(path, end, body, records)
        last, end = end, end + _GROUP_HEADER_BYTES + len(body)
    written = len(data.rstrip(b"\0"))
    if end == segment.size_bytes:
        raise damage_fault(path, end, "the first records are damaged")
    if written > end and _has_later_group(data, end, segment, position):
        raise damage_fault(
            path, end, f"records from {position} on are damaged, but later ones exist"
        )
    torn_bytes = max(0, written - end)
    return SegmentTail(path, segment, last, end, data[last:end], len(data), torn_bytes)


def _decode_records(path: Path, at: int, body: memoryview, records: list[Record]) -> int:
    try:
        decoded = _decode(body)
    except DECODE_ERRORS as error:
        raise StorageFault(
            f"cannot decode the records of {path} at byte {at}: {error}; "
            "start the release that wrote them"
        ) from error
    records += decoded
    return len(decoded)
