"""JSON Schema of the types of arguments, for the OpenAPI description.

`creekdb.execution.argument_types` is the rule; this module only displays it.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from creekdb.execution.argument_types import Kind, ValueType
from creekdb.execution.serializable import INT_MAX, INT_MIN
from creekdb.wire.json_values import BYTES_KEY

Schema: TypeAlias = dict[str, Any]

BYTES_SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {BYTES_KEY: {"type": "string", "contentEncoding": "base64"}},
    "required": [BYTES_KEY],
    "additionalProperties": False,
    "title": "bytes, base64-encoded",
}
_SCALAR_SCHEMAS: Final[Mapping[Kind, Schema]] = {
    Kind.ANY: {},
    Kind.NULL: {"type": "null"},
    Kind.BOOLEAN: {"type": "boolean"},
    Kind.INTEGER: {"type": "integer", "minimum": INT_MIN, "maximum": INT_MAX},
    Kind.NUMBER: {"type": "number"},
    Kind.STRING: {"type": "string"},
    Kind.BYTES: BYTES_SCHEMA,
}


def schema_of(type_: ValueType) -> Schema:
    """Return the JSON Schema of the values that the type accepts."""
    parts = [schema_of(each) for each in type_.parts]
    match type_.kind:
        case Kind.CHOICE:
            return {"enum": list(type_.choices)}
        case Kind.UNION:
            return {"anyOf": parts}
        case Kind.ARRAY:
            return {"type": "array", **({"items": parts[0]} if parts[0] else {})}
        case Kind.TUPLE:
            length = {"minItems": len(parts), "maxItems": len(parts)}
            return {"type": "array", "prefixItems": parts, **length}
        case Kind.OBJECT:
            return {"type": "object", **({"additionalProperties": parts[0]} if parts[0] else {})}
        case scalar:
            return _SCALAR_SCHEMAS[scalar]
