"""Order-Status and Stock-Level, by the sentences of clauses 2.6.2 and 2.8.2."""

import pytest

from creekdb.execution.sequential import OperationRaised
from creekdb.tpcc import tpcc_datatype
from tests.unit.tpcc.terminal import Terminal


@pytest.fixture(params=["rows", "fine"])
def terminal(request: pytest.FixtureRequest) -> Terminal:
    return Terminal(request.param)


@pytest.mark.parametrize("layout", ["rows", "fine"])
def test_the_two_queries_are_read_only_and_the_others_are_not(layout: str) -> None:
    declared = tpcc_datatype(layout)
    readonly = {name for name in declared.operations if declared.is_readonly(name)}

    assert declared.name == f"tpcc-{layout}"
    assert readonly == {"order_status", "stock_level"}
    assert {*declared.operations} - readonly == {"delivery", "new_order", "payment", "noop"}


def test_order_status_of_an_order_that_was_delivered_before_the_beginning(
    terminal: Terminal,
) -> None:
    order = terminal.row("orders", 1, 4, 1000)
    assert order is not None
    c = order["o_c_id"]

    answer = terminal.call("order_status", 1, 4, c)

    customer = terminal.row("customer", 1, 4, c)
    assert customer is not None
    assert answer[:5] == (c, customer["c_first"], "OE", customer["c_last"], -10_00)
    assert answer[5:8] == (1000, 0, order["o_carrier_id"])
    assert len(answer) == 8 + order["o_ol_cnt"]
    for number, line in enumerate(answer[8:], 1):
        item = terminal.column("ol_i_id", "order_line", 1, 4, 1000, number)
        assert line == (item, 1, 5, 0, 0)


def test_order_status_of_the_newest_order_before_and_after_its_delivery(
    terminal: Terminal,
) -> None:
    terminal.call("new_order", 1, 4, 77, ((11, 1, 3), (22, 2, 10)))
    ordered = terminal.now
    before = terminal.call("order_status", 1, 4, 77)
    for _ in range(901):
        terminal.call("delivery", 1, 6)
    after = terminal.call("order_status", 1, 4, 77)

    prices = [terminal.column("i_price", "item", i) for i in (11, 22)]
    assert before[5:] == (3001, ordered, None, (11, 1, 3, 3 * prices[0], None), before[9])
    assert before[9] == (22, 2, 10, 10 * prices[1], None)
    delivered = terminal.now - 1
    assert after[5:8] == (3001, ordered, 6)
    assert [line[4] for line in after[8:]] == [delivered, delivered]


def test_order_status_by_last_name_is_that_of_the_customer_in_the_middle(
    terminal: Terminal,
) -> None:
    namesakes = terminal.population.customers_named(1, 4, "PRICALLYOUGHT")
    middle = namesakes[-(-len(namesakes) // 2) - 1]

    by_name = terminal.call("order_status", 1, 4, "PRICALLYOUGHT")
    assert by_name == terminal.call("order_status", 1, 4, middle)


def test_stock_level_counts_distinct_items_of_the_last_twenty_orders(terminal: Terminal) -> None:
    for number in range(21):
        item = 100 + number // 2  # each but the first and the last is ordered twice
        terminal.call("new_order", 1, 4, 77, ((item, 1, 1),))
    for i in range(100, 111):
        terminal.set("s_quantity", i - 90, "stock", 1, i)

    # The order of 100 that is older than twenty orders does not matter: there is another one.
    assert terminal.call("stock_level", 1, 4, 10) == 0
    assert terminal.call("stock_level", 1, 4, 11) == 1
    assert terminal.call("stock_level", 1, 4, 15) == 5
    assert terminal.call("stock_level", 1, 4, 21) == 11


def test_stock_level_does_not_look_further_back(terminal: Terminal) -> None:
    terminal.call("new_order", 1, 4, 77, ((500, 1, 1),))
    for _ in range(19):
        terminal.call("new_order", 1, 4, 77, ((501, 1, 1),))
    terminal.set("s_quantity", 9, "stock", 1, 500)
    terminal.set("s_quantity", 50, "stock", 1, 501)

    assert terminal.call("stock_level", 1, 4, 10) == 1
    terminal.call("new_order", 1, 4, 77, ((501, 1, 1),))
    assert terminal.call("stock_level", 1, 4, 10) == 0


def test_stock_level_looks_at_the_stock_of_the_home_warehouse(terminal: Terminal) -> None:
    for _ in range(20):
        terminal.call("new_order", 1, 4, 77, ((500, 2, 1),))
    terminal.set("s_quantity", 9, "stock", 2, 500)
    terminal.set("s_quantity", 50, "stock", 1, 500)

    assert terminal.call("stock_level", 1, 4, 10) == 0


def test_what_does_not_exist_is_an_error(terminal: Terminal) -> None:
    with pytest.raises(OperationRaised, match="there is no district 1, 11"):
        terminal.call("stock_level", 1, 11, 15)
    with pytest.raises(OperationRaised, match="there is no customer 1, 1, 3001"):
        terminal.call("order_status", 1, 1, 3001)
