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
    readers_after,
    tentative_position,
)
from creekdb.execution.mvcc.read_index import ReadIndex
from creekdb.execution.mvcc.version_chain import ADDABLE_MAX, SuspectReads, VersionChain, is_addable
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import NOOP, Request


def entry(at: int) -> RequestEntry:
    return RequestEntry(Request(at, Dot(0, at), NOOP, strong=False), (at,))


def written(chain: VersionChain, at: int, value: Any, *, is_delta: bool = False) -> Version:
    version = Version(entry(at), value, is_delta)
    chain.insert(version, [])
    return version


def reading(chain: VersionChain, at: int) -> RequestEntry:
    reader = entry(at)
    version, value = chain.read_at(reader.position)
    reader.reads = {chain.key: (version, value)}
    if version is not None:  # the store indexes readers of the stable value
        version.readers = add_reader(version.readers, reader, chain.key, version)
    return reader


def read(chain: VersionChain, *positions: int) -> list[Any]:
    return [chain.read_at((at,))[1] for at in positions]


def suspected(suspects: SuspectReads) -> set[int]:
    return {reader.position[0] for reader, _ in suspects}


# --- positions ----------------------------------------------------------------------------------


def test_positions_compare_like_the_order() -> None:
    early = tentative_position(Request(5, Dot(1, 9), NOOP, strong=False))
    same_time = tentative_position(Request(5, Dot(2, 1), NOOP, strong=False))
    late = tentative_position(Request(6, Dot(0, 1), NOOP, strong=False))
    order = [committed_position(0), committed_position(10**12), early, same_time, late]

    assert order == sorted(order)
    assert max(order) < END_POSITION < local_position(1) < local_position(2)


# --- versions in order --------------------------------------------------------------------------


def test_versions_inserted_in_any_order_are_read_by_position() -> None:
    chain = VersionChain("k", ABSENT)
    for at in (30, 10, 20):
        written(chain, at, at)

    assert read(chain, 5, 10, 11, 20, 25, 30, 99) == [ABSENT, ABSENT, 10, 10, 20, 20, 30]


def test_an_insertion_suspects_the_readers_between_it_and_the_next_version() -> None:
    chain = VersionChain("k", 0)
    written(chain, 1, 1)
    written(chain, 30, 3)
    for at in (5, 15, 25, 35):
        reading(chain, at)
    suspects: SuspectReads = []

    assert not chain.insert(Version(entry(10), 1), suspects)

    assert suspected(suspects) == {15, 25}


def test_an_insertion_returns_whether_it_follows_the_stable_value() -> None:
    chain = VersionChain("k", 0)

    assert [chain.insert(Version(entry(at), at), []) for at in (20, 30, 10, 15)] == [
        True,
        False,
        True,
        False,
    ]


def test_a_removal_returns_whether_the_version_was_read_and_suspects_no_reader() -> None:
    chain = VersionChain("k", 0)
    unread, was_read = written(chain, 10, 1), written(chain, 20, 2)
    reading(chain, 30)
    suspects: SuspectReads = []

    assert not chain.remove(unread, suspects)
    assert chain.remove(was_read, suspects)
    assert suspects == []
    assert read(chain, 99) == [0]


def test_a_reader_that_has_since_read_another_version_is_dropped() -> None:
    chain = VersionChain("k", 0)
    former = written(chain, 5, 0)
    readers = [reading(chain, at) for at in (30, 40)]
    version = written(chain, 10, 1)
    readers[0].reads = {"k": (version, 1)}
    ReadIndex(recent_max=1).mark_readers_unsorted("a", former)

    assert readers_after(former.readers, "k", former, ()) == [readers[1]]
    assert isinstance(former.readers, ReaderGroup)
    assert former.readers.entries == [readers[1]]


def test_a_single_reader_that_reads_another_version_is_replaced() -> None:
    chain = VersionChain("k", 0)
    version = written(chain, 5, 0)
    former = reading(chain, 30)
    former.reads = {}

    assert readers_after(version.readers, "k", version, ()) == []
    assert reading(chain, 40) is version.readers


def test_readers_are_found_by_position_after_one_has_moved() -> None:
    chain = VersionChain("k", 0)
    version = written(chain, 1, 1)
    readers = [reading(chain, at) for at in (10, 20, 30)]
    assert readers_after(version.readers, "k", version, (10,)) == readers[1:]
    readers[2].position = (5,)
    ReadIndex(recent_max=1).mark_readers_unsorted("a", version)

    assert readers_after(version.readers, "k", version, (10,)) == [readers[1]]
    assert readers_after(version.readers, "k", version, ()) == [readers[2], readers[0], readers[1]]


# --- deltas -------------------------------------------------------------------------------------


