"""Responses without the numbers of orders."""

from typing import Any

import pytest

from creekdb.tpcc import Population, datatype_on_population, without_order_numbers
from tests.unit.execution.strategies import request

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
