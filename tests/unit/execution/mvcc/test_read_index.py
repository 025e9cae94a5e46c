from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from creekdb.execution.keys import (
    FIRST_COLLATION_KEY,
    LAST_COLLATION_KEY,
    CollationKey,
    collation_key,
    prefix_range,
)
from creekdb.execution.mvcc.entry import RequestEntry, ScannedRange
from creekdb.execution.mvcc.read_index import RangeIndex, union_ranges
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import NOOP, Request
from creekdb.protocol.values import Key
from tests.unit.execution.strategies import HOT_KEYS, KEYS

COLLATION_KEYS = KEYS.map(collation_key) | st.sampled_from(
    (FIRST_COLLATION_KEY, LAST_COLLATION_KEY, (2, 1, "a", -1), (1, "a", -1))
)
BOUNDS = st.tuples(COLLATION_KEYS, COLLATION_KEYS).map(sorted)


def entry(number: int) -> RequestEntry:
    return RequestEntry(Request(number, Dot(0, number), NOOP, strong=False), (number,))


def index_of(
    *bounds: tuple[CollationKey, CollationKey],
) -> tuple[RangeIndex, list[RequestEntry], list[ScannedRange]]:
    ranges, readers, scanned = RangeIndex(), [], []
    for number, (start, stop) in enumerate(bounds):
        readers.append(entry(number))
        scanned.append(ScannedRange(start, stop))
        ranges.add(scanned[-1], readers[-1])
    return ranges, readers, scanned


@given(st.lists(BOUNDS, max_size=6), KEYS)
def test_exactly_the_readers_that_scanned_past_a_key_are_numbers(
    bounds: list[list[CollationKey]], key: Key
) -> None:
    ranges, readers, _ = index_of(*((start, stop) for start, stop in bounds))
    current = collation_key(key)

    numbers = {each.position[0] for each in ranges.readers_at(current)}

    assert numbers == {
        number for number, (start, stop) in enumerate(bounds) if start <= current < stop
    }
    assert len(readers) == len(bounds)


def test_a_range_ends_before_its_stop() -> None:
    ranges, (reader,), _ = index_of((collation_key("a"), collation_key("c")))

    assert list(ranges.readers_at(collation_key("a"))) == [reader]
    assert list(ranges.readers_at(collation_key("bzz"))) == [reader]
    assert list(ranges.readers_at(collation_key("c"))) == []


def test_the_range_of_a_prefix_is_numbers_only_from_keys_inside_it() -> None:
    ranges, (reader,), _ = index_of(prefix_range(("order", 7)))

    assert list(ranges.readers_at(collation_key(("order", 7)))) == [reader]
    assert list(ranges.readers_at(collation_key(("order", 7, "line", 1)))) == [reader]
    assert list(ranges.readers_at(collation_key(("order", 8)))) == []
    assert list(ranges.readers_at(collation_key(("order",)))) == []


def test_a_removed_range_is_no_longer_numbers() -> None:
    ranges, _, (first, second) = index_of(
        (collation_key("a"), collation_key("c")), (collation_key("a"), collation_key("c"))
    )

    ranges.remove(first)
    assert [each.position for each in ranges.readers_at(collation_key("b"))] == [(1,)]
    ranges.remove(second)
    assert list(ranges.readers_at(collation_key("b"))) == []
    assert not ranges._by_prefix


@given(st.lists(BOUNDS, max_size=6))
def test_united_ranges_cover_the_same_keys_and_do_not_touch(
    bounds: list[list[CollationKey]],
) -> None:
    before = [ScannedRange(start, stop) for start, stop in bounds]

    after = union_ranges(before)

    for key in HOT_KEYS:
        current = collation_key(key)
        assert any(each.start <= current < each.stop for each in after) == any(
            start <= current < stop for start, stop in bounds
        )
    assert all(left.stop < right.start for left, right in pairwise(after))
    assert [(each.start, each.stop) for each in before] == [tuple(each) for each in bounds]
