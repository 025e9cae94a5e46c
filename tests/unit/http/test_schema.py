"""JSON Schema of annotations, and validation against it."""

import typing
from collections.abc import Callable
from typing import Any, Literal, Optional, TypeVar

import jsonschema
import pytest

from creekdb.http.schema import BYTES_SCHEMA, SchemaMismatch, coerce, schema_of
from creekdb.protocol.values import Key

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
    assert schema_of(annotation) == schema


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
    """jsonschema accepts the same values."""
    schema = schema_of(annotation)
    validator = jsonschema.Draft202012Validator(schema)
    for value in VALUES:
        try:
            coerced = coerce(value, schema, "it")
        except SchemaMismatch:
            assert not validator.is_valid(value), value
        else:
            assert validator.is_valid(value), value
            assert coerced == value


def test_a_number_without_a_fraction_is_an_integer() -> None:
    assert type(coerce(3.0, schema_of(int), "it")) is int
    assert type(coerce([3.0], schema_of(list[int]), "it")[0]) is int


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (int, "x", "it must be an integer, not a string"),
        (int, True, "it must be an integer, not a boolean"),
        (bytes, "AAE=", 'it must be an object {"$bytes": "…"}, not a string'),
        (list[int], [1, None], "it[1] must be an integer, not null"),
        (dict[str, int], {"a": []}, "it['a'] must be an integer, not an array"),
        (int | None, "x", "it must be an integer or null, not a string"),
        (tuple[int, str], [1], "it must be an array of length 2, not 1"),
        (tuple[int, str], [1, "a", 2], "it must be an array of length 2, not 3"),
    ],
)
def test_a_mismatch_is_reported_with_its_path(annotation: Any, value: Any, message: str) -> None:
    with pytest.raises(SchemaMismatch) as error:
        coerce(value, schema_of(annotation), "it")
    assert str(error.value) == message
