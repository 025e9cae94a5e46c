"""Sets of dots against plain Python sets, and the shape they are kept in."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.protocol.ids.version_vector import Dot, Dots, DotSet, intersection
from tests.unit.protocol.strategies import dot, dot_sets, frozen_dots

DAY_OF_EVENTS = 2**61


def assert_well_formed(ranges: Mapping[int, Sequence[int]]) -> None:
    """Per replica: whole ranges, none empty, ascending, with a hole between any two."""
    for each in ranges.values():
        assert each
        assert len(each) % 2 == 0
        assert each[0] >= 1
        assert all(a < b for a, b in pairwise(each))


def dot_set(dots: set[Dot]) -> DotSet:
    return DotSet(sorted(dots))


@given(st.lists(dot, max_size=40))
def test_adding_dots_in_any_order_gives_their_set(dots: list[Dot]) -> None:
    grown, model = DotSet(), set[Dot]()
    for each in dots:
        assert grown.add(each) == (each not in model)
        model.add(each)
        assert_well_formed(grown.ranges)
    assert list(grown) == sorted(model)
    assert len(grown) == len(model)
    assert grown.freeze() == frozen_dots(sorted(model))


@given(dot_sets, dot)
def test_a_set_contains_what_was_added_and_nothing_else(dots: set[Dot], other: Dot) -> None:
    grown = dot_set(dots)
    assert all(each in grown and each in grown.freeze() for each in dots)
    assert (other in grown) == (other in grown.freeze()) == (other in dots)


@given(dot_sets, dot_sets)
def test_update_is_union(one: set[Dot], other: set[Dot]) -> None:
    for argument in (dot_set(other), frozen_dots(sorted(other))):
        grown = dot_set(one)
        grown.update(argument)
        assert_well_formed(grown.ranges)
        assert set(grown) == one | other
        assert set(argument) == other


@given(dot_sets, dot_sets, dot)
def test_update_shares_nothing_with_what_it_took(one: set[Dot], other: set[Dot], new: Dot) -> None:
    grown, argument = dot_set(one), dot_set(other)
    grown.update(argument)
    grown.add(new)
    assert set(argument) == other


@given(dot_sets, dot_sets)
def test_covers_is_superset(one: set[Dot], other: set[Dot]) -> None:
    assert dot_set(one).covers(dot_set(other)) == (one >= other)
    assert dot_set(one | other).covers(frozen_dots(sorted(other)))


@given(dot_sets, dot_sets)
def test_missing_is_the_difference_of_the_other_set(one: set[Dot], other: set[Dot]) -> None:
    missing = dot_set(one).missing(frozen_dots(sorted(other)))
    assert_well_formed(missing.ranges)
    assert set(missing) == other - one
    assert missing.validation_error() is None


@given(dot_sets, dot_sets)
def test_some_missing_dot_is_the_last_of_its_replica_and_none_means_covered(
    one: set[Dot], other: set[Dot]
) -> None:
    some = dot_set(one).find_missing(dot_set(other))
    if some is None:
        assert other <= one
    else:
        assert some in other - one
        assert some == max(each for each in other - one if each.replica == some.replica)


@given(dot_sets, dot_sets)
def test_without_is_difference(dots: set[Dot], removed: set[Dot]) -> None:
    left = frozen_dots(sorted(dots)).without(sorted(removed, reverse=True))
    assert_well_formed(left.ranges)
    assert set(left) == dots - removed


@given(dot_sets, st.integers(-1, 40))
def test_take_keeps_the_first_dots_of_each_replica(dots: set[Dot], limit: int) -> None:
    taken = frozen_dots(sorted(dots)).take(limit)
    assert_well_formed(taken.ranges)
    assert len(taken) == min(len(dots), max(limit, 0))
    for replica in {each.replica for each in dots}:
        theirs = sorted(each for each in dots if each.replica == replica)
        some = [each for each in taken if each.replica == replica]
        assert some == theirs[: len(some)]
        assert len(some) <= -(-len(theirs) * max(limit, 0) // len(dots)) + 1, "no more than a share"


@given(st.lists(dot_sets, max_size=4))
def test_intersection_is_what_all_sets_share(sets: list[set[Dot]]) -> None:
    common = intersection(frozen_dots(sorted(each)) for each in sets)
    assert_well_formed(common.ranges)
    assert set(common) == (set.intersection(*sets) if sets else set())


@given(dot_sets, st.integers(0, 4))
def test_contiguous_and_last_tell_of_one_replica(dots: set[Dot], replica: int) -> None:
    grown = dot_set(dots)
    events = {each.event for each in dots if each.replica == replica}
    until_hole = next(event for event in range(1, 20) if event not in events) - 1
    assert grown.last_contiguous(replica) == until_hole
    assert grown.last(replica) == max(events, default=0)


@given(dot_sets)
def test_a_frozen_set_stays_as_it_was(dots: set[Dot]) -> None:
    grown = dot_set(dots)
    frozen = grown.freeze()
    grown.update(Dots({0: (1, 100)}))
    assert set(frozen) == dots
    grown.clear()
    assert len(grown) == 0
    assert set(frozen) == dots


@given(dot_sets)
def test_a_well_formed_set_has_no_problem(dots: set[Dot]) -> None:
    assert frozen_dots(sorted(dots)).validation_error() is None


@pytest.mark.parametrize(
    ("ranges", "problem"),
    [
        ((), "a range without an end"),
        ((1,), "a range without an end"),
        ((1, 2, 3), "a range without an end"),
        ((0, 2), "events start at 1"),
        ((-5, 2), "events start at 1"),
        ((2, 2), "out of order"),
        ((3, 2), "out of order"),
        ((1, 2, 2, 3), "out of order"),
        ((5, 6, 1, 2), "out of order"),
    ],
)
def test_ranges_that_are_no_set_of_dots_are_told(ranges: tuple[int, ...], problem: str) -> None:
    found = Dots({0: (1, 2), 7: ranges}).validation_error()
    assert found is not None
    assert problem in found
    assert "replica 7" in found


@given(st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(-2, 9), max_size=6))))
def test_a_set_without_a_problem_is_well_formed(drawn: list[tuple[int, list[int]]]) -> None:
    dots = Dots({replica: tuple(ranges) for replica, ranges in drawn})
    if dots.validation_error() is None:
        assert_well_formed(dots.ranges)
        assert set(DotSet(dots)) == set(dots)


def test_no_operation_walks_a_range() -> None:
    """The cost is in replicas and holes: with 2**61 dots, anything else would never return."""
    all_of_it = Dots({0: (1, DAY_OF_EVENTS), 1: (1, 5, 7, DAY_OF_EVENTS)})
    grown = DotSet()
    grown.update(all_of_it)
    assert grown.covers(all_of_it)
    assert grown.find_missing(Dots({0: (1, DAY_OF_EVENTS + 1)})) == Dot(0, DAY_OF_EVENTS)
    assert grown.missing(Dots({1: (1, DAY_OF_EVENTS)})) == Dots({1: (5, 7)})
    assert grown.last_contiguous(0) == DAY_OF_EVENTS - 1
    assert grown.last_contiguous(1) == 4
    assert grown.last(1) == DAY_OF_EVENTS - 1
    assert len(all_of_it) == 2 * DAY_OF_EVENTS - 4
    assert all_of_it.take(3) == Dots({0: (1, 3), 1: (1, 2)})
    assert all_of_it.without([Dot(0, 1)]).ranges[0] == (2, DAY_OF_EVENTS)
    assert intersection((all_of_it, Dots({1: (4, 8)}))) == Dots({1: (4, 5, 7, 8)})


def test_a_dot_reads_as_people_write_it() -> None:
    assert str(Dot(3, 14)) == "3.14"
