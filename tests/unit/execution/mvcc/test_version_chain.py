from typing import Any

import pytest

from creekdb.execution.mvcc.entry import (
    END_POSITION,
    MergedRun,
    ReaderGroup,
    RequestEntry,
    Version,
    add_reader,
    committed_position,
    local_position,
    mark_unsorted,
    readers_after,
    tentative_position,
)
from creekdb.execution.mvcc.version_chain import ADDABLE_MAX, SuspectReads, VersionChain, is_addable
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import NOOP, Request


def entry(at: int) -> RequestEntry:
    return RequestEntry(Request(at, Dot(0, at), NOOP, strong=False), (at,))


def written(chain: VersionChain, at: int, value: Any, *, delta: bool = False) -> Version:
    version = Version(entry(at), value, delta)
    chain.insert(version, [])
    return version


def reading(chain: VersionChain, at: int) -> RequestEntry:
    reader = entry(at)
    version, value = chain.read_at(reader.position)
    reader.reads = {chain.key: (version, value)}
    if version is not None:  # who reads the ground is known to the store
        version.readers = add_reader(version.readers, reader, chain.key, version)
    return reader


def read(chain: VersionChain, *places: int) -> list[Any]:
    return [chain.read_at((at,))[1] for at in places]


def doubted(doubts: SuspectReads) -> set[int]:
    return {reader.position[0] for reader, _ in doubts}


# --- positions ----------------------------------------------------------------------------------


def test_positions_compare_like_the_order() -> None:
    early = tentative_position(Request(5, Dot(1, 9), NOOP, strong=False))
    same_time = tentative_position(Request(5, Dot(2, 1), NOOP, strong=False))
    late = tentative_position(Request(6, Dot(0, 1), NOOP, strong=False))
    order = [committed_position(0), committed_position(10**12), early, same_time, late]

    assert order == sorted(order)
    assert max(order) < END_POSITION < local_position(1) < local_position(2)


# --- versions in order --------------------------------------------------------------------------


def test_what_is_inserted_in_any_order_is_read_by_place() -> None:
    chain = VersionChain("k", ABSENT)
    for at in (30, 10, 20):
        written(chain, at, at)

    assert read(chain, 5, 10, 11, 20, 25, 30, 99) == [ABSENT, ABSENT, 10, 10, 20, 20, 30]


def test_an_insertion_puts_the_readers_behind_it_in_doubt_up_to_the_next_version() -> None:
    chain = VersionChain("k", 0)
    written(chain, 1, 1)
    written(chain, 30, 3)
    for at in (5, 15, 25, 35):
        reading(chain, at)
    doubts: SuspectReads = []

    assert not chain.insert(Version(entry(10), 1), doubts)

    assert doubted(doubts) == {15, 25}


def test_an_insertion_tells_whether_it_stands_on_the_ground() -> None:
    chain = VersionChain("k", 0)

    assert [chain.insert(Version(entry(at), at), []) for at in (20, 30, 10, 15)] == [
        True,
        False,
        True,
        False,
    ]


def test_a_removal_tells_whether_it_was_read_and_doubts_nobody_yet() -> None:
    chain = VersionChain("k", 0)
    unread, was_read = written(chain, 10, 1), written(chain, 20, 2)
    reading(chain, 30)
    doubts: SuspectReads = []

    assert not chain.remove(unread, doubts)
    assert chain.remove(was_read, doubts)
    assert doubts == []
    assert read(chain, 99) == [0]


def test_a_reader_that_reads_another_version_by_now_is_dropped() -> None:
    chain = VersionChain("k", 0)
    former = written(chain, 5, 0)
    readers = [reading(chain, at) for at in (30, 40)]
    version = written(chain, 10, 1)
    readers[0].reads = {"k": (version, 1)}
    mark_unsorted(former.readers)

    assert readers_after(former.readers, "k", former, ()) == [readers[1]]
    assert isinstance(former.readers, ReaderGroup)
    assert former.readers.entries == [readers[1]]


def test_who_reads_alone_is_replaced_when_it_reads_something_else() -> None:
    chain = VersionChain("k", 0)
    version = written(chain, 5, 0)
    former = reading(chain, 30)
    former.reads = {}

    assert readers_after(version.readers, "k", version, ()) == []
    assert reading(chain, 40) is version.readers


def test_readers_are_found_by_place_after_one_has_moved() -> None:
    chain = VersionChain("k", 0)
    version = written(chain, 1, 1)
    readers = [reading(chain, at) for at in (10, 20, 30)]
    assert readers_after(version.readers, "k", version, (10,)) == readers[1:]
    readers[2].position = (5,)
    mark_unsorted(version.readers)

    assert readers_after(version.readers, "k", version, (10,)) == [readers[1]]
    assert readers_after(version.readers, "k", version, ()) == [readers[2], readers[0], readers[1]]


# --- deltas -------------------------------------------------------------------------------------


