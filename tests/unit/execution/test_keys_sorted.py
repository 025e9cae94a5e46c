"""Sorted keys: sorted as far as they are read."""

from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.datatypes.kv import KV
from creekdb.execution.base_state import EmptyBase
from creekdb.execution.keys import (
    FIRST_COLLATION_KEY,
    GROUP_MAX,
    KIND_COUNT,
    LAST_COLLATION_KEY,
    REMOVED_MAX,
    CollationKey,
    SortedKeys,
    collation_key,
    prefix_range,
)
from creekdb.execution.mvcc.entry import END_POSITION
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.execution.mvcc.version_store import VersionStore
from creekdb.protocol.ids.version_vector import Dots
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.settings import Settings
from creekdb.protocol.values import Key
from creekdb.schemes.creek import CreekReplica

EVERYTHING = (FIRST_COLLATION_KEY, LAST_COLLATION_KEY)
ALL = (FIRST_COLLATION_KEY, (KIND_COUNT,))
"""Range of all keys, including those that Creek reserves."""
KEYS: st.SearchStrategy[Key] = st.one_of(
    st.integers(0, 400),
    st.integers(0, 400).map(str),
    st.tuples(st.sampled_from(("a", "b", 1)), st.integers(0, 400)),
    st.tuples(st.sampled_from(("a", "creek.calls")), st.sampled_from((0, 1, "0", "1"))),
)


@given(
    first=st.lists(KEYS, max_size=300, unique=True),
    changes=st.lists(st.tuples(st.sampled_from(("toggle", "scan")), KEYS, KEYS), max_size=300),
)
def test_scans_return_the_present_keys_in_order(
    first: list[Key], changes: list[tuple[str, Key, Key]]
) -> None:
    sorted_keys, present = SortedKeys(first), set(first)
    for action, key, other in changes:
        if action == "scan":
            start, stop = collation_key(key), collation_key(other)
            expected = sorted(
                (key for key in present if start <= collation_key(key) < stop), key=collation_key
            )
            assert list(sorted_keys.between(start, stop, False)) == expected
            assert list(sorted_keys.between(start, stop, True)) == expected[::-1]
        elif key in present:
            sorted_keys.remove(key)
            present.remove(key)
        else:
            sorted_keys.add(key)
            present.add(key)
    assert list(sorted_keys) == sorted(present, key=collation_key)


def a_number(number: int) -> Key:
    return (number - 1000) << number


def a_text(number: int) -> Key:
    return chr(0x10FFFF - number) * (number % 3)


def a_pair(number: int) -> Key:
    """Return a pair with a number or a text as second component."""
    return ("a", str(number)) if number % 3 else ("a", number)


