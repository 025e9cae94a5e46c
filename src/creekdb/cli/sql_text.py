"""Statements in the text that a user types or pipes into `creek sql`."""

from typing import NamedTuple

from creekdb.errors import SqlSyntaxError
from creekdb.sql.tokens import tokenize


class SplitText(NamedTuple):
    statements: tuple[str, ...]
    """Complete statements, without their semicolons."""
    rest: str
    """Text after the last semicolon, or '' if that contains no token."""


def split_statements(text: str) -> SplitText:
    """Split text at the semicolons that end statements.

    Text that SQLite cannot read as tokens, such as an open string, belongs to the rest.
    """
    statements: list[str] = []
    start = 0
    while (end := _statement_end(text, start)) is not None:
        statement = text[start:end].strip()
        if statement and _has_tokens(statement):
            statements.append(statement)
        start = end + 1
    rest = text[start:]
    return SplitText(tuple(statements), rest if _has_tokens(rest) else "")


def _statement_end(text: str, start: int) -> int | None:
    """Return the position of the first semicolon that is a token, or None."""
    end = text.find(";", start)
    while end >= 0:
        try:
            tokens = tokenize(text[start : end + 1])
        except SqlSyntaxError:
            tokens = []
        if tokens and tokens[-1].text == ";":
            return end
        end = text.find(";", end + 1)
    return None


def _has_tokens(text: str) -> bool:
    try:
        return bool(tokenize(text))
    except SqlSyntaxError:
        return True
