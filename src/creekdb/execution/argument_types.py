"""Types of arguments, from the annotations of an operation.

This module is the only rule for the values that a parameter accepts. The replica that admits a call
checks it, alike for Python, the command and HTTP. So do `sequential` and a client that has the data
type. A replica never checks a request that is in the order already. A changed annotation therefore
concerns new calls only.

Types are those of JSON and bytes. An `int` is accepted for a `float`, and a `float` without a
fraction is converted to an `int` if 64 bits suffice. A `bool` is no number. Lists and tuples are
arrays. An annotation that is not described here accepts every value.
"""

import enum
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from creekdb.errors import BadValue
from creekdb.execution.serializable import INT_MAX, INT_MIN


class Kind(enum.StrEnum):
    """Kind of a value type. The value of a member names the kind in error messages."""

    ANY = "any value"
    NULL = "null"
    BOOLEAN = "a boolean"
    INTEGER = "an integer"
    NUMBER = "a number"
    STRING = "a string"
    BYTES = "bytes"
    ARRAY = "an array"
    TUPLE = "an array of fixed length"
    OBJECT = "an object"
    CHOICE = "a choice"
    UNION = "a union"


class ValueType(NamedTuple):
    """Set of values that an annotation describes."""

    kind: Kind
    parts: tuple["ValueType", ...] = ()
    """Types of the items of an array or object, or of the alternatives of a union."""
    choices: tuple[Any, ...] = ()
    """Values of a choice."""


ANY_TYPE: Final = ValueType(Kind.ANY)
_ANY_ITEMS: Final = (ANY_TYPE,)
_PLAIN_TYPES: Final[Mapping[Any, ValueType]] = {
    None: ValueType(Kind.NULL),
    types.NoneType: ValueType(Kind.NULL),
    bool: ValueType(Kind.BOOLEAN),
    int: ValueType(Kind.INTEGER),
    float: ValueType(Kind.NUMBER),
    str: ValueType(Kind.STRING),
    bytes: ValueType(Kind.BYTES),
    tuple: ValueType(Kind.ARRAY, _ANY_ITEMS),
    list: ValueType(Kind.ARRAY, _ANY_ITEMS),
    dict: ValueType(Kind.OBJECT, _ANY_ITEMS),
}
_BARE_GENERICS: Final = (typing.List, typing.Dict, typing.Tuple)  # noqa: UP006 - user annotations
"""Generic types without arguments."""
_PYTHON_TYPES: Final[Mapping[Kind, frozenset[type]]] = {
    Kind.NULL: frozenset((types.NoneType,)),
    Kind.BOOLEAN: frozenset((bool,)),
    Kind.INTEGER: frozenset((int,)),
    Kind.NUMBER: frozenset((int, float)),
    Kind.STRING: frozenset((str,)),
    Kind.BYTES: frozenset((bytes,)),
}
"""Types whose values a scalar kind accepts unchanged."""
_KINDS_BY_TYPE: Final[Mapping[type, Kind]] = {
    types.NoneType: Kind.NULL,
    bool: Kind.BOOLEAN,
    int: Kind.INTEGER,
    float: Kind.NUMBER,
    str: Kind.STRING,
    bytes: Kind.BYTES,
    tuple: Kind.ARRAY,
    list: Kind.ARRAY,
    dict: Kind.OBJECT,
}

_SCALAR_TYPES: Final = frozenset((bool, int, float, str, bytes))
VALUE_LENGTH_MAX: Final = 80
"""Number of characters of a value that an error quotes."""


def value_type(annotation: Any) -> ValueType:
    """Return the type that an annotation describes."""
    try:
        plain = _PLAIN_TYPES.get(annotation)
    except TypeError:  # the annotation is not hashable
        return ANY_TYPE
    if plain is not None:
        return plain
    origin, arguments = get_origin(annotation), get_args(annotation)
    if not arguments and annotation in _BARE_GENERICS:
        return _PLAIN_TYPES[origin]
    if origin is Literal:
        return ValueType(Kind.CHOICE, choices=arguments)
    if origin is Union or origin is types.UnionType:
        parts = tuple(map(value_type, arguments))
        return ANY_TYPE if ANY_TYPE in parts else ValueType(Kind.UNION, parts)
    if origin is list or (origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis):
        return ValueType(Kind.ARRAY, (value_type(arguments[0]),))
    if origin is tuple:
        return ValueType(Kind.TUPLE, tuple(map(value_type, arguments)))
    if origin is dict:
        return ValueType(Kind.OBJECT, (value_type(arguments[1]),))
    return ANY_TYPE


