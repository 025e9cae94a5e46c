"""What is left of an answer without the numbers of orders."""

from typing import Any

import pytest

from creekdb.tpcc import Population, PopulationBase, tpcc_datatype, without_order_numbers
from creekdb.tpcc.overlay import OverlayState
from tests.unit.execution.strategies import request

LINES = ((1, 1, 5), (2, 1, 5), (3, 1, 5), (4, 1, 5), (5, 1, 5))


@pytest.fixture(scope="module", params=["rows", "fine"])
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def answers(layout: str, *calls: tuple[Any, ...]) -> list[Any]:
    declared, state = tpcc_datatype(layout), OverlayState(PopulationBase(Population(0, 1), layout))
    told = []
    for name, *arguments in calls:
        outcome = state.apply(declared, request(declared.call(name, *arguments), 1))
        assert outcome.error is None
        told.append(outcome.value)
    return told


def test_a_new_order_is_told_the_same_whatever_number_it_gets(layout: str) -> None:
    order = ("new_order", 1, 1, 7, LINES)
    other = ("new_order", 1, 1, 8, ((9, 1, 5),) * 5)
    (first,), (_, second) = answers(layout, order), answers(layout, other, order)

    assert second == (first[0] + 1, *first[1:])
    assert (
        without_order_numbers("new_order", first)
        == without_order_numbers("new_order", second)
        == first[1:]
    )


def test_a_delivery_is_told_which_districts_had_one(layout: str) -> None:
    first, second = answers(layout, ("delivery", 1, 3), ("delivery", 1, 3))

    assert first != second
    assert (
        without_order_numbers("delivery", first)
        == without_order_numbers("delivery", second)
        == (True,) * 10
    )
    assert without_order_numbers("delivery", (None, 4)) == (False, True)


def test_an_order_status_is_told_everything_but_the_number(layout: str) -> None:
    order, status = ("new_order", 1, 1, 7, LINES), ("order_status", 1, 1, 7)
    number, told = (each for each in answers(layout, order, status))
    left = without_order_numbers("order_status", told)

    assert told[5] == number[0]
    assert len(left) == len(told) - 1
    assert set(told) - set(left) == {number[0]}


@pytest.mark.parametrize("name", ["payment", "stock_level", "new_order"])
def test_everything_else_is_told_as_it_is(name: str) -> None:
    assert without_order_numbers(name, None) is None
    assert without_order_numbers("stock_level", 7) == 7
    assert without_order_numbers("payment", (1, 2)) == (1, 2)
