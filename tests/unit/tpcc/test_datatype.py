"""Equality of the layouts, and responses without the numbers of orders."""

from typing import Any

import pytest

from creekdb.tpcc import Population, datatype_on_population, without_order_numbers
from creekdb.tpcc.schema import TABLES
from tests.unit.execution.strategies import request
from tests.unit.tpcc.tpcc_database import TpccDatabase, transaction_mix

LINES = ((1, 1, 5), (2, 1, 5), (3, 1, 5), (4, 1, 5), (5, 1, 5))


@pytest.fixture(scope="module", params=["rows", "fine", "sql"])
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def responses(layout: str, *calls: tuple[Any, ...]) -> list[Any]:
    state = datatype_on_population(Population(0, 1), layout).sequential()
    values = []
    for name, *arguments in calls:
        outcome = state.apply(request(state.datatype.call(name, *arguments), 1))
        assert outcome.error is None
        values.append(outcome.value)
    return values


def test_new_order_responses_differ_only_in_the_order_number(layout: str) -> None:
    order = ("new_order", 1, 1, 7, LINES)
    other = ("new_order", 1, 1, 8, ((9, 1, 5),) * 5)
    (first,), (_, second) = responses(layout, order), responses(layout, other, order)

    assert second == (first[0] + 1, *first[1:])
    assert (
        without_order_numbers("new_order", first)
        == without_order_numbers("new_order", second)
        == first[1:]
    )


def test_a_delivery_response_is_reduced_to_the_districts_with_an_order(layout: str) -> None:
    first, second = responses(layout, ("delivery", 1, 3), ("delivery", 1, 3))

    assert first != second
    assert (
        without_order_numbers("delivery", first)
        == without_order_numbers("delivery", second)
        == (True,) * 10
    )
    assert without_order_numbers("delivery", (None, 4)) == (False, True)


def test_only_the_number_is_removed_from_an_order_status(layout: str) -> None:
    order, status = ("new_order", 1, 1, 7, LINES), ("order_status", 1, 1, 7)
    ordered, response = (each for each in responses(layout, order, status))
    reduced = without_order_numbers("order_status", response)

    assert response[5] == ordered[0]
    assert len(reduced) == len(response) - 1
    assert set(response) - set(reduced) == {ordered[0]}


@pytest.mark.parametrize("name", ["payment", "stock_level", "new_order"])
def test_other_responses_are_unchanged(name: str) -> None:
    assert without_order_numbers(name, None) is None
    assert without_order_numbers("stock_level", 7) == 7
    assert without_order_numbers("payment", (1, 2)) == (1, 2)


def test_sql_transactions_give_the_responses_and_rows_of_python_transactions() -> None:
    databases = [TpccDatabase(layout, warehouses=1) for layout in ("rows", "sql")]
    names = set()
    for each in transaction_mix(databases[0], seed=5, count=60):
        names.add(each.operation.name)
        expected, outcome = (database.apply(each.operation) for database in databases)
        assert outcome == expected
    assert len(names) == 5
    expected_rows, rows = (changed_rows(database) for database in databases)
    assert len(rows) > 500
    assert rows == expected_rows


def changed_rows(database: TpccDatabase) -> dict[tuple[Any, ...], Any]:
    """Return the rows that differ from the population, by table and key."""
    found = {}
    for key in database.overrides:
        assert isinstance(key, tuple)
        table, *row_key = key[1:] if key[0] == "sql" else key
        if table in TABLES:
            found[table, *row_key] = database.row(str(table), *map(int, row_key))
    return found
