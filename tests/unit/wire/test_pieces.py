"""Pieces of a large encoding are joined to exactly that encoding."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.errors import MalformedMessage
from creekdb.wire.pieces import PieceAssembler, cut_piece


def join(encoding: bytes, bytes_max: int) -> bytes:
    assembler, joined = PieceAssembler(), None
    while joined is None:
        joined = assembler.add(cut_piece(encoding, assembler.next_offset, bytes_max))
    return joined


@given(encoding=st.binary(min_size=1, max_size=50), bytes_max=st.integers(1, 60))
def test_pieces_of_any_size_are_joined(encoding: bytes, bytes_max: int) -> None:
    assert join(encoding, bytes_max) == encoding


def test_pieces_of_another_encoding_are_not_joined() -> None:
    assembler = PieceAssembler()
    assert assembler.add(cut_piece(b"abcdef", 0, 4)) is None
    assert assembler.add(cut_piece(b"abcdxy", assembler.next_offset, 4)) is None
    assert assembler.next_offset == 0
    assert assembler.add(cut_piece(b"abcdxy", 0, 4)) is None
    assert assembler.add(cut_piece(b"abcdxy", assembler.next_offset, 4)) == b"abcdxy"


def test_a_shorter_encoding_begins_anew() -> None:
    assembler = PieceAssembler()
    assert assembler.add(cut_piece(b"abcdef", 0, 4)) is None
    assert assembler.add(cut_piece(b"xyz", assembler.next_offset, 4)) == b"xyz"


def test_damaged_pieces_are_rejected() -> None:
    piece = cut_piece(b"abcdef", 0, 6)
    with pytest.raises(MalformedMessage, match="do not match"):
        PieceAssembler().add(msgspec.structs.replace(piece, data=b"abcdeX"))
    with pytest.raises(MalformedMessage, match="empty"):
        PieceAssembler().add(msgspec.structs.replace(piece, data=b""))
