from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from creekdb.execution.keys import FIRST_PLACE, LAST_PLACE, Place, place, prefix_range
from creekdb.execution.mvcc.entry import Entry, Range
from creekdb.execution.mvcc.read_index import Ranges, united
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import NOOP, Request
from creekdb.protocol.values import Key
from tests.unit.execution.strategies import HOT_KEYS, KEYS

PLACES = KEYS.map(place) | st.sampled_from((FIRST_PLACE, LAST_PLACE, (2, 1, "a", -1), (1, "a", -1)))
BOUNDS = st.tuples(PLACES, PLACES).map(sorted)


def entry(number: int) -> Entry:
    return Entry(Request(number, Dot(0, number), NOOP, strong=False), (number,))


def filed(*bounds: tuple[Place, Place]) -> tuple[Ranges, list[Entry], list[Range]]:
    ranges, readers, passed = Ranges(), [], []
    for number, (start, stop) in enumerate(bounds):
        readers.append(entry(number))
        passed.append(Range(start, stop))
        ranges.add(passed[-1], readers[-1])
    return ranges, readers, passed


@given(st.lists(BOUNDS, max_size=6), KEYS)
def test_whoever_scanned_past_a_place_is_found_and_nobody_else(
    bounds: list[list[Place]], key: Key
) -> None:
    ranges, readers, _ = filed(*((start, stop) for start, stop in bounds))
    here = place(key)

    found = {each.position[0] for each in ranges.readers(here)}

    assert found == {number for number, (start, stop) in enumerate(bounds) if start <= here < stop}
    assert len(readers) == len(bounds)


def test_a_range_ends_before_its_stop() -> None:
    ranges, (reader,), _ = filed((place("a"), place("c")))

    assert list(ranges.readers(place("a"))) == [reader]
    assert list(ranges.readers(place("bzz"))) == [reader]
    assert list(ranges.readers(place("c"))) == []


def test_the_range_of_a_prefix_is_found_from_the_keys_inside_it_only() -> None:
    ranges, (reader,), _ = filed(prefix_range(("order", 7)))

    assert list(ranges.readers(place(("order", 7)))) == [reader]
    assert list(ranges.readers(place(("order", 7, "line", 1)))) == [reader]
    assert list(ranges.readers(place(("order", 8)))) == []
    assert list(ranges.readers(place(("order",)))) == []


def test_a_range_that_is_removed_is_forgotten() -> None:
    ranges, _, (one, other) = filed((place("a"), place("c")), (place("a"), place("c")))

    ranges.remove(one)
    assert [each.position for each in ranges.readers(place("b"))] == [(1,)]
    ranges.remove(other)
    assert list(ranges.readers(place("b"))) == []
    assert not ranges._filed


@given(st.lists(BOUNDS, max_size=6))
def test_united_ranges_cover_the_same_places_and_do_not_touch(bounds: list[list[Place]]) -> None:
    before = [Range(start, stop) for start, stop in bounds]

    after = united(before)

    for key in HOT_KEYS:
        here = place(key)
        assert any(each.start <= here < each.stop for each in after) == any(
            start <= here < stop for start, stop in bounds
        )
    assert all(left.stop < right.start for left, right in pairwise(after))
    assert [(each.start, each.stop) for each in before] == [tuple(each) for each in bounds]
