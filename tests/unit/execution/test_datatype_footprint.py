"""Declaration of footprints, and calls whose footprint cannot be computed."""

from typing import Any

import pytest

from creekdb.errors import BadValue
from creekdb.execution.datatype import DataType, DataTypeWrapper, Prefixes
from creekdb.execution.result import ExecutionResult
from creekdb.execution.sequential import Sequential
from creekdb.execution.transaction import Transaction
from creekdb.protocol.membership.configuration import MEMBERSHIP_KEY, MEMBERSHIP_OPERATION
from creekdb.protocol.request import NOOP, Operation, Outcome
from creekdb.protocol.values import Key
from tests.unit.execution.strategies import request

SHOP = DataType("shop")


@SHOP.operation(
    touches=lambda seat, customer="": [("seat", seat)], reads=lambda seat, *others: [("price",)]
)
def reserve(tx: Transaction, seat: int, customer: str = "") -> str:
    tx.put(("seat", seat), customer)
    return str(tx.get(("price", seat)))


@SHOP.operation(touches=lambda answer: answer)
def answer(tx: Transaction, answer: Any) -> None:
    tx.put("answered", True)


@SHOP.operation(touches=lambda number: [("seat", 1 // number)])
def divide(tx: Transaction, number: int) -> None:
    tx.put("divided", True)


@SHOP.operation
def clear(tx: Transaction) -> None:
    tx.put("cleared", True)


def error_of(name: str, *arguments: Any) -> str | None:
    machine = Sequential(SHOP)
    outcome = machine.apply(request(Operation(name, arguments)))
    assert outcome.error is None or machine.state == {}
    return outcome.error


def test_a_footprint_is_a_function_of_the_arguments() -> None:
    footprint = SHOP.footprint(SHOP.call("reserve", 7, "ann"))
    assert footprint is not None
    assert (footprint.touches, footprint.reads) == ((("seat", 7),), (("price",),))
    assert error_of("reserve", 7, "ann") is None
    assert error_of("reserve", 7) is None


def test_an_operation_without_a_footprint_may_touch_everything() -> None:
    assert SHOP.footprint(SHOP.call("clear")) is None
    assert SHOP.footprint(Operation("unknown")) is None
    assert error_of("clear") is None


def test_the_noop_touches_nothing_and_a_membership_change_its_register() -> None:
    nothing = SHOP.footprint(NOOP)
    assert nothing is not None
    assert (nothing.touches, nothing.reads) == ((), ())
    change = SHOP.footprint(Operation(MEMBERSHIP_OPERATION, ("add", 3, "")))
    assert change is not None
    assert change.touches == (MEMBERSHIP_KEY,)


def test_a_footprint_that_is_no_list_is_the_outcome() -> None:
    operation = SHOP.call("answer", 5)

    assert error_of("answer", 5) == (
        "BadValue: 'touches' of operation 'answer' returned 5, which is no list of key prefixes: "
        "it is a int; return a list of str, int or tuple"
    )
    assert SHOP.footprint(operation) is None


def test_an_error_of_a_footprint_is_the_outcome() -> None:
    assert error_of("divide", 0) == "ZeroDivisionError: integer division or modulo by zero"
    assert SHOP.footprint(SHOP.call("divide", 0)) is None


def test_a_call_with_the_wrong_number_of_arguments_has_no_footprint() -> None:
    assert SHOP.footprint(Operation("reserve")) is None
    assert error_of("reserve") == (
        "BadValue: reserve(seat: int, customer: str = '') requires the argument 'seat'"
    )


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"touches": [("seat",)]}, "it must be a function of the arguments"),
        ({"touches": lambda: ["a"]}, "must take the arguments of reserve"),
        ({"touches": lambda one: [], "reads": lambda: ["a"]}, "'reads' of operation 'reserve'"),
        ({"reads": lambda one: []}, "declares 'reads' without 'touches'"),
    ],
)
def test_an_invalid_declaration_is_rejected(declared: dict[str, Any], message: str) -> None:
    def reserve(tx: Transaction, seat: int) -> None: ...

    with pytest.raises(BadValue, match=message):
        DataType("shop").operation(**declared)(reserve)


def test_a_wrapper_has_the_footprints_of_its_data_type() -> None:
    wrapper = DataTypeWrapper(DataTypeWrapper(SHOP))
    operation = SHOP.call("reserve", 7, "ann")
    footprint = wrapper.footprint(operation)

    assert footprint is not None
    assert footprint.touches == (("seat", 7),)
    assert wrapper.called_operation(operation) is operation


# --- calls of many rows ---------------------------------------------------------------------------


def storing(touches: Prefixes | None, **declared: Any) -> DataType:
    """Return a data type with an operation that stores its second argument under its first one."""
    datatype = DataType("store")

    @datatype.operation(touches=touches, stores=True, **declared)
    def put(tx: Transaction, key: str, value: Any) -> None:
        tx.put(key, value)

    return datatype


def run_rows(datatype: DataType, *rows: tuple[Any, ...]) -> ExecutionResult:
    view = datatype.sequential()
    return datatype.run_rows(request(Operation("put")), "put", (), rows, view)


@pytest.mark.parametrize("touches", [None, lambda key, value: [key], lambda key, value: ["a", key]])
def test_rows_inside_their_footprints_are_stored(touches: Prefixes | None) -> None:
    result = run_rows(storing(touches), ("a", 1), ("b", (2, 3)), ("a", 4))

    assert (result.outcome, dict(result.writes)) == (Outcome(), {"a": 4, "b": (2, 3)})


def test_rows_outside_their_footprint_are_rejected_like_a_call() -> None:
    datatype = storing(lambda key, value: ["a"])
    called = Sequential(datatype).apply(request(Operation("put", ("b", 2))))
    result = run_rows(datatype, ("a", 1), ("b", 2))

    assert called.error == (
        "OutsideFootprint: operation 'put' wrote 'b' outside its footprint ['a']; declare what it "
        "touches"
    )
    assert (result.outcome.error, dict(result.writes)) == (called.error, {})


@pytest.mark.parametrize(
    "declared",
    [
        {"touches": lambda key, value: [key * (1 // value)]},
        {"touches": lambda key, value: [key], "reads": lambda key, value: [1 // value]},
    ],
)
def test_an_error_of_a_rows_footprint_is_the_outcome(declared: dict[str, Any]) -> None:
    result = run_rows(storing(**declared), ("a", 1), ("b", 0))

    assert result.outcome.error == "ZeroDivisionError: integer division or modulo by zero"
    assert not result.writes


# --- step limit -----------------------------------------------------------------------------------


def many_lines(number: int) -> list[Key]:
    for _ in range(number):
        pass
    return ["a"]


@pytest.mark.parametrize(
    ("touches", "reads"), [(many_lines, None), (lambda number: ["a"], many_lines)]
)
def test_lines_of_a_footprint_count_as_steps(touches: Prefixes, reads: Prefixes | None) -> None:
    datatype = DataType("shop", steps=500, count_lines=True)

    @datatype.operation(touches=touches, reads=reads)
    def count(tx: Transaction, number: int) -> None:
        tx.put("a", number)

    def outcome_of(number: int) -> Outcome:
        return Sequential(datatype).apply(request(Operation("count", (number,))))

    assert outcome_of(10).error is None
    assert datatype.footprint(Operation("count", (10,))) is not None
    assert outcome_of(1_000).error == (
        "OperationStopped: operation 'count' took more than 500 steps"
    )
    assert datatype.footprint(Operation("count", (1_000,))) is None
