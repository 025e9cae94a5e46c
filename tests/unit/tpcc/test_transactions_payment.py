"""Payment, following clause 2.5.2."""

from typing import Any

import pytest

from creekdb.execution.sequential import OperationRaised
from creekdb.tpcc.population.random_values import LAST_NAMES
from creekdb.tpcc.schema import CUSTOMERS
from tests.unit.tpcc.tpcc_database import TpccDatabase


@pytest.fixture(params=["rows", "fine", "sql"])
def database(request: pytest.FixtureRequest) -> TpccDatabase:
    return TpccDatabase(request.param)


def customer_with_credit(database: TpccDatabase, credit: str) -> int:
    """Return a customer of warehouse 1, district 4, with that credit."""
    return next(
        c
        for c in range(1, CUSTOMERS + 1)
        if database.column("c_credit", "customer", 1, 4, c) == credit
    )


def test_the_sums_of_warehouse_and_district_increase(database: TpccDatabase) -> None:
    warehouse, district = database.row("warehouse", 1), database.row("district", 1, 4)
    assert warehouse is not None
    assert district is not None

    database.call("payment", 1, 4, 1, 4, 77, 123_45)

    assert database.row("warehouse", 1) == {**warehouse, "w_ytd": 300_123_45}
    assert database.row("district", 1, 4) == {**district, "d_ytd": 30_123_45}


def test_the_customers_balance_and_counters_change(database: TpccDatabase) -> None:
    c = customer_with_credit(database, "GC")
    before = database.row("customer", 1, 4, c)
    assert before is not None

    response = database.call("payment", 1, 4, 1, 4, c, 123_45)

    after = {"c_balance": -133_45, "c_ytd_payment": 133_45, "c_payment_cnt": 2}
    assert database.row("customer", 1, 4, c) == {**before, **after}
    assert response[-2:] == (-133_45, None)


def test_a_payment_with_bad_credit_is_prepended_to_c_data(database: TpccDatabase) -> None:
    c = customer_with_credit(database, "BC")
    database.set("c_data", "before", "customer", 1, 4, c)

    response = database.call("payment", 2, 9, 1, 4, c, 1234_05)

    assert database.column("c_data", "customer", 1, 4, c) == f"{c} 4 1 9 2 1234.05 before"
    assert response[-1] == f"{c} 4 1 9 2 1234.05 before"


def test_c_data_is_cut_at_500_characters_and_200_in_the_response(database: TpccDatabase) -> None:
    c = customer_with_credit(database, "BC")
    database.set("c_data", "0123456789" * 50, "customer", 1, 4, c)

    response = database.call("payment", 1, 4, 1, 4, c, 1_00)

    entry = f"{c} 4 1 4 1 1.00 "
    assert database.column("c_data", "customer", 1, 4, c) == (entry + "0123456789" * 50)[:500]
    assert response[-1] == (entry + "0123456789" * 50)[:200]


def test_a_payment_inserts_a_history_row(database: TpccDatabase) -> None:
    database.call("payment", 1, 4, 2, 9, 77, 5_00)
    first = database.now
    database.call("payment", 1, 4, 2, 9, 77, 6_00)

    names = database.column("w_name", "warehouse", 1), database.column("d_name", "district", 1, 4)
    row = {"h_w_id": 1, "h_d_id": 4, "h_data": "    ".join(names)}
    assert database.row("history", 2, 9, 77, 2) == {**row, "h_date": first, "h_amount": 5_00}
    assert database.row("history", 2, 9, 77, 3) == {**row, "h_date": first + 1, "h_amount": 6_00}
    assert database.column("h_amount", "history", 2, 9, 77, 1) == 10_00


def test_a_customer_of_another_warehouse_can_pay(database: TpccDatabase) -> None:
    database.call("payment", 1, 4, 2, 9, 77, 5_00)

    assert database.column("c_balance", "customer", 2, 9, 77) == -15_00
    assert database.column("c_balance", "customer", 1, 4, 77) == -10_00
    assert database.column("d_ytd", "district", 2, 9) == 30_000_00
    assert database.column("d_ytd", "district", 1, 4) == 30_005_00


def test_a_last_name_selects_the_middle_customer(database: TpccDatabase) -> None:
    """Clause 2.5.2.2: sorted by C_FIRST, the one at n / 2 rounded up to the next integer."""
    sizes = set()
    for name in LAST_NAMES[::29]:
        rows = [(database.row("customer", 1, 4, c), c) for c in range(1, CUSTOMERS + 1)]
        namesakes = sorted((row["c_first"], c) for row, c in rows if row and row["c_last"] == name)
        n = len(namesakes)
        sizes.add(n)
        rounded_up = n // 2 + n % 2
        assert database.call("payment", 1, 4, 1, 4, name, 1_00)[0] == namesakes[rounded_up - 1][1]
    assert {1, 2, 3, 4} <= sizes


def test_the_response_contains_both_addresses_and_the_customer(database: TpccDatabase) -> None:
    c = customer_with_credit(database, "GC")

    response = database.call("payment", 1, 4, 1, 4, c, 1_00)

    response_columns = {
        "warehouse": ("w_street_1", "w_street_2", "w_city", "w_state", "w_zip"),
        "district": ("d_street_1", "d_street_2", "d_city", "d_state", "d_zip"),
        "customer": (
            *("c_first", "c_middle", "c_last", "c_street_1", "c_street_2", "c_city", "c_state"),
            *("c_zip", "c_phone", "c_since", "c_credit", "c_credit_lim", "c_discount"),
        ),
    }
    keys = {"warehouse": (1,), "district": (1, 4), "customer": (1, 4, c)}
    expected = [
        database.column(column, table, *keys[table])
        for table, columns in response_columns.items()
        for column in columns
    ]
    assert response == (c, database.now, *expected, -11_00, None)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((3, 1, 1, 1, 1, 1), "LookupError: there is no warehouse 3"),
        ((1, 1, 1, 11, 1, 1), "LookupError: there is no customer 1, 11, 1"),
        ((1, 1, 1, 1, "SMITH", 1), "LookupError: no customer of district 1, 1 is called SMITH"),
    ],
)
def test_unknown_rows_are_errors(
    database: TpccDatabase, arguments: tuple[Any, ...], error: str
) -> None:
    with pytest.raises(OperationRaised) as raised:
        database.call("payment", *arguments)

    assert str(raised.value) == error
    assert database.overrides == {}
