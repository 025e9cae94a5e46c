from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.errors import BadValue
from creekdb.execution.keys import (
    FIRST_COLLATION_KEY,
    LAST_COLLATION_KEY,
    check_key,
    collation_key,
    prefix_range,
)
from creekdb.protocol.values import Key

COMPONENTS = st.integers(-3, 3) | st.text("ab\ud7ff\U0010ffff", max_size=3)
KEYS = COMPONENTS | st.lists(COMPONENTS, max_size=3).map(tuple)


def test_integers_come_before_strings_and_strings_before_tuples() -> None:
    ordered: list[Key] = [-1, 2, 10, "", "10", "a", "ab", "b", (), (1,), (1, 0), (1, "a"), ("a",)]
    reverse = ordered[::-1]
    assert sorted(reverse, key=collation_key) == ordered


@given(KEYS, KEYS)
def test_collation_keys_are_equal_only_for_equal_keys(left: Key, right: Key) -> None:
    assert (collation_key(left) == collation_key(right)) == (left == right)


@given(KEYS)
def test_every_key_lies_between_the_first_and_the_last_collation_key(key: Key) -> None:
    assert FIRST_COLLATION_KEY < collation_key(key) < LAST_COLLATION_KEY


@given(st.text("ab\ud7ff\U0010ffff", max_size=3), KEYS)
def test_a_string_prefix_covers_the_strings_that_start_with_it(prefix: str, key: Key) -> None:
    start, stop = prefix_range(prefix)
    expected = isinstance(key, str) and key.startswith(prefix)
    assert (start <= collation_key(key) < stop) == expected


@given(st.lists(COMPONENTS, max_size=2).map(tuple), KEYS)
def test_a_tuple_prefix_covers_the_tuples_that_start_with_it(
    prefix: tuple[str | int, ...], key: Key
) -> None:
    start, stop = prefix_range(prefix)
    expected = isinstance(key, tuple) and key[: len(prefix)] == prefix
    assert (start <= collation_key(key) < stop) == expected


@pytest.mark.parametrize("key", [True, None, 1.5, b"a", ["a"], ("a", True), (("a",),), {"a": 1}])
def test_an_invalid_key_is_rejected(key: Any) -> None:
    with pytest.raises(BadValue, match="a key is a str, an int or a tuple of these"):
        check_key(key)


@pytest.mark.parametrize("key", [2**63, ("a", 2**63), "\ud800"])
def test_a_key_that_cannot_be_sent_is_rejected(key: Any) -> None:
    with pytest.raises(BadValue, match="cannot be sent"):
        check_key(key)
