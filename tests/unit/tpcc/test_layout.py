"""Which registers are touched, and that rows look the same in both layouts."""

from typing import Any

import pytest

from creekdb.execution.datatype import DataType
from creekdb.execution.sequential import OperationRaised, Sequential
from creekdb.execution.transaction import Transaction
from creekdb.tpcc.layout import TableRow, TpccTables
from creekdb.tpcc.schema import ORDERS, S_QUANTITY, S_YTD, STOCK

ROW = ("texts", "data", 50, 7, 2, 1)


def used(layout: str) -> Sequential:
    """A machine with operations that use the tables directly."""
    declared = DataType("tables")
    tables = TpccTables(layout)

    @declared.operation
    def insert(tx: Transaction, *values: Any) -> None:
        tables.stock.insert(tx, (1, 2), values)

    @declared.operation
    def order(tx: Transaction, carrier: int | None) -> None:
        tables.orders.insert(tx, (1, 2, 3), (4, 5, 6, 1, carrier))

    @declared.operation
    def delete(tx: Transaction) -> None:
        tables.stock.delete(tx, 1, 2)

    @declared.operation
    def change(tx: Transaction) -> tuple[Any, ...]:
        row: TableRow = tables.stock.row(tx, 1, 2)
        row.set(S_QUANTITY, row.get(S_QUANTITY) + 1)
        row.add(S_YTD, 10)
        row.add(S_YTD, 100)
        seen = row.fixed[:2], row.get(S_QUANTITY), row.get(S_YTD)
        row.save()
        return seen

    @declared.operation
    def look(tx: Transaction) -> tuple[Any, ...]:
        found = tables.stock.find(tx, 1, 2)
        fixed = None if found is None else found[:2]
        row = tables.stock.row(tx, 1, 2)
        quantity = tables.stock.value(tx, S_QUANTITY, 1, 2)
        return fixed, tables.stock.pick(tx, (1, 2), 0, 1), quantity, row.get(S_YTD)

    @declared.operation
    def find(tx: Transaction) -> bool:
        return tables.stock.find(tx, 1, 2) is not None

    return declared.sequential()


@pytest.mark.parametrize("layout", ["rows", "fine"])
def test_a_row_is_inserted_changed_and_deleted(layout: str) -> None:
    machine = used(layout)
    machine.call("insert", *ROW)
    assert machine.call("look") == (("texts", "data"), ("texts", "data"), 50, 7)
    assert machine.call("change") == (("texts", "data"), 51, 117)
    assert machine.call("look") == (("texts", "data"), ("texts", "data"), 51, 117)
    machine.call("delete")
    assert not machine.call("find")
    assert machine.state == {}


@pytest.mark.parametrize("layout", ["rows", "fine"])
def test_a_row_that_is_not_there_is_an_error(layout: str) -> None:
    with pytest.raises(OperationRaised, match=r"^LookupError: there is no stock 1, 2$"):
        used(layout).call("look")


def test_rows_is_a_register_per_row() -> None:
    machine = used("rows")
    machine.call("insert", *ROW)
    machine.call("order", None)

    assert machine.state == {("stock", 1, 2): ROW, ("orders", 1, 2, 3): (4, 5, 6, 1, None)}


def test_fine_is_a_register_for_the_fixed_columns_and_one_for_each_other() -> None:
    machine = used("fine")
    machine.call("insert", *ROW)

    assert machine.state == {
        ("stock", 1, 2): ("texts", "data"),
        ("s_quantity", 1, 2): 50,
        ("s_ytd", 1, 2): 7,
        ("s_order_cnt", 1, 2): 2,
        ("s_remote_cnt", 1, 2): 1,
    }
    assert STOCK.columns[2:] == ("s_quantity", "s_ytd", "s_order_cnt", "s_remote_cnt")


def test_fine_has_no_register_for_a_column_that_is_none() -> None:
    machine = used("fine")
    machine.call("order", None)
    assert machine.state == {("orders", 1, 2, 3): (4, 5, 6, 1)}

    machine.call("order", 9)
    assert machine.state == {
        ("orders", 1, 2, 3): (4, 5, 6, 1),
        (*ORDERS.mutable, 1, 2, 3): 9,
    }
