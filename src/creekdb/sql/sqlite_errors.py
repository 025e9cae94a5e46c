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

_UNKNOWN: Final = re.compile(
    r"no such |has no column named|unknown (?:column|database|or unsupported)|ambiguous column"
)
_SYNTAX: Final = re.compile(
    r"syntax error|incomplete input|unrecognized token|parser stack overflow|"
    r"Expression tree is too large|too many |values for|wrong number of arguments|"
    r"columns but .* values were supplied"
)


def translate(error: apsw.Error, text: str) -> SqlError:
    """Return the error of Creek for an error of SQLite while it processed `text`."""
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
    if offset is None or offset < 0 or not text:
        return None
    return len(text.encode()[:offset].decode(errors="replace"))
