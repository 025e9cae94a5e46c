import inspect
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

from creekdb.errors import BadValue, UnknownName
from creekdb.execution.datatype import DataType
from creekdb.execution.recursion_limit import RECURSION_MAX, RecursionLimit
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import Transaction
from creekdb.protocol.request import NOOP, Operation, Outcome
from tests.unit.execution.strategies import request

TOY = DataType("toy")


@TOY.operation
def put(tx: Transaction, key: str, value: Any = None, *more: Any) -> int:
    tx.put(key, value)
    return 1 + len(more)


@TOY.operation(readonly=True)
def get(tx: Transaction, key: str) -> Any:
    return tx.get(key)


@TOY.operation
def put_and_raise(tx: Transaction, message: Any) -> None:
    tx.put("a", tx.get("a", 0))
    raise ValueError(message)


@TOY.operation(readonly=True)
def write_although_readonly(tx: Transaction) -> None:
    tx.put("a", 1)


@TOY.operation
def return_a_set(tx: Transaction) -> Any:
    tx.put("a", 1)
    return {1, 2}


@TOY.operation
def modify_argument(tx: Transaction, table: dict[str, Any]) -> int:
    table["modified"] = True
    return len(table)


@TOY.operation
def recurse(tx: Transaction) -> None:
    recurse(tx)


@TOY.operation(name="open", readonly=True)
def open_(tx: Transaction) -> str:
    return "open"


def run(operation: Operation) -> ExecutionResult:
    return TOY.run(request(operation), TOY.sequential())


def test_operation_names_are_sorted_and_include_noop() -> None:
    assert list(TOY.operations) == sorted(TOY.operations)
    assert {"noop", "get", "open", "put"} <= set(TOY.operations)
    assert "open_" not in TOY.operations


def test_only_operations_declared_readonly_are_readonly() -> None:
    assert TOY.is_readonly("get")
    assert TOY.is_readonly("open")
    assert not TOY.is_readonly("put")
    assert not TOY.is_readonly("noop")
    with pytest.raises(UnknownName):
        TOY.is_readonly("fly")


def test_a_declared_function_can_still_be_called_directly() -> None:
    assert put.__name__ == "put"


def test_a_call_is_normalised() -> None:
    assert TOY.call("put", "a", [1, [2]]) == Operation("put", ("a", (1, (2,))))
    assert TOY.call("noop") == NOOP


