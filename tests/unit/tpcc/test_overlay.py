"""A state is its initial data with some registers replaced, added and deleted."""

from collections.abc import Iterator
from random import Random

import pytest

from creekdb.execution.keys import (
    FIRST_COLLATION_KEY,
    LAST_COLLATION_KEY,
    CollationKey,
    collation_key,
)
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key
from creekdb.tpcc import OverlayState

KEYS: list[Key] = [("a", x, y) for x in range(4) for y in range(4)]


class Initial:
    def __init__(self, values: dict[Key, int]) -> None:
        self.values = values

    def read(self, key: Key) -> object:
        return self.values.get(key, ABSENT)

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        inside = (key for key in self.values if start <= collation_key(key) < stop)
        return iter(sorted(inside, key=collation_key, reverse=reverse))


@pytest.mark.parametrize("seed", range(50))
def test_it_is_like_a_dict_with_the_overrides_in_it(seed: int) -> None:
    random = Random(seed)
    initial = {key: random.randrange(9) for key in KEYS if random.random() < 0.5}
    overrides: dict[Key, object] = {
        key: random.choice([ABSENT, random.randrange(9)]) for key in KEYS if random.random() < 0.3
    }
    state = OverlayState(Initial(initial), overrides)
    wanted: dict[Key, object] = {**initial, **overrides}
    for _ in range(5):
        there = sorted((key for key in wanted if wanted[key] is not ABSENT), key=collation_key)
        for key in KEYS:
            assert state.read(key) == wanted.get(key, ABSENT)
        assert list(state.keys(FIRST_COLLATION_KEY, LAST_COLLATION_KEY, False)) == there
        start, stop = collation_key(random.choice(KEYS)), collation_key(random.choice(KEYS))
        inside = [key for key in there if start <= collation_key(key) < stop]
        assert list(state.keys(start, stop, False)) == inside
        assert list(state.keys(start, stop, True)) == inside[::-1]
        key, value = random.choice(KEYS), random.choice([ABSENT, 7])
        state.write(key, value)
        wanted[key] = value
