"""Rows of sinks in chunks."""

from creekdb.client.sinks import InvalidRow, chunks_of

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


def test_chunks_are_bounded_and_keep_the_order() -> None:
    rows = [(f"key{number}", number) for number in range(25)]
    chunks = list(chunks_of(rows, 10))

    assert [len(each) for each in chunks] == [10, 10, 5]
    assert [row for chunk in chunks for row in chunk] == rows