def test_deltas_add_up_from_the_value_below_them() -> None:
    chain = VersionChain("k", 5)
    for at in (10, 20):
        written(chain, at, at, delta=True)
    written(chain, 30, 1)
    written(chain, 40, 1, delta=True)

    assert read(chain, 99, 5, 11, 21, 31) == [2, 5, 15, 35, 1]


def test_an_insertion_below_deltas_doubts_who_read_a_sum_up_to_the_next_value() -> None:
    chain = VersionChain("k", 0)
    written(chain, 10, 1, delta=True)
    written(chain, 20, 1, delta=True)
    written(chain, 30, 7)
    written(chain, 40, 1, delta=True)
    for at in (5, 15, 25, 35, 45):
        reading(chain, at)
    doubts: SuspectReads = []

    chain.insert(Version(entry(7), 100), doubts)

    assert doubted(doubts) == {15, 25}
    assert read(chain, 15, 25, 45) == [101, 102, 8]


def test_a_removal_below_deltas_doubts_who_read_a_sum() -> None:
    chain = VersionChain("k", 0)
    ground = written(chain, 10, 100)
    written(chain, 20, 1, delta=True)
    reading(chain, 25)
    doubts: SuspectReads = []

    chain.remove(ground, doubts)

    assert doubted(doubts) == {25}
    assert read(chain, 25) == [1]


def test_a_sum_is_renewed_behind_deltas_that_nobody_has_asked_for() -> None:
    chain = VersionChain("k", 0)
    for at in (20, 30, 40):
        written(chain, at, 1, delta=True)
    reading(chain, 25)
    written(chain, 10, 1, delta=True)
    doubts: SuspectReads = []
    reading(chain, 45)

    chain.insert(Version(entry(5), 100), doubts)

    assert doubted(doubts) == {25, 45}
    assert read(chain, 45, 25, 35) == [104, 102, 103]


# --- what can be added to -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "regular"),
    [
        (ABSENT, True),
        (0, True),
        (-5, True),
        (ADDABLE_MAX - 1, True),
        (ADDABLE_MAX, False),
        (-ADDABLE_MAX, False),
        (True, False),
        (None, False),
        ("1", False),
        (1.0, False),
    ],
)
def test_a_chain_of_small_integers_is_regular(value: Any, regular: bool) -> None:
    assert VersionChain("k", value).is_addable is is_addable(value) is regular
    chain = VersionChain("k", 0)
    written(chain, 10, value)
    assert chain.is_addable is regular


def test_a_chain_is_no_longer_regular_when_its_sums_may_be_too_large() -> None:
    chain = VersionChain("k", 0)
    written(chain, 10, ADDABLE_MAX - 1, delta=True)
    assert chain.is_addable
    written(chain, 20, -1, delta=True)
    assert not chain.is_addable


def test_a_chain_is_regular_again_when_only_an_integer_is_left() -> None:
    chain = VersionChain("k", "text")
    first, second = written(chain, 10, 1), written(chain, 20, 2)

    regular = []
    for each in (first, second):
        chain.stabilise(each)
        regular.append(chain.is_addable)

    assert regular == [False, True]
    assert read(chain, 5) == [2]


# --- moves, stretches ---------------------------------------------------------------------------


def test_a_version_that_moves_doubts_its_readers_and_those_it_is_moved_before() -> None:
    chain = VersionChain("k", 0)
    written(chain, 1, 1)
    written(chain, 20, 2)
    moved = written(chain, 40, 4)
    for at in (15, 30, 50):
        reading(chain, at)
    doubts: SuspectReads = []
    assert moved.writer is not None
    moved.writer.position = (10,)

    assert not chain.reposition(2, doubts)

    assert doubted(doubts) == {15, 50}
    assert read(chain, 5, 15, 50) == [1, 4, 2]


def test_a_version_that_moves_over_readers_only_doubts_them() -> None:
    chain = VersionChain("k", 0)
    written(chain, 1, 1)
    moved = written(chain, 40, 4)
    for at in (5, 30, 50):
        reading(chain, at)
    doubts: SuspectReads = []
    assert moved.writer is not None
    moved.writer.position = (10,)

    assert not chain.reposition(1, doubts)

    assert doubted(doubts) == {30}


def test_a_version_that_moves_tells_whether_it_stands_on_the_ground() -> None:
    chain = VersionChain("k", 0)
    written(chain, 20, 2)
    moved = written(chain, 40, 4)
    assert moved.writer is not None
    moved.writer.position = (10,)

    assert chain.reposition(1, [])


def test_the_versions_of_a_stretch_become_one() -> None:
    chain = VersionChain("k", 1)
    written(chain, 5, 1, delta=True)
    versions = [written(chain, at, at, delta=True) for at in (10, 20, 30)]
    members = [version.writer for version in versions if version.writer is not None]
    stretch = MergedRun(members)

    chain.merge(versions[-1], stretch, set(members))

    assert [(each.writer, each.value) for each in chain.versions[1:]] == [(stretch, 60)]
    assert chain.versions[-1].is_delta
    assert read(chain, 31, 8) == [62, 2]
