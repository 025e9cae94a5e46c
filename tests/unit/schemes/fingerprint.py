"""A fingerprint of everything that a replica holds, to see that nothing of it changed."""

import enum
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec
from sortedcontainers import SortedKeyList, SortedList

from creekdb.execution.datatype import DataType

UNSEEN = frozenset({"probes", "_probes", "refused", "_refused", "base", "_base"})
"""What only counts, what a refusal is meant to change, and what never changes."""

_PLAIN = (int, str, bytes, float, tuple, type(None), msgspec.Struct, enum.Enum)


def fingerprint(replica: object) -> dict[str, str]:
    """Every value in the replica, by the path of attributes that leads to it."""
    found: dict[str, str] = {}
    _walk("", replica, found, {})
    return found


def _walk(path: str, value: Any, found: dict[str, str], seen: dict[int, str]) -> None:
    if isinstance(value, _PLAIN):
        found[path] = repr(value)
        return
    if callable(value) or isinstance(value, DataType):
        return
    if id(value) in seen:
        found[path] = f"the same as {seen[id(value)]}"
        return
    seen[id(value)] = path
    if isinstance(value, Mapping):
        found[path] = repr(list(value))
        for key, each in value.items():
            _walk(f"{path}[{key!r}]", each, found, seen)
    elif isinstance(value, set | frozenset):
        found[path] = repr(sorted(value))
    elif isinstance(value, list | deque | SortedList | SortedKeyList):
        found[path] = f"{len(value)} items"
        for index, each in enumerate(value):
            _walk(f"{path}[{index}]", each, found, seen)
    else:
        for name in _attributes(value):
            if name not in UNSEEN:
                _walk(f"{path}.{name}", getattr(value, name), found, seen)


def _attributes(value: Any) -> list[str]:
    names = set(getattr(value, "__dict__", ()))
    for kind in type(value).__mro__:
        slots = getattr(kind, "__slots__", ())
        names.update([slots] if isinstance(slots, str) else slots)
    assert names or type(value) is object, f"{type(value).__name__} shows nothing of itself"
    return sorted(each for each in names if hasattr(value, each))
