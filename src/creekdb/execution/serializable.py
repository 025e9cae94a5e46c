"""Which values the wire, the journal and every replica can carry alike.

Rules: only the exact types named in `creekdb.protocol.values`, so that a value is equal to itself
after a journey; nothing whose iteration order or equality depends on the process (sets, objects,
NaN); everything bounded (64-bit integers, nesting). Must not know what the values are for.

Most values are *rows*: scalars, or tuples and dicts of scalars. They are told quickly. Everything
else is searched, which also finds the place to name.
"""

import math
from typing import Any, Final

from creekdb.errors import BadValue

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
SMALL_INT_MIN: Final = -(2**61)
SMALL_INT_MAX: Final = 2**61
"""Ints in between are compared at once where this is compiled; of others all is looked at."""
DEPTH_MAX: Final = 64
is_ascii: Final = str.isascii
PATH_LENGTH_MAX: Final = 80


def describe_unserializable(value: Any) -> str | None:
    """What in `value` cannot be carried, or None when all of it can."""
    found = _find_unserializable(value, 0)
    return None if found is None else found[1]


def reject_unserializable(value: Any, what: str) -> None:
    """Raise `BadValue`, naming `what` holds the value, unless all of it can be carried."""
    found = _find_unserializable(value, 0)
    if found is not None:
        path, named = found
        place = f" at {path[:PATH_LENGTH_MAX]}" if path else ""
        raise BadValue(f"{what} holds {named}{place}, which cannot be sent")


def is_row(value: Any) -> bool:
    """Is it a row that can be carried? What is no row may be carriable, too."""
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
    """`value` with its dicts copied: an operation may change what it was given, never the store."""
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
        hash(values)  # without a dict inside, and only then, it has one
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
    """The path to the first element that cannot be carried, and what it is."""
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
            found = _find_unserializable(each, depth + 1)
            if found is not None:
                return f"[{index}]{found[0]}", found[1]
        return None
    if kind is dict:
        for key, each in value.items():
            if type(key) is not str:
                return "", f"a dict with a key of type {type(key).__name__}"
            if not _is_unicode(key):
                return "", "a str that is not valid Unicode"
            found = _find_unserializable(each, depth + 1)
            if found is not None:
                return f"[{key!r}]{found[0]}", found[1]
        return None
    return "", f"a value of type {kind.__name__}"
