"""New-Order, by the sentences of clause 2.4.2."""

from typing import Any

import pytest

from creekdb.execution.sequential import OperationRaised
from tests.unit.tpcc.terminal import Terminal

UNUSED = 100_001


@pytest.fixture(params=["rows", "fine"])
def terminal(request: pytest.FixtureRequest) -> Terminal:
    return Terminal(request.param)


def lines(*items: tuple[int, int, int]) -> tuple[tuple[int, int, int], ...]:
    return items


ORDER = lines((11, 1, 3), (22, 1, 10), (33, 2, 1), (44, 1, 5), (55, 1, 2))


def test_the_order_and_its_row_in_new_order_are_inserted(terminal: Terminal) -> None:
    answer = terminal.call("new_order", 1, 4, 77, ORDER)

    assert answer[:2] == (3001, terminal.now)
    assert terminal.row("orders", 1, 4, 3001) == {
        "o_c_id": 77,
        "o_entry_d": terminal.now,
        "o_ol_cnt": 5,
        "o_all_local": 0,
        "o_carrier_id": None,
    }
    assert terminal.row("new_order", 1, 4, 3001) == {}


def test_an_order_from_the_home_warehouse_only_is_all_local(terminal: Terminal) -> None:
    terminal.call("new_order", 1, 4, 77, lines((11, 1, 3), (22, 1, 10)))

    assert terminal.column("o_all_local", "orders", 1, 4, 3001) == 1


def test_d_next_o_id_is_incremented_and_nothing_else_of_the_district(terminal: Terminal) -> None:
    before = terminal.row("district", 1, 4)
    assert before is not None
    terminal.call("new_order", 1, 4, 77, ORDER)

    assert terminal.row("district", 1, 4) == {**before, "d_next_o_id": 3002}
    assert terminal.call("new_order", 1, 4, 78, ORDER)[0] == 3002
    assert terminal.call("new_order", 1, 5, 78, ORDER)[0] == 3001


def test_each_line_is_inserted_with_the_district_text_of_the_stock(terminal: Terminal) -> None:
    answer = terminal.call("new_order", 1, 4, 77, ORDER)

    for number, (i, supplier, quantity) in enumerate(ORDER, 1):
        price = terminal.column("i_price", "item", i)
        text = terminal.column("s_dist", "stock", supplier, i)
        assert terminal.row("order_line", 1, 4, 3001, number) == {
            "ol_i_id": i,
            "ol_supply_w_id": supplier,
            "ol_quantity": quantity,
            "ol_amount": quantity * price,
            "ol_dist_info": text[72:96],
            "ol_delivery_d": None,
        }
        name, _, _, price_told, amount = answer[7 + number]
        assert name == terminal.column("i_name", "item", i)
        assert (price_told, amount) == (price, quantity * price)


@pytest.mark.parametrize(
    ("in_stock", "quantity", "left"),
    [
        (50, 5, 45),
        (20, 10, 10),
        (19, 10, 100),
        (15, 5, 10),
        (14, 5, 100),
        (10, 10, 91),
        (10, 1, 100),
    ],
)
def test_stock_that_gets_low_is_filled_up(
    terminal: Terminal, in_stock: int, quantity: int, left: int
) -> None:
    """Clause 2.4.2.2: if S_QUANTITY exceeds OL_QUANTITY by 10 or more it is decreased by it, else
    also increased by 91."""
    terminal.set("s_quantity", in_stock, "stock", 1, 11)

    answer = terminal.call("new_order", 1, 1, 1, lines((11, 1, quantity)))

    assert answer[8][1] == left
    assert terminal.column("s_quantity", "stock", 1, 11) == left


def test_the_stock_counts_what_was_ordered_and_how_often_from_afar(terminal: Terminal) -> None:
    terminal.call("new_order", 1, 4, 77, lines((11, 1, 3), (11, 2, 4), (11, 1, 6)))
    home, remote = terminal.row("stock", 1, 11), terminal.row("stock", 2, 11)
    assert home is not None
    assert remote is not None

    assert [home[name] for name in ("s_ytd", "s_order_cnt", "s_remote_cnt")] == [9, 2, 0]
    assert [remote[name] for name in ("s_ytd", "s_order_cnt", "s_remote_cnt")] == [4, 1, 1]


def test_brand_if_item_and_stock_are_original_else_generic(terminal: Terminal) -> None:
    for item, stock, brand in (
        ("xxORIGINALxx", "ORIGINALyyyy", "B"),
        ("xxORIGINALxx", "yyyyyyyyyyyy", "G"),
        ("xxxxxxxxxxxx", "ORIGINALyyyy", "G"),
        ("xxxxxxxxxxxx", "yyyyyyyyyyyy", "G"),
    ):
        terminal.set("i_data", item, "item", 11)
        terminal.set("s_data", stock, "stock", 1, 11)
        assert terminal.call("new_order", 1, 4, 77, lines((11, 1, 3)))[8][2] == brand


def test_the_total_takes_off_the_discount_and_adds_both_taxes(terminal: Terminal) -> None:
    terminal.set("c_discount", 1000, "customer", 1, 4, 77)  # 10 %
    terminal.set("w_tax", 500, "warehouse", 1)  # 5 %
    terminal.set("d_tax", 1500, "district", 1, 4)  # 15 %
    terminal.set("i_price", 20_00, "item", 11)
    terminal.set("i_price", 1_01, "item", 22)

    answer = terminal.call("new_order", 1, 4, 77, lines((11, 1, 3), (22, 1, 1)))

    # 61.01 × 0.9 × 1.2 = 65.8908
    assert answer[2:8] == (
        terminal.column("c_last", "customer", 1, 4, 77),
        terminal.column("c_credit", "customer", 1, 4, 77),
        *(1000, 500, 1500, 65_89),
    )


def test_an_unused_item_rolls_the_whole_order_back(terminal: Terminal) -> None:
    """Clause 2.4.2.3; the message is that of clause 2.4.3.6."""
    with pytest.raises(OperationRaised, match=r"^UnusedItem: Item number is not valid$"):
        terminal.call("new_order", 1, 4, 77, (*ORDER, (UNUSED, 1, 1)))

    assert terminal.state.overrides == {}
    assert terminal.call("new_order", 1, 4, 77, ORDER)[0] == 3001


def test_it_is_the_customers_last_order_from_then_on(terminal: Terminal) -> None:
    terminal.call("new_order", 1, 4, 77, ORDER)

    assert terminal.call("order_status", 1, 4, 77)[5] == 3001


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((3, 1, 1, ORDER), "LookupError: there is no warehouse 3"),
        ((1, 11, 1, ORDER), "LookupError: there is no district 1, 11"),
        ((1, 1, 3001, ORDER), "LookupError: there is no customer 1, 1, 3001"),
        ((1, 1, 1, ((11, 3, 1),)), "LookupError: there is no stock 3, 11"),
    ],
)
def test_what_does_not_exist_is_an_error(
    terminal: Terminal, arguments: tuple[Any, ...], error: str
) -> None:
    with pytest.raises(OperationRaised) as raised:
        terminal.call("new_order", *arguments)

    assert str(raised.value) == error
    assert terminal.state.overrides == {}