def test_deltas_add_up_from_the_value_below_them() -> None:
    chain = VersionChain("k", 5)
    for at in (10, 20):
        written(chain, at, at, is_delta=True)
    written(chain, 30, 1)
    written(chain, 40, 1, is_delta=True)

    assert read(chain, 99, 5, 11, 21, 31) == [2, 5, 15, 35, 1]


def test_an_insertion_below_deltas_suspects_readers_of_sums_up_to_the_next_value() -> None:
    chain = VersionChain("k", 0)
    written(chain, 10, 1, is_delta=True)
    written(chain, 20, 1, is_delta=True)
    written(chain, 30, 7)
    written(chain, 40, 1, is_delta=True)
    for at in (5, 15, 25, 35, 45):
        reading(chain, at)
    suspects: SuspectReads = []

    chain.insert(Version(entry(7), 100), suspects)

    assert suspected(suspects) == {15, 25}
    assert read(chain, 15, 25, 45) == [101, 102, 8]


def test_a_removal_below_deltas_suspects_readers_of_sums() -> None:
    chain = VersionChain("k", 0)
    value = written(chain, 10, 100)
    written(chain, 20, 1, is_delta=True)
    reading(chain, 25)
    suspects: SuspectReads = []

    chain.remove(value, suspects)

    assert suspected(suspects) == {25}
    assert read(chain, 25) == [1]


def test_sums_are_recomputed_after_deltas_without_readers() -> None:
    chain = VersionChain("k", 0)
    for at in (20, 30, 40):
        written(chain, at, 1, is_delta=True)
    reading(chain, 25)
    written(chain, 10, 1, is_delta=True)
    suspects: SuspectReads = []
    reading(chain, 45)

    chain.insert(Version(entry(5), 100), suspects)

    assert suspected(suspects) == {25, 45}
    assert read(chain, 45, 25, 35) == [104, 102, 103]


# --- addability ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "addable"),
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
def test_a_chain_of_small_integers_is_addable(value: Any, addable: bool) -> None:
    assert VersionChain("k", value).is_addable is is_addable(value) is addable
    chain = VersionChain("k", 0)
    written(chain, 10, value)
    assert chain.is_addable is addable


def test_a_chain_whose_sums_may_be_too_large_is_not_addable() -> None:
    chain = VersionChain("k", 0)
    written(chain, 10, ADDABLE_MAX - 1, is_delta=True)
    assert chain.is_addable
    written(chain, 20, -1, is_delta=True)
    assert not chain.is_addable


def test_a_chain_is_addable_again_when_only_an_integer_is_left() -> None:
    chain = VersionChain("k", "text")
    first, second = written(chain, 10, 1), written(chain, 20, 2)

    addable = []
    for each in (first, second):
        chain.stabilise(each)
        addable.append(chain.is_addable)

    assert addable == [False, True]
    assert read(chain, 5) == [2]


# --- moves and merged runs ----------------------------------------------------------------------


def test_a_move_suspects_the_readers_of_the_version_and_those_it_now_precedes() -> None:
    chain = VersionChain("k", 0)
    written(chain, 1, 1)
    written(chain, 20, 2)
    moved = written(chain, 40, 4)
    for at in (15, 30, 50):
        reading(chain, at)
    suspects: SuspectReads = []
    assert moved.writer is not None
    moved.writer.position = (10,)

    assert not chain.reposition(2, suspects)

    assert suspected(suspects) == {15, 50}
    assert read(chain, 5, 15, 50) == [1, 4, 2]


def test_a_move_past_readers_alone_suspects_only_them() -> None:
    chain = VersionChain("k", 0)
    written(chain, 1, 1)
    moved = written(chain, 40, 4)
    for at in (5, 30, 50):
        reading(chain, at)
    suspects: SuspectReads = []
    assert moved.writer is not None
    moved.writer.position = (10,)

    assert not chain.reposition(1, suspects)

    assert suspected(suspects) == {30}


def test_a_move_returns_whether_the_version_follows_the_stable_value() -> None:
    chain = VersionChain("k", 0)
    written(chain, 20, 2)
    moved = written(chain, 40, 4)
    assert moved.writer is not None
    moved.writer.position = (10,)

    assert chain.reposition(1, [])


def test_the_versions_of_a_merged_run_become_one() -> None:
    chain = VersionChain("k", 1)
    written(chain, 5, 1, is_delta=True)
    versions = [written(chain, at, at, is_delta=True) for at in (10, 20, 30)]
    members = [version.writer for version in versions if version.writer is not None]
    run = MergedRun(members)

    chain.merge(versions[-1], run, set(members))

    assert [(each.writer, each.value) for each in chain.versions[1:]] == [(run, 60)]
    assert chain.versions[-1].is_delta
    assert read(chain, 31, 8) == [62, 2]
