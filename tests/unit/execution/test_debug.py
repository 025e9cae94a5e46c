"""Debug mode: two executions on the same state must have the same result."""

import random
import time
import uuid
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.errors import NotDeterministic, UsageError
from creekdb.execution.base_state import EmptyBase, changes
from creekdb.execution.datatype import DataType
from creekdb.execution.debug import (
    EXCERPT_LENGTH_MAX,
    DebugDataType,
    ExecutionRecord,
    first_difference,
)
from creekdb.execution.mvcc.entry import RequestEntry, tentative_position
from creekdb.execution.mvcc.version_store import VersionStore
from creekdb.execution.transaction import Transaction
from creekdb.execution.undo import StateObject
from creekdb.protocol.request import Operation
from tests.unit.execution.strategies import SCRIPT, STEPS, request, requests


def debugged(function: Callable[..., Any]) -> DebugDataType:
    datatype = DataType("toy", steps=10_000)
    datatype.operation(name="go")(function)
    return DebugDataType(datatype)


def run(function: Callable[..., Any], *arguments: Any) -> Any:
    datatype = debugged(function)
    return datatype.run(request(Operation("go", arguments)), datatype.sequential()).outcome


def return_the_time(tx: Transaction) -> float:
    return time.time()


def return_a_random_number(tx: Transaction) -> float:
    return random.random()


def return_an_identity(tx: Transaction) -> int:
    return id(object())


def return_the_identity_of_the_transaction(tx: Transaction) -> int:
    return id(tx)


def return_the_identity_of_a_list(tx: Transaction) -> int:
    return id([1, 2])


def return_the_hash_of_an_object(tx: Transaction) -> int:
    return hash(object())


_CALLS = count()


def return_the_number_of_calls(tx: Transaction) -> int:
    return next(_CALLS)


def write_a_random_value(tx: Transaction) -> None:
    tx.put("a", str(uuid.uuid4()))


def write_in_random_order(tx: Transaction) -> None:
    for key in random.sample(range(20), 20):
        tx.put(key, 1)


def add_a_random_amount(tx: Transaction) -> None:
    tx.add("a", random.randrange(2**40))


def read_a_random_key(tx: Transaction) -> None:
    tx.get(random.randrange(2**40))


def scan_a_random_range(tx: Transaction) -> None:
    list(tx.scan(start=random.randrange(2**40)))


def raise_a_random_error(tx: Transaction) -> None:
    raise ValueError(random.random())


def delete_a_random_key(tx: Transaction) -> None:
    tx.delete(random.randrange(2**40))


def return_alternating_types(tx: Transaction) -> Any:
    return (1, True)[next(_CALLS) % 2]


def return_alternating_dicts(tx: Transaction) -> Any:
    """Return equal dicts whose keys are in different orders."""
    return ({"a": 1, "b": 2}, {"b": 2, "a": 1})[next(_CALLS) % 2]


NOT_DETERMINISTIC = (
    return_the_time,
    return_a_random_number,
    return_an_identity,
    return_the_identity_of_the_transaction,
    return_the_identity_of_a_list,
    return_the_hash_of_an_object,
    return_the_number_of_calls,
    write_a_random_value,
    write_in_random_order,
    add_a_random_amount,
    read_a_random_key,
    scan_a_random_range,
    raise_a_random_error,
    delete_a_random_key,
    return_alternating_types,
    return_alternating_dicts,
)


@pytest.mark.parametrize("function", NOT_DETERMINISTIC)
def test_an_operation_that_is_not_deterministic_is_named(
    function: Callable[..., Any],
) -> None:
    with pytest.raises(NotDeterministic, match=r"operation go\(\) of toy is not deterministic"):
        run(function)


