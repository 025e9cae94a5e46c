import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

from creekdb.execution.datatype import DataType
from creekdb.execution.operation_errors import (
    ERROR_LENGTH_MAX,
    TRANSACTION_METHODS,
    ErrorTraces,
    error_text,
    raising_line,
    split_error_text,
)
from creekdb.execution.sequential import OperationRaised
from creekdb.execution.transaction import Transaction
from tests.unit.execution.strategies import request


class ErrorWithoutText(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class ErrorThatExits(Exception):
    def __str__(self) -> str:
        raise SystemExit


class ErrorThatReads(Exception):
    """Error whose text takes more steps than the transaction permits."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def __str__(self) -> str:
        return "".join(self.tx.get("text", "") for _ in range(1000))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("a"), "KeyError: 'a'"),
        (ValueError(), "ValueError"),
        (ErrorWithoutText(), "ErrorWithoutText"),
        (ErrorThatExits(), "ErrorThatExits"),
        (ValueError("bad \ud800"), "ValueError: bad \\ud800"),
        (TypeError("<f at 0x7fA0>, <g at 0x01>"), "TypeError: <f>, <g>"),
    ],
)
def test_error_texts_are_equal_in_every_process(error: Exception, text: str) -> None:
    assert error_text(error) == text


def test_error_texts_contain_no_addresses() -> None:
    assert error_text(ValueError(object())) == "ValueError: <object object>"


def test_error_texts_have_a_bounded_length() -> None:
    assert len(error_text(ValueError("x" * 10_000))) == ERROR_LENGTH_MAX


@pytest.mark.parametrize(
    ("error", "parts"),
    [
        (LookupError("no lamp: none left"), ("LookupError", "no lamp: none left")),
        (ValueError(), ("ValueError", "")),
        (KeyError("a: b"), ("KeyError", "'a: b'")),
    ],
)
def test_an_error_text_splits_into_type_and_message(
    error: Exception, parts: tuple[str, str]
) -> None:
    assert split_error_text(error_text(error)) == parts


FAULTY = DataType("faulty")


@FAULTY.operation
def divide(tx: Transaction, divisor: int) -> float:
    return 1 / divisor


@FAULTY.operation
def misuse(tx: Transaction, is_key: bool) -> None:
    if is_key:
        tx.get(None)
    tx.add("a", "b")


def reported(*calls: tuple[str, object], traces_max: int = 10) -> list[tuple[str, str, str]]:
    """Return the reports of the errors of these calls."""
    reports: list[tuple[str, str, str]] = []
    FAULTY.error_observer = ErrorTraces(lambda *report: reports.append(report), traces_max)
    try:
        for name, argument in calls:
            FAULTY.run(request(FAULTY.call(name, argument)), FAULTY.sequential())
    finally:
        FAULTY.error_observer = None
    return reports


def test_an_error_is_reported_with_the_trace_of_the_operation() -> None:
    [(operation, text, trace)] = reported(("divide", 0))
    assert (operation, text) == ("divide", "ZeroDivisionError: division by zero")
    assert "return 1 / divisor" in trace
    assert "execution/datatype.py" not in trace


def test_an_error_in_a_load_is_reported_with_its_trace() -> None:
    reports: list[tuple[str, str, str]] = []
    FAULTY.error_observer = ErrorTraces(lambda *report: reports.append(report))
    try:
        load = request(FAULTY.call("divide", 0))
        FAULTY.run_rows(load, "divide", (), ((1,), (0,)), FAULTY.sequential())
    finally:
        FAULTY.error_observer = None
    [(operation, text, trace)] = reports
    assert (operation, text) == ("divide", "ZeroDivisionError: division by zero")
    assert "return 1 / divisor" in trace


def test_an_error_is_reported_once_for_each_operation_and_line() -> None:
    calls = ("divide", 0), ("misuse", True), ("misuse", False), ("divide", 0), ("misuse", True)
    assert [operation for operation, _, _ in reported(*calls)] == ["divide", "misuse", "misuse"]


def test_an_error_in_the_transaction_belongs_to_the_line_of_the_operation() -> None:
    with pytest.raises(OperationRaised) as raised:
        FAULTY.sequential().call("misuse", True)
    cause = raised.value.__cause__
    assert cause is not None
    file, line = raising_line(cause.__traceback__)
    assert file == __file__
    assert line == misuse.__code__.co_firstlineno + 3


def test_the_number_of_reported_lines_is_bounded() -> None:
    assert len(reported(("misuse", True), ("misuse", False), traces_max=1)) == 1


def test_an_observer_does_not_change_the_response() -> None:
    plain = FAULTY.run(request(FAULTY.call("divide", 0)), FAULTY.sequential())
    FAULTY.error_observer = ErrorTraces(lambda *_: None)
    try:
        observed = FAULTY.run(request(FAULTY.call("divide", 0)), FAULTY.sequential())
    finally:
        FAULTY.error_observer = None
    assert observed == plain


def test_an_error_without_a_text_or_a_trace_is_the_response() -> None:
    odd = DataType("odd", steps=100)
    reports: list[tuple[str, str, str]] = []
    odd.error_observer = ErrorTraces(lambda *report: reports.append(report))

    @odd.operation
    def read(tx: Transaction) -> None:
        raise ErrorThatReads(tx)

    @odd.operation
    def parse(tx: Transaction) -> None:
        raise SyntaxError("bad", ("file", 1, "no number", "text"))  # type: ignore[arg-type]

    for name, text in (
        ("read", "OperationStopped: operation 'read' took more than 100 steps"),
        ("parse", "SyntaxError: bad (file, line 1)"),
    ):
        outcome = odd.run(request(odd.call(name)), odd.sequential()).outcome
        assert outcome.error == text
    assert reports[-1] == ("parse", "SyntaxError: bad (file, line 1)", reports[-1][1])


def test_ctrl_c_interrupts_the_text_of_an_error() -> None:
    class Interrupted(Exception):
        def __str__(self) -> str:
            signal.raise_signal(signal.SIGINT)
            return ""

    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            error_text(Interrupted())
    finally:
        signal.signal(signal.SIGINT, previous)


@pytest.mark.parametrize(
    ("touches", "function", "message"),
    [
        (None, lambda tx: tx.add(frozenset("abc"), "x"), "a key is a str, .* with a frozenset"),
        (None, lambda tx: tx.scan(limit={"a", "b"}), "an int from 0, not a set"),
        (None, lambda tx: tx.scan(limit=-1), "an int from 0, not -1"),
        (lambda: {"a", "b"}, lambda tx: None, "returned a set, which is no list .* it is a set"),
        (lambda: [{"a", "b"}], lambda tx: None, "returned a list, .*: a key is .* with a set"),
    ],
)
def test_errors_of_the_transaction_do_not_show_the_order_of_a_set(
    touches: Callable[[], Any] | None, function: Callable[[Transaction], Any], message: str
) -> None:
    odd = DataType("odd")
    odd.operation(name="odd", touches=touches)(function)
    outcome = odd.run(request(odd.call("odd")), odd.sequential()).outcome
    assert outcome.error is not None
    assert re.search(message, outcome.error)


def test_calls_of_a_transaction_with_invalid_arguments_have_the_same_text_in_both_builds() -> None:
    """The messages are those of the interpreter and of compiled code, for the same call."""
    text = "TypeError: tx.{}() received too few, too many or unknown arguments"
    for method, message in (
        ("get", "Transaction.get() missing 1 required positional argument: 'key'"),
        ("get", "get() missing required argument 'key' (pos 1)"),
        ("put", "Transaction.put() takes 3 positional arguments but 4 were given"),
        ("put", "put() takes at most 2 arguments (3 given)"),
        ("step", "step() takes at most 0 keyword arguments (1 given)"),
        ("scan", "Transaction.scan() got an unexpected keyword argument 'order'"),
        ("scan", "'order' is an invalid keyword argument for scan()"),
        ("get", "Transaction.get() got multiple values for argument 'key'"),
        ("get", "argument for get() given by name ('key') and position (1)"),
    ):
        assert error_text(TypeError(message)) == text.format(method)


def test_attributes_of_a_transaction_that_are_set_have_the_same_text_in_both_builds() -> None:
    for message in (
        "property 'timestamp' of 'Transaction' object has no setter",
        "attribute 'timestamp' of 'Transaction' objects is not writable",
    ):
        text = error_text(AttributeError(message))
        assert text == "AttributeError: tx.timestamp cannot be set or deleted"


@pytest.mark.parametrize(
    "message",
    [
        "get() missing 1 required positional argument: 'key'",
        "Basket.get() takes 1 positional argument but 2 were given",
        "to_bytes() missing required argument 'length' (pos 1)",
    ],
)
def test_the_texts_of_other_calls_are_unchanged(message: str) -> None:
    assert error_text(TypeError(message)) == f"TypeError: {message}"


def test_all_methods_of_a_transaction_are_known() -> None:
    methods = {
        name
        for name in dir(Transaction)
        if not name.startswith("_") and callable(getattr(Transaction, name))
    }
    assert methods == set(TRANSACTION_METHODS)
