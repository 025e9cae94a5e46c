"""Arguments by name, and the types that a call checks."""

from typing import Any

import pytest

from creekdb.errors import BadValue, UnknownName
from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction
from creekdb.protocol.request import Operation
from tests.unit.execution.strategies import request

SHOP = DataType("shop")


@SHOP.operation
def order(
    tx: Transaction,
    name: str,
    pieces: int = 1,
    note: str = None,  # type: ignore[assignment] # noqa: RUF013 - a common pattern in user code
    *extras: str,
) -> Any:
    return (name, pieces, note, *extras)


@pytest.mark.parametrize(
    ("arguments", "named", "result"),
    [
        (("lamp",), {}, ("lamp",)),
        ((), {"name": "lamp"}, ("lamp",)),
        (("lamp",), {"pieces": 2}, ("lamp", 2)),
        (("lamp",), {"note": "red"}, ("lamp", 1, "red")),
        ((), {"pieces": 2, "name": "lamp"}, ("lamp", 2)),
        (("lamp",), {"extras": ["a", "b"]}, ("lamp", 1, None, "a", "b")),
    ],
)
def test_names_are_resolved_to_positions(
    arguments: tuple[Any, ...], named: dict[str, Any], result: tuple[Any, ...]
) -> None:
    assert SHOP.checked_call("order", *arguments, **named) == Operation("order", result)


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((), {}, "requires the argument 'name'"),
        ((), {"pieces": 2}, "requires the argument 'name'"),
        (("lamp",), {"colour": 2}, "has no parameter 'colour'"),
        (("lamp",), {"name": "vase"}, "received the argument 'name' twice"),
        (("lamp",), {"extras": "ab"}, "argument 'extras' of .* must be an array"),
        ((3,), {}, "argument 'name' of .* must be a string, not an integer"),
        (("lamp", "two"), {}, "argument 'pieces' of .* must be an integer, not a string"),
        (("lamp", True), {}, "argument 'pieces' of .* must be an integer, not a boolean"),
        (("lamp", 1, "", "a", 5), {}, "argument 'extras' of .* must be a string, not an integer"),
    ],
)
def test_mistakes_are_named(
    arguments: tuple[Any, ...], named: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadValue, match=message):
        SHOP.checked_call("order", *arguments, **named)


def test_a_default_outside_of_its_annotation_is_accepted() -> None:
    assert SHOP.checked_call("order", "lamp", 1, None).arguments == ("lamp", 1, None)
    with pytest.raises(BadValue, match="argument 'pieces'"):
        SHOP.checked_call("order", "lamp", None)


def test_a_request_in_the_order_is_not_checked() -> None:
    """A replica with other annotations must compute the same response."""
    outcome = SHOP.sequential().apply(request(Operation("order", (3, "two"))))
    assert outcome.value == (3, "two", None)


def test_a_sequential_machine_calls_functions_and_names() -> None:
    machine = SHOP.sequential()
    assert machine.call(order, "lamp", pieces=2) == ("lamp", 2, None)
    assert machine.call("order", name="lamp") == ("lamp", 1, None)
    with pytest.raises(BadValue, match="must be a string"):
        machine.call("order", 3)


def test_a_function_of_another_data_type_is_unknown() -> None:
    with pytest.raises(UnknownName, match="unknown operation of shop 'len'"):
        SHOP.name_of(len)
    assert SHOP.name_of(order) == "order"
