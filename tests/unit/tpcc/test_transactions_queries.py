"""Order-Status and Stock-Level, following clauses 2.6.2 and 2.8.2."""

import pytest

from creekdb.execution.sequential import OperationRaised
from tests.unit.tpcc.tpcc_database import SEED, TpccDatabase


@pytest.fixture(params=["rows", "fine", "sql"])
def database(request: pytest.FixtureRequest) -> TpccDatabase:
    return TpccDatabase(request.param)


@pytest.mark.parametrize("layout", ["rows", "fine", "sql"])
def test_only_the_two_queries_are_read_only(layout: str) -> None:
    datatype = TpccDatabase(layout).datatype
    readonly = {name for name in datatype.operations if datatype.is_readonly(name)}

    assert datatype.name == f"tpcc-{layout}-2-{SEED}"
    assert readonly == {"order_status", "stock_level"}
    assert {*datatype.operations} - readonly == {"delivery", "new_order", "payment", "noop"}


def test_order_status_of_an_initially_delivered_order(
    database: TpccDatabase,
) -> None:
    order = database.row("orders", 1, 4, 1000)
    assert order is not None
    c = order["o_c_id"]

    response = database.call("order_status", 1, 4, c)

    customer = database.row("customer", 1, 4, c)
    assert customer is not None
    assert response[:5] == (c, customer["c_first"], "OE", customer["c_last"], -10_00)
    assert response[5:8] == (1000, 0, order["o_carrier_id"])
    assert len(response) == 8 + order["o_ol_cnt"]
    for number, line in enumerate(response[8:], 1):
        item = database.column("ol_i_id", "order_line", 1, 4, 1000, number)
        assert line == (item, 1, 5, 0, 0)


def test_order_status_before_and_after_delivery(
    database: TpccDatabase,
) -> None:
    database.call("new_order", 1, 4, 77, ((11, 1, 3), (22, 2, 10)))
    ordered = database.now
    before = database.call("order_status", 1, 4, 77)
    for _ in range(901):
        database.call("delivery", 1, 6)
    after = database.call("order_status", 1, 4, 77)

    prices = [database.column("i_price", "item", i) for i in (11, 22)]
    assert before[5:] == (3001, ordered, None, (11, 1, 3, 3 * prices[0], None), before[9])
    assert before[9] == (22, 2, 10, 10 * prices[1], None)
    delivered = database.now - 1
    assert after[5:8] == (3001, ordered, 6)
    assert [line[4] for line in after[8:]] == [delivered, delivered]


def test_order_status_by_last_name_selects_the_middle_customer(
    database: TpccDatabase,
) -> None:
    namesakes = database.population.customers_named(1, 4, "PRICALLYOUGHT")
    middle = namesakes[-(-len(namesakes) // 2) - 1]

    by_name = database.call("order_status", 1, 4, "PRICALLYOUGHT")
    assert by_name == database.call("order_status", 1, 4, middle)


def test_stock_level_counts_distinct_items_of_the_last_twenty_orders(
    database: TpccDatabase,
) -> None:
    for number in range(21):
        item = 100 + number // 2  # all items except the last are ordered twice
        database.call("new_order", 1, 4, 77, ((item, 1, 1),))
    for i in range(100, 111):
        database.set("s_quantity", i - 90, "stock", 1, i)

    # Item 100 counts: only one of its two orders is older than the last twenty.
    assert database.call("stock_level", 1, 4, 10) == 0
    assert database.call("stock_level", 1, 4, 11) == 1
    assert database.call("stock_level", 1, 4, 15) == 5
    assert database.call("stock_level", 1, 4, 21) == 11


def test_stock_level_ignores_older_orders(database: TpccDatabase) -> None:
    database.call("new_order", 1, 4, 77, ((500, 1, 1),))
    for _ in range(19):
        database.call("new_order", 1, 4, 77, ((501, 1, 1),))
    database.set("s_quantity", 9, "stock", 1, 500)
    database.set("s_quantity", 50, "stock", 1, 501)

    assert database.call("stock_level", 1, 4, 10) == 1
    database.call("new_order", 1, 4, 77, ((501, 1, 1),))
    assert database.call("stock_level", 1, 4, 10) == 0


def test_stock_level_uses_the_stock_of_the_home_warehouse(database: TpccDatabase) -> None:
    for _ in range(20):
        database.call("new_order", 1, 4, 77, ((500, 2, 1),))
    database.set("s_quantity", 9, "stock", 2, 500)
    database.set("s_quantity", 50, "stock", 1, 500)

    assert database.call("stock_level", 1, 4, 10) == 0


def test_unknown_rows_are_errors(database: TpccDatabase) -> None:
    with pytest.raises(OperationRaised, match="there is no district 1, 11"):
        database.call("stock_level", 1, 11, 15)
    with pytest.raises(OperationRaised, match="there is no customer 1, 1, 3001"):
        database.call("order_status", 1, 1, 3001)
