"""Format of the segments of a change feed, and how they are read.

    segment  magic, version, first index, salt, owner, CRC; then frames
    frame    magic, first index, end index, time, length and CRC of the body, CRC of this header;
             then the body: the changes of the indices from first to end, as one msgpack array
    end      a frame without indices and body, which closes the segment

A frame covers its range of commit indices completely. Indices without a change in the body belong
to operations of Creek itself. A change is never split over two frames, and the frames of a segment
follow each other without a gap. So a segment covers the range from its first index to the end of
its last intact frame.

Rules:

- The frames before the end are durable before it is written. So a segment with an end is not
  searched for the damage of a crash.
- An incomplete or damaged frame ends its segment. The frames after it are not used. At the end of
  the last segment this is a write that a crash interrupted.
- The range between two segments may be empty or not. If it is not, the replica has no changes
  there, and a reader that arrives there is sent to another replica.
- The owner is that of the journal, so that files of two data directories never mix.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from creekdb.errors import StorageFault, UsageError

FORMAT_VERSION: Final = 1
SEGMENT_SUFFIX: Final = ".changes"

_SEGMENT_MAGIC: Final = b"CREEKCHG"
_SEGMENT_HEADER: Final = struct.Struct(">8sIQIQ")
_FRAME_MAGIC: Final = b"CHG\xc1"
_FRAME_HEADER: Final = struct.Struct(">4sQQQII")
_CRC: Final = struct.Struct(">I")
SEGMENT_HEADER_BYTES: Final = _SEGMENT_HEADER.size + _CRC.size
FRAME_HEADER_BYTES: Final = _FRAME_HEADER.size + _CRC.size

_SCAN_BYTES: Final = 1024 * 1024
"""Number of bytes that a scan of a segment reads at a time."""
MARK_BYTES: Final = 16 * 1024
"""Distance of two marks in a segment, in bytes. A read starts at a mark."""


class SegmentHeader(NamedTuple):
    first: int
    """First commit index of the segment."""
    salt: int
    """Initial value of every checksum, so that bytes of another file never pass as a frame."""
    owner: int


class FrameHeader(NamedTuple):
    first: int
    end: int
    """Index after the last one of the frame. Equal to `first` for the end of a segment."""
    written_us: int
    """Wall-clock time at which the frame was written, in microseconds."""
    body_bytes: int
    checksum: int


class Frame(NamedTuple):
    """Range of commit indices with its changes, encoded."""

    first: int
    end: int
    body: bytes


def segment_file_name(first: int) -> str:
    return f"{first:020}{SEGMENT_SUFFIX}"


def encode_segment_header(header: SegmentHeader) -> bytes:
    data = _SEGMENT_HEADER.pack(_SEGMENT_MAGIC, FORMAT_VERSION, *header)
    return data + _CRC.pack(crc32(data))


def decode_segment_header(path: Path, data: bytes) -> SegmentHeader | None:
    """Return the header, or None if it was not completely written."""
    if len(data) < SEGMENT_HEADER_BYTES:
        return None
    magic, version, first, salt, owner = _SEGMENT_HEADER.unpack_from(data)
    if _CRC.unpack_from(data, _SEGMENT_HEADER.size) != (crc32(data[: _SEGMENT_HEADER.size]),):
        return None
    if magic != _SEGMENT_MAGIC or path.name != segment_file_name(first):
        return None
    if version != FORMAT_VERSION:
        raise StorageFault(
            f"{path} has format version {version}, but this release reads version "
            f"{FORMAT_VERSION}; start the release that wrote the file, or move {path.parent} away"
        )
    return SegmentHeader(first, salt, owner)


def encode_frame(salt: int, frame: Frame, written_us: int) -> bytes:
    first, end, body = frame
    checksum = crc32(body, salt)
    header = _FRAME_HEADER.pack(_FRAME_MAGIC, first, end, written_us, len(body), checksum)
    return header + _CRC.pack(crc32(header, salt)) + body


def decode_frame_header(data: bytes | memoryview, at: int, salt: int) -> FrameHeader | None:
    """Return the header at an offset, or None if there is no intact one."""
    if at + FRAME_HEADER_BYTES > len(data):
        return None
    magic, *fields = _FRAME_HEADER.unpack_from(data, at)
    (header_checksum,) = _CRC.unpack_from(data, at + _FRAME_HEADER.size)
    if magic != _FRAME_MAGIC or header_checksum != crc32(data[at : at + _FRAME_HEADER.size], salt):
        return None
    return FrameHeader(*fields)


class SegmentScan(NamedTuple):
    """Extent of a segment, found by reading it."""

    end: int
    """Index after the last intact frame."""
    end_offset: int
    """Offset after that frame, before a closing frame."""
    last_written_us: int
    marks: list[tuple[int, int]]
    """Index and offset of some frames, about `MARK_BYTES` apart."""


def read_closing_frame(path: Path, header: SegmentHeader) -> FrameHeader | None:
    """Return the frame that closed a segment, or None if the segment was not closed."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES:
            return None
        file.seek(size - FRAME_HEADER_BYTES)
        frame = decode_frame_header(file.read(), 0, header.salt)
    return frame if frame is not None and frame.end == frame.first else None


