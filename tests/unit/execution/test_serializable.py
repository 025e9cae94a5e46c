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
def test_a_carriable_value_is_the_same_after_its_journey(value: Any) -> None:
    if describe_unserializable(value) is None:
        arrived = freeze(msgspec.msgpack.decode(msgspec.msgpack.encode(value)))
        assert arrived == freeze(value)


@given(VALUES)
def test_what_is_handed_out_is_equal_to_what_is_kept(value: Any) -> None:
    if describe_unserializable(value) is None:
        assert copy_out(freeze(value)) == freeze(value)


class Thing(int):
    """An int by inheritance, which would arrive as another type."""


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({1, 2}, "a value of type set"),
        (object(), "a value of type object"),
        (Thing(3), "a value of type Thing"),
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
def test_what_cannot_be_carried_is_named(value: Any, named: str) -> None:
    assert describe_unserializable(value) == named
    with pytest.raises(BadValue, match=f"the cargo holds {named}( at .+)?, which cannot be sent"):
        reject_unserializable(value, "the cargo")


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ([1, ({"a": {1}},)], "a value of type set at [1][0]['a'], "),
        ({"rows": ((1, 2), (3, object()))}, "a value of type object at ['rows'][1][1], "),
        ((1, {"x": {2: 3}}), "a dict with a key of type int at [1]['x'], "),
        ([[math.nan]], "the float nan at [0][0], "),
        ({1}, "a value of type set, "),
    ],
)
def test_what_cannot_be_carried_is_found_however_deep(value: Any, place: str) -> None:
    with pytest.raises(BadValue) as refused:
        reject_unserializable(value, "the cargo")
    assert str(refused.value) == f"the cargo holds {place}which cannot be sent"


def test_the_place_of_what_cannot_be_carried_is_told_at_bounded_length() -> None:
    endless: dict[str, Any] = {}
    endless["x" * 50] = endless
    with pytest.raises(BadValue) as refused:
        reject_unserializable(endless, "the cargo")
    assert len(str(refused.value)) < PATH_LENGTH_MAX + 100


@given(VALUES)
def test_a_row_is_a_scalar_or_a_tuple_or_dict_of_scalars_that_can_be_carried(value: Any) -> None:
    held: Any = ()
    if type(value) in (tuple, list):
        held = value
    elif type(value) is dict:
        held = value.values()
    flat = type(value) is not list and not any(type(each) in (tuple, list, dict) for each in held)
    assert is_row(value) == (flat and describe_unserializable(value) is None)


def test_integers_are_carried_up_to_their_limits() -> None:
    assert describe_unserializable((2**63 - 1, -(2**63))) is None


def test_nesting_has_a_limit_so_that_a_list_inside_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert describe_unserializable(endless) == f"more than {DEPTH_MAX} levels of nesting"


def test_a_dict_deep_inside_is_copied_when_handed_out() -> None:
    kept = ({"a": ({"b": 1},)},)
    given_away = copy_out(kept)
    given_away[0]["a"][0]["b"] = 2
    assert kept == ({"a": ({"b": 1},)},)


@given(VALUES)
def test_what_is_handed_out_shares_no_dict_with_what_is_kept(value: Any) -> None:
    if describe_unserializable(value) is None:
        stored = freeze(value)
        assert not dicts_in(stored) & dicts_in(copy_out(stored))


def dicts_in(value: Any) -> set[int]:
    if type(value) is tuple:
        return set().union(*map(dicts_in, value))
    if type(value) is dict:
        return {id(value)}.union(*map(dicts_in, value.values()))
    return set()
