"""Retained outcomes: retried calls are executed once, and retention is bounded."""

from typing import Any

from creekdb.execution.datatype import DataType
from creekdb.execution.keys import CALLS_PREFIX
from creekdb.execution.transaction import Transaction
from creekdb.execution.undo import StateObject
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.server.calls.capabilities import DeduplicatingDataType
from creekdb.wire.deduplication import (
    CALLS_PER_CLIENT_MAX,
    EXPIRY_BATCH_MAX,
    KEPT_RESPONSE_BYTES_MAX,
    expire_calls,
    wrap_call,
)

COUNTING = DataType("counting")


@COUNTING.operation
def count(tx: Transaction, text: str) -> tuple[int, str]:
    times: int = tx.get("times", 0) + 1
    tx.put("times", times)
    return times, text


class StateMachine:
    def __init__(self) -> None:
        self.state = StateObject(DeduplicatingDataType(COUNTING))
        self._request_count = 0

    def execute(self, operation: Operation) -> Outcome:
        self._request_count += 1
        request = Request(self._request_count, Dot(0, self._request_count), operation, strong=False)
        execution = self.state.run(request)
        self.state.install(request, execution)
        return execution.outcome

    def retained_calls(self) -> list[Any]:
        registers = self.state.items()
        return [key for key, _ in registers if isinstance(key, tuple) and key[0] == CALLS_PREFIX]


def count_call(client: str, number: int, text: str = "") -> Operation:
    return wrap_call(client, number, COUNTING.call("count", text))


def test_a_retried_call_returns_its_first_outcome() -> None:
    state_machine = StateMachine()
    first = state_machine.execute(count_call("ann", 1))
    assert state_machine.execute(count_call("bob", 1)).value == (2, "")
    assert state_machine.execute(count_call("ann", 1)) == first
    assert state_machine.execute(count_call("ann", 2)).value == (3, "")


def test_another_operation_with_the_same_number_fails() -> None:
    state_machine = StateMachine()
    state_machine.execute(count_call("ann", 1))
    outcome = state_machine.execute(count_call("ann", 1, "another"))
    assert outcome.error == "NumberUsed: call 1 of ann was another operation"


def test_the_retained_calls_of_a_client_are_bounded() -> None:
    state_machine = StateMachine()
    for number in range(1, CALLS_PER_CLIENT_MAX + 11):
        state_machine.execute(count_call("ann", number))
    assert len(state_machine.retained_calls()) == CALLS_PER_CLIENT_MAX
    assert state_machine.execute(count_call("ann", 11)).value == (11, ""), (
        "the oldest retained call"
    )


def test_an_overtaken_call_is_executed_and_replaces_no_later_one() -> None:
    state_machine = StateMachine()
    last = state_machine.execute(count_call("ann", 1 + CALLS_PER_CLIENT_MAX))
    assert state_machine.execute(count_call("ann", 1)).value == (2, "")
    assert state_machine.execute(count_call("ann", 1 + CALLS_PER_CLIENT_MAX)) == last


def test_a_long_return_value_is_not_retained() -> None:
    state_machine = StateMachine()
    long = "x" * (KEPT_RESPONSE_BYTES_MAX + 1)
    call = count_call("ann", 1, long)
    assert state_machine.execute(call).value == (1, long)
    assert str(state_machine.execute(call).error).startswith("Forgotten")


def test_an_expiry_keeps_calls_from_its_limit_on_and_continues_where_it_stopped() -> None:
    """The calls of a client have the timestamps 1, 2, …"""
    state_machine = StateMachine()
    count = EXPIRY_BATCH_MAX + 2
    for number in range(count):
        state_machine.execute(count_call("ann", number))

    first = state_machine.execute(expire_calls(count))
    assert first.value == (EXPIRY_BATCH_MAX, "ann", EXPIRY_BATCH_MAX)
    rest = state_machine.execute(expire_calls(count, *first.value[1:]))
    assert rest.value == (1,), "the last call is not older than the limit"
    assert state_machine.retained_calls() == [(CALLS_PREFIX, "ann", count - 1)]
