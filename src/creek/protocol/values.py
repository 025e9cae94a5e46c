"""The values that operations take, store and answer with.

A value is None, a bool, int, float, str or bytes, or a tuple or a str-keyed dict of values. Lists
are turned into tuples where they enter, so that a value is the same thing before and after it has
travelled, and cannot be changed behind the store's back. A key names a register of the store.
"""

from types import NoneType
from typing import Any, TypeAlias

import msgspec

Key: TypeAlias = str | int | tuple[str | int, ...]

PLAIN = frozenset((NoneType, bool, int, float, str, bytes))


def frozen(value: Any) -> Any:
    """`value` with every list in it turned into a tuple."""
    kind = type(value)
    if kind is tuple:
        for each in value:
            if type(each) not in PLAIN:
                return tuple([frozen(each) for each in value])
        return value
    if kind is list:
        return tuple([each if type(each) in PLAIN else frozen(each) for each in value])
    if kind is dict:
        return {key: frozen(each) for key, each in value.items()}
    return value


def same(left: Any, right: Any) -> bool:
    """Equal, and of equal types all the way down: True is not 1."""
    if left is right:
        return True
    if type(left) is not type(right) or left != right:
        return False
    if type(left) in (int, str, bool, bytes):
        return True
    return msgspec.msgpack.encode(left) == msgspec.msgpack.encode(right)
