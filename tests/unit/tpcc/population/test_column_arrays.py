"""Columns contain the rows that the population computes one by one."""

from typing import Any

import pytest

from creekdb.errors import BadValue, UnknownName
from creekdb.tpcc.population import column_arrays
from creekdb.tpcc.schema import CUSTOMERS, DISTRICTS, ITEMS, TABLES
from tests.unit.tpcc.tpcc_database import population


def rows(table: str, start: int, stop: int) -> list[tuple[Any, ...]]:
    columns = column_arrays.compute_columns(population(), table, start, stop)
    assert list(columns) == [*TABLES[table].key, *TABLES[table].columns]
    return list(zip(*(decoded(each) for each in columns.values()), strict=True))


def decoded(column: Any) -> list[Any]:
    return [each.decode() if isinstance(each, bytes) else each for each in column.tolist()]


@pytest.mark.parametrize("table", TABLES)
def test_columns_contain_the_same_values_as_rows(table: str) -> None:
    keys = len(TABLES[table].key)
    count = column_arrays.unit_count(population(), table)
    # The start, the end, and the boundaries of districts and warehouses.
    starts = {0, count // 2 - 500, count // 4 - 100, 2 * CUSTOMERS + 50, count - 1500}
    for start in sorted(starts):
        if not 0 <= start < count:
            continue
        actual = rows(table, start, min(start + 1500, count))
        assert actual
        for row in actual:
            assert getattr(population(), table)(*row[:keys]) == row[keys:]


@pytest.mark.parametrize(
    ("table", "count"),
    [
        ("warehouse", 2),
        ("district", 2 * DISTRICTS),
        ("customer", 2 * 30_000),
        ("history", 2 * 30_000),
        ("new_order", 2 * 9_000),
        ("orders", 2 * 30_000),
        ("item", ITEMS),
        ("stock", 2 * ITEMS),
    ],
)
def test_cardinalities_are_those_of_clause_1_2_1(table: str, count: int) -> None:
    assert column_arrays.unit_count(population(), table) == count
    keys = TABLES[table].key
    columns = column_arrays.compute_columns(population(), table, 0, count)
    actual = set(zip(*(columns[key].tolist() for key in keys), strict=True))
    assert len(actual) == count


def test_order_lines_are_complete_and_in_key_order() -> None:
    lines = column_arrays.compute_columns(population(), "order_line", 0, 6000)
    orders = column_arrays.compute_columns(population(), "orders", 0, 6000)
    keys = [
        (w, d, o, n)
        for w, d, o, count in zip(
            *(orders[name].tolist() for name in ("o_w_id", "o_d_id", "o_id", "o_ol_cnt")),
            strict=True,
        )
        for n in range(1, count + 1)
    ]
    assert (
        list(zip(*(lines[key].tolist() for key in TABLES["order_line"].key), strict=True)) == keys
    )


def test_sections_concatenate_to_the_whole_table() -> None:
    whole = rows("orders", 0, 7000)

    assert (
        rows("orders", 0, 2500) + rows("orders", 2500, 6001) + rows("orders", 6001, 7000) == whole
    )
    assert rows("orders", 100, 100) == []
    assert rows("order_line", 100, 100) == []


def test_unknown_units_and_tables_are_rejected() -> None:
    with pytest.raises(BadValue, match="item has no units from 0 to 100001"):
        column_arrays.compute_columns(population(), "item", 0, ITEMS + 1)
    with pytest.raises(UnknownName, match="unknown table 'items'"):
        column_arrays.unit_count(population(), "items")