def test_the_error_for_an_unknown_operation_lists_the_operations() -> None:
    with pytest.raises(UnknownName, match=r"operation of toy 'fly': expected one of get, .*put"):
        TOY.call("fly")


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("put", (), r"put\(key: str, .*\) requires the argument 'key'$"),
        ("get", (), r"get\(key: str\) requires the argument 'key'$"),
        ("get", ("a", "b"), r"get\(key: str\) cannot take 2 arguments"),
        ("noop", (1,), r"noop\(\) cannot take 1 argument$"),
    ],
)
def test_the_error_for_a_wrong_number_of_arguments_names_the_signature(
    name: str, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(BadValue, match=message):
        TOY.call(name, *arguments)
    outcome = run(Operation(name, arguments)).outcome
    assert outcome.error is not None
    assert outcome.error.startswith(f"BadValue: {name}(")


def test_additional_arguments_go_to_the_starred_parameter() -> None:
    assert run(TOY.call("put", "a", 1, 2, 3)).outcome == Outcome(3)
    with pytest.raises(BadValue, match=r"argument 'more' of put\(.*\) holds a value of type set"):
        TOY.call("put", "a", 1, 2, {3})


def test_the_error_for_a_value_that_cannot_be_sent_names_the_argument() -> None:
    with pytest.raises(BadValue, match=r"argument 'value' of put.* holds an int beyond 64 bits"):
        TOY.call("put", "a", [2**64])


def test_the_error_for_a_value_that_cannot_be_sent_names_its_path() -> None:
    with pytest.raises(BadValue) as error:
        TOY.call("put", "a", {"rows": [(1, 2), (3, {4})]})
    assert str(error.value) == (
        "argument 'value' of put(key: str, value: Any = None, *more: Any) holds a value of type "
        "set at ['rows'][1][1], which cannot be sent"
    )


def test_run_returns_the_response_and_the_writes() -> None:
    assert run(TOY.call("put", "a", 5)) == ExecutionResult(
        Outcome(1), {"a": 5}, read_count=0, scan_count=0
    )


def test_noop_returns_none_and_writes_nothing() -> None:
    assert run(NOOP) == ExecutionResult(Outcome(), {}, read_count=0, scan_count=0)


def test_an_operation_that_raises_returns_its_error_and_writes_nothing() -> None:
    execution = run(TOY.call("put_and_raise", "no luck"))
    assert execution == ExecutionResult(
        Outcome(error="ValueError: no luck"), {}, read_count=1, scan_count=0
    )


def test_running_an_unknown_operation_is_an_error_response() -> None:
    outcome = run(Operation("fly", (1,))).outcome
    assert outcome.error is not None
    assert outcome.error.startswith("UnknownName: unknown operation of toy 'fly'")


def test_a_write_in_a_readonly_operation_is_an_error_response() -> None:
    execution = run(TOY.call("write_although_readonly"))
    assert execution.writes == {}
    assert execution.outcome.error == (
        "UsageError: operation 'write_although_readonly' is declared read-only and must not write"
    )


def test_a_response_that_cannot_be_sent_is_an_error_response() -> None:
    execution = run(TOY.call("return_a_set"))
    assert execution.writes == {}
    assert execution.outcome.error == (
        "BadValue: the response of 'return_a_set' holds a value of type set, which cannot be sent"
    )


def test_an_operation_cannot_modify_its_request() -> None:
    operation = TOY.call("modify_argument", {"a": 1})
    assert run(operation).outcome == run(operation).outcome == Outcome(2)
    assert operation.arguments == ({"a": 1},)


@pytest.mark.parametrize(
    "error", [MemoryError("all"), SystemExit(1), GeneratorExit(), KeyboardInterrupt("mine")]
)
def test_any_exception_of_an_operation_is_its_response(error: BaseException) -> None:
    toy = DataType("toy")

    @toy.operation
    def fail(tx: Transaction) -> None:
        raise error

    outcome = toy.run(request(toy.call("fail")), toy.sequential()).outcome
    assert outcome.error is not None
    assert outcome.error.startswith(type(error).__name__)


@pytest.mark.parametrize("reraises", [False, True])
def test_ctrl_c_interrupts_an_operation(reraises: bool) -> None:
    toy = DataType("toy")
    previous = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # background jobs ignore SIGINT

    @toy.operation
    def wait(tx: Transaction, reraises: bool) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except BaseException as error:
            if reraises:
                raise error
            raise

    try:
        with pytest.raises(KeyboardInterrupt):
            toy.run(request(toy.call("wait", reraises)), toy.sequential())
    finally:
        signal.signal(signal.SIGINT, previous)


def test_the_recursion_limit_does_not_depend_on_the_stack_of_the_caller() -> None:
    deep = DataType("deep")

    @deep.operation
    def dive(tx: Transaction, depth: int) -> int:
        return 0 if depth == 0 else 1 + dive(tx, depth - 1)

    def run_below(frames: int, depth: int) -> Outcome:
        if frames:
            return run_below(frames - 1, depth)
        return deep.run(request(deep.call("dive", depth)), deep.sequential()).outcome

    outcomes = [[run_below(frames, depth) for frames in (0, 7, 300)] for depth in range(900, 1010)]
    assert all(first == second == third for first, second, third in outcomes)
    assert outcomes[0][0] == Outcome(900)
    assert outcomes[-1][0].error == "RecursionError: maximum recursion depth exceeded"


def test_the_recursion_limit_counts_the_frames_above_the_caller() -> None:
    limit = RecursionLimit()

    def limit_below(frames: int) -> int:
        if frames:
            return limit_below(frames - 1)
        previous = limit.apply()
        applied = sys.getrecursionlimit()
        sys.setrecursionlimit(previous)
        return applied - len(inspect.stack(0))

    assert {limit_below(frames) for frames in (0, 7, 7, 0, 3, 300, 2)} == {RECURSION_MAX}


def test_endless_recursion_has_the_same_error_at_any_depth() -> None:
    assert run(TOY.call("recurse")).outcome.error == (
        "RecursionError: maximum recursion depth exceeded"
    )


def test_an_operation_name_can_be_declared_only_once() -> None:
    with pytest.raises(BadValue, match="toy has an operation 'get' already"):
        TOY.operation(get)
    with pytest.raises(BadValue, match="'noop' already"):
        TOY.operation(name="noop")(get)


def test_an_operation_must_take_a_transaction_and_arguments_by_position() -> None:
    toy = DataType("toy")
    with pytest.raises(BadValue, match="'nothing' must take the transaction"):
        toy.operation(name="nothing")(lambda: None)
    with pytest.raises(BadValue, match="'anything' must take the transaction"):
        toy.operation(name="anything")(lambda *everything: None)


@pytest.mark.parametrize(
    ("function", "parameter", "remedy"),
    [
        (lambda tx, *, key, other: None, "key", "remove the '*' before 'key'"),
        (lambda tx, *items, key=1: None, "key", "move 'key' before '*items'"),
        (lambda tx, **options: None, "options", "replace '**options' by named parameters"),
    ],
)
def test_an_argument_that_is_only_taken_by_name_is_rejected(
    function: Callable[..., Any], parameter: str, remedy: str
) -> None:
    with pytest.raises(BadValue) as error:
        DataType("toy").operation(name="a")(function)
    assert str(error.value) == (
        f"operation 'a' must take its arguments by position, unlike '{parameter}'; {remedy}"
    )


def test_invalid_names_and_functions_are_rejected() -> None:
    for name in ("", 3):
        with pytest.raises(BadValue, match="the name of a data type must be a non-empty str"):
            DataType(name)  # type: ignore[arg-type]
    toy = DataType("toy")
    with pytest.raises(BadValue, match="an operation of toy is a function, not 'get'"):
        toy.operation("get")  # type: ignore[call-overload]
    assert repr(toy) == "<DataType 'toy': noop>"
