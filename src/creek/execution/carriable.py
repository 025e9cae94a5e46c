"""Which values the wire, the journal and every replica can carry alike.

Rules: only the exact types named in `creek.protocol.values`, so that a value is equal to itself
after a journey; nothing whose iteration order or equality depends on the process (sets, objects,
NaN); everything bounded (64-bit integers, nesting). Must not know what the values are for.
"""

import math
from typing import Any

from creek.errors import BadValue

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1
DEPTH_MAX = 64


def problem(value: Any, depth: int = 0) -> str | None:
    """What in `value` cannot be carried, or None when all of it can."""
    kind = type(value)
    if value is None or kind is bool or kind is bytes:
        return None
    if kind is int:
        return None if INT_MIN <= value <= INT_MAX else "an int beyond 64 bits"
    if kind is str:
        return _problem_of_text(value)
    if kind is float:
        return None if math.isfinite(value) else f"the float {value}"
    if depth == DEPTH_MAX:
        return f"more than {DEPTH_MAX} levels of nesting"
    if kind is tuple or kind is list:
        for each in value:
            found = problem(each, depth + 1)
            if found is not None:
                return found
        return None
    if kind is dict:
        for key, each in value.items():
            if type(key) is not str:
                return f"a dict with a key of type {type(key).__name__}"
            found = _problem_of_text(key) or problem(each, depth + 1)
            if found is not None:
                return found
        return None
    return f"a value of type {kind.__name__}"


def refuse_uncarriable(value: Any, what: str) -> None:
    """Raise `BadValue`, naming `what` holds the value, unless all of it can be carried."""
    found = problem(value)
    if found is not None:
        raise BadValue(f"{what} holds {found}, which cannot be sent")


def handed_out(value: Any) -> Any:
    """`value` with its dicts copied: an operation may change what it was given, never the store."""
    kind = type(value)
    if kind is dict:
        return {key: handed_out(each) for key, each in value.items()}
    if kind is tuple and any(type(each) is dict or type(each) is tuple for each in value):
        return tuple([handed_out(each) for each in value])
    return value


def _problem_of_text(text: str) -> str | None:
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return "a str that is not valid Unicode"
    return None
