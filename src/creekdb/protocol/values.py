"""Values that operations accept, store and return.

A value is None, a bool, int, float, str or bytes, or a tuple or a str-keyed dict of values. Lists
are converted to tuples on entry. So a value is equal before and after it was transmitted, and no
caller can mutate it inside the store. A key names a register of the store.
"""

from collections.abc import Sequence
from types import NoneType
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import force_setattr

Key: TypeAlias = str | int | tuple[str | int, ...]

SCALAR_TYPES: Final = frozenset((NoneType, bool, int, float, str, bytes))
DEPTH_MAX: Final = 256
"""Far above the limit of `creekdb.execution.serializable`, and low enough for recursion."""


def freeze(value: Any, depth: int = DEPTH_MAX) -> Any:
    """Return `value` with every list converted to a tuple; raise `ValueError` if nested deeper."""
    kind = type(value)
    if kind is tuple:
        for each in value:
            if not _is_scalar(each) and not _is_flat(each):
                return _freeze_items(value, depth)
        return value
    if kind is list:
        return _freeze_items(value, depth)
    if kind is dict:
        if not depth:
            raise ValueError(f"nested more than {DEPTH_MAX} levels deep")
        return {key: freeze(each, depth - 1) for key, each in value.items()}
    return value


def freeze_arguments(operation: Any) -> None:
    """Freeze the arguments of a new operation."""
    original = operation.arguments
    frozen = freeze(original)
    if frozen is not original:
        force_setattr(operation, "arguments", frozen)


def freeze_value(outcome: Any) -> None:
    """Freeze the value of a new outcome."""
    original = outcome.value
    frozen = freeze(original)
    if frozen is not original:
        force_setattr(outcome, "value", frozen)


def _is_scalar(value: Any) -> bool:
    kind = type(value)
    return (
        kind is str
        or kind is int
        or kind is bytes
        or value is None
        or kind is bool
        or kind is float
    )


def _is_flat(value: Any) -> bool:
    """True for a tuple of scalars only."""
    return type(value) is tuple and all(_is_scalar(each) for each in value)


def _freeze_items(values: Sequence[Any], depth: int) -> tuple[Any, ...]:
    if not depth:
        raise ValueError(f"nested more than {DEPTH_MAX} levels deep")
    return tuple([each if _is_scalar(each) else freeze(each, depth - 1) for each in values])


def is_same_value(left: Any, right: Any) -> bool:
    """True if both are equal, with equal types at every level: True is not 1."""
    if left is right:
        return True
    if type(left) is not type(right) or left != right:
        return False
    if type(left) in (int, str, bool, bytes):
        return True
    return msgspec.msgpack.encode(left) == msgspec.msgpack.encode(right)


def is_same_state(left: dict[Key, Any], right: dict[Key, Any]) -> bool:
    """True if both have the same registers with the same values, including their types."""
    if left is right:
        return True
    if len(left) != len(right):
        return False
    for key, value in left.items():
        if key not in right or not is_same_value(value, right[key]):
            return False
    return True
