"""Rows of sinks in chunks."""

from creekdb.client.sinks import InvalidRow, chunks_of
from creekdb.wire.messages import CLIENT_FRAME_BYTES_MAX
from creekdb.wire.sink_ledgers import Row

LARGE = 2**64


def test_rows_that_cannot_be_encoded_are_invalid_rows() -> None:
    rows = [("a", 1), ("b", LARGE), ("c", (object,))]
    first, large, unknown = next(chunks_of(rows, 10))

    assert first == ("a", 1)
    for invalid, text in ((large, "can't serialize ints"), (unknown, "Encoding objects")):
        assert isinstance(invalid, InvalidRow)
        assert text in invalid.error
    assert isinstance(large, InvalidRow)
    assert large.row == (f"('b', {LARGE})",)


def test_rows_that_are_too_large_or_no_text_are_invalid_rows() -> None:
    large = "x" * CLIENT_FRAME_BYTES_MAX
    rows: list[Row | InvalidRow] = [
        ("a", 1),
        ("b", large),
        InvalidRow((None, large), "null key"),
        ("c", "\ud800"),
    ]
    (first,), (too_large,), (null,), (no_text,) = [
        chunk for row in rows for chunk in chunks_of([row], 10)
    ]

    assert first == ("a", 1)
    assert isinstance(too_large, InvalidRow)
    assert "store less in it" in too_large.error
    assert str(too_large.row[0]).startswith("('b', 'xxx")
    assert isinstance(null, InvalidRow)
    assert null.error == "null key"
    assert len(str(null.row)) < 1000
    assert isinstance(no_text, InvalidRow)
    assert "surrogates not allowed" in no_text.error
    assert [row for chunk in chunks_of(rows, 10) for row in chunk] == [
        first,
        too_large,
        null,
        no_text,
    ]


def test_chunks_are_bounded_and_keep_the_order() -> None:
    rows = [(f"key{number}", number) for number in range(25)]
    chunks = list(chunks_of(rows, 10))

    assert [len(each) for each in chunks] == [10, 10, 5]
    assert [row for chunk in chunks for row in chunk] == rows
