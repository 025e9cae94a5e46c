"""Delivery, following clause 2.7.4."""

import pytest

from creekdb.execution.sequential import OperationRaised
from tests.unit.tpcc.tpcc_database import TpccDatabase


@pytest.fixture(params=["rows", "fine", "sql"])
def database(request: pytest.FixtureRequest) -> TpccDatabase:
    return TpccDatabase(request.param)


def test_the_oldest_new_order_of_every_district_is_delivered(database: TpccDatabase) -> None:
    assert database.call("delivery", 1, 6) == (2101,) * 10
    assert database.call("delivery", 1, 6) == (2102,) * 10
    assert database.call("delivery", 2, 6) == (2101,) * 10


def test_a_delivery_deletes_the_new_order_row_and_sets_the_carrier(database: TpccDatabase) -> None:
    order = database.row("orders", 1, 4, 2101)
    assert order is not None

    database.call("delivery", 1, 6)

    assert database.row("new_order", 1, 4, 2101) is None
    assert database.row("new_order", 1, 4, 2102) == {}
    assert database.row("orders", 1, 4, 2101) == {**order, "o_carrier_id": 6}


def test_a_delivery_dates_the_lines_and_charges_the_customer(database: TpccDatabase) -> None:
    order = database.row("orders", 1, 4, 2101)
    assert order is not None
    c, numbers = order["o_c_id"], range(1, order["o_ol_cnt"] + 1)
    lines = [database.row("order_line", 1, 4, 2101, number) for number in numbers]
    customer = database.row("customer", 1, 4, c)
    assert customer is not None

    database.call("delivery", 1, 6)

    amount = 0
    for number, line in zip(numbers, lines, strict=True):
        assert line is not None
        dated = {**line, "ol_delivery_d": database.now}
        assert database.row("order_line", 1, 4, 2101, number) == dated
        amount += line["ol_amount"]
    assert amount > 0
    charged = {"c_balance": -10_00 + amount, "c_delivery_cnt": 1}
    assert database.row("customer", 1, 4, c) == {**customer, **charged}


def test_a_district_without_a_new_order_is_skipped(database: TpccDatabase) -> None:
    for _ in range(900):
        database.call("delivery", 1, 6)
    before = dict(database.overrides)

    assert database.call("delivery", 1, 6) == (None,) * 10
    assert dict(database.overrides) == before

    database.call("new_order", 1, 4, 77, ((11, 1, 3),))
    assert database.call("delivery", 1, 6) == (None, None, None, 3001, *(None,) * 6)
    assert database.call("delivery", 1, 6) == (None,) * 10


def test_an_unknown_warehouse_is_an_error(database: TpccDatabase) -> None:
    with pytest.raises(OperationRaised, match=r"^LookupError: there is no district 3, 1$"):
        database.call("delivery", 3, 6)
