"""Frames: the length of a payload in four bytes, and then the payload."""

from collections.abc import Iterator
from typing import Final

from creekdb.errors import FrameTooLong

UNEXPECTED_TLS: Final = "tls: not spoken at this port"
"""What is counted of those who would encrypt where nothing is encrypted."""
UNEXPECTED_HTTP: Final = "http: not spoken at this port"
"""The same of browsers and their like, where clients and replicas are expected."""
_LENGTH_BYTES: Final = 4
_TLS_PREFIX: Final = b"\x16\x03"
"""A record with a handshake. As a frame it would be longer than any that is read."""
_HTTP_PREFIXES: Final = frozenset(
    (b"GET ", b"HEAD", b"POST", b"PUT ", b"PATC", b"DELE", b"OPTI", b"PRI ")
)
"""The same is true of these."""


def frame_payload(payload: bytes) -> bytes:
    return len(payload).to_bytes(_LENGTH_BYTES, "big") + payload


def detect_foreign_protocol(begins: bytes) -> str | None:
    """That of who says this in place of a length, as it is counted; None: it is not known."""
    if begins.startswith(_TLS_PREFIX):
        return UNEXPECTED_TLS
    return UNEXPECTED_HTTP if begins in _HTTP_PREFIXES else None


class FrameDecoder:
    """Bytes in, whole payloads out, wherever the bytes were cut."""

    __slots__ = ("_bytes_needed", "_incomplete", "payload_bytes_max")

    def __init__(self, most: int) -> None:
        self.payload_bytes_max = most
        """Bytes of a payload, at most; can be changed between two of them."""
        self._incomplete = bytearray()
        """The beginning of a frame that is not complete yet."""
        self._bytes_needed = 0
        """How many bytes there must be until it is worth a look."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The payloads that are complete now. Raises `FrameTooLong`; then nothing more is read."""
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
                    told = f"a frame of {length} bytes: at most {self.payload_bytes_max} are read"
                    raise FrameTooLong(told, data[at:begin])
                if end - begin < length:
                    self._bytes_needed = _LENGTH_BYTES + length
                    return
                at = begin + length
                yield data[begin:at]
        finally:
            if at < end:
                self._incomplete += data[at:]
