"""Splitting of text into statements."""

import pytest

from creekdb.cli.sql_text import split_statements


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("", (), ""),
        ("SELECT 1;", ("SELECT 1",), ""),
        ("SELECT 1; SELECT 2", ("SELECT 1",), " SELECT 2"),
        ("SELECT ';'; -- ; no\nSELECT 2;", ("SELECT ';'", "-- ; no\nSELECT 2"), ""),
        (";;  ;", (), ""),
        ("SELECT 'open; text", (), "SELECT 'open; text"),
        ('SELECT "a;b" FROM [c;d];', ('SELECT "a;b" FROM [c;d]',), ""),
        ("/* only; a comment */", (), ""),
    ],
)
def test_only_semicolons_outside_of_quotes_and_comments_end_statements(
    text: str, statements: tuple[str, ...], rest: str
) -> None:
    assert split_statements(text) == (statements, rest)
