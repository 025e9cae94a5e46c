"""A data type whose calls are executed once, and what of the state is Creek's and not its own."""

from typing import Any

import pytest

from creekdb import DataType
from creekdb.execution.keys import CALLS_PREFIX
from creekdb.execution.transaction import ABSENT, Transaction
from creekdb.execution.undo import StateObject
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.configuration import MEMBERSHIP_OPERATION
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.values import Key
from creekdb.server.calls.capabilities import DeduplicatingDataType
from creekdb.wire.deduplication import expire_calls, wrap_call

ANYTHING = DataType("anything")


@ANYTHING.operation
def put(tx: Transaction, key: Any, value: Any) -> None:
    tx.put(key, value)


@ANYTHING.operation
def add(tx: Transaction, key: Any) -> None:
    tx.add(key, 1)


@ANYTHING.operation
def delete(tx: Transaction, key: Any) -> None:
    tx.delete(key)


@ANYTHING.operation(readonly=True)
def everything(tx: Transaction, prefix: Any = None) -> Any:
    return tuple(key for key, _ in tx.scan(prefix))


class Machine:
    def __init__(self) -> None:
        self.state = StateObject(DeduplicatingDataType(ANYTHING))
        self._calls = 0

    def call(self, operation: Operation) -> Any:
        """What it answers, or the error."""
        self._calls += 1
        request = Request(self._calls, Dot(0, self._calls), operation, False)
        outcome = self.state.execute(request)
        return outcome.error or outcome.value


@pytest.mark.parametrize("by", ["ann", ""])
@pytest.mark.parametrize(
    "key",
    [(CALLS_PREFIX, "ann", 1), (CALLS_PREFIX,), (MEMBERSHIP_OPERATION,), (MEMBERSHIP_OPERATION, 7)],
)
@pytest.mark.parametrize(("name", "rest"), [("put", (5,)), ("add", ()), ("delete", ())])
def test_registers_of_creek_are_written_by_no_operation(
    name: str, rest: tuple[int, ...], key: Key, by: str
) -> None:
    machine = Machine()
    operation = Operation(name, (key, *rest))
    answer = machine.call(wrap_call(by, 7, operation) if by else operation)

    assert "belongs to Creek: choose another name" in answer
    assert machine.state.read(key) is ABSENT
    assert machine.call(expire_calls(10)) == (1 if by else 0,), "nothing else is there"


def test_other_registers_are_written_by_any_name() -> None:
    machine = Machine()
    for key in ("creekdb.client", (), ("creek",), ("ann", CALLS_PREFIX), 3):
        machine.call(Operation("put", (key, 5)))
        assert machine.state.read(key) == 5


def test_a_scan_of_everything_shows_nothing_of_creek() -> None:
    machine = Machine()
    for number, key in enumerate([3, "a", ("creek",), ("zebra", 1)]):
        machine.call(wrap_call("ann", number, Operation("put", (key, number))))

    assert machine.call(Operation("everything")) == (3, "a", ("creek",), ("zebra", 1))
    assert machine.call(Operation("everything", ((),))) == (("creek",), ("zebra", 1))
    assert machine.call(Operation("everything", ((CALLS_PREFIX,),))) == ()
    assert len([key for key, _ in machine.state.items()]) == 8
