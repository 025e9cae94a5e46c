"""New-Order, following clause 2.4.2."""

from typing import Any

import pytest

from creekdb.execution.sequential import OperationRaised
from tests.unit.tpcc.tpcc_database import TpccDatabase

UNUSED = 100_001


@pytest.fixture(params=["rows", "fine", "sql"])
def database(request: pytest.FixtureRequest) -> TpccDatabase:
    return TpccDatabase(request.param)


def lines(*items: tuple[int, int, int]) -> tuple[tuple[int, int, int], ...]:
    return items


ORDER = lines((11, 1, 3), (22, 1, 10), (33, 2, 1), (44, 1, 5), (55, 1, 2))


def test_rows_of_orders_and_new_order_are_inserted(database: TpccDatabase) -> None:
    response = database.call("new_order", 1, 4, 77, ORDER)

    assert response[:2] == (3001, database.now)
    assert database.row("orders", 1, 4, 3001) == {
        "o_c_id": 77,
        "o_entry_d": database.now,
        "o_ol_cnt": 5,
        "o_all_local": 0,
        "o_carrier_id": None,
    }
    assert database.row("new_order", 1, 4, 3001) == {}


def test_an_order_supplied_by_the_home_warehouse_is_all_local(database: TpccDatabase) -> None:
    database.call("new_order", 1, 4, 77, lines((11, 1, 3), (22, 1, 10)))

    assert database.column("o_all_local", "orders", 1, 4, 3001) == 1


def test_only_d_next_o_id_of_the_district_changes(database: TpccDatabase) -> None:
    before = database.row("district", 1, 4)
    assert before is not None
    database.call("new_order", 1, 4, 77, ORDER)

    assert database.row("district", 1, 4) == {**before, "d_next_o_id": 3002}
    assert database.call("new_order", 1, 4, 78, ORDER)[0] == 3002
    assert database.call("new_order", 1, 5, 78, ORDER)[0] == 3001


def test_order_lines_contain_the_district_text_of_the_stock(database: TpccDatabase) -> None:
    response = database.call("new_order", 1, 4, 77, ORDER)

    for number, (i, supplier, quantity) in enumerate(ORDER, 1):
        price = database.column("i_price", "item", i)
        text = database.column("s_dist", "stock", supplier, i)
        assert database.row("order_line", 1, 4, 3001, number) == {
            "ol_i_id": i,
            "ol_supply_w_id": supplier,
            "ol_quantity": quantity,
            "ol_amount": quantity * price,
            "ol_dist_info": text[72:96],
            "ol_delivery_d": None,
        }
        name, _, _, response_price, amount = response[7 + number]
        assert name == database.column("i_name", "item", i)
        assert (response_price, amount) == (price, quantity * price)


@pytest.mark.parametrize(
    ("in_stock", "quantity", "remaining"),
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
def test_low_stock_is_refilled(
    database: TpccDatabase, in_stock: int, quantity: int, remaining: int
) -> None:
    """Clause 2.4.2.2: S_QUANTITY decreases by OL_QUANTITY; if less than 10 would remain, it also
    increases by 91."""
    database.set("s_quantity", in_stock, "stock", 1, 11)

    response = database.call("new_order", 1, 1, 1, lines((11, 1, quantity)))

    assert response[8][1] == remaining
    assert database.column("s_quantity", "stock", 1, 11) == remaining


def test_the_stock_counts_quantities_orders_and_remote_orders(database: TpccDatabase) -> None:
    database.call("new_order", 1, 4, 77, lines((11, 1, 3), (11, 2, 4), (11, 1, 6)))
    home, remote = database.row("stock", 1, 11), database.row("stock", 2, 11)
    assert home is not None
    assert remote is not None

    assert [home[name] for name in ("s_ytd", "s_order_cnt", "s_remote_cnt")] == [9, 2, 0]
    assert [remote[name] for name in ("s_ytd", "s_order_cnt", "s_remote_cnt")] == [4, 1, 1]


def test_an_item_is_a_brand_if_item_and_stock_are_original(database: TpccDatabase) -> None:
    for item, stock, brand in (
        ("xxORIGINALxx", "ORIGINALyyyy", "B"),
        ("xxORIGINALxx", "yyyyyyyyyyyy", "G"),
        ("xxxxxxxxxxxx", "ORIGINALyyyy", "G"),
        ("xxxxxxxxxxxx", "yyyyyyyyyyyy", "G"),
    ):
        database.set("i_data", item, "item", 11)
        database.set("s_data", stock, "stock", 1, 11)
        assert database.call("new_order", 1, 4, 77, lines((11, 1, 3)))[8][2] == brand


def test_the_total_includes_the_discount_and_both_taxes(database: TpccDatabase) -> None:
    database.set("c_discount", 1000, "customer", 1, 4, 77)  # 10 %
    database.set("w_tax", 500, "warehouse", 1)  # 5 %
    database.set("d_tax", 1500, "district", 1, 4)  # 15 %
    database.set("i_price", 20_00, "item", 11)
    database.set("i_price", 1_01, "item", 22)

    response = database.call("new_order", 1, 4, 77, lines((11, 1, 3), (22, 1, 1)))

    # 61.01 × 0.9 × 1.2 = 65.8908
    assert response[2:8] == (
        database.column("c_last", "customer", 1, 4, 77),
        database.column("c_credit", "customer", 1, 4, 77),
        *(1000, 500, 1500, 65_89),
    )


@pytest.mark.parametrize(("price", "total"), [(1_06, 1_14), (1_07, 1_16)])
def test_the_total_is_rounded_to_the_nearest_cent(
    database: TpccDatabase, price: int, total: int
) -> None:
    """1.06 × 1.08 = 1.1448, and 1.07 × 1.08 = 1.1556."""
    database.set("c_discount", 1000, "customer", 1, 4, 77)
    database.set("w_tax", 500, "warehouse", 1)
    database.set("d_tax", 1500, "district", 1, 4)
    database.set("i_price", price, "item", 11)

    assert database.call("new_order", 1, 4, 77, lines((11, 1, 1)))[7] == total


def test_an_unused_item_rolls_back_the_transaction(database: TpccDatabase) -> None:
    """Clause 2.4.2.3; the message is that of clause 2.4.3.6."""
    with pytest.raises(OperationRaised, match=r"^UnusedItem: Item number is not valid$"):
        database.call("new_order", 1, 4, 77, (*ORDER, (UNUSED, 1, 1)))

    assert database.overrides == {}
    assert database.call("new_order", 1, 4, 77, ORDER)[0] == 3001


def test_a_new_order_becomes_the_customers_last_order(database: TpccDatabase) -> None:
    database.call("new_order", 1, 4, 77, ORDER)

    assert database.call("order_status", 1, 4, 77)[5] == 3001


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((3, 1, 1, ORDER), "LookupError: there is no warehouse 3"),
        ((1, 11, 1, ORDER), "LookupError: there is no district 1, 11"),
        ((1, 1, 3001, ORDER), "LookupError: there is no customer 1, 1, 3001"),
        ((1, 1, 1, ((11, 3, 1),)), "LookupError: there is no stock 3, 11"),
    ],
)
def test_unknown_rows_are_errors(
    database: TpccDatabase, arguments: tuple[Any, ...], error: str
) -> None:
    with pytest.raises(OperationRaised) as raised:
        database.call("new_order", *arguments)

    assert str(raised.value) == error
    assert database.overrides == {}
