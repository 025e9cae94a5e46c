"""Transactions from observed calls."""

from typing import Any

import msgspec
import pytest

from creekdb.checkers.blackbox.anomalies.transactions import (
    MicroOperation,
    TransactionOutcome,
    check_transaction,
    text_of,
    transactions_of,
)
from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall
from creekdb.errors import BadValue
from tests.unit.checkers.blackbox.transaction_runs import run_of, transaction


def test_transactions_are_numbered_in_the_order_of_their_invocations() -> None:
    calls = [transaction([("append", "x", begin)], begin) for begin in (30, 10, 20)]

    assert [each.invoked_us for each in transactions_of(run_of(*calls))] == [10, 20, 30]


def test_calls_that_were_stored_as_json_give_the_same_transactions() -> None:
    call = transaction([("append", "x", 1), ("r", "x", (1,))], 5, 9)
    stored = msgspec.json.decode(msgspec.json.encode(call), type=ObservedCall)

    assert transactions_of(run_of(stored)) == transactions_of(run_of(call))


def test_one_list_of_micro_operations_may_be_the_only_argument() -> None:
    call = transaction([("append", "x", 1), ("r", "x", (1,))], 5, 9)
    wrapped = msgspec.structs.replace(call, operation="txn", arguments=(list(call.arguments),))

    assert transactions_of(run_of(wrapped)) == transactions_of(run_of(call))


def test_a_transaction_may_be_empty() -> None:
    for arguments in ((), ((),)):
        call = msgspec.structs.replace(transaction([], 5, 9), arguments=arguments)

        (each,) = transactions_of(run_of(call))
        assert (each.operations, each.outcome) == ((), TransactionOutcome.COMMITTED)


@pytest.mark.parametrize("argument", [5, {"a": 1}, "append", [5], [{"a": 1}], ["r", "x"]])
def test_other_arguments_are_no_micro_operations(argument: Any) -> None:
    with pytest.raises(BadValue, match=r"'arguments': .* is not a micro-operation"):
        check_transaction("txn", (argument,))


def test_another_operation_is_no_transaction() -> None:
    with pytest.raises(BadValue, match="no operation 'appendd'; expected one of run, txn"):
        check_transaction("appendd", ("x", 1))


def test_only_a_committed_transaction_has_reads_and_an_end() -> None:
    outcomes = {
        CallStatus.OK: TransactionOutcome.COMMITTED,
        CallStatus.ERROR: TransactionOutcome.ABORTED,
        CallStatus.REJECTED: TransactionOutcome.ABORTED,
        CallStatus.UNKNOWN: TransactionOutcome.UNKNOWN,
    }
    for status, outcome in outcomes.items():
        (each,) = transactions_of(run_of(transaction([("r", "x", (1,))], 0, 10, status)))
        is_ok = status is CallStatus.OK
        assert each.outcome is outcome
        assert each.operations == (MicroOperation("r", "x", (1,) if is_ok else None),)
        assert each.completed_us == (10 if is_ok else None)


def test_other_calls_are_no_transactions() -> None:
    call = msgspec.structs.replace(transaction([("r", "x", None)], 0), operation="get")

    assert transactions_of(run_of(call)) == []


def test_values_are_short_in_texts() -> None:
    assert text_of(()) == "[]"
    assert text_of((1,)) == "[1]"
    assert text_of("x") == "x"
    assert text_of("") == "''"
    assert len(text_of(tuple(range(1000)))) <= 102
