"""Payment, by the sentences of clause 2.5.2."""

from typing import Any

import pytest

from creekdb.execution.sequential import OperationRaised
from creekdb.tpcc.population.random_values import LAST_NAMES
from creekdb.tpcc.schema import CUSTOMERS
from tests.unit.tpcc.terminal import Terminal


@pytest.fixture(params=["rows", "fine"])
def terminal(request: pytest.FixtureRequest) -> Terminal:
    return Terminal(request.param)


def with_credit(terminal: Terminal, credit: str) -> int:
    """A customer of warehouse 1, district 4, with that credit."""
    return next(
        c
        for c in range(1, CUSTOMERS + 1)
        if terminal.column("c_credit", "customer", 1, 4, c) == credit
    )


def test_the_warehouse_and_the_district_count_it(terminal: Terminal) -> None:
    warehouse, district = terminal.row("warehouse", 1), terminal.row("district", 1, 4)
    assert warehouse is not None
    assert district is not None

    terminal.call("payment", 1, 4, 1, 4, 77, 123_45)

    assert terminal.row("warehouse", 1) == {**warehouse, "w_ytd": 300_123_45}
    assert terminal.row("district", 1, 4) == {**district, "d_ytd": 30_123_45}


def test_the_customer_has_paid_it(terminal: Terminal) -> None:
    c = with_credit(terminal, "GC")
    before = terminal.row("customer", 1, 4, c)
    assert before is not None

    answer = terminal.call("payment", 1, 4, 1, 4, c, 123_45)

    after = {"c_balance": -133_45, "c_ytd_payment": 133_45, "c_payment_cnt": 2}
    assert terminal.row("customer", 1, 4, c) == {**before, **after}
    assert answer[-2:] == (-133_45, None)


def test_a_customer_with_bad_credit_has_it_written_in_front_of_c_data(terminal: Terminal) -> None:
    c = with_credit(terminal, "BC")
    terminal.set("c_data", "before", "customer", 1, 4, c)

    answer = terminal.call("payment", 2, 9, 1, 4, c, 1234_05)

    assert terminal.column("c_data", "customer", 1, 4, c) == f"{c} 4 1 9 2 1234.05 before"
    assert answer[-1] == f"{c} 4 1 9 2 1234.05 before"


def test_c_data_never_exceeds_500_characters_and_200_are_shown(terminal: Terminal) -> None:
    c = with_credit(terminal, "BC")
    terminal.set("c_data", "0123456789" * 50, "customer", 1, 4, c)

    answer = terminal.call("payment", 1, 4, 1, 4, c, 1_00)

    told = f"{c} 4 1 4 1 1.00 "
    assert terminal.column("c_data", "customer", 1, 4, c) == (told + "0123456789" * 50)[:500]
    assert answer[-1] == (told + "0123456789" * 50)[:200]


def test_a_row_of_history_tells_where_and_what(terminal: Terminal) -> None:
    terminal.call("payment", 1, 4, 2, 9, 77, 5_00)
    first = terminal.now
    terminal.call("payment", 1, 4, 2, 9, 77, 6_00)

    names = terminal.column("w_name", "warehouse", 1), terminal.column("d_name", "district", 1, 4)
    row = {"h_w_id": 1, "h_d_id": 4, "h_data": "    ".join(names)}
    assert terminal.row("history", 2, 9, 77, 2) == {**row, "h_date": first, "h_amount": 5_00}
    assert terminal.row("history", 2, 9, 77, 3) == {**row, "h_date": first + 1, "h_amount": 6_00}
    assert terminal.column("h_amount", "history", 2, 9, 77, 1) == 10_00


def test_a_customer_of_another_warehouse_pays_here(terminal: Terminal) -> None:
    terminal.call("payment", 1, 4, 2, 9, 77, 5_00)

    assert terminal.column("c_balance", "customer", 2, 9, 77) == -15_00
    assert terminal.column("c_balance", "customer", 1, 4, 77) == -10_00
    assert terminal.column("d_ytd", "district", 2, 9) == 30_000_00
    assert terminal.column("d_ytd", "district", 1, 4) == 30_005_00


def test_of_those_with_the_last_name_it_is_the_one_in_the_middle(terminal: Terminal) -> None:
    """Clause 2.5.2.2: sorted by C_FIRST, the one at n / 2 rounded up to the next integer."""
    sizes = set()
    for name in LAST_NAMES[::29]:
        rows = [(terminal.row("customer", 1, 4, c), c) for c in range(1, CUSTOMERS + 1)]
        namesakes = sorted((row["c_first"], c) for row, c in rows if row and row["c_last"] == name)
        n = len(namesakes)
        sizes.add(n)
        rounded_up = n // 2 + n % 2
        assert terminal.call("payment", 1, 4, 1, 4, name, 1_00)[0] == namesakes[rounded_up - 1][1]
    assert {1, 2, 3, 4} <= sizes


def test_the_answer_shows_both_addresses_and_the_customer(terminal: Terminal) -> None:
    c = with_credit(terminal, "GC")

    answer = terminal.call("payment", 1, 4, 1, 4, c, 1_00)

    shown = {
        "warehouse": ("w_street_1", "w_street_2", "w_city", "w_state", "w_zip"),
        "district": ("d_street_1", "d_street_2", "d_city", "d_state", "d_zip"),
        "customer": (
            *("c_first", "c_middle", "c_last", "c_street_1", "c_street_2", "c_city", "c_state"),
            *("c_zip", "c_phone", "c_since", "c_credit", "c_credit_lim", "c_discount"),
        ),
    }
    keys = {"warehouse": (1,), "district": (1, 4), "customer": (1, 4, c)}
    wanted = [
        terminal.column(column, table, *keys[table])
        for table, columns in shown.items()
        for column in columns
    ]
    assert answer == (c, terminal.now, *wanted, -11_00, None)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((3, 1, 1, 1, 1, 1), "LookupError: there is no warehouse 3"),
        ((1, 1, 1, 11, 1, 1), "LookupError: there is no customer 1, 11, 1"),
        ((1, 1, 1, 1, "SMITH", 1), "LookupError: no customer of district 1, 1 is called SMITH"),
    ],
)
def test_what_does_not_exist_is_an_error(
    terminal: Terminal, arguments: tuple[Any, ...], error: str
) -> None:
    with pytest.raises(OperationRaised) as raised:
        terminal.call("payment", *arguments)

    assert str(raised.value) == error
    assert terminal.state.overrides == {}
