"""The values that operations take, store and answer with.

A value is None, a bool, int, float, str or bytes, or a tuple or a str-keyed dict of values. Lists
are turned into tuples where they enter, so that a value is the same thing before and after it has
travelled, and cannot be changed behind the store's back. A key names a register of the store.
"""

from collections.abc import Sequence
from types import NoneType
from typing import Any, Final, TypeAlias

import msgspec

Key: TypeAlias = str | int | tuple[str | int, ...]

SCALAR_TYPES: Final = frozenset((NoneType, bool, int, float, str, bytes))
DEPTH_MAX: Final = 256
"""Far more than `creekdb.execution.serializable` lets pass, and few enough for recursion."""


def freeze(value: Any, depth: int = DEPTH_MAX) -> Any:
    """`value` with every list in it turned into a tuple; `ValueError` if it is nested deeper."""
    kind = type(value)
    if kind is tuple:
        for each in value:
            if type(each) not in SCALAR_TYPES and not _is_flat(each):
                return _freeze_items(value, depth)
        return value
    if kind is list:
        return _freeze_items(value, depth)
    if kind is dict:
        if not depth:
            raise ValueError(f"nested more than {DEPTH_MAX} levels deep")
        return {key: freeze(each, depth - 1) for key, each in value.items()}
    return value


def _is_flat(value: Any) -> bool:
    """Is it a tuple without anything in it that would have to be looked into?"""
    return type(value) is tuple and all(type(each) in SCALAR_TYPES for each in value)


def _freeze_items(values: Sequence[Any], depth: int) -> tuple[Any, ...]:
    if not depth:
        raise ValueError(f"nested more than {DEPTH_MAX} levels deep")
    return tuple(
        [each if type(each) in SCALAR_TYPES else freeze(each, depth - 1) for each in values]
    )


def is_same_value(left: Any, right: Any) -> bool:
    """Equal, and of equal types all the way down: True is not 1."""
    if left is right:
        return True
    if type(left) is not type(right) or left != right:
        return False
    if type(left) in (int, str, bool, bytes):
        return True
    return msgspec.msgpack.encode(left) == msgspec.msgpack.encode(right)
