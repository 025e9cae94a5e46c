"""Exact equality of values: 1, 1.0 and True are three answers, and NaN is the same as itself."""

from typing import Any

import msgspec

_encode = msgspec.msgpack.Encoder().encode


def same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if type(left) is tuple:
        return len(left) == len(right) and (_same_bytes(left, right) or all(map(same, left, right)))
    if type(left) is dict:
        return left.keys() == right.keys() and same(
            tuple(left.values()), tuple([right[key] for key in left])
        )
    if type(left) is float:
        return repr(left) == repr(right)
    return bool(left == right)


def _same_bytes(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """What is encoded alike is the same; but dicts that are the same may have different orders."""
    try:
        return _encode(left) == _encode(right)
    except (OverflowError, TypeError, ValueError):
        return False  # a number too large, say


def different_key(left: dict[Any, Any], right: dict[Any, Any]) -> Any:
    """A key under which two states differ, the first in their order; only if they do differ."""
    absent = object()
    for key in [*left, *right]:
        if not same(left.get(key, absent), right.get(key, absent)):
            return key
    raise ValueError("the states are the same")
