"""Sets of dots against Python sets, and their representation."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet, intersection
from tests.unit.protocol.strategies import dot, dot_sets, frozen_dots

EVENT_LIMIT = 2**61


def assert_well_formed(ranges: Mapping[int, Sequence[int]]) -> None:
    """Assert complete, non-empty and ascending ranges per replica, with a hole between any two."""
    for each in ranges.values():
        assert each
        assert len(each) % 2 == 0
        assert each[0] >= 1
        assert all(a < b for a, b in pairwise(each))


def dot_set(dots: set[Dot]) -> DotSet:
    return DotSet(sorted(dots))


@given(st.lists(dot, max_size=40))
def test_dots_may_be_added_in_any_order(dots: list[Dot]) -> None:
    dots_added, model = DotSet(), set[Dot]()
    for each in dots:
        assert dots_added.add(each) == (each not in model)
        model.add(each)
        assert_well_formed(dots_added.ranges)
    assert list(dots_added) == sorted(model)
    assert len(dots_added) == len(model)
    assert dots_added.freeze() == frozen_dots(sorted(model))


@given(dot_sets, dot)
def test_set_contains_exactly_the_added_dots(dots: set[Dot], other: Dot) -> None:
    dots_added = dot_set(dots)
    assert all(each in dots_added and each in dots_added.freeze() for each in dots)
    assert (other in dots_added) == (other in dots_added.freeze()) == (other in dots)


@given(dot_sets, dot_sets)
def test_update_is_union(one: set[Dot], other: set[Dot]) -> None:
    for argument in (dot_set(other), frozen_dots(sorted(other))):
        dots_added = dot_set(one)
        dots_added.update(argument)
        assert_well_formed(dots_added.ranges)
        assert set(dots_added) == one | other
        assert set(argument) == other


@given(dot_sets, dot_sets, dot)
def test_update_does_not_alias_its_argument(one: set[Dot], other: set[Dot], new: Dot) -> None:
    dots_added, argument = dot_set(one), dot_set(other)
    dots_added.update(argument)
    dots_added.add(new)
    assert set(argument) == other


@given(dot_sets, dot_sets)
def test_covers_is_superset(one: set[Dot], other: set[Dot]) -> None:
    assert dot_set(one).covers(dot_set(other)) == (one >= other)
    assert dot_set(one | other).covers(frozen_dots(sorted(other)))


@given(dot_sets, dot_sets)
def test_missing_is_the_difference(one: set[Dot], other: set[Dot]) -> None:
    missing = dot_set(one).missing(frozen_dots(sorted(other)))
    assert_well_formed(missing.ranges)
    assert set(missing) == other - one
    assert missing.is_well_formed()


@given(dot_sets, dot_sets)
def test_find_missing_returns_the_last_missing_dot_of_a_replica_or_none(
    one: set[Dot], other: set[Dot]
) -> None:
    missing_dot = dot_set(one).find_missing(dot_set(other))
    if missing_dot is None:
        assert other <= one
    else:
        assert missing_dot in other - one
        assert missing_dot == max(
            each for each in other - one if each.replica == missing_dot.replica
        )


@given(dot_sets, dot_sets)
def test_without_is_difference(dots: set[Dot], removed: set[Dot]) -> None:
    remaining = frozen_dots(sorted(dots)).without(sorted(removed, reverse=True))
    assert_well_formed(remaining.ranges)
    assert set(remaining) == dots - removed


@given(dot_sets, st.integers(-1, 40))
def test_take_returns_the_first_dots_of_each_replica(dots: set[Dot], limit: int) -> None:
    taken = frozen_dots(sorted(dots)).take(limit)
    assert_well_formed(taken.ranges)
    assert len(taken) == min(len(dots), max(limit, 0))
    for replica in {each.replica for each in dots}:
        available = sorted(each for each in dots if each.replica == replica)
        first = [each for each in taken if each.replica == replica]
        assert first == available[: len(first)]
        assert len(first) <= -(-len(available) * max(limit, 0) // len(dots)) + 1, (
            "at most its share, rounded up"
        )


@given(dot_sets, dot_sets)
def test_intersection_is_set_intersection(left: set[Dot], right: set[Dot]) -> None:
    common = intersection(frozen_dots(sorted(left)), frozen_dots(sorted(right)))
    assert_well_formed(common.ranges)
    assert set(common) == left & right


@given(dot_sets, st.integers(0, 4))
def test_last_and_last_contiguous_concern_one_replica(dots: set[Dot], replica: int) -> None:
    dots_added = dot_set(dots)
    events = {each.event for each in dots if each.replica == replica}
    until_hole = next(event for event in range(1, 20) if event not in events) - 1
    assert dots_added.last_contiguous(replica) == until_hole
    assert dots_added.last(replica) == max(events, default=0)


@given(dot_sets)
def test_frozen_set_does_not_change(dots: set[Dot]) -> None:
    dots_added = dot_set(dots)
    frozen = dots_added.freeze()
    dots_added.update(Dots({0: (1, 100)}))
    assert set(frozen) == dots
    dots_added.ranges.clear()
    assert len(dots_added) == 0
    assert set(frozen) == dots


@given(dot_sets)
def test_well_formed_set_is_recognised(dots: set[Dot]) -> None:
    assert frozen_dots(sorted(dots)).is_well_formed()


@pytest.mark.parametrize(
    "ranges",
    [
        (),
        (1,),
        (1, 2, 3),
        (0, 2),
        (-5, 2),
        (2, 2),
        (3, 2),
        (1, 2, 2, 3),
        (5, 6, 1, 2),
    ],
)
def test_malformed_ranges_are_recognised(ranges: tuple[int, ...]) -> None:
    assert not Dots({0: (1, 2), 7: ranges}).is_well_formed()


@given(st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(-2, 9), max_size=6))))
def test_sets_recognised_as_well_formed_are(drawn: list[tuple[int, list[int]]]) -> None:
    dots = Dots({replica: tuple(ranges) for replica, ranges in drawn})
    if dots.is_well_formed():
        assert_well_formed(dots.ranges)
        assert set(DotSet(dots)) == set(dots)


def test_no_operation_iterates_over_a_range() -> None:
    """With 2**61 dots, an operation that costs more than O(replicas + holes) would never return."""
    full = Dots({0: (1, EVENT_LIMIT), 1: (1, 5, 7, EVENT_LIMIT)})
    dots_added = DotSet()
    dots_added.update(full)
    assert dots_added.covers(full)
    assert dots_added.find_missing(Dots({0: (1, EVENT_LIMIT + 1)})) == Dot(0, EVENT_LIMIT)
    assert dots_added.missing(Dots({1: (1, EVENT_LIMIT)})) == Dots({1: (5, 7)})
    assert dots_added.last_contiguous(0) == EVENT_LIMIT - 1
    assert dots_added.last_contiguous(1) == 4
    assert dots_added.last(1) == EVENT_LIMIT - 1
    assert len(full) == 2 * EVENT_LIMIT - 4
    assert full.take(3) == Dots({0: (1, 3), 1: (1, 2)})
    assert full.without([Dot(0, 1)]).ranges[0] == (2, EVENT_LIMIT)
    assert intersection(full, Dots({1: (4, 8)})) == Dots({1: (4, 5, 7, 8)})


def test_dot_is_formatted_as_replica_dot_event() -> None:
    assert str(Dot(3, 14)) == "3.14"
