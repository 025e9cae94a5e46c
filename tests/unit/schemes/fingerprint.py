"""Fingerprint of a replica's complete state, to check that an input changed nothing."""

import enum
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec
from sortedcontainers import SortedKeyList, SortedList

from creekdb.execution.datatype import DataType

IGNORED = frozenset({"probes", "_probes", "rejected", "base", "_base"})
"""Attributes that are counters, that a rejection increments, or that are constant."""

_PLAIN = (int, str, bytes, float, tuple, type(None), msgspec.Struct, enum.Enum)


def fingerprint(replica: object) -> dict[str, str]:
    """Return every value in the replica by its path of attributes."""
    values: dict[str, str] = {}
    _walk("", replica, values, {})
    return values


def _walk(path: str, value: Any, values: dict[str, str], seen: dict[int, str]) -> None:
    if isinstance(value, _PLAIN):
        values[path] = repr(value)
        return
    if callable(value) or isinstance(value, DataType):
        return
    if id(value) in seen:
        values[path] = f"alias of {seen[id(value)]}"
        return
    seen[id(value)] = path
    if isinstance(value, Mapping):
        values[path] = repr(list(value))
        for key, each in value.items():
            _walk(f"{path}[{key!r}]", each, values, seen)
    elif isinstance(value, set | frozenset):
        values[path] = repr(sorted(value))
    elif isinstance(value, list | deque | SortedList | SortedKeyList):
        values[path] = f"{len(value)} items"
        for index, each in enumerate(value):
            _walk(f"{path}[{index}]", each, values, seen)
    else:
        for name in attribute_names(value):
            if name not in IGNORED:
                _walk(f"{path}.{name}", getattr(value, name), values, seen)


def attribute_names(value: Any) -> list[str]:
    """Return the names of all attributes. A compiled class lists those of its instances."""
    names = {*getattr(value, "__dict__", ()), *getattr(value, "__mypyc_attrs__", ())}
    names.discard("__dict__")
    for kind in type(value).__mro__:
        slots = getattr(kind, "__slots__", ())
        names.update([slots] if isinstance(slots, str) else slots)
    assert names or type(value) is object, f"{type(value).__name__} has no visible attributes"
    return sorted(each for each in names if hasattr(value, each))