def test_the_error_names_the_call_both_results_and_the_remedy() -> None:
    numbers = count(5)

    def go(tx: Transaction, table: dict[str, int], text: str) -> int:
        tx.put("a", 1)
        return next(numbers)

    with pytest.raises(UsageError) as caught:
        run(go, {"x": 1}, "hello")
    assert str(caught.value) == (
        "operation go({'x': 1}, 'hello') of toy is not deterministic: it returned 5, wrote 'a' = "
        "1; executed again on the same state, it returned 6, wrote 'a' = 1. An operation must "
        "depend only on its transaction and its arguments: use tx.timestamp for the clock, "
        "tx.random for random numbers and sorted(...) for the order of a set. Do not use id(), "
        "hash() or state that an earlier call left behind"
    )


def test_the_error_quotes_long_results_around_their_difference() -> None:
    numbers = count(5)

    def go(tx: Transaction) -> list[int]:
        return [*range(1_000), next(numbers), *range(1_000)]

    with pytest.raises(NotDeterministic, match=r"998, 999, 5, 0, .*998, 999, 6, 0, ") as caught:
        run(go)
    assert len(str(caught.value)) < 4 * EXCERPT_LENGTH_MAX


def test_time_and_random_numbers_of_the_request_are_deterministic() -> None:
    def go(tx: Transaction) -> tuple[int, float]:
        tx.put("drawn", tx.random.choice("abc"))
        return tx.timestamp, tx.random.random()

    assert run(go).error is None


def test_an_operation_that_always_raises_is_deterministic() -> None:
    def go(tx: Transaction) -> None:
        raise ValueError(f"no luck with {tx}")

    assert run(go).error == (
        "ValueError: no luck with <creekdb.execution.transaction.Transaction object>"
    )


def test_an_endless_operation_is_stopped() -> None:
    def go(tx: Transaction) -> None:
        while True:
            pass

    assert run(go).error == "OperationStopped: operation 'go' took more than 10000 steps"


@given(st.lists(STEPS, max_size=6))
def test_debug_mode_changes_nothing_for_a_deterministic_operation(
    scripts: list[tuple[Any, ...]],
) -> None:
    datatype = DebugDataType(SCRIPT)
    plain, undo = StateObject(SCRIPT), StateObject(datatype)
    versions = VersionStore(), VersionStore()
    for each in requests(scripts):
        execution = plain.run(each)
        assert undo.run(each) == execution
        for state in (plain, undo):
            state.install(each, execution)
        for store, kind in zip(versions, (SCRIPT, datatype), strict=True):
            entry = RequestEntry(each, tentative_position(each))
            snapshot = store.snapshot(entry.position)
            assert store.install(entry, snapshot, kind.run(each, snapshot))
    assert plain.db == undo.db
    contents = (*(store.table.values() for store in versions), dict(plain.items()))
    states = [changes(each.items(), EmptyBase()) for each in contents]
    assert states[0] == states[1] == states[2]
    assert len(datatype.execution_log) == 2 * len(scripts)


# --- between processes --------------------------------------------------------------------------


def test_the_first_different_operation_of_two_logs_is_named() -> None:
    ours = [
        ExecutionRecord("put('a')", "returned None"),
        ExecutionRecord("list()", "returned ('a', 'b')"),
    ]
    theirs = [ours[0], ExecutionRecord("list()", "returned ('b', 'a')")]
    assert first_difference("toy", ours, ours, "elsewhere") is None
    error = first_difference("toy", ours, theirs, "elsewhere")
    assert error is not None
    assert str(error).startswith(
        "operation list() of toy is not deterministic: it returned ('a', 'b'); elsewhere, it "
        "returned ('b', 'a'). "
    )


def test_a_run_that_differs_without_a_different_operation_is_reported_as_such() -> None:
    ours = [ExecutionRecord("put('a')", "returned None")]
    for theirs in ([], [ExecutionRecord("put('b')", "returned None")], [*ours, *ours]):
        error = first_difference("toy", ours, theirs, "elsewhere")
        assert error is not None
        assert "the run itself is not deterministic" in str(error)
