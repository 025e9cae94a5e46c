"""Registers of all layouts, and equal rows through their common interface."""

from typing import Any

import pytest

from creekdb.execution.datatype import DataType
from creekdb.execution.sequential import OperationRaised, Sequential
from creekdb.execution.transaction import Transaction
from creekdb.tpcc.layout import LAYOUTS, TpccTables, register_prefixes
from creekdb.tpcc.schema import ORDERS, S_QUANTITY, S_YTD, STOCK, TABLES

ROW = ("texts", "data", 50, 7, 2, 1)


def sequential_tables(layout: str) -> Sequential:
    """Return a sequential store whose operations use the tables directly."""
    datatype = DataType("tables")
    tables = TpccTables(layout)

    @datatype.operation
    def insert(tx: Transaction, *values: Any) -> None:
        tables.stock.insert(tx, (1, 2), values)

    @datatype.operation
    def order(tx: Transaction, carrier: int | None) -> None:
        tables.orders.insert(tx, (1, 2, 3), (4, 5, 6, 1, carrier))

    @datatype.operation
    def delete(tx: Transaction) -> None:
        tables.stock.delete(tx, 1, 2)

    @datatype.operation
    def update_row(tx: Transaction) -> tuple[Any, ...]:
        row = tables.stock.row(tx, 1, 2)
        row.set(S_QUANTITY, row.get(S_QUANTITY) + 1)
        row.add(S_YTD, 10)
        row.add(S_YTD, 100)
        seen = row.fixed[:2], row.get(S_QUANTITY), row.get(S_YTD)
        row.save()
        return seen

    @datatype.operation
    def read_row(tx: Transaction) -> tuple[Any, ...]:
        row_values = tables.stock.find(tx, 1, 2)
        fixed = None if row_values is None else row_values[:2]
        row = tables.stock.row(tx, 1, 2)
        quantity = tables.stock.value(tx, S_QUANTITY, 1, 2)
        return fixed, tables.stock.pick(tx, (1, 2), 0, 1), quantity, row.get(S_YTD)

    @datatype.operation
    def find(tx: Transaction) -> bool:
        return tables.stock.find(tx, 1, 2) is not None

    return datatype.sequential()


@pytest.mark.parametrize("layout", ["rows", "fine"])
def test_rows_can_be_inserted_updated_and_deleted(layout: str) -> None:
    sequential = sequential_tables(layout)
    sequential.call("insert", *ROW)
    assert sequential.call("read_row") == (("texts", "data"), ("texts", "data"), 50, 7)
    assert sequential.call("update_row") == (("texts", "data"), 51, 117)
    assert sequential.call("read_row") == (("texts", "data"), ("texts", "data"), 51, 117)
    sequential.call("delete")
    assert not sequential.call("find")
    assert sequential.state == {}


@pytest.mark.parametrize("layout", ["rows", "fine"])
def test_access_to_a_missing_row_is_an_error(layout: str) -> None:
    with pytest.raises(OperationRaised, match=r"^LookupError: there is no stock 1, 2$"):
        sequential_tables(layout).call("read_row")


def test_layout_rows_uses_one_register_per_row() -> None:
    sequential = sequential_tables("rows")
    sequential.call("insert", *ROW)
    sequential.call("order", None)

    assert sequential.state == {("stock", 1, 2): ROW, ("orders", 1, 2, 3): (4, 5, 6, 1, None)}


def test_layout_fine_uses_a_register_for_the_fixed_columns_and_one_per_other_column() -> None:
    sequential = sequential_tables("fine")
    sequential.call("insert", *ROW)

    assert sequential.state == {
        ("stock", 1, 2): ("texts", "data"),
        ("s_quantity", 1, 2): 50,
        ("s_ytd", 1, 2): 7,
        ("s_order_cnt", 1, 2): 2,
        ("s_remote_cnt", 1, 2): 1,
    }
    assert STOCK.columns[2:] == ("s_quantity", "s_ytd", "s_order_cnt", "s_remote_cnt")


def test_layout_fine_has_no_register_for_a_null_column() -> None:
    sequential = sequential_tables("fine")
    sequential.call("order", None)
    assert sequential.state == {("orders", 1, 2, 3): (4, 5, 6, 1)}

    sequential.call("order", 9)
    assert sequential.state == {
        ("orders", 1, 2, 3): (4, 5, 6, 1),
        (*ORDERS.mutable, 1, 2, 3): 9,
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_prefixes_of_a_table_cover_all_its_registers(layout: str) -> None:
    prefixes = register_prefixes(layout)
    for schema in TABLES.values():
        split = schema.mutable + schema.sums if layout == "fine" else ()
        names: list[tuple[str, ...]] = [(name,) for name in (schema.name, *split)]
        assert list(prefixes[schema.name]) == ([("sql", schema.name)] if layout == "sql" else names)
