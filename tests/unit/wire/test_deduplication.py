"""Deduplicated calls, and the registers reserved for Creek."""

from typing import Any

import pytest

from creekdb import DataType
from creekdb.datatypes.kv import KV
from creekdb.execution.keys import CALLS_PREFIX
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import ABSENT, Transaction, View
from creekdb.execution.undo import StateObject
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.membership.configuration import MEMBERSHIP_OPERATION
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.protocol.values import Key
from creekdb.server.calls.capabilities import DeduplicatingDataType
from creekdb.wire.deduplication import QUERY_OUTCOME, expire_calls, run_request, wrap_call

REGISTERS = DataType("registers")


@REGISTERS.operation
def put(tx: Transaction, key: Any, value: Any) -> None:
    tx.put(key, value)


@REGISTERS.operation
def add(tx: Transaction, key: Any) -> None:
    tx.add(key, 1)


@REGISTERS.operation
def delete(tx: Transaction, key: Any) -> None:
    tx.delete(key)


@REGISTERS.operation(readonly=True)
def keys(tx: Transaction, prefix: Any = None) -> Any:
    return tuple(key for key, _ in tx.scan(prefix))


class StateMachine:
    def __init__(self) -> None:
        self.state = StateObject(DeduplicatingDataType(REGISTERS))
        self._call_count = 0

    def call(self, operation: Operation) -> Any:
        """Return the value of the operation, or its error."""
        self._call_count += 1
        request = Request(self._call_count, Dot(0, self._call_count), operation, False)
        outcome = self.state.execute(request)
        return outcome.error or outcome.value


@pytest.mark.parametrize("client", ["ann", ""])
@pytest.mark.parametrize(
    "key",
    [(CALLS_PREFIX, "ann", 1), (CALLS_PREFIX,), (MEMBERSHIP_OPERATION,), (MEMBERSHIP_OPERATION, 7)],
)
@pytest.mark.parametrize(("name", "arguments"), [("put", (5,)), ("add", ()), ("delete", ())])
def test_no_operation_can_write_reserved_registers(
    name: str, arguments: tuple[int, ...], key: Key, client: str
) -> None:
    state_machine = StateMachine()
    operation = Operation(name, (key, *arguments))
    response = state_machine.call(wrap_call(client, 7, operation) if client else operation)

    assert "belongs to Creek; choose another name" in response
    assert state_machine.state.read(key) is ABSENT
    assert state_machine.call(expire_calls(10)) == (1 if client else 0,), "there is no other call"


def test_all_other_registers_can_be_written() -> None:
    state_machine = StateMachine()
    for key in ("creekdb.client", (), ("creek",), ("ann", CALLS_PREFIX), 3):
        state_machine.call(Operation("put", (key, 5)))
        assert state_machine.state.read(key) == 5


def test_scans_omit_reserved_registers() -> None:
    state_machine = StateMachine()
    for number, key in enumerate([3, "a", ("creek",), ("zebra", 1)]):
        state_machine.call(wrap_call("ann", number, Operation("put", (key, number))))

    assert state_machine.call(Operation("keys")) == (3, "a", ("creek",), ("zebra", 1))
    assert state_machine.call(Operation("keys", ((),))) == (("creek",), ("zebra", 1))
    assert state_machine.call(Operation("keys", ((CALLS_PREFIX,),))) == ()
    assert len([key for key, _ in state_machine.state.items()]) == 8


def test_a_deferred_addition_to_a_reserved_register_fails() -> None:
    """The store of a live replica defers additions. They are not among the writes."""

    def run_as(request: Request, name: str, arguments: tuple[Any, ...], view: View) -> Any:
        return ExecutionResult(Outcome(), {}, blind_adds={(CALLS_PREFIX, "ann", 1): 1})

    request = Request(1, Dot(0, 1), Operation("add"), False)
    execution = run_request(run_as, request, StateMachine().state)

    assert "belongs to Creek; choose another name" in str(execution.outcome.error)
    assert not execution.blind_adds


# --- footprints -------------------------------------------------------------------------------


def prefixes_of(operation: Operation) -> tuple[Key, ...] | None:
    footprint = DeduplicatingDataType(KV).footprint(operation)
    return None if footprint is None else footprint.touches


def test_a_deduplicated_call_touches_its_register_too() -> None:
    put = KV.call("put", "lamp", 1)

    assert prefixes_of(put) == ("lamp",)
    assert prefixes_of(wrap_call("ann", 1025, put)) == ("lamp", (CALLS_PREFIX, "ann", 1))
    assert prefixes_of(Operation(QUERY_OUTCOME, ("ann", 1025))) == ((CALLS_PREFIX, "ann", 1),)
    assert prefixes_of(expire_calls(7)) == ((CALLS_PREFIX,),)


def test_a_deduplicated_call_without_a_footprint_may_touch_everything() -> None:
    datatype = DeduplicatingDataType(REGISTERS)
    assert datatype.footprint(wrap_call("ann", 1, REGISTERS.call("add", "x"))) is None


def test_two_calls_with_one_number_overlap() -> None:
    datatype = DeduplicatingDataType(KV)
    first, retry = (
        datatype.footprint(wrap_call("ann", 7, KV.call("put", key, 1))) for key in ("a", "b")
    )
    assert first is not None
    assert retry is not None
    assert set(first.touches) & set(retry.touches) == {(CALLS_PREFIX, "ann", 7)}
