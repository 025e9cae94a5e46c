"""Keys in order, sorted as far as somebody looks."""

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
"""With the keys of registers that Creek keeps for itself."""
KEYS: st.SearchStrategy[Key] = st.one_of(
    st.integers(0, 400),
    st.integers(0, 400).map(str),
    st.tuples(st.sampled_from(("a", "b", 1)), st.integers(0, 400)),
    st.tuples(st.sampled_from(("a", "creek.calls")), st.sampled_from((0, 1, "0", "1"))),
)


@given(
    first=st.lists(KEYS, max_size=300, unique=True),
    changes=st.lists(st.tuples(st.sampled_from(("toggle", "look")), KEYS, KEYS), max_size=300),
)
def test_they_are_those_that_are_there_in_order(
    first: list[Key], changes: list[tuple[str, Key, Key]]
) -> None:
    ours, there = SortedKeys(first), set(first)
    for what, key, other in changes:
        if what == "look":
            start, stop = collation_key(key), collation_key(other)
            expected = sorted(
                (key for key in there if start <= collation_key(key) < stop), key=collation_key
            )
            assert list(ours.between(start, stop, False)) == expected
            assert list(ours.between(start, stop, True)) == expected[::-1]
        elif key in there:
            ours.remove(key)
            there.remove(key)
        else:
            ours.add(key)
            there.add(key)
    assert list(ours) == sorted(there, key=collation_key)


def a_number(number: int) -> Key:
    return (number - 1000) << number


def a_text(number: int) -> Key:
    return chr(0x10FFFF - number) * (number % 3)


def a_pair(number: int) -> Key:
    """At one place in it, a number or a text."""
    return ("a", str(number)) if number % 3 else ("a", number)


def a_tuple(number: int) -> Key:
    """Of any length, and Creek's own among them."""
    first = ("creek.calls", "a", 1)[number % 3]
    return (first, number // 100, str(number), number)[: number % 5]


@pytest.mark.parametrize("of", [a_number, a_text, a_pair, a_tuple])
def test_many_come_and_go(of: Callable[[int], Key]) -> None:
    random, ours = Random(of.__name__), SortedKeys()
    keys = list({of(number): None for number in range(20 * GROUP_MAX)})
    random.shuffle(keys)
    for key in keys:
        ours.add(key)
    assert list(ours) == sorted(keys, key=collation_key)
    assert list(ours.between(*ALL, True)) == sorted(keys, key=collation_key, reverse=True)
    random.shuffle(keys)
    kept = keys[:GROUP_MAX]
    for key in keys[GROUP_MAX:]:
        ours.remove(key)
    assert list(ours) == sorted(kept, key=collation_key)
    for key in kept:
        ours.remove(key)
    assert list(ours) == []
    groups = [group for kind in ours._kinds for group in kind._groups]
    assert sum(map(len, groups)) <= REMOVED_MAX, "few are passed over"
    assert all(all(kind._groups[1:]) for kind in ours._kinds), "what is empty is not kept"


def test_who_looks_while_another_looks_disturbs_nobody() -> None:
    keys = [a_pair(number) for number in range(5 * GROUP_MAX)]
    ours = SortedKeys(keys)
    for key in keys[::7]:
        ours.remove(key)
    expected = sorted(set(keys) - set(keys[::7]), key=collation_key)
    looks = zip(ours.between(*ALL, False), ours.between(*ALL, True), ours, strict=True)
    forwards, backwards, again = map(list, zip(*looks, strict=True))
    assert forwards == again == expected
    assert backwards == expected[::-1]


def test_who_comes_back_soon_was_passed_over_meanwhile() -> None:
    ours = SortedKeys(range(10))
    for key in range(3, 6):
        ours.remove(key)
    assert list(ours) == [0, 1, 2, 6, 7, 8, 9]
    ours.add(4)
    assert list(ours.between(collation_key(2), collation_key(8), True)) == [7, 6, 4, 2]
    ours.add(3)
    ours.add(5)
    assert list(ours) == list(range(10)), "each once"


class Counted(str):
    """One that counts how often it is compared, and how often looked for in a set or dict."""

    __slots__ = ()
    comparisons = 0
    searches = 0

    def __hash__(self) -> int:
        Counted.searches += 1
        return super().__hash__()

    def __lt__(self, other: str) -> bool:
        Counted.comparisons += 1
        return str(self) < str(other)


def shuffled(count: int) -> list[Counted]:
    keys = [Counted(f"{each:06}") for each in range(count)]
    Random(count).shuffle(keys)
    return keys


def comparisons_of_a_look(look: Callable[[CollationKey, CollationKey, bool], Iterator[Key]]) -> int:
    before = Counted.comparisons
    found = list(look(*prefix_range("00321"), False))
    assert found == [f"00321{each}" for each in range(10)]
    return Counted.comparisons - before


def test_who_takes_the_first_of_a_queue_passes_over_few() -> None:
    ours = SortedKeys()
    before = Counted.searches
    for number in range(1000):
        ours.add(Counted(f"{number:06}"))
        first = next(ours.between(*EVERYTHING, False))
        assert first == f"{number:06}"
        ours.remove(first)
    assert Counted.searches - before < 1000 * 40


FEW = 3 * GROUP_MAX * GROUP_MAX.bit_length()
"""To sort the groups around a few keys, whatever their order was."""


def test_who_looks_at_a_few_of_many_has_a_few_sorted() -> None:
    ours = SortedKeys()
    for key in shuffled(20_000):
        ours.add(key)
    assert comparisons_of_a_look(ours.between) < FEW


def test_the_first_look_at_a_state_that_has_arrived_sorts_a_few() -> None:
    keys = shuffled(20_000)
    arrivals = StateLoader(EmptyBase(), digested=False, ordered=True)
    most = 0
    for at in range(0, len(keys), 100):
        before = Counted.comparisons
        arrivals.add([(key, 1) for key in keys[at : at + 100]], ())
        most = max(most, Counted.comparisons - before)
    assert most < 100 * FEW // 10, "nor does a part of it sort many"
    store = VersionStore(images=True)
    store.load(arrivals)
    assert comparisons_of_a_look(store.snapshot(END_POSITION).keys) < FEW


@pytest.mark.parametrize("in_turns", [False, True])
def test_a_replica_whose_turns_are_short_begins_with_its_keys_in_order(in_turns: bool) -> None:
    settings = Settings(members=(0,), drafts=int(in_turns))
    replica = CreekReplica(0, settings, KV)
    state = tuple((key, 1) for key in shuffled(20_000))
    replica.install(Checkpoint(1, 0, Dots(), 1, state, ()))
    look = replica._store.snapshot(END_POSITION).keys
    assert (comparisons_of_a_look(look) < FEW) is in_turns
    assert comparisons_of_a_look(look) < FEW


def test_what_is_not_wanted_is_given_up_a_few_at_a_time() -> None:
    arrivals = StateLoader(EmptyBase(), digested=False, ordered=True)
    arrivals.add([(key, 1) for key in range(1000)], ())
    turns = 1
    while arrivals.discard(100):
        turns += 1
    assert turns >= 10
    assert not arrivals.registers
    assert arrivals.sorted_keys is None
