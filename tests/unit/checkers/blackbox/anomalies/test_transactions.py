"""Transactions from observed calls."""

import msgspec

from creekdb.checkers.blackbox.anomalies.transactions import (
    MicroOperation,
    TransactionOutcome,
    text_of,
    transactions_of,
)
from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall
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
