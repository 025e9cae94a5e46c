"""JSON Schema of annotations, which agrees with the check of arguments."""

import typing
from collections.abc import Callable
from typing import Any, Literal, Optional, TypeVar

import jsonschema
import pytest

from creekdb.errors import BadValue
from creekdb.execution.argument_types import checked, value_type
from creekdb.execution.serializable import reject_unserializable
from creekdb.http.schema import BYTES_SCHEMA, schema_of
from creekdb.protocol.values import Key, freeze
from creekdb.wire.json_values import BYTES_KEY, from_json

AnyType = TypeVar("AnyType")
INTEGER = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int, INTEGER),
        (str, STRING),
        (bool, {"type": "boolean"}),
        (float, {"type": "number"}),
        (bytes, BYTES_SCHEMA),
        (None, {"type": "null"}),
        (Any, {}),
        (list, {"type": "array"}),
        (tuple, {"type": "array"}),
        (list[int], {"type": "array", "items": INTEGER}),
        (tuple[int, ...], {"type": "array", "items": INTEGER}),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [INTEGER, STRING], "minItems": 2, "maxItems": 2},
        ),
        (dict[str, int], {"type": "object", "additionalProperties": INTEGER}),
        (int | None, {"anyOf": [INTEGER, {"type": "null"}]}),
        (Optional[str], {"anyOf": [STRING, {"type": "null"}]}),  # noqa: UP045
        (int | Any, {}),
        (Literal["a", 1], {"enum": ["a", 1]}),
        (Callable[[], None], {}),
        (object, {}),
        (typing.List, {"type": "array"}),  # noqa: UP006
        (typing.Tuple, {"type": "array"}),  # noqa: UP006
        (typing.Dict, {"type": "object"}),  # noqa: UP006
        (typing.Dict[str, int], {"type": "object", "additionalProperties": INTEGER}),  # noqa: UP006
        (AnyType, {}),
        (AnyType | None, {}),
    ],
)
def test_an_annotation_has_a_schema(annotation: Any, schema: Any) -> None:
    assert schema_of(value_type(annotation)) == schema


ANNOTATIONS: tuple[Any, ...] = (
    *(int, str, bool, float, bytes, None, Any, list, dict),
    *(list[int], tuple[int, str], tuple[str, ...], dict[str, int], int | None, Key),
    Literal["a", 1],
    list[dict[str, bytes]],
)
VALUES: tuple[Any, ...] = (
    *(None, True, 0, 1, 2**63, -(2**63), 1.0, 1.5, "", "a"),
    *([], [1], ["a"], [1, "a"], [1.0, "a"], [[1]], [None]),
    *({}, {"a": 1}, {"a": None}, {"$bytes": "AAE="}, {"$bytes": 1}, [{"a": {"$bytes": ""}}]),
)


@pytest.mark.parametrize("annotation", ANNOTATIONS, ids=str)
def test_validation_agrees_with_the_schema(annotation: Any) -> None:
    """jsonschema accepts the same values. An object that encodes bytes is no dict."""
    type_ = value_type(annotation)
    validator = jsonschema.Draft202012Validator(schema_of(type_))
    for value in VALUES:
        is_valid = validator.is_valid(value)
        if type(value) is dict and BYTES_KEY in value and annotation is dict:
            is_valid = False
        try:
            decoded = from_json(value)
            reject_unserializable(decoded, "it")
            converted = checked(decoded, type_, "it")
        except BadValue:
            assert not is_valid or value in ({BYTES_KEY: 1}, 2**63), value
        else:
            assert is_valid, value
            assert converted == freeze(decoded)
