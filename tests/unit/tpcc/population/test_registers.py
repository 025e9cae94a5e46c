"""The population as registers: their keys, order and values."""

from collections.abc import Iterator
from functools import lru_cache
from random import Random
from typing import Any

import pytest

from creekdb.errors import UnknownName
from creekdb.execution.datatype import DataType
from creekdb.execution.keys import (
    FIRST_COLLATION_KEY,
    LAST_COLLATION_KEY,
    CollationKey,
    collation_key,
    prefix_range,
)
from creekdb.execution.transaction import ABSENT, Transaction
from creekdb.protocol.values import Key
from creekdb.tpcc import Population, PopulationBase, datatype_on_population
from creekdb.tpcc.population.registers import KeyTree, RegisterFamily, iterate_keys
from creekdb.tpcc.schema import CUSTOMERS, DELIVERED, ITEMS, TABLES
from creekdb.tpcc.sql_schema import schema_statements
from tests.unit.tpcc.tpcc_database import base, population

SMALL: KeyTree = {
    "a": (range(1, 3),),
    "b": (range(1, 4), range(5, 7), lambda x, y: range(1, x + 1)),
    "names": (range(1, 3), ("ann", "bob", "cat")),
    "tree": {"c": (), "d": (range(1, 3), lambda x: (x, x + 2)), "e": {"f": (lambda: ("x", "y"),)}},
}


def small_keys() -> list[Key]:
    keys: list[Key] = [("a", 1), ("a", 2)]
    keys += [("b", x, y, z) for x in range(1, 4) for y in (5, 6) for z in range(1, x + 1)]
    keys += [("names", x, name) for x in (1, 2) for name in ("ann", "bob", "cat")]
    keys += [("tree", "c"), *(("tree", "d", x, y) for x in (1, 2) for y in (x, x + 2))]
    keys += [("tree", "e", "f", "x"), ("tree", "e", "f", "y")]
    return keys


def bounds() -> Iterator[CollationKey]:
    """Yield collation keys at, before, after and between keys, of all lengths and types."""
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
    for key in [
        *small_keys(),
        ("aa", 1),
        ("b", 9),
        ("b", 2, 0),
        ("names", 1, 7),
        ("z",),
        ("tree",),
    ]:
        position = collation_key(key)
        yield from (position[:length] for length in range(1, len(position) + 1))
        yield from ((*position, -1), (*position, 3), (*position, 0, 2), (*position[:-2], 3))


def test_iteration_yields_exactly_the_keys_of_the_range() -> None:
    keys = small_keys()
    all_bounds = list(dict.fromkeys(bounds()))
    for start in all_bounds:
        for stop in all_bounds:
            inside = [key for key in keys if start <= collation_key(key) < stop]
            assert list(iterate_keys(SMALL, start, stop, False)) == inside, (start, stop)
            assert list(iterate_keys(SMALL, start, stop, True)) == inside[::-1], (start, stop)