def scan_segment(path: Path, header: SegmentHeader) -> SegmentScan:
    """Read a segment up to its end, or up to its first damaged frame."""
    end, offset, last_us = header.first, SEGMENT_HEADER_BYTES, 0
    marks = [(header.first, offset)]
    with path.open("rb") as file:
        for frame, at, _ in _intact_frames(file.fileno(), header.salt):
            if frame.first != end or frame.end == frame.first:
                break
            if at - marks[-1][1] >= MARK_BYTES:
                marks.append((frame.first, at))
            end, last_us = frame.end, frame.written_us
            offset = at + FRAME_HEADER_BYTES + frame.body_bytes
    return SegmentScan(end, offset, last_us, marks)


def read_segment_header(path: Path, owner: int) -> SegmentHeader | None:
    """Return the header of a file, or None if it has no intact one."""
    with path.open("rb") as file:
        header = decode_segment_header(path, file.read(SEGMENT_HEADER_BYTES))
    if header is not None and owner and header.owner not in (owner, 0):
        raise UsageError(
            f"{path} was written by another replica, or for another cluster or data type; move "
            f"{path.parent} away"
        )
    return header


def read_frames(file: int, salt: int, offset: int, start: int, bytes_max: int) -> list[Frame]:
    """Return the frames from the one with index `start` on, beginning the search at `offset`.

    Their bodies have about `bytes_max` bytes. The first frame is included whatever its size. The
    result is empty only if the segment ends or is damaged there.
    """
    frames: list[Frame] = []
    total = 0
    for header, _, body in _intact_frames(file, salt, offset, bytes_max + MARK_BYTES):
        if header.end == header.first:
            break
        if header.end <= start:
            continue
        if frames and (total + len(body) > bytes_max or header.first != frames[-1].end):
            break
        frames.append(Frame(header.first, header.end, bytes(body)))
        total += len(body)
    return frames


def _intact_frames(
    file: int, salt: int, offset: int = SEGMENT_HEADER_BYTES, part_bytes: int = _SCAN_BYTES
) -> Iterator[tuple[FrameHeader, int, memoryview]]:
    """Yield the frames up to the first damaged one: header, offset and body.

    The file is read in parts, each of which begins with a frame and holds at least that frame.
    """
    part_offset, part = offset, b""
    while True:
        at = offset - part_offset
        header = decode_frame_header(part, at, salt)
        size = FRAME_HEADER_BYTES + (0 if header is None else header.body_bytes)
        if at + size > len(part):
            part_offset, at = offset, 0
            part = os.pread(file, max(size, part_bytes), offset)
            header = decode_frame_header(part, 0, salt)
            if header is None:
                return
            size = FRAME_HEADER_BYTES + header.body_bytes
            if size > len(part):
                part = os.pread(file, size, offset)
            if size > len(part):
                return  # the end of the body is missing
        if header is None:
            return
        body = memoryview(part)[at + FRAME_HEADER_BYTES : at + size]
        if crc32(body, salt) != header.checksum:
            return
        yield header, offset, body
        offset += size