def annotated_types(function: Callable[..., Any]) -> dict[str, ValueType]:
    """Return the types of the annotated parameters and of `return`, by name.

    An annotation that cannot be resolved is left out. The name of a module that only type checkers
    import is an example.
    """
    annotated: Any = inspect.unwrap(function)
    if not inspect.isroutine(annotated):
        annotated = type(annotated).__call__
    annotations = getattr(annotated, "__annotations__", {})
    namespace = getattr(annotated, "__globals__", {})
    resolved = {}
    for name, annotation in annotations.items():
        holder: Any = SimpleNamespace(__annotations__={name: annotation})
        try:
            resolved[name] = value_type(get_type_hints(holder, namespace)[name])
        except (NameError, TypeError, AttributeError, SyntaxError):
            continue
    return resolved


def accepted_types(type_: ValueType) -> frozenset[type]:
    """Return the Python types whose values need no further check."""
    if type_.kind is Kind.UNION:
        return frozenset().union(*map(accepted_types, type_.parts))
    return _PYTHON_TYPES.get(type_.kind, frozenset())


def checked(value: Any, type_: ValueType, path: str) -> Any:
    """Return the value, converted to the type if necessary. Raise `BadValue` for another type.

    `path` names the value in the error.
    """
    kind = type_.kind
    if kind is Kind.ANY or type(value) in _PYTHON_TYPES.get(kind, ()):
        return value
    if kind is Kind.UNION:
        return _checked_union(value, type_, path)
    if kind is Kind.CHOICE:
        for each in type_.choices:
            if value == each and isinstance(value, bool) is isinstance(each, bool):
                return each
    elif kind is Kind.INTEGER and type(value) is float and value.is_integer():
        if not INT_MIN <= value <= INT_MAX:
            raise BadValue(f"{path} must be an integer of 64 bits, not {value!r}")
        return int(value)
    elif kind in (Kind.ARRAY, Kind.TUPLE) and type(value) in (tuple, list):
        return _checked_array(value, type_, path)
    elif kind is Kind.OBJECT and type(value) is dict:
        (items,) = type_.parts
        return {key: checked(each, items, f"{path}[{key!r}]") for key, each in value.items()}
    raise _mismatch(value, type_, path)


def describe_type(type_: ValueType) -> str:
    """Return the type as an English noun phrase."""
    if type_.kind is Kind.UNION:
        return " or ".join(dict.fromkeys(map(describe_type, type_.parts)))
    if type_.kind is Kind.CHOICE:
        return f"one of {', '.join(map(repr, type_.choices))}"
    return Kind.ARRAY if type_.kind is Kind.TUPLE else type_.kind


def _checked_union(value: Any, type_: ValueType, path: str) -> Any:
    """Return the value, unchanged if an alternative accepts it so, or else converted."""
    converted = []
    for each in type_.parts:
        try:
            converted.append(checked(value, each, path))
        except BadValue:
            continue
        if type(converted[-1]) is type(value):
            return converted[-1]
    if not converted:
        raise _mismatch(value, type_, path)
    return converted[0]


def _checked_array(value: Any, type_: ValueType, path: str) -> Any:
    parts = type_.parts
    if type_.kind is Kind.ARRAY:
        parts *= len(value)
    elif len(parts) != len(value):
        raise BadValue(f"{path} must be an array of length {len(parts)}, not {len(value)}")
    return tuple(
        [
            checked(each, part, f"{path}[{index}]")
            for index, (each, part) in enumerate(zip(value, parts, strict=True))
        ]
    )


def _mismatch(value: Any, type_: ValueType, path: str) -> BadValue:
    if type(value) in _SCALAR_TYPES and _has_choices(type_):
        actual = repr(value)[:VALUE_LENGTH_MAX]
    else:
        actual = _KINDS_BY_TYPE.get(type(value), f"a {type(value).__name__}")
    return BadValue(f"{path} must be {describe_type(type_)}, not {actual}")


def _has_choices(type_: ValueType) -> bool:
    """True if the type accepts single values, so that an error must show the value."""
    return type_.kind is Kind.CHOICE or any(
        each.kind is Kind.CHOICE for each in type_.parts if type_.kind is Kind.UNION
    )
