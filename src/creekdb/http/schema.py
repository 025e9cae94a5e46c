"""Values as JSON.

None, booleans, numbers, strings and arrays are what they are; a tuple is an array, as everywhere in
Creek. Bytes are {"$bytes": "…"} in base64. A dict is an object; one whose only key is `$bytes` or
`$dict` is wrapped, as {"$dict": {…}}, so that nothing is ever taken for something else.

Annotations of an operation's parameters as JSON Schema, and whether a value fits.

One source for both: what the description promises is what is checked. An annotation that is not
understood promises nothing, and then the operation itself has to look.
"""

import base64
import binascii
import types
import typing
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin

from creekdb.errors import BadValue
from creekdb.execution.serializable import INT_MAX, INT_MIN

BYTES_KEY: Final = "$bytes"
DICT_KEY: Final = "$dict"


def to_json(value: Any) -> Any:
    kind = type(value)
    if kind is tuple or kind is list:
        return [to_json(each) for each in value]
    if kind is dict:
        encoded = {key: to_json(each) for key, each in value.items()}
        return {DICT_KEY: encoded} if _is_wrapped(value) else encoded
    if kind is bytes:
        return {BYTES_KEY: base64.b64encode(value).decode("ascii")}
    return value


def from_json(value: Any) -> Any:
    """Raises `BadValue` where a wrapping holds something else than it says."""
    kind = type(value)
    if kind is list:
        return tuple([from_json(each) for each in value])
    if kind is dict:
        if _is_wrapped(value):
            return _unwrap(value)
        return {key: from_json(each) for key, each in value.items()}
    return value


def _is_wrapped(value: dict[str, Any]) -> bool:
    return len(value) == 1 and (BYTES_KEY in value or DICT_KEY in value)


def _unwrap(value: dict[str, Any]) -> Any:
    if DICT_KEY in value:
        inside = value[DICT_KEY]
        if type(inside) is not dict:
            raise BadValue(f"'{DICT_KEY}' holds no object")
        return {key: from_json(each) for key, each in inside.items()}
    try:
        return base64.b64decode(value[BYTES_KEY], validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise BadValue(f"'{BYTES_KEY}' holds no base64") from error


Schema: TypeAlias = dict[str, Any]

ANY_SCHEMA: Final[Schema] = {}
BYTES_SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {BYTES_KEY: {"type": "string", "contentEncoding": "base64"}},
    "required": [BYTES_KEY],
    "additionalProperties": False,
    "title": "bytes in base64",
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
_BARE_GENERICS: Final = (typing.List, typing.Dict, typing.Tuple)  # noqa: UP006 - others may write so
"""Without saying of what."""
_TYPE_NAMES: Final = {
    types.NoneType: "null",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}


class SchemaMismatch(Exception):
    """Says where, and what is wanted there."""


def schema_of(annotation: Any) -> Schema:
    try:
        plain = _SCHEMA_BY_TYPE.get(annotation)
    except TypeError:  # it has no hash
        return ANY_SCHEMA
    if plain is not None:
        return plain
    origin, inside = get_origin(annotation), get_args(annotation)
    if not inside and annotation in _BARE_GENERICS:
        return _SCHEMA_BY_TYPE[origin]
    if origin is Union or origin is types.UnionType:
        return _union_schema(inside)
    if origin is Literal:
        return {"enum": list(inside)}
    if origin is list or (origin is tuple and len(inside) == 2 and inside[1] is Ellipsis):
        return {"type": "array", "items": schema_of(inside[0])}
    if origin is tuple:
        items = [schema_of(each) for each in inside]
        length = {"minItems": len(items), "maxItems": len(items)}
        return {"type": "array", "prefixItems": items, **length}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(inside[1])}
    return ANY_SCHEMA


def _union_schema(inside: tuple[Any, ...]) -> Schema:
    parts = [schema_of(each) for each in inside]
    return ANY_SCHEMA if ANY_SCHEMA in parts else {"anyOf": parts}


def coerce(value: Any, schema: Schema, where: str) -> Any:
    """The value, as JSON has it, where 1.0 is an integer like 1. Raises `SchemaMismatch`."""
    if "anyOf" in schema:
        return _coerce_to_any(value, schema["anyOf"], where)
    if "enum" in schema:
        for each in schema["enum"]:
            if value == each and isinstance(value, bool) is isinstance(each, bool):
                return each
        raise SchemaMismatch(f"{where} must be one of {', '.join(map(repr, schema['enum']))}")
    kind = schema.get("type")
    if kind is None:
        return value
    if kind == "array" and type(value) is list:
        return _coerce_array(value, schema, where)
    if kind == "object" and type(value) is dict:
        return _coerce_object(value, schema, where)
    if kind == "integer" and type(value) is float and value.is_integer():
        value = int(value)
    if not _has_json_type(value, kind):
        raise SchemaMismatch(
            f"{where} must be {describe_schema(schema)}, not {_TYPE_NAMES[type(value)]}"
        )
    if kind == "integer" and not schema["minimum"] <= value <= schema["maximum"]:
        raise SchemaMismatch(f"{where} must be an integer of 64 bits")
    return value


def describe_schema(schema: Schema) -> str:
    """In words."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(describe_schema(each) for each in schema["anyOf"]))
    if schema is BYTES_SCHEMA:
        return f'an object {{"{BYTES_KEY}": "…"}}'
    names = {"null": "null", "integer": "an integer", "array": "an array", "object": "an object"}
    kind = schema.get("type", "something else")
    return names.get(kind, f"a {kind}")


def _has_json_type(value: Any, kind: str) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return type(value) is bool
        case "integer":
            return type(value) is int
        case "number":
            return type(value) is int or type(value) is float
        case _:
            return kind == "string" and type(value) is str


def _coerce_to_any(value: Any, schemas: list[Schema], where: str) -> Any:
    for schema in schemas:
        try:
            return coerce(value, schema, where)
        except SchemaMismatch:
            continue
    raise SchemaMismatch(
        f"{where} must be {describe_schema({'anyOf': schemas})}, not {_TYPE_NAMES[type(value)]}"
    )


def _coerce_array(value: list[Any], schema: Schema, where: str) -> list[Any]:
    if "prefixItems" in schema:
        items = schema["prefixItems"]
        if len(value) != len(items):
            raise SchemaMismatch(f"{where} must be an array of {len(items)}, not of {len(value)}")
        return [
            coerce(each, inside, f"{where}[{index}]")
            for index, (each, inside) in enumerate(zip(value, items, strict=True))
        ]
    inside = schema.get("items", ANY_SCHEMA)
    return [coerce(each, inside, f"{where}[{index}]") for index, each in enumerate(value)]


def _coerce_object(value: dict[str, Any], schema: Schema, where: str) -> dict[str, Any]:
    if schema is BYTES_SCHEMA:
        if value.keys() != {BYTES_KEY} or type(value[BYTES_KEY]) is not str:
            raise SchemaMismatch(f"{where} must be {describe_schema(schema)}")
        return value
    inside = schema.get("additionalProperties", ANY_SCHEMA)
    return {key: coerce(each, inside, f"{where}[{key!r}]") for key, each in value.items()}
