"""Canonical encoding of the state of a replica, for the comparison of states.

Two states with the same encoding react alike to every input. The encoding covers all attributes of
all reachable objects. Mutable objects are numbered in the order of the walk, so it also covers
which references are shared. Dictionaries keep their order, because replicas iterate over them.

The encoding excludes three kinds of attributes:

- *statistics*, which replicas only write: probes, rejection counts, clock drift;
- *constants* of one exploration: settings, data type, base state;
- *task numbers*, which only name the tasks that are running.

Too little exclusion costs time. Too much would merge different states, so every attribute that is
not listed here counts.
"""

import enum
from collections import deque
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import msgspec

from creekdb.execution.datatype import DataType
from creekdb.protocol.probes import Probes
from creekdb.protocol.settings import Settings

IGNORED_CLASSES: Final = (Probes, Settings, DataType)
IGNORED_ATTRIBUTES: Final = frozenset({"rejected", "drift_us", "base", "_base", "_task_number"})

_SCALARS: Final = frozenset({int, str, bytes, bool, float, type(None)})
_SEQUENCES: Final = frozenset({tuple, list, deque})
_METHODS: Final = (MethodType, BuiltinFunctionType)

_attribute_names: dict[type, tuple[str, ...]] = {}


def canonical_encoding(*roots: object) -> bytes:
    """Return the encoding of these objects and of all objects that they refer to."""
    parts: list[str] = []
    numbers: dict[int, int] = {}
    for root in roots:
        _encode(root, parts, numbers)
    return "".join(parts).encode("utf-8", "surrogatepass")


def _encode(item: Any, parts: list[str], numbers: dict[int, int]) -> None:
    kind = type(item)
    if kind in _SCALARS:
        parts.append(f"{item!r} ")
    elif kind in _SEQUENCES or isinstance(item, tuple):
        parts.append("(")
        for each in item:
            _encode(each, parts, numbers)
        parts.append(")")
    elif isinstance(item, dict):
        parts.append("{")
        for key, value in item.items():
            _encode(key, parts, numbers)
            _encode(value, parts, numbers)
        parts.append("}")
    elif isinstance(item, set | frozenset):
        parts.append("<")
        parts.extend(sorted(_encode_alone(each, numbers) for each in item))
        parts.append(">")
    elif isinstance(item, enum.Enum):
        parts.append(f"{kind.__name__}.{item.name} ")
    elif isinstance(item, type | FunctionType | ModuleType):
        parts.append(f"{item.__name__} ")
    elif isinstance(item, _METHODS):
        _encode(item.__self__, parts, numbers)
        parts.append(f".{item.__name__} ")
    elif not isinstance(item, IGNORED_CLASSES):
        _encode_object(item, parts, numbers)


def _encode_alone(item: Any, numbers: dict[int, int]) -> str:
    parts: list[str] = []
    _encode(item, parts, numbers)
    return "".join(parts)


def _encode_object(item: Any, parts: list[str], numbers: dict[int, int]) -> None:
    kind = type(item)
    if isinstance(item, msgspec.Struct):  # compared by value
        parts.append(f"{kind.__name__}[")
        for name in item.__struct_fields__:
            _encode(getattr(item, name), parts, numbers)
        parts.append("]")
        return
    if id(item) in numbers:
        parts.append(f"#{numbers[id(item)]} ")
        return
    numbers[id(item)] = len(numbers)
    parts.append(f"{kind.__name__}[")
    for name in _names_of(item):
        if name not in IGNORED_ATTRIBUTES:
            parts.append(f"{name}=")
            _encode(getattr(item, name, None), parts, numbers)
    parts.append("]")


def _names_of(item: object) -> tuple[str, ...]:
    """Return the names of the attributes, in a fixed order."""
    if hasattr(item, "__dict__"):
        return tuple(sorted({*item.__dict__, *_declared_names(type(item))}))
    return _declared_names(type(item))


def _declared_names(kind: type) -> tuple[str, ...]:
    """Return the attributes that a class declares as slots, or that its compiled form has."""
    if kind not in _attribute_names:
        names: set[str] = set()
        for each in kind.__mro__:
            slots = each.__dict__.get("__slots__", ())
            names.update((slots,) if isinstance(slots, str) else slots)
            names.update(each.__dict__.get("__mypyc_attrs__", ()))
        names -= {"__dict__", "__weakref__"}
        _attribute_names[kind] = tuple(sorted(names))
    return _attribute_names[kind]
