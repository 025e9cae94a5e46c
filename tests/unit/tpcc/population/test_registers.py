"""The population as registers: which there are, in which order, and what they hold."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from creekdb.errors import UnknownName
from creekdb.execution.keys import (
    FIRST_COLLATION_KEY,
    LAST_COLLATION_KEY,
    CollationKey,
    collation_key,
    prefix_range,
)
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key
from creekdb.tpcc import Population, PopulationBase, tpcc_datatype
from creekdb.tpcc.population import registers as base_module
from creekdb.tpcc.population.registers import DomainMatcher, KeyDomain, iterate_keys
from creekdb.tpcc.schema import CUSTOMERS, DELIVERED, ITEMS, TABLES
from tests.unit.tpcc.terminal import base, population

SMALL: dict[str, KeyDomain] = {
    "a": (range(1, 3),),
    "b": (range(1, 4), range(5, 7), lambda x, y: range(1, x + 1)),
    "names": (range(1, 3), ("ann", "bob", "cat")),
}


def small_keys() -> list[Key]:
    keys: list[Key] = [("a", 1), ("a", 2)]
    keys += [("b", x, y, z) for x in range(1, 4) for y in (5, 6) for z in range(1, x + 1)]
    keys += [("names", x, name) for x in (1, 2) for name in ("ann", "bob", "cat")]
    return keys


def bounds() -> Iterator[CollationKey]:
    """Places at, before, after and between keys, of all lengths and kinds."""
    yield from (
        FIRST_COLLATION_KEY,
        LAST_COLLATION_KEY,
        (0, 7),
        (1, "b"),
        (2,),
        (2, 0),
        (2, 0, 3),
        (2, 1),
    )
    for key in [*small_keys(), ("aa", 1), ("b", 9), ("b", 2, 0), ("names", 1, 7), ("z",)]:
        here = collation_key(key)
        yield from (here[:length] for length in range(1, len(here) + 1))
        yield from ((*here, -1), (*here, 3), (*here, 0, 2), (*here[:-2], 3))


def test_a_walk_finds_exactly_the_keys_of_the_range() -> None:
    keys = small_keys()
    everywhere = list(dict.fromkeys(bounds()))
    for start in everywhere:
        for stop in everywhere:
            inside = [key for key in keys if start <= collation_key(key) < stop]
            assert list(iterate_keys(SMALL, start, stop, False)) == inside, (start, stop)
            assert list(iterate_keys(SMALL, start, stop, True)) == inside[::-1], (start, stop)


@pytest.mark.parametrize(
    ("name", "parts", "is_there"),
    [
        ("b", (2, 5, 2), True),
        ("b", (2, 5, 3), False),
        ("b", (2, 5), False),
        ("b", (2, 5, 1, 1), False),
        ("b", (2, "5", 1), False),
        ("b", (2, 5, True), False),
        ("names", (1, "bob"), True),
        ("names", (1, 1), False),
    ],
)
def test_a_key_is_there_or_not(name: str, parts: tuple[Any, ...], is_there: bool) -> None:
    assert DomainMatcher(SMALL[name]).contains(parts) is is_there


@pytest.mark.parametrize("layout", ["rows", "fine"])
def test_a_scan_meets_every_register_that_can_be_read(layout: str) -> None:
    registers = base(layout)
    seen = 0
    for prefix in (
        *(("warehouse",), ("district",), ("w_ytd",), ("customers_named", 1, 10), ("item",)),
        *(("order_line", 2, 3, 2100), ("ol_delivery_d", 2, 3), ("new_order", 1), ("history", 2, 9)),
    ):
        keys = list(registers.keys(*prefix_range(prefix), False))
        assert keys == sorted(keys, key=collation_key)
        assert keys[::-1] == list(registers.keys(*prefix_range(prefix), True))
        for key in keys[::13]:
            assert registers.read(key) is not ABSENT
        seen += len(keys)
    assert seen > 9_000 + ITEMS


def test_a_scan_from_the_middle_does_not_begin_at_the_beginning() -> None:
    registers = PopulationBase(Population(1, 100_000), "rows")
    start, stop = collation_key(("stock", 99_999, 99_990)), collation_key(("stock", 100_000, 3))

    found = list(registers.keys(start, stop, False))

    assert len(found) == 13
    assert next(registers.keys(FIRST_COLLATION_KEY, LAST_COLLATION_KEY, True)) == (
        "warehouse",
        100_000,
    )


@pytest.mark.parametrize("layout", ["rows", "fine"])
@pytest.mark.parametrize(
    "key",
    [
        *("stock", 7, ("stock",), (), (1, 2), ("nothing", 1), ("stock", 3, 1), ("stock", 0, 1)),
        *(("stock", 1, ITEMS + 1), ("stock", 1, "1"), ("item", 0), ("district", 1, 11)),
        *(("orders", 1, 1, CUSTOMERS + 1), ("order_line", 1, 1, 1, 16), ("history", 1, 1, 1, 2)),
        *(("new_order", 1, 1, DELIVERED), ("customers_named", 1, 1, "SMITH")),
    ],
)
def test_what_is_not_there_is_absent(layout: str, key: Key) -> None:
    assert base(layout).read(key) is ABSENT


def test_a_register_per_row() -> None:
    registers = base("rows")
    for table, key in EXAMPLES:
        assert registers.read((table, *key)) == getattr(population(), table)(*key)
    assert registers.read(("w_ytd", 1)) is ABSENT


def test_fixed_columns_together_and_the_others_apart() -> None:
    registers = base("fine")
    for table, key in EXAMPLES:
        row = getattr(population(), table)(*key)
        schema = TABLES[table]
        fixed = len(schema.fixed)
        assert registers.read((table, *key)) == row[:fixed]
        for column, value in zip(schema.columns[fixed:], row[fixed:], strict=True):
            read = registers.read((column, *key))
            assert read == (ABSENT if value is None else value)


EXAMPLES: list[tuple[str, tuple[int, ...]]] = [
    ("warehouse", (2,)),
    ("district", (1, 10)),
    ("customer", (2, 5, 3000)),
    ("history", (1, 1, 8, 1)),
    ("new_order", (1, 4, 2101)),
    ("orders", (1, 4, 2100)),
    ("orders", (1, 4, 2101)),
    ("order_line", (1, 4, 2100, 5)),
    ("order_line", (1, 4, 2101, 5)),
    ("item", (100_000,)),
    ("stock", (2, 100_000)),
]


def test_rows_are_found_through_registers() -> None:
    for layout in ("rows", "fine"):
        registers = base(layout)
        assert registers.read(("oldest_new_order", 2, 2)) == 2101
        assert registers.read(("last_order", 2, 2, 77)) == population().last_order(2, 2, 77)
        named = population().customers_named(2, 2, "OUGHTOUGHTOUGHT")
        assert registers.read(("customers_named", 2, 2, "OUGHTOUGHTOUGHT")) == named


def test_what_is_remembered_is_bounded_and_what_is_in_use_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(base_module, "GENERATION", 100)
    registers = PopulationBase(population(), "rows")
    often = registers.read(("item", 1))
    random = Random(3)
    for _ in range(2000):
        registers.read(("item", random.randrange(2, ITEMS)))
        assert registers.read(("item", 1)) is often
        assert registers.cached_count <= 200
    assert registers.cached_count > 100


def test_a_layout_that_does_not_exist_is_refused() -> None:
    for make in (tpcc_datatype, lambda layout: PopulationBase(population(), layout)):
        with pytest.raises(UnknownName, match="unknown layout 'columns': known are rows, fine"):
            make("columns")
