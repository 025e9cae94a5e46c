"""Reader of EDN, the notation of Clojure, in which Jepsen writes its histories.

Keywords and symbols become strings without the colon, and lists, vectors and sets become tuples.
The tag of a tagged value is dropped.

>>> read_edn('{:process 3, :f :cas, :value [1 nil], :error "it\\\\"s"}')
{'process': 3, 'f': 'cas', 'value': (1, None), 'error': 'it"s'}
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from creekdb.errors import BadValue

_TOKEN: Final = re.compile(r'[\s,]+|;[^\n]*|("(?:[^"\\]|\\.)*"|#\{|[()\[\]{}]|#?[^\s,;()\[\]{}"]+)')
_CLOSING: Final = {"(": ")", "[": "]", "{": "}", "#{": "}"}
DEPTH_MAX: Final = 256
"""Upper bound for nested values."""
_CONSTANTS: Final = {"nil": None, "true": True, "false": False}
_NUMBER: Final = re.compile(r"[+-]?\d+(?:(\.\d+)?([eE][+-]?\d+)?M?|N)")


def read_edn(text: str) -> Any:
    """Return the only value of the text, or raise `BadValue`."""
    tokens = _tokens(text)
    value = _read(next(tokens), tokens, DEPTH_MAX)
    if (rest := next(tokens)) != "":
        raise BadValue(f"unexpected '{rest}' after the value")
    return value


def _tokens(text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise BadValue(f"unexpected character {text[position]!r}")
        position = found.end()
        if found[1] is not None:
            yield found[1]
    while True:
        yield ""


def _read(token: str, tokens: Iterator[str], depth: int) -> Any:
    if not depth:
        raise BadValue(f"nested more than {DEPTH_MAX} levels deep")
    if token in _CLOSING:
        return _read_collection(token, tokens, depth)
    if token.startswith('"'):
        try:
            text = json.loads(token, strict=False)
            text.encode()  # rejects half of a surrogate pair
            return text
        except ValueError as error:
            raise BadValue(f"not a string: {token}") from error
    if token.startswith("#"):
        return _read(next(tokens), tokens, depth - 1)
    if token in _CONSTANTS:
        return _CONSTANTS[token]
    if (number := _NUMBER.fullmatch(token)) is not None:
        return _read_number(token.rstrip("MN"), number[1] is None and number[2] is None)
    if token == "" or token in ")]}":
        raise BadValue("the value is not complete" if token == "" else f"unexpected '{token}'")
    return token.removeprefix(":")


def _read_number(digits: str, is_integer: bool) -> int | float:
    try:
        return int(digits) if is_integer else float(digits)
    except ValueError as error:
        raise BadValue(f"not a number: {error}") from error


def _read_collection(opening: str, tokens: Iterator[str], depth: int) -> Any:
    values = []
    while (token := next(tokens)) != _CLOSING[opening]:
        values.append(_read(token, tokens, depth - 1))
    if opening != "{":
        return tuple(values)
    if len(values) % 2 or not all(isinstance(each, str | int | None) for each in values[::2]):
        raise BadValue("a map needs pairs of a keyword and a value")
    return dict(zip(values[::2], values[1::2], strict=True))
