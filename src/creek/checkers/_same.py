"""Exact equality of values: 1, 1.0 and True are three answers, and NaN is the same as itself."""

from typing import Any


def same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if type(left) is tuple:
        return len(left) == len(right) and all(map(same, left, right))
    if type(left) is dict:
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if type(left) is float:
        return repr(left) == repr(right)
    return bool(left == right)


def different_key(left: dict[Any, Any], right: dict[Any, Any]) -> Any:
    """A key under which two states differ, the first in their order; only if they do differ."""
    absent = object()
    for key in [*left, *right]:
        if not same(left.get(key, absent), right.get(key, absent)):
            return key
    raise ValueError("the states are the same")
