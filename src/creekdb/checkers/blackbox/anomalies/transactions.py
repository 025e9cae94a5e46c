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

from creekdb.checkers.blackbox.linearizability.models import (
    ANY_VALUE,
    Value,
    require_operation,
)
from creekdb.checkers.blackbox.observations import (
    CallStatus,
    FinalObservation,
    ObservedCall,
    ObservedRun,
)
from creekdb.checkers.verdict import short_text
from creekdb.errors import BadValue

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
    wrong_response: str | None = None
    """Response that does not repeat the micro-operations, as text, or None."""

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


def check_transaction(operation: str, arguments: tuple[Any, ...]) -> None:
    """Raise `BadValue` unless the call is a transaction."""
    require_operation(operation, TRANSACTION_OPERATIONS)
    try:
        requested_operations(arguments)
    except UnusableTransactions as error:
        raise BadValue(f"'arguments': {error}") from error


def requested_operations(arguments: tuple[Any, ...]) -> tuple[MicroOperation, ...]:
    """Return the micro-operations of a call, or raise `UnusableTransactions`."""
    if len(arguments) == 1 and isinstance(arguments[0], list | tuple):
        (only,) = arguments
        if not only or isinstance(only[0], list | tuple):
            arguments = tuple(only)
    return tuple(_micro_operations(arguments))


def _transaction(number: int, call: ObservedCall) -> Transaction:
    requested = requested_operations(call.arguments)
    response: ObservedCall | FinalObservation | None = call if call.strong else call.final
    if call.status is CallStatus.REJECTED:
        response = call
    outcome, operations, completed_us, wrong = TransactionOutcome.UNKNOWN, requested, None, None
    if response is None or response.status is CallStatus.UNKNOWN:
        pass
    elif response.status is not CallStatus.OK:
        outcome = TransactionOutcome.ABORTED
    elif (completed := _completed_operations(requested, response.value)) is None:
        wrong = short_text(response.value)
    else:
        outcome, operations = TransactionOutcome.COMMITTED, completed
        completed_us = response.responded_us
    return Transaction(
        number, call.client, operations, outcome, call.invoked_us, completed_us, wrong
    )


def _micro_operations(values: tuple[Any, ...]) -> Iterator[MicroOperation]:
    for each in values:
        frozen = freeze(each)
        if not (isinstance(frozen, tuple) and len(frozen) == 3 and frozen[0] in FUNCTIONS):
            raise UnusableTransactions(f"{short_text(each)} is not a micro-operation")
        yield MicroOperation(*frozen)


def _completed_operations(
    requested: tuple[MicroOperation, ...], response: Any
) -> tuple[MicroOperation, ...] | None:
    """Return the micro-operations of a response, or None if they differ from the requested ones.

    Of a response that was not recorded, only the writes are known.
    """
    if response is ANY_VALUE:
        return tuple(each for each in requested if each.function != "r")
    if not isinstance(response, list | tuple):
        return None
    try:
        completed = tuple(_micro_operations(tuple(response)))
    except UnusableTransactions:
        return None
    return completed if [*map(_request, completed)] == [*map(_request, requested)] else None


def _request(operation: MicroOperation) -> MicroOperation:
    """Return the micro-operation without the value that it read."""
    return operation._replace(value=None) if operation.function == "r" else operation


def freeze(value: Any) -> Any:
    """Return a hashable equivalent of a value. Values of different types differ."""
    if isinstance(value, list | tuple):
        return tuple([freeze(each) for each in value])
    return value if value is None or type(value) in (int, str) else Value(value)
