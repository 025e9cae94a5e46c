"""Transactions as clients observed them, from calls whose arguments are micro-operations.

A micro-operation is `("append", key, value)`, `("w", key, value)` or `("r", key, None)`. They are
the arguments of the call, or one list of them is its only argument, as in histories of Jepsen. The
response repeats the micro-operations, with the values that were read. A key is either a list or a
register. Values that are written under one key must be unique, so that each read names its writer.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec

from creekdb.checkers.blackbox.observations import (
    CallStatus,
    FinalObservation,
    ObservedCall,
    ObservedRun,
)
from creekdb.checkers.verdict import short_text

TRANSACTION_OPERATIONS: Final = ("run", "txn")
"""Names of the operation that executes its arguments as one transaction."""
FUNCTIONS: Final = ("append", "w", "r")


class UnusableTransactions(Exception):
    """The transactions do not allow any inference."""


class TransactionOutcome(Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """The transaction may take effect at any later time, or never. Its reads are unknown."""


class MicroOperation(NamedTuple):
    function: str
    key: Any
    value: Any

    def describe(self) -> str:
        return f"{self.function} {text_of(self.key)} {text_of(self.value)}"


class Transaction(msgspec.Struct, frozen=True, gc=False):
    """One transaction. Its number is its position in the run."""

    number: int
    client: str
    operations: tuple[MicroOperation, ...]
    outcome: TransactionOutcome
    invoked_us: int
    completed_us: int | None
    """Time of the stable or final response. It is None unless the transaction is committed."""

    @property
    def name(self) -> str:
        return f"T{self.number}"

    @property
    def is_committed(self) -> bool:
        return self.outcome is TransactionOutcome.COMMITTED

    def describe(self) -> str:
        return f"{self.name} ({'; '.join(each.describe() for each in self.operations)})"


def text_of(value: Any) -> str:
    """Return a key or a value in the notation of counterexamples, with lists in brackets."""
    if isinstance(value, tuple):
        return f"[{short_text(value)[1:-1].rstrip(',')}]"
    return value if isinstance(value, str) and value else short_text(value)


def transactions_of(run: ObservedRun) -> list[Transaction]:
    """Return the transactions of the run in the order of their invocations.

    The first response to a weak call is tentative and therefore not evidence of a read. A weak call
    without a final response is thus a transaction of unknown outcome.
    """
    calls = [each for each in run.calls if each.operation in TRANSACTION_OPERATIONS]
    calls.sort(key=lambda each: each.invoked_us)
    return [_transaction(number, call) for number, call in enumerate(calls)]


def _transaction(number: int, call: ObservedCall) -> Transaction:
    arguments = call.arguments
    if len(arguments) == 1 and arguments[0] and isinstance(arguments[0][0], list | tuple):
        (arguments,) = arguments
    requested = tuple(_micro_operations(arguments))
    response: ObservedCall | FinalObservation | None = call if call.strong else call.final
    if call.status is CallStatus.REJECTED:
        response = call
    if response is None or response.status is CallStatus.UNKNOWN:
        outcome, operations, completed_us = TransactionOutcome.UNKNOWN, requested, None
    elif response.status is CallStatus.OK:
        operations, completed_us = tuple(_micro_operations(response.value)), response.responded_us
        outcome = TransactionOutcome.COMMITTED
        _require_match(requested, operations)
    else:
        outcome, operations, completed_us = TransactionOutcome.ABORTED, requested, None
    return Transaction(number, call.client, operations, outcome, call.invoked_us, completed_us)


def _micro_operations(values: Any) -> Iterator[MicroOperation]:
    for each in values if isinstance(values, list | tuple) else (values,):
        frozen = freeze(each)
        if not (isinstance(frozen, tuple) and len(frozen) == 3 and frozen[0] in FUNCTIONS):
            raise UnusableTransactions(f"{short_text(each)} is not a micro-operation")
        yield MicroOperation(*frozen)


def _require_match(
    requested: tuple[MicroOperation, ...], completed: tuple[MicroOperation, ...]
) -> None:
    expected = [(each[:2], None if each.function == "r" else each.value) for each in requested]
    if expected != [(each[:2], None if each.function == "r" else each.value) for each in completed]:
        raise UnusableTransactions(
            f"the response {short_text(completed)} does not repeat the micro-operations "
            f"{short_text(requested)}"
        )


def freeze(value: Any) -> Any:
    """Return the value with tuples for lists and dicts, so that it can be a key."""
    if isinstance(value, list | tuple):
        return tuple([freeze(each) for each in value])
    if isinstance(value, dict):
        return tuple(sorted((key, freeze(each)) for key, each in value.items()))
    return value