@pytest.mark.parametrize(
    ("name", "parts", "expected"),
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
def test_membership_of_keys(name: str, parts: tuple[Any, ...], expected: bool) -> None:
    assert RegisterFamily(SMALL[name], tuple).contains(parts) is expected


@pytest.mark.parametrize("layout", ["rows", "fine"])
def test_a_scan_yields_readable_registers_in_order(layout: str) -> None:
    registers = base(layout)
    count = 0
    for prefix in (
        *(("warehouse",), ("district",), ("w_ytd",), ("customers_named", 1, 10), ("item",)),
        *(("order_line", 2, 3, 2100), ("ol_delivery_d", 2, 3), ("new_order", 1), ("history", 2, 9)),
    ):
        keys = list(registers.keys(*prefix_range(prefix), False))
        assert keys == sorted(keys, key=collation_key)
        assert keys[::-1] == list(registers.keys(*prefix_range(prefix), True))
        for key in keys[::13]:
            assert registers.read(key) is not ABSENT
        count += len(keys)
    assert count > 9_000 + ITEMS


def test_a_scan_does_not_enumerate_the_keys_before_its_start() -> None:
    registers = PopulationBase(Population(1, 100_000), "rows")
    start, stop = collation_key(("stock", 99_999, 99_990)), collation_key(("stock", 100_000, 3))

    actual = list(registers.keys(start, stop, False))

    assert len(actual) == 13
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
def test_unknown_keys_are_absent(layout: str, key: Key) -> None:
    assert base(layout).read(key) is ABSENT


def test_layout_rows_has_one_register_per_row() -> None:
    registers = base("rows")
    for table, key in EXAMPLES:
        assert registers.read((table, *key)) == getattr(population(), table)(*key)
    assert registers.read(("w_ytd", 1)) is ABSENT


def test_layout_fine_has_one_register_for_fixed_columns_and_one_per_other_column() -> None:
    registers = base("fine")
    for table, key in EXAMPLES:
        row = getattr(population(), table)(*key)
        schema = TABLES[table]
        fixed = len(schema.fixed)
        assert registers.read((table, *key)) == row[:fixed]
        for column, value in zip(schema.columns[fixed:], row[fixed:], strict=True):
            read = registers.read((column, *key))
            assert read == (ABSENT if value is None else value)


def test_layout_sql_has_one_register_per_row_with_its_key() -> None:
    registers = base("sql")
    for table, key in EXAMPLES:
        row = (*key, *getattr(population(), table)(*key))
        assert registers.read(("sql", table, *key)) == row
        assert registers.read((table, *key)) is ABSENT


@lru_cache(1)
def inserted_registers() -> dict[Key, Any]:
    """Return the registers after SQL statements that insert the rows of one district."""
    datatype = DataType("insertion", sql=True)

    @datatype.operation
    def create(tx: Transaction) -> None:
        for statement in schema_statements():
            tx.sql(statement)

    @datatype.operation
    def insert(tx: Transaction, table: str, rows: Any) -> None:
        marks = ", ".join("?" * len(rows[0]))
        for row in rows:
            tx.sql(f"INSERT INTO {table} VALUES ({marks})", *row)

    machine = datatype.sequential()
    machine.call(create)
    for table in ("customer", "orders"):
        evaluate = getattr(population(), table)
        machine.call(insert, table, [(1, 3, n, *evaluate(1, 3, n)) for n in range(1, 3001)])
    machine.call(insert, "oldest_new_order", [(1, 3, DELIVERED + 1)])
    return dict(machine.state)


def test_layout_sql_has_the_registers_that_insertions_would_write() -> None:
    registers, inserted = base("sql"), inserted_registers()

    for key, value in inserted.items():
        assert registers.read(key) == value
    for prefix in (
        *(("sql", "customer", 1, 3), ("sql", "orders", 1, 3), ("sql", "oldest_new_order", 1, 3)),
        *(("sql.index", "customer", "customers_named", 1, 3),),
        *(("sql.index", "orders", "last_order", 1, 3), ("sql.schema",)),
    ):
        below = [key for key in inserted if key[: len(prefix)] == prefix]  # type: ignore[index]
        expected = sorted(below, key=collation_key)
        assert list(registers.keys(*prefix_range(prefix), False)) == expected
        assert list(registers.keys(*prefix_range(prefix), True)) == expected[::-1]


def test_namesakes_with_equal_first_names_have_separate_index_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registers = base("sql", warehouses=1, seed=5)
    monkeypatch.setattr(registers.population, "namesakes", lambda *_: {"ANN": (4, 9), "BOB": (2,)})
    prefix = ("sql.index", "customer", "customers_named", 1, 1, "BARBARBAR")

    keys = list(registers.keys(*prefix_range(prefix), False))

    assert [key[6:] for key in keys] == [  # type: ignore[index]
        ("ANN", 1, 1, 4),
        ("ANN", 1, 1, 9),
        ("BOB", 1, 1, 2),
    ]
    assert registers.read((*prefix, "ANN", 1, 1, 9)) == (1, 1, 9)
    assert registers.read((*prefix, "ANN", 1, 1, 2)) is ABSENT


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


def test_index_registers_locate_rows() -> None:
    for layout in ("rows", "fine"):
        registers = base(layout)
        assert registers.read(("oldest_new_order", 2, 2)) == 2101
        assert registers.read(("last_order", 2, 2, 77)) == population().last_order(2, 2, 77)
        named = population().customers_named(2, 2, "OUGHTOUGHTOUGHT")
        assert registers.read(("customers_named", 2, 2, "OUGHTOUGHTOUGHT")) == named


def test_the_cache_is_bounded_and_retains_registers_in_use() -> None:
    registers = PopulationBase(population(), "rows", cache_generation_size=100)
    frequent = registers.read(("item", 1))
    random = Random(3)
    for _ in range(2000):
        registers.read(("item", random.randrange(2, ITEMS)))
        assert registers.read(("item", 1)) is frequent
        assert len(registers.young) + len(registers.old) <= 200
    assert len(registers.young) + len(registers.old) > 100


def test_unknown_layouts_are_rejected() -> None:
    for make in (datatype_on_population, PopulationBase):
        with pytest.raises(
            UnknownName, match="unknown layout 'columns': expected one of rows, fine, sql"
        ):
            make(population(), "columns")
