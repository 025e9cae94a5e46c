"""Values that the wire, the journal and every replica can represent alike.

Rules:
- Only the exact types named in `creekdb.protocol.values` are allowed, so that a decoded value is
  equal to the original.
- No value's iteration order or equality may depend on the process (sets, objects, NaN).
- Everything is bounded: integers to 64 bits, nesting to `DEPTH_MAX`.

Most values are *rows*: scalars, or tuples and dicts of scalars. `is_row` recognises them quickly.
All other values are searched recursively, which also yields the path for the error.
"""

import math
from typing import Any, Final

from creekdb.errors import BadValue

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
SMALL_INT_MIN: Final = -(2**61)
SMALL_INT_MAX: Final = 2**61
"""Bounds of the integers that compiled code compares as machine words."""
DEPTH_MAX: Final = 64
is_ascii: Final = str.isascii
PATH_LENGTH_MAX: Final = 80


def describe_unserializable(value: Any) -> str | None:
    """Return a description of the first part that cannot be serialised, or None."""
    problem = _find_unserializable(value, 0)
    return None if problem is None else problem[1]


def reject_unserializable(value: Any, subject: str) -> None:
    """Raise `BadValue`, naming the `subject`, if any part of the value cannot be serialised."""
    problem = _find_unserializable(value, 0)
    if problem is not None:
        path, description = problem
        location = f" at {path[:PATH_LENGTH_MAX]}" if path else ""
        raise BadValue(f"{subject} holds {description}{location}, which cannot be sent")


def is_row(value: Any) -> bool:
    """True if `value` is a serialisable row. Other values may be serialisable as well."""
    kind = type(value)
    values: tuple[Any, ...] = (value,)
    if kind is tuple:
        values = value
    elif kind is dict:
        for key in value:
            if type(key) is not str or not (is_ascii(key) or _is_unicode(key)):
                return False
        values = tuple(value.values())
    for each in values:
        kind = type(each)
        if kind is int:
            number: int = each
            if SMALL_INT_MIN <= number <= SMALL_INT_MAX or INT_MIN <= number <= INT_MAX:
                continue
        elif kind is str:
            if is_ascii(each) or _is_unicode(each):
                continue
        elif kind is float:
            if math.isfinite(each):
                continue
        elif each is None or kind is bool or kind is bytes:
            continue
        return False
    return True


def copy_out(value: Any) -> Any:
    """Return `value` with its dicts copied, so that an operation cannot modify the store."""
    kind = type(value)
    if kind is tuple:
        values: tuple[Any, ...] = value
        for each in values:
            if type(each) is tuple or type(each) is dict:
                return _copy_out_items(values)
    elif kind is dict:
        if _has_containers(value):
            return {key: copy_out(each) for key, each in value.items()}
        return value.copy()
    return value


def _copy_out_items(values: tuple[Any, ...]) -> tuple[Any, ...]:
    try:
        hash(values)  # a tuple is hashable if and only if it contains no dict
    except TypeError:
        return tuple([copy_out(each) for each in values])
    return values


def _has_containers(table: dict[str, Any]) -> bool:
    for each in table.values():
        kind = type(each)
        if kind is tuple or kind is dict:
            return True
    return False


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _find_unserializable(value: Any, depth: int) -> tuple[str, str] | None:
    """Return the path and a description of the first part that cannot be serialised."""
    kind = type(value)
    if kind is int:
        return None if INT_MIN <= value <= INT_MAX else ("", "an int beyond 64 bits")
    if kind is str:
        return None if _is_unicode(value) else ("", "a str that is not valid Unicode")
    if kind is float:
        return None if math.isfinite(value) else ("", f"the float {value}")
    if value is None or kind is bool or kind is bytes:
        return None
    if depth == DEPTH_MAX:
        return "", f"more than {DEPTH_MAX} levels of nesting"
    if kind is tuple or kind is list:
        for index, each in enumerate(value):
            if depth + 1 < DEPTH_MAX and is_row(each):
                continue
            problem = _find_unserializable(each, depth + 1)
            if problem is not None:
                return f"[{index}]{problem[0]}", problem[1]
        return None
    if kind is dict:
        for key, each in value.items():
            if type(key) is not str:
                return "", f"a dict with a key of type {type(key).__name__}"
            if not _is_unicode(key):
                return "", "a str that is not valid Unicode"
            problem = _find_unserializable(each, depth + 1)
            if problem is not None:
                return f"[{key!r}]{problem[0]}", problem[1]
        return None
    return "", f"a value of type {kind.__name__}"
