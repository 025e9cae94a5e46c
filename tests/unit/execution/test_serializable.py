import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.errors import BadValue
from creekdb.execution.serializable import (
    DEPTH_MAX,
    PATH_LENGTH_MAX,
    copy_out,
    describe_unserializable,
    is_row,
    reject_unserializable,
)
from creekdb.protocol.values import freeze

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None))
    | st.binary()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(VALUES)
def test_a_serialisable_value_survives_encoding_and_decoding(value: Any) -> None:
    if describe_unserializable(value) is None:
        decoded = freeze(msgspec.msgpack.decode(msgspec.msgpack.encode(value)))
        assert decoded == freeze(value)


@given(VALUES)
def test_a_copy_is_equal_to_the_stored_value(value: Any) -> None:
    if describe_unserializable(value) is None:
        assert copy_out(freeze(value)) == freeze(value)


class IntSubclass(int):
    """Subclass of int, which would be decoded as another type."""


@pytest.mark.parametrize(
    ("value", "description"),
    [
        ({1, 2}, "a value of type set"),
        (object(), "a value of type object"),
        (IntSubclass(3), "a value of type IntSubclass"),
        (2**63, "an int beyond 64 bits"),
        (-(2**63) - 1, "an int beyond 64 bits"),
        (math.nan, "the float nan"),
        (math.inf, "the float inf"),
        ("\ud800", "a str that is not valid Unicode"),
        ({1: 2}, "a dict with a key of type int"),
        ({"\ud800": 2}, "a str that is not valid Unicode"),
        ([1, ({"a": {1}},)], "a value of type set"),
    ],
)
def test_the_error_describes_the_unserialisable_part(value: Any, description: str) -> None:
    assert describe_unserializable(value) == description
    with pytest.raises(
        BadValue, match=f"the value holds {description}( at .+)?, which cannot be sent"
    ):
        reject_unserializable(value, "the value")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([1, ({"a": {1}},)], "a value of type set at [1][0]['a'], "),
        ({"rows": ((1, 2), (3, object()))}, "a value of type object at ['rows'][1][1], "),
        ((1, {"x": {2: 3}}), "a dict with a key of type int at [1]['x'], "),
        ([[math.nan]], "the float nan at [0][0], "),
        ({1}, "a value of type set, "),
    ],
)
def test_an_unserialisable_part_is_found_at_any_depth(value: Any, problem: str) -> None:
    with pytest.raises(BadValue) as error:
        reject_unserializable(value, "the value")
    assert str(error.value) == f"the value holds {problem}which cannot be sent"


def test_the_path_in_the_error_has_a_bounded_length() -> None:
    endless: dict[str, Any] = {}
    endless["x" * 50] = endless
    with pytest.raises(BadValue) as error:
        reject_unserializable(endless, "the value")
    assert len(str(error.value)) < PATH_LENGTH_MAX + 100


@given(VALUES)
def test_a_row_is_a_serialisable_scalar_or_a_flat_tuple_or_dict(value: Any) -> None:
    items: Any = ()
    if type(value) in (tuple, list):
        items = value
    elif type(value) is dict:
        items = value.values()
    flat = type(value) is not list and not any(type(each) in (tuple, list, dict) for each in items)
    assert is_row(value) == (flat and describe_unserializable(value) is None)


def test_64_bit_integers_are_serialisable_up_to_their_limits() -> None:
    assert describe_unserializable((2**63 - 1, -(2**63))) is None


def test_a_list_that_contains_itself_is_rejected_by_the_nesting_limit() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert describe_unserializable(endless) == f"more than {DEPTH_MAX} levels of nesting"


def test_values_may_nest_up_to_the_limit() -> None:
    for levels, is_allowed in ((DEPTH_MAX, True), (DEPTH_MAX + 1, False)):
        value: Any = ()
        for _ in range(levels - 1):
            value = (value,)
        assert (describe_unserializable(value) is None) is is_allowed


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 2**63, -(2**63) - 1])
def test_a_row_contains_no_value_that_cannot_be_sent(value: Any) -> None:
    assert not is_row(value)
    assert not is_row((1, value))
    assert not is_row({"a": value})


def test_a_nested_dict_is_copied() -> None:
    stored = ({"a": ({"b": 1},)},)
    copy = copy_out(stored)
    copy[0]["a"][0]["b"] = 2
    assert stored == ({"a": ({"b": 1},)},)


@given(VALUES)
def test_a_copy_shares_no_dict_with_the_stored_value(value: Any) -> None:
    if describe_unserializable(value) is None:
        stored = freeze(value)
        assert not dicts_in(stored) & dicts_in(copy_out(stored))


def dicts_in(value: Any) -> set[int]:
    if type(value) is tuple:
        return set().union(*map(dicts_in, value))
    if type(value) is dict:
        return {id(value)}.union(*map(dicts_in, value.values()))
    return set()
