"""Errors of SQLite as errors of Creek, with SQLite's own words and the position in the text."""

import re
from typing import Final

import apsw

from creekdb.errors import (
    SqlConstraintError,
    SqlError,
    SqlSyntaxError,
    SqlTypeError,
    SqlUnknownName,
    SqlUnsupported,
)
from creekdb.sql.tokens import tokenize

_UNKNOWN: Final = re.compile(
    r"no such |has no column named|unknown (?:column|database|or unsupported)|ambiguous column"
)
_UNKNOWN_NAME: Final = re.compile(r"(?:^no such \w+: |has no column named )(.+)$")
_SYNTAX: Final = re.compile(
    r"syntax error|incomplete input|unrecognized token|parser stack overflow|"
    r"Expression tree is too large|too many |values for|wrong number of arguments|"
    r"columns but .* values were supplied"
)


def translate(error: apsw.Error | UnicodeError, text: str) -> SqlError:
    """Return the error of Creek for an error of SQLite while it processed `text`."""
    if isinstance(error, UnicodeError):
        return SqlTypeError(
            "a text is not valid Unicode; store bytes that are no text as a BLOB, without a CAST"
        )
    message = str(error)
    position = _position(error, text)
    if isinstance(error, apsw.ConstraintError):
        return SqlConstraintError(message)
    if isinstance(error, apsw.MismatchError):
        return SqlTypeError(message)
    if isinstance(error, apsw.TooBigError):
        return SqlTypeError(message)
    if isinstance(error, apsw.AuthError):
        return SqlUnsupported(
            f"{message}: the statement reaches outside of the tables; "
            "use only tables, views and functions of the database"
        )
    if _UNKNOWN.search(message):
        return SqlUnknownName(message, text, position)
    if _SYNTAX.search(message):
        return SqlSyntaxError(message, text, position)
    return SqlError(message, text, position)


def _position(error: apsw.Error, text: str) -> int | None:
    offset = getattr(error, "error_offset", -1)
    if not text:
        return None
    if offset is None or offset < 0:
        return _position_of_name(str(error), text)
    return len(text.encode()[:offset].decode(errors="replace"))


def _position_of_name(message: str, text: str) -> int | None:
    """Return the position of the name that a message without a position ends with.

    The result is None if the text has that name more than once.
    """
    if message == "incomplete input":
        return len(text.rstrip())
    match = _UNKNOWN_NAME.search(message)
    if match is None:
        return None
    name = match[1].rpartition(".")[2].lower()
    try:
        tokens = tokenize(text)
    except SqlSyntaxError:
        return None  # SQLite has found another error before
    found = [token.start for token in tokens if token.name.lower() == name]
    return found[0] if len(found) == 1 else None
