"""Prefixes of a footprint, and the keys and ranges that they cover."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.errors import BadValue
from creekdb.execution.footprint import TEXT_LENGTH_MAX, Footprint, PrefixSet, make_footprint
from creekdb.execution.keys import (
    CALLS_PREFIX,
    FIRST_COLLATION_KEY,
    LAST_COLLATION_KEY,
    collation_key,
    prefix_range,
)
from creekdb.protocol.values import Key
from tests.unit.execution.strategies import HOT_KEYS, KEYS

PREFIXES = st.lists(KEYS, max_size=3).map(tuple)


@given(PREFIXES, KEYS)
def test_a_prefix_covers_the_keys_of_its_scan(prefixes: tuple[Key, ...], key: Key) -> None:
    scanned = False
    for prefix in prefixes:
        if isinstance(prefix, int):
            scanned = scanned or key == prefix
        else:
            start, stop = prefix_range(prefix)
            scanned = scanned or start <= collation_key(key) < stop

    assert PrefixSet(prefixes).covers(key) == scanned


@given(PREFIXES, KEYS, KEYS)
def test_a_covered_range_holds_only_covered_keys(
    prefixes: tuple[Key, ...], start: Key, stop: Key
) -> None:
    low, high = collation_key(start), collation_key(stop)
    footprint = PrefixSet(prefixes)

    if low < high and footprint.covers_range(low, high):
        for key in HOT_KEYS:
            assert not low <= collation_key(key) < high or footprint.covers(key)


def test_the_range_of_a_prefix_is_covered_by_it_and_by_shorter_ones() -> None:
    for prefixes in ((("seat",),), (("seat", 1),), ((),)):
        assert PrefixSet(prefixes).covers_range(*prefix_range(("seat", 1)))
    assert not PrefixSet((("seat", 1, 2),)).covers_range(*prefix_range(("seat", 1)))
    assert not PrefixSet((("seat", 1),)).covers_range(FIRST_COLLATION_KEY, LAST_COLLATION_KEY)
    assert PrefixSet(("",)).covers_range(*prefix_range("a"))


def test_the_empty_prefix_does_not_cover_reserved_registers() -> None:
    reserved = (CALLS_PREFIX, "ann", 7)

    assert not PrefixSet(((),)).covers(reserved)
    assert PrefixSet(((CALLS_PREFIX, "ann"),)).covers(reserved)


def test_registers_that_are_only_read_cannot_be_written() -> None:
    footprint = Footprint((("seat", 1),), (("price",),))

    assert footprint.can_read(("seat", 1, "row"))
    assert footprint.can_write(("seat", 1, "row"))
    assert footprint.can_read(("price", 3))
    assert footprint.can_scan(*prefix_range(("price",)))
    assert not footprint.can_write(("price", 3))
    assert not footprint.can_read(("seat", 2))


def test_one_more_register_is_written_too() -> None:
    footprint = Footprint(("a",), ("b",)).with_register(("calls", 1))

    assert footprint.can_write(("calls", 1))
    assert footprint.can_write("a")
    assert not footprint.can_write("b")


@pytest.mark.parametrize(
    ("prefixes", "cause"),
    [
        (("seat", 1), "it is a tuple"),
        (None, "it is a NoneType"),
        ("seat", "it is a str"),
        ([("seat", 1.5)], "not one with a float"),
        ([True], "not one with a bool"),
        ([["seat", 1]], "not one with a list"),
    ],
)
def test_a_footprint_that_is_no_list_of_prefixes_is_rejected(prefixes: Any, cause: str) -> None:
    for parameter, touches, reads in (("touches", prefixes, []), ("reads", [], prefixes)):
        with pytest.raises(BadValue) as caught:
            make_footprint("reserve", touches, reads)
        message = str(caught.value)
        assert message.startswith(f"'{parameter}' of operation 'reserve' returned {prefixes!r}")
        assert cause in message


def test_errors_quote_a_bounded_part_of_a_footprint() -> None:
    footprint = make_footprint("reserve", [("seat", number) for number in range(1000)], [])

    assert len(repr(footprint)) == TEXT_LENGTH_MAX + 1
    assert repr(Footprint(("a",), ("b",))) == "['a'] and, to read, ['b']"


@given(PREFIXES, KEYS)
def test_a_footprint_covers_the_keys_that_its_prefixes_cover(
    prefixes: tuple[Key, ...], key: Key
) -> None:
    covered = PrefixSet(prefixes).covers(key)

    assert Footprint(prefixes).can_write(key) == covered
    assert Footprint(prefixes).can_read(key) == covered
    assert Footprint((), prefixes).can_read(key) == covered
