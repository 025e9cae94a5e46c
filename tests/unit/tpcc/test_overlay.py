"""A state is initial data with some registers replaced, added or deleted."""

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


class DictBase:
    def __init__(self, values: dict[Key, int]) -> None:
        self.values = values

    def read(self, key: Key) -> object:
        return self.values.get(key, ABSENT)

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        inside = (key for key in self.values if start <= collation_key(key) < stop)
        return iter(sorted(inside, key=collation_key, reverse=reverse))


@pytest.mark.parametrize("seed", range(50))
def test_the_state_equals_a_dict_with_the_overrides_applied(seed: int) -> None:
    random = Random(seed)
    initial = {key: random.randrange(9) for key in KEYS if random.random() < 0.5}
    overrides: dict[Key, object] = {
        key: random.choice([ABSENT, random.randrange(9)]) for key in KEYS if random.random() < 0.3
    }
    state = OverlayState(DictBase(initial), overrides)
    expected: dict[Key, object] = {**initial, **overrides}
    for _ in range(5):
        present = sorted(
            (key for key in expected if expected[key] is not ABSENT), key=collation_key
        )
        for key in KEYS:
            assert state.read(key) == expected.get(key, ABSENT)
        assert list(state.keys(FIRST_COLLATION_KEY, LAST_COLLATION_KEY, False)) == present
        start, stop = collation_key(random.choice(KEYS)), collation_key(random.choice(KEYS))
        inside = [key for key in present if start <= collation_key(key) < stop]
        assert list(state.keys(start, stop, False)) == inside
        assert list(state.keys(start, stop, True)) == inside[::-1]
        key, value = random.choice(KEYS), random.choice([ABSENT, 7])
        state.write(key, value)
        expected[key] = value
