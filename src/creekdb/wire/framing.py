"""Frames: the length of a payload in four bytes, and then the payload."""

from collections.abc import Iterator
from typing import Final

from creekdb.errors import FrameTooLong

NO_TLS: Final = "tls: not spoken at this port"
"""What is counted of those who would encrypt where nothing is encrypted."""
NO_HTTP: Final = "http: not spoken at this port"
"""The same of browsers and their like, where clients and replicas are expected."""
_LENGTH_BYTES: Final = 4
_TLS_BEGINS: Final = b"\x16\x03"
"""A record with a handshake. As a frame it would be longer than any that is read."""
_HTTP_BEGINS: Final = frozenset(
    (b"GET ", b"HEAD", b"POST", b"PUT ", b"PATC", b"DELE", b"OPTI", b"PRI ")
)
"""The same is true of these."""


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(_LENGTH_BYTES, "big") + payload


def another_language(begins: bytes) -> str | None:
    """That of who says this in place of a length, as it is counted; None: it is not known."""
    if begins.startswith(_TLS_BEGINS):
        return NO_TLS
    return NO_HTTP if begins in _HTTP_BEGINS else None


class Frames:
    """Bytes in, whole payloads out, wherever the bytes were cut."""

    __slots__ = ("_needed", "_rest", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        """Bytes of a payload, at most; can be changed between two of them."""
        self._rest = bytearray()
        """The beginning of a frame that is not complete yet."""
        self._needed = 0
        """How many bytes there must be until it is worth a look."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The payloads that are complete now. Raises `FrameTooLong`; then nothing more is read."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return
            data = bytes(self._rest)
            self._rest = bytearray()
        at, end = 0, len(data)
        self._needed = _LENGTH_BYTES
        try:
            while end - at >= _LENGTH_BYTES:
                begin = at + _LENGTH_BYTES
                length = int.from_bytes(data[at:begin], "big")
                if length > self.most:
                    told = f"a frame of {length} bytes: at most {self.most} are read"
                    raise FrameTooLong(told, data[at:begin])
                if end - begin < length:
                    self._needed = _LENGTH_BYTES + length
                    return
                at = begin + length
                yield data[begin:at]
        finally:
            if at < end:
                self._rest += data[at:]
