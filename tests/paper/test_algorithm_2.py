"""Algorithm 2: the `StateObject` and its undo log."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.datatypes import DATATYPES
from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import ABSENT, Transaction
from creekdb.execution.undo import StateObject
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Outcome, Request
from tests.unit.execution.strategies import sample_operation

REGISTERS = DataType("registers")


@REGISTERS.operation
def write(tx: Transaction, *pairs: tuple[str, Any]) -> None:
    for key, value in pairs:
        tx.put(key, value)


@REGISTERS.operation
def delete(tx: Transaction, key: str) -> None:
    tx.delete(key)


@REGISTERS.operation(readonly=True)
def read(tx: Transaction, key: str) -> Any:
    return tx.get(key, "absent")


@REGISTERS.operation(readonly=True)
def keys(tx: Transaction) -> tuple[Any, ...]:
    return tuple(key for key, _ in tx.scan())


@REGISTERS.operation
def write_then_raise(tx: Transaction, key: str) -> None:
    tx.put(key, "discarded")
    raise ValueError("no")


def request(number: int, name: str, *arguments: Any) -> Request:
    return Request(number, Dot(0, number), Operation(name, arguments), strong=False)


def write_of(number: int, **values: Any) -> Request:
    return request(number, "write", *values.items())


def test_a_read_returns_the_value_in_the_database() -> None:
    """Lines 6-7: "upon read(id): return db[id]"."""
    state = StateObject(REGISTERS, {"x": 5})

    assert state.execute(request(1, "read", "x")) == Outcome(5)
    assert state.execute(request(2, "read", "y")) == Outcome("absent")


def test_a_write_changes_the_database() -> None:
    """Lines 8 and 11: "db[id] = v"."""
    state = StateObject(REGISTERS, {"x": 5})
    state.execute(write_of(1, x=6, y=7))

    assert state.db == {"x": 6, "y": 7}


def test_the_undo_map_holds_the_previous_values() -> None:
    """Lines 9-10: "if undoMap[id] = ⊥ then undoMap[id] = db[id]"."""
    state = StateObject(REGISTERS, {"x": 5, "z": 9})
    state.execute(write_of(1, x=6, y=7))

    assert dict(state.undo_log) == {Dot(0, 1): {"x": 5, "y": ABSENT}}


def test_the_undo_map_ignores_later_writes_to_the_same_register() -> None:
    """Line 9: at the second write `undoMap[id]` is set; the intermediate value is not stored."""
    state = StateObject(REGISTERS, {"x": 1})
    twice = request(1, "write", ("x", 2), ("x", 3))

    state.execute(twice)
    assert state.db == {"x": 3}
    state.rollback(twice)

    assert state.db == {"x": 1}


def test_execute_returns_the_response() -> None:
    """Lines 12 and 14: "upon return(response): … return response"."""
    state = StateObject(REGISTERS, {"b": 1, "a": 2})

    assert state.execute(request(1, "keys")) == Outcome(("a", "b"))


def test_the_log_contains_read_only_operations() -> None:
    """Line 13: "undoLog[r] = undoMap", even if empty, so that the request can be rolled back."""
    state = StateObject(REGISTERS)
    reader = request(1, "read", "x")
    state.execute(reader)
    assert dict(state.undo_log) == {reader.id: {}}

    state.rollback(reader)

    assert dict(state.undo_log) == {}


def test_a_rollback_restores_overwritten_values() -> None:
    """Lines 15-18: "for (id, v) ∈ undoMap do db[id] = v"."""
    state = StateObject(REGISTERS, {"x": 1, "y": 2})
    change = write_of(1, x=10, y=20)
    state.execute(change)

    state.rollback(change)

    assert state.db == {"x": 1, "y": 2}


def test_a_rollback_removes_created_registers() -> None:
    """Lines 10 and 18, where `db[id]` is ⊥: the rollback removes the register."""
    state = StateObject(REGISTERS)
    change = write_of(1, x=1)
    state.execute(change)

    state.rollback(change)

    assert state.db == {}
    assert state.execute(request(2, "keys")) == Outcome(())
    assert state.execute(request(3, "read", "x")) == Outcome("absent")


def test_a_rollback_restores_none_values() -> None:
    """Lines 9-10: None is a value and not ⊥."""
    state = StateObject(REGISTERS, {"x": None})
    change = write_of(1, x=1)
    state.execute(change)

    state.rollback(change)

    assert state.db == {"x": None}
    assert state.execute(request(2, "read", "x")) == Outcome(None)


def test_a_rollback_restores_deleted_registers() -> None:
    """Lines 8-11 and 18: a deletion writes ⊥, and is undone in the same way."""
    state = StateObject(REGISTERS, {"x": 1, "y": 2})
    deletion = request(1, "delete", "x")
    state.execute(deletion)
    assert state.db == {"y": 2}

    state.rollback(deletion)

    assert state.db == {"x": 1, "y": 2}
    assert state.execute(request(2, "keys")) == Outcome(("x", "y"))


def test_a_rollback_removes_the_request_from_the_log() -> None:
    """Line 19: "undoLog = undoLog \\ (r, undoMap)"; the request can run and be undone again."""
    state = StateObject(REGISTERS)
    change = write_of(1, x=1)

    for _ in range(2):
        state.execute(change)
        state.rollback(change)

    assert state.db == {}
    assert dict(state.undo_log) == {}


def test_an_unexecuted_request_cannot_be_rolled_back() -> None:
    """Line 16: `undoLog[r]` must exist."""
    state = StateObject(REGISTERS)
    change = write_of(1, x=1)
    state.execute(change)
    state.rollback(change)

    with pytest.raises(AssertionError):
        state.rollback(change)


def test_requests_can_be_rolled_back_only_newest_first() -> None:
    """Line 47 of Algorithm 1 reverses the list: an older undo map lacks the newer writes."""
    state = StateObject(REGISTERS)
    older, newer = write_of(1, x=1), write_of(2, x=2)
    state.execute(older)
    state.execute(newer)

    with pytest.raises(AssertionError):
        state.rollback(older)
    state.rollback(newer)
    assert state.db == {"x": 1}
    state.rollback(older)
    assert state.db == {}


def test_a_failed_operation_leaves_nothing_to_undo() -> None:
    """Lines 12-13 for an operation that raises: its error is its response."""
    state = StateObject(REGISTERS, {"x": 1})
    failing = request(1, "write_then_raise", "x")

    assert state.execute(failing) == Outcome(error="ValueError: no")
    assert state.db == {"x": 1}
    state.rollback(failing)
    assert state.db == {"x": 1}


def test_the_log_can_be_truncated_to_the_tentative_requests() -> None:
    """Section 4.2: "the log can be truncated to include only the operations on" `tentative`."""
    state = StateObject(REGISTERS)
    committed, tentative = write_of(1, x=1), write_of(2, x=2)
    state.execute(committed)
    state.execute(tentative)

    state.truncate(committed)

    assert list(state.undo_log) == [tentative.id]
    state.rollback(tentative)
    assert state.db == {"x": 1}


@pytest.mark.parametrize("datatype", sorted(DATATYPES))
@given(seed=st.integers(0, 2**32), kept=st.integers(0, 8), undone=st.integers(0, 8))
def test_any_executed_suffix_can_be_revoked(
    datatype: str, seed: int, kept: int, undone: int
) -> None:
    """Section 4.2: the undo log "allows it to revoke the effects of any operation executed"."""
    random = Random(seed)
    requests = [
        Request(number, Dot(0, number), sample_operation(datatype, random), strong=False)
        for number in range(1, kept + undone + 1)
    ]
    state = StateObject(DATATYPES[datatype])
    _execute(state, requests[:kept])
    before = list(state.items())

    first = _execute(state, requests[kept:])
    for each in reversed(requests[kept:]):
        state.rollback(each)

    assert list(state.items()) == before
    assert _execute(state, requests[kept:]) == first


def _execute(state: StateObject, requests: Sequence[Request]) -> list[Outcome]:
    return [state.execute(each) for each in requests]
