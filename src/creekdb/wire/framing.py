"""Frames: the length of the payload in four bytes, then the payload."""

from collections.abc import Iterator
from typing import Final

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
