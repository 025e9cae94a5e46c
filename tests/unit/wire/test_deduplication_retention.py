"""A call that is asked for again is not executed again; what is kept of calls is bounded."""

from typing import Any

from creekdb.execution.datatype import DataType
from creekdb.execution.keys import CALLS_PREFIX
from creekdb.execution.transaction import Transaction
from creekdb.execution.undo import StateObject
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.server.calls.capabilities import DeduplicatingDataType
from creekdb.wire.deduplication import CALLS_PER_CLIENT_MAX, KEPT_RESPONSE_BYTES_MAX, wrap_call

COUNTING = DataType("counting")


@COUNTING.operation
def count(tx: Transaction, text: str) -> tuple[int, str]:
    times: int = tx.get("times", 0) + 1
    tx.put("times", times)
    return times, text


class Machine:
    def __init__(self) -> None:
        self.state = StateObject(DeduplicatingDataType(COUNTING))
        self._requests = 0

    def carry_out(self, operation: Operation) -> Outcome:
        self._requests += 1
        request = Request(self._requests, Dot(0, self._requests), operation, strong=False)
        execution = self.state.run(request)
        self.state.install(request, execution)
        return execution.outcome

    def kept(self) -> list[Any]:
        registers = self.state.items()
        return [key for key, _ in registers if isinstance(key, tuple) and key[0] == CALLS_PREFIX]


def counted(client: str, number: int, text: str = "") -> Operation:
    return wrap_call(client, number, COUNTING.call("count", text))


def test_a_call_that_is_asked_again_answers_what_it_answered() -> None:
    machine = Machine()
    first = machine.carry_out(counted("ann", 1))
    assert machine.carry_out(counted("bob", 1)).value == (2, "")
    assert machine.carry_out(counted("ann", 1)) == first
    assert machine.carry_out(counted("ann", 2)).value == (3, "")


def test_another_operation_under_the_same_number_is_a_mistake() -> None:
    machine = Machine()
    machine.carry_out(counted("ann", 1))
    said = machine.carry_out(counted("ann", 1, "another"))
    assert said.error == "NumberUsed: call 1 of ann was another operation"


def test_of_each_client_so_many_calls_are_kept_and_no_more() -> None:
    machine = Machine()
    for number in range(1, CALLS_PER_CLIENT_MAX + 11):
        machine.carry_out(counted("ann", number))
    assert len(machine.kept()) == CALLS_PER_CLIENT_MAX
    assert machine.carry_out(counted("ann", 11)).value == (11, ""), "the oldest that is kept"


def test_a_call_that_many_later_ones_overtook_is_executed_and_keeps_none_of_them_out() -> None:
    machine = Machine()
    last = machine.carry_out(counted("ann", 1 + CALLS_PER_CLIENT_MAX))
    assert machine.carry_out(counted("ann", 1)).value == (2, "")
    assert machine.carry_out(counted("ann", 1 + CALLS_PER_CLIENT_MAX)) == last


def test_an_answer_that_is_too_long_is_given_once() -> None:
    machine = Machine()
    long = "x" * (KEPT_RESPONSE_BYTES_MAX + 1)
    again = counted("ann", 1, long)
    assert machine.carry_out(again).value == (1, long)
    assert str(machine.carry_out(again).error).startswith("Forgotten")
