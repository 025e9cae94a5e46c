"""Search of requests by overlapping footprints, compared with a search one by one."""

from hypothesis import given
from hypothesis import strategies as st

from creekdb.execution.footprint import Footprint
from creekdb.execution.keys import CALLS_PREFIX, prefix_range
from creekdb.execution.mvcc.entry import RequestEntry
from creekdb.execution.mvcc.footprint_index import FootprintIndex
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.values import Key
from tests.unit.execution.strategies import HOT_KEYS

RESERVED: Key = (CALLS_PREFIX, "ann", 1)
PREFIXES = st.lists(st.sampled_from((*HOT_KEYS, RESERVED)), max_size=3).map(tuple)
FOOTPRINTS = st.none() | st.builds(Footprint, PREFIXES, PREFIXES)


class Requests:
    """Index of requests at the positions 0, 1, …, with the footprints of a test."""

    def __init__(self, *footprints: Footprint | None) -> None:
        self.footprints = footprints
        self.computed: list[int] = []
        self.index = FootprintIndex(self._footprint_of)
        self.entries = [
            RequestEntry(Request(at, Dot(0, at + 1), Operation("act", (at,)), strong=True), (at,))
            for at in range(len(footprints))
        ]

    def _footprint_of(self, operation: Operation) -> Footprint | None:
        at: int = operation.arguments[0]
        self.computed.append(at)
        return self.footprints[at]


def prefixes_overlap(one: Key, other: Key) -> bool:
    if isinstance(one, int) or isinstance(other, int):
        return one == other
    (low, high), (other_low, other_high) = prefix_range(one), prefix_range(other)
    return low < other_high and other_low < high


def blocks(writer: Footprint | None, reader: Footprint | None) -> bool:
    """True if `writer` may write what `reader` may touch."""
    if writer is None:
        return reader is None or bool(reader.touches or reader.reads)
    if reader is None:
        return bool(writer.touches)
    return any(
        prefixes_overlap(one, other)
        for one in writer.touches
        for other in (*reader.touches, *reader.reads)
    )


@given(st.lists(FOOTPRINTS, min_size=1, max_size=6), st.data())
def test_an_overlap_is_found_exactly_if_there_is_one(
    footprints: list[Footprint | None], data: st.DataObject
) -> None:
    requests = Requests(*footprints)
    present: set[int] = set()
    for _ in range(12):
        at = data.draw(st.integers(0, len(footprints) - 1))
        if at not in present:
            requests.index.add(requests.entries[at])
            present.add(at)
        elif data.draw(st.booleans()):
            requests.index.remove(requests.entries[at])
            present.remove(at)
        reader = data.draw(st.integers(0, len(footprints) - 1))
        found = requests.index.find_overlap(requests.entries[reader])
        expected = {
            each
            for each in present
            if each < reader and blocks(footprints[each], footprints[reader])
        }
        assert (found is None) == (not expected)
        assert found is None or found.position[0] in expected
    requests.index.clear()
    assert not requests.index.has_before((100,))


def test_the_last_of_several_overlapping_requests_is_found() -> None:
    seat = Footprint((("seat", 1),))
    requests = Requests(seat, seat, seat, seat)
    for entry in (requests.entries[2], requests.entries[0], requests.entries[3]):
        requests.index.add(entry)

    assert requests.index.find_overlap(requests.entries[3]) is requests.entries[2]
    assert requests.index.find_overlap(requests.entries[1]) is requests.entries[0]


def test_no_footprint_is_computed_before_a_search_needs_it() -> None:
    requests = Requests(None, Footprint(("a",)), Footprint(("b",)))
    first, second, third = requests.entries
    requests.index.add(first)
    assert requests.index.find_overlap(first) is None
    requests.index.remove(first)
    requests.index.add(second)
    assert requests.computed == []

    assert requests.index.find_overlap(third) is None
    assert requests.computed == [1, 2]
