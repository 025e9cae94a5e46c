"""A state is initial data with some registers replaced, added or deleted."""

from collections.abc import Iterator
from random import Random
from typing import Any, cast

import pytest

from creekdb.execution.keys import CollationKey, collation_key
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key
from creekdb.tpcc import PopulationBase
from creekdb.tpcc.consistency import _StateReader
from creekdb.tpcc.schema import TABLES

TABLE = TABLES["new_order"]
KEYS: list[Any] = [(TABLE.name, x, y) for x in range(4) for y in range(4)]


class DictBase:
    layout = "rows"

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
    for _ in range(5):
        reader = _StateReader(cast(PopulationBase, DictBase(initial)), overrides)
        expected: dict[Any, object] = {**initial, **overrides}
        present = [key for key in KEYS if expected.get(key, ABSENT) is not ABSENT]
        for key in KEYS:
            assert reader.row(TABLE, *key[1:]) == (expected[key] if key in present else None)
        assert list(reader.keys(TABLE)) == [key[1:] for key in present]
        for x in range(4):
            assert list(reader.keys(TABLE, x)) == [key[1:] for key in present if key[1] == x]
        overrides[random.choice(KEYS)] = random.choice([ABSENT, 7])
