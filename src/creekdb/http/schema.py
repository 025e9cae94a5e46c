"""JSON Schema of the annotations of an operation.

The OpenAPI description and the validation use the same schema. An annotation without a schema
accepts every value; the operation must then validate the argument.
"""

import types
import typing
from contextlib import suppress
from itertools import repeat
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin

from creekdb.execution.serializable import INT_MAX, INT_MIN
from creekdb.wire.json_values import BYTES_KEY

Schema: TypeAlias = dict[str, Any]

ANY_SCHEMA: Final[Schema] = {}
BYTES_SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {BYTES_KEY: {"type": "string", "contentEncoding": "base64"}},
    "required": [BYTES_KEY],
    "additionalProperties": False,
    "title": "bytes, base64-encoded",
}
_SCHEMA_BY_TYPE: Final[dict[Any, Schema]] = {
    None: {"type": "null"},
    types.NoneType: {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": INT_MIN, "maximum": INT_MAX},
    float: {"type": "number"},
    str: {"type": "string"},
    bytes: BYTES_SCHEMA,
    tuple: {"type": "array"},
    list: {"type": "array"},
    dict: {"type": "object"},
}
_BARE_GENERICS: Final = (typing.List, typing.Dict, typing.Tuple)  # noqa: UP006 - user annotations
"""Generic types without arguments."""


_DESCRIPTIONS: Final = {
    "null": "null",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "array": "an array",
    "object": "an object",
}
"""JSON types as English noun phrases."""


class SchemaMismatch(Exception):
    """A value that does not match its schema; the message names its position and the schema."""


def schema_of(annotation: Any) -> Schema:
    try:
        plain = _SCHEMA_BY_TYPE.get(annotation)
    except TypeError:  # the annotation is not hashable
        return ANY_SCHEMA
    if plain is not None:
        return plain
    origin, arguments = get_origin(annotation), get_args(annotation)
    if not arguments and annotation in _BARE_GENERICS:
        return _SCHEMA_BY_TYPE[origin]
    if origin is Union or origin is types.UnionType:
        parts = [schema_of(each) for each in arguments]
        return ANY_SCHEMA if ANY_SCHEMA in parts else {"anyOf": parts}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list or (origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis):
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin is tuple:
        items = [schema_of(each) for each in arguments]
        length = {"minItems": len(items), "maxItems": len(items)}
        return {"type": "array", "prefixItems": items, **length}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    return ANY_SCHEMA


def coerce(value: Any, schema: Schema, path: str) -> Any:
    """Return the value converted to the schema, where 1.0 is an integer like 1.

    Raises `SchemaMismatch`.
    """
    if "anyOf" in schema:
        return _coerce_to_any(value, schema, path)
    if "enum" in schema:
        for each in schema["enum"]:
            if value == each and isinstance(value, bool) is isinstance(each, bool):
                return each
        raise SchemaMismatch(f"{path} must be one of {', '.join(map(repr, schema['enum']))}")
    kind = schema.get("type")
    if kind is None:
        return value
    if kind == "integer" and type(value) is float and value.is_integer():
        value = int(value)
    if kind != (actual := _type_name(value)) and (kind, actual) != ("number", "integer"):
        raise _mismatch(value, schema, path)
    if kind == "array":
        return _coerce_array(value, schema, path)
    if kind == "object":
        return _coerce_object(value, schema, path)
    if kind == "integer" and not schema["minimum"] <= value <= schema["maximum"]:
        raise SchemaMismatch(f"{path} must be a 64-bit integer")
    return value


def describe_schema(schema: Schema) -> str:
    """Return the schema as an English noun phrase."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(describe_schema(each) for each in schema["anyOf"]))
    if schema is BYTES_SCHEMA:
        return f'an object {{"{BYTES_KEY}": "…"}}'
    return _DESCRIPTIONS.get(schema.get("type", ""), "a value of another type")


def _type_name(value: Any) -> str:
    """Return the JSON type of a decoded value."""
    name: str = _SCHEMA_BY_TYPE[type(value)]["type"]
    return name


def _mismatch(value: Any, schema: Schema, path: str) -> SchemaMismatch:
    actual = _DESCRIPTIONS[_type_name(value)]
    return SchemaMismatch(f"{path} must be {describe_schema(schema)}, not {actual}")


def _coerce_to_any(value: Any, schema: Schema, path: str) -> Any:
    for each in schema["anyOf"]:
        with suppress(SchemaMismatch):
            return coerce(value, each, path)
    raise _mismatch(value, schema, path)


def _coerce_array(value: list[Any], schema: Schema, path: str) -> list[Any]:
    length = schema.get("minItems", len(value))
    if len(value) != length:
        raise SchemaMismatch(f"{path} must be an array of length {length}, not {len(value)}")
    items = schema.get("prefixItems", repeat(schema.get("items", ANY_SCHEMA)))
    return [
        coerce(each, item_schema, f"{path}[{index}]")
        for index, (each, item_schema) in enumerate(zip(value, items, strict=False))
    ]


def _coerce_object(value: dict[str, Any], schema: Schema, path: str) -> dict[str, Any]:
    if schema is BYTES_SCHEMA:
        if value.keys() != {BYTES_KEY} or type(value[BYTES_KEY]) is not str:
            raise SchemaMismatch(f"{path} must be {describe_schema(schema)}")
        return value
    value_schema = schema.get("additionalProperties", ANY_SCHEMA)
    return {key: coerce(each, value_schema, f"{path}[{key!r}]") for key, each in value.items()}
