"""Frames: the length of the payload in four bytes, then the payload."""

import asyncio
import sys
from collections.abc import Iterator
from typing import Final, cast

from creekdb.errors import FrameTooLong
from creekdb.wire.reject_reason import RejectReason

_LENGTH_BYTES: Final = 4
_TLS_PREFIX: Final = b"\x16\x03"
"""First bytes of a TLS handshake record. Read as a length, they exceed every frame limit."""
_HTTP_PREFIXES: Final = frozenset(
    (b"GET ", b"HEAD", b"POST", b"PUT ", b"PATC", b"DELE", b"OPTI", b"PRI ")
)
"""First bytes of HTTP requests. Read as a length, they exceed every frame limit, too."""


def frame_payload(payload: bytes) -> bytes:
    return len(payload).to_bytes(_LENGTH_BYTES, "big") + payload


def detect_foreign_protocol(first_bytes: bytes) -> RejectReason | None:
    """Return the reason to reject another protocol that `first_bytes` begin, or None."""
    if first_bytes.startswith(_TLS_PREFIX):
        return RejectReason.UNEXPECTED_TLS
    return RejectReason.UNEXPECTED_HTTP if first_bytes in _HTTP_PREFIXES else None


class FrameDecoder:
    """Decoder that accepts bytes in pieces of any size and yields complete payloads."""

    __slots__ = ("_bytes_needed", "_incomplete", "payload_bytes_max")

    def __init__(self, payload_bytes_max: int) -> None:
        self.payload_bytes_max = payload_bytes_max
        """Upper bound for the bytes of a payload. It may change between two payloads."""
        self._incomplete = bytearray()
        """Beginning of a frame that is not complete yet."""
        self._bytes_needed = 0
        """Length of `_incomplete` at which decoding can continue."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the payloads that are complete now. After `FrameTooLong`, feed no more data."""
        if self._incomplete:
            self._incomplete += data
            if len(self._incomplete) < self._bytes_needed:
                return
            data = bytes(self._incomplete)
            self._incomplete = bytearray()
        at, end = 0, len(data)
        self._bytes_needed = _LENGTH_BYTES
        try:
            while end - at >= _LENGTH_BYTES:
                begin = at + _LENGTH_BYTES
                length = int.from_bytes(data[at:begin], "big")
                if length > self.payload_bytes_max:
                    problem = (
                        f"a frame of {length} bytes exceeds the limit of {self.payload_bytes_max}"
                    )
                    raise FrameTooLong(problem, data[at:begin])
                if end - begin < length:
                    self._bytes_needed = _LENGTH_BYTES + length
                    return
                at = begin + length
                yield data[begin:at]
        finally:
            if at < end:
                self._incomplete += data[at:]


class FrameWriter:
    """Outgoing frames of one connection. Frames of one turn of the event loop are sent together."""

    def __init__(self, unsent_bytes_max: int = sys.maxsize, abort_when_full: bool = False) -> None:
        self._unsent_bytes_max = unsent_bytes_max
        self._abort_when_full = abort_when_full
        self.has_overflowed = False
        """True if the connection was aborted because too many bytes were unsent."""
        self._loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport | None = None
        """Transport of the connection, or None before the connection is established."""
        self._frames: list[bytes] = []
        self._is_flush_scheduled = False

    def connect(self, transport: asyncio.BaseTransport) -> asyncio.Transport:
        """Use the transport of the established connection, and return it."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        return self.transport

    @property
    def is_open(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    @property
    def is_full(self) -> bool:
        """True if the transport holds too many unsent bytes."""
        transport = self.transport
        return transport is not None and (
            transport.get_write_buffer_size() > self._unsent_bytes_max
        )

    def append(self, frame: bytes) -> None:
        """Queue a frame that is sent together with the next written one."""
        self._frames.append(frame)

    def write(self, frame: bytes) -> None:
        """Queue a frame that is sent at the end of this turn of the event loop."""
        self._frames.append(frame)
        if not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send the queued frames now."""
        self._is_flush_scheduled = False
        frames, self._frames = self._frames, []
        transport = self.transport
        if not frames or transport is None or transport.is_closing():
            return
        transport.write(b"".join(frames))
        if self._abort_when_full and self.is_full:
            self.has_overflowed = True
            transport.abort()

    def close(self) -> None:
        """Close the connection after the queued frames are sent."""
        self.flush()
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """Close the connection and discard the unsent frames."""
        self._frames.clear()
        if self.transport is not None:
            self.transport.abort()
