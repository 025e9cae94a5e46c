"""Pieces of encoded changes that exceed one message.

A message is bounded, and the encoding of a change is as large as the writes of its operation. A
larger encoding is sent in pieces. The receiver requests each piece by its offset, so the sender
keeps nothing in between. Two replicas may encode a change differently. So each piece has the length
and the checksum of the whole, and the receiver joins only pieces of one encoding.
"""

from typing import Final
from zlib import crc32

import msgspec

from creekdb.errors import MalformedMessage

NO_PIECES: Final = -1
"""Offset in the request of a receiver that joins no pieces."""


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive bytes of an encoding."""

    offset: int
    total_bytes: int
    """Length of the encoding, in bytes."""
    checksum: int
    """Checksum of the encoding."""
    data: bytes


def cut_piece(encoding: bytes, offset: int, bytes_max: int) -> Piece:
    """Return the piece at an offset, or the first piece if the offset is after the end."""
    if not 0 <= offset < len(encoding):
        offset = 0
    data = encoding[offset : offset + bytes_max]
    return Piece(offset, len(encoding), crc32(encoding), data)


class PieceAssembler:
    """Pieces of one encoding, joined in order."""

    def __init__(self) -> None:
        self._joined = bytearray()
        self._whole = (0, 0)
        """Length and checksum of the encoding."""

    @property
    def next_offset(self) -> int:
        """Offset of the next piece to request."""
        return len(self._joined)

    def add(self, piece: Piece) -> bytes | None:
        """Add a piece, and return the encoding once it is complete.

        A piece that does not continue the earlier ones is dropped with them. Raise
        `MalformedMessage` for a piece that no sender cuts.
        """
        whole = (piece.total_bytes, piece.checksum)
        if not piece.data:
            raise MalformedMessage("a piece of a change is empty")
        if piece.offset == 0:
            self.clear()
            self._whole = whole
        if piece.offset != self.next_offset or whole != self._whole:
            self.clear()
            return None
        self._joined += piece.data
        if len(self._joined) < piece.total_bytes:
            return None
        encoding = bytes(self._joined)
        self.clear()
        if (len(encoding), crc32(encoding)) != whole:
            raise MalformedMessage("the pieces of a change do not match its checksum")
        return encoding

    def clear(self) -> None:
        self._joined = bytearray()