def a_tuple(number: int) -> Key:
    """Return a tuple of any length, some with a reserved prefix."""
    first = ("creek.calls", "a", 1)[number % 3]
    return (first, number // 100, str(number), number)[: number % 5]


@pytest.mark.parametrize("make_key", [a_number, a_text, a_pair, a_tuple])
def test_many_keys_are_added_and_removed(make_key: Callable[[int], Key]) -> None:
    random, sorted_keys = Random(make_key.__name__), SortedKeys()
    keys = list({make_key(number): None for number in range(20 * GROUP_MAX)})
    random.shuffle(keys)
    for key in keys:
        sorted_keys.add(key)
    assert list(sorted_keys) == sorted(keys, key=collation_key)
    assert list(sorted_keys.between(*ALL, True)) == sorted(keys, key=collation_key, reverse=True)
    random.shuffle(keys)
    remaining = keys[:GROUP_MAX]
    for key in keys[GROUP_MAX:]:
        sorted_keys.remove(key)
    assert list(sorted_keys) == sorted(remaining, key=collation_key)
    for key in remaining:
        sorted_keys.remove(key)
    assert list(sorted_keys) == []
    groups = [group for kind in sorted_keys._kinds for group in kind.groups]
    assert sum(map(len, groups)) <= REMOVED_MAX, "few removed keys are left"
    assert all(all(kind.groups[1:]) for kind in sorted_keys._kinds), "empty groups are deleted"


def test_concurrent_iterators_are_independent() -> None:
    keys = [a_pair(number) for number in range(5 * GROUP_MAX)]
    sorted_keys = SortedKeys(keys)
    for key in keys[::7]:
        sorted_keys.remove(key)
    expected = sorted(set(keys) - set(keys[::7]), key=collation_key)
    iterators = zip(
        sorted_keys.between(*ALL, False), sorted_keys.between(*ALL, True), sorted_keys, strict=True
    )
    forward, reverse, all_keys = map(list, zip(*iterators, strict=True))
    assert forward == all_keys == expected
    assert reverse == expected[::-1]


def test_removed_keys_are_skipped_until_they_are_added_again() -> None:
    sorted_keys = SortedKeys(range(10))
    for key in range(3, 6):
        sorted_keys.remove(key)
    assert list(sorted_keys) == [0, 1, 2, 6, 7, 8, 9]
    sorted_keys.add(4)
    assert list(sorted_keys.between(collation_key(2), collation_key(8), True)) == [7, 6, 4, 2]
    sorted_keys.add(3)
    sorted_keys.add(5)
    assert list(sorted_keys) == list(range(10)), "without duplicates"


class Counted(str):
    """Key that counts its comparisons and its lookups in sets and dicts."""

    __slots__ = ()
    comparisons = 0
    lookups = 0

    def __hash__(self) -> int:
        Counted.lookups += 1
        return super().__hash__()

    def __lt__(self, other: str) -> bool:
        Counted.comparisons += 1
        return str(self) < str(other)


def shuffled(count: int) -> list[Counted]:
    keys = [Counted(f"{each:06}") for each in range(count)]
    Random(count).shuffle(keys)
    return keys


def comparisons_of_a_scan(scan: Callable[[CollationKey, CollationKey, bool], Iterator[Key]]) -> int:
    before = Counted.comparisons
    keys = list(scan(*prefix_range("00321"), False))
    assert keys == [f"00321{each}" for each in range(10)]
    return Counted.comparisons - before


def test_reading_the_head_of_a_queue_skips_few_removed_keys() -> None:
    sorted_keys = SortedKeys()
    before = Counted.lookups
    for number in range(1000):
        sorted_keys.add(Counted(f"{number:06}"))
        first = next(sorted_keys.between(*EVERYTHING, False))
        assert first == f"{number:06}"
        sorted_keys.remove(first)
    assert Counted.lookups - before < 1000 * 40


FEW = 3 * GROUP_MAX * GROUP_MAX.bit_length()
"""Upper bound for the comparisons that sort the groups around a few keys."""


def test_a_scan_of_a_few_keys_sorts_only_a_few() -> None:
    sorted_keys = SortedKeys()
    for key in shuffled(20_000):
        sorted_keys.add(key)
    assert comparisons_of_a_scan(sorted_keys.between) < FEW


def test_the_first_scan_of_a_loaded_state_sorts_only_a_few_keys() -> None:
    keys = shuffled(20_000)
    loader = StateLoader(EmptyBase(), with_digest=False, with_order=True)
    comparisons_max = 0
    for at in range(0, len(keys), 100):
        before = Counted.comparisons
        loader.add([(key, 1) for key in keys[at : at + 100]], ())
        comparisons_max = max(comparisons_max, Counted.comparisons - before)
    assert comparisons_max < 100 * FEW // 10, "adding a batch does not sort many keys either"
    store = VersionStore(with_cursors=True)
    store.load(loader)
    assert comparisons_of_a_scan(store.snapshot(END_POSITION).keys) < FEW


@pytest.mark.parametrize("incremental", [False, True])
def test_a_replica_with_incremental_checkpoints_starts_with_sorted_keys(incremental: bool) -> None:
    settings = Settings(members=(0,), drafts=int(incremental))
    replica = CreekReplica(0, settings, KV)
    state = tuple((key, 1) for key in shuffled(20_000))
    replica.install(Checkpoint(1, 0, Dots(), 1, state, ()))
    scan = replica._execution.store.snapshot(END_POSITION).keys
    assert (comparisons_of_a_scan(scan) < FEW) is incremental
    assert comparisons_of_a_scan(scan) < FEW


def test_a_replaced_state_is_discarded_in_batches() -> None:
    loader = StateLoader(EmptyBase(), with_digest=False, with_order=True)
    loader.add([(key, 1) for key in range(1000)], ())
    batches = 1
    while loader.discard(100):
        batches += 1
    assert batches >= 10
    assert not loader.registers
    assert loader.sorted_keys is None
