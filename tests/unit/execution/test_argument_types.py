"""Values that an annotated parameter accepts, and their conversion."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal

import pytest

from creekdb.errors import BadValue
from creekdb.execution.argument_types import (
    Kind,
    ValueType,
    accepted_types,
    annotated_types,
    checked,
    value_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (int, "x", "it must be an integer, not a string"),
        (int, True, "it must be an integer, not a boolean"),
        (int, 1.5, "it must be an integer, not a number"),
        (bytes, "AAE=", "it must be bytes, not a string"),
        (list[int], [1, None], "it[1] must be an integer, not null"),
        (dict[str, int], {"a": []}, "it['a'] must be an integer, not an array"),
        (int | None, "x", "it must be an integer or null, not a string"),
        (tuple[int, str], [1], "it must be an array of length 2, not 1"),
        (tuple[int, str], [1, "a", 2], "it must be an array of length 2, not 3"),
        (tuple[int, str], "ab", "it must be an array, not a string"),
        (Literal["red", 1], "blue", "it must be one of 'red', 1, not 'blue'"),
        (Literal["red", 1], [1], "it must be one of 'red', 1, not an array"),
        (Literal["red"] | None, "blue", "it must be one of 'red' or null, not 'blue'"),
        (Literal[1], "x" * 99, f"it must be one of 1, not '{'x' * 79}"),
        (Literal[1], True, "it must be one of 1, not True"),
        (str, b"x", "it must be a string, not bytes"),
        (int, {1}, "it must be an integer, not a set"),
        (int, 1e300, "it must be an integer of 64 bits, not 1e+300"),
        (int, 2.0**63, "it must be an integer of 64 bits, not 9.223372036854776e+18"),
        (int | str, 1e300, "it must be an integer or a string, not a number"),
    ],
)
def test_a_mismatch_is_reported_with_its_path(annotation: Any, value: Any, message: str) -> None:
    with pytest.raises(BadValue) as error:
        checked(value, value_type(annotation), "it")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("annotation", "value", "result"),
    [
        (int, 3.0, 3),
        (list[int], [3.0], (3,)),
        (float, 3, 3),
        (int, -(2.0**63), -(2**63)),
        (int | float, 3.0, 3.0),
        (int | float, 1e300, 1e300),
        (float | int, 3, 3),
        (int | str, 3.0, 3),
        (tuple[int, ...], [1, 2], (1, 2)),
        (dict[str, int], {"a": 1.0}, {"a": 1}),
        (Literal["red", "blue"], "blue", "blue"),
        (None, None, None),
        (object, {1: 2}, {1: 2}),
    ],
)
def test_a_value_is_accepted_or_converted(annotation: Any, value: Any, result: Any) -> None:
    converted = checked(value, value_type(annotation), "it")
    assert converted == result
    assert repr(converted) == repr(result)


def test_scalars_need_no_further_check() -> None:
    assert accepted_types(value_type(int | None)) == {int, type(None)}
    assert accepted_types(value_type(list[int])) == set()


def sell(tx: Any, item: str, price: Decimal, pieces: int = 1) -> Callable[[], None]:
    raise NotImplementedError


def test_an_annotation_that_cannot_be_resolved_does_not_hide_the_others() -> None:
    integer, string = ValueType(Kind.INTEGER), ValueType(Kind.STRING)
    types = annotated_types(sell)
    assert (types["item"], types["pieces"]) == (string, integer)
    assert "price" not in types


def test_callable_objects_and_wrapped_functions_have_types() -> None:
    class Seller:
        def __call__(self, tx: Any, item: str) -> None: ...

    @functools.wraps(sell)
    def wrapper(*arguments: Any) -> Any: ...

    assert annotated_types(Seller())["item"] == ValueType(Kind.STRING)
    assert annotated_types(wrapper)["pieces"] == ValueType(Kind.INTEGER)
    assert annotated_types(functools.partial(sell, None)) == {}
