"""Delivery, by the sentences of clause 2.7.4."""

import pytest

from creekdb.execution.sequential import OperationRaised
from tests.unit.tpcc.terminal import Terminal


@pytest.fixture(params=["rows", "fine"])
def terminal(request: pytest.FixtureRequest) -> Terminal:
    return Terminal(request.param)


def test_the_oldest_new_order_of_every_district_is_delivered(terminal: Terminal) -> None:
    assert terminal.call("delivery", 1, 6) == (2101,) * 10
    assert terminal.call("delivery", 1, 6) == (2102,) * 10
    assert terminal.call("delivery", 2, 6) == (2101,) * 10


def test_its_row_in_new_order_is_gone_and_the_order_has_a_carrier(terminal: Terminal) -> None:
    order = terminal.row("orders", 1, 4, 2101)
    assert order is not None

    terminal.call("delivery", 1, 6)

    assert terminal.row("new_order", 1, 4, 2101) is None
    assert terminal.row("new_order", 1, 4, 2102) == {}
    assert terminal.row("orders", 1, 4, 2101) == {**order, "o_carrier_id": 6}


def test_its_lines_have_the_date_and_the_customer_owes_their_amount(terminal: Terminal) -> None:
    order = terminal.row("orders", 1, 4, 2101)
    assert order is not None
    c, numbers = order["o_c_id"], range(1, order["o_ol_cnt"] + 1)
    lines = [terminal.row("order_line", 1, 4, 2101, number) for number in numbers]
    customer = terminal.row("customer", 1, 4, c)
    assert customer is not None

    terminal.call("delivery", 1, 6)

    amount = 0
    for number, line in zip(numbers, lines, strict=True):
        assert line is not None
        dated = {**line, "ol_delivery_d": terminal.now}
        assert terminal.row("order_line", 1, 4, 2101, number) == dated
        amount += line["ol_amount"]
    assert amount > 0
    owing = {"c_balance": -10_00 + amount, "c_delivery_cnt": 1}
    assert terminal.row("customer", 1, 4, c) == {**customer, **owing}


def test_a_district_without_a_new_order_is_skipped(terminal: Terminal) -> None:
    for _ in range(900):
        terminal.call("delivery", 1, 6)
    before = dict(terminal.state.overrides)

    assert terminal.call("delivery", 1, 6) == (None,) * 10
    assert dict(terminal.state.overrides) == before

    terminal.call("new_order", 1, 4, 77, ((11, 1, 3),))
    assert terminal.call("delivery", 1, 6) == (None, None, None, 3001, *(None,) * 6)
    assert terminal.call("delivery", 1, 6) == (None,) * 10


def test_a_warehouse_that_does_not_exist_is_an_error(terminal: Terminal) -> None:
    with pytest.raises(OperationRaised, match=r"^LookupError: there is no district 3, 1$"):
        terminal.call("delivery", 3, 6)
