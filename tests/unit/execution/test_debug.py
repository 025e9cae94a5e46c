"""Debug mode: what is executed twice must do the same twice."""

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


def answer_the_time(tx: Transaction) -> float:
    return time.time()


def answer_by_chance(tx: Transaction) -> float:
    return random.random()


def answer_an_identity(tx: Transaction) -> int:
    return id(object())


def answer_the_identity_of_the_transaction(tx: Transaction) -> int:
    return id(tx)


def answer_the_identity_of_a_list(tx: Transaction) -> int:
    return id([1, 2])


def answer_the_hash_of_an_object(tx: Transaction) -> int:
    return hash(object())


_CALLS = count()


def answer_how_often_it_ran(tx: Transaction) -> int:
    return next(_CALLS)


def write_by_chance(tx: Transaction) -> None:
    tx.put("a", str(uuid.uuid4()))


def write_in_any_order(tx: Transaction) -> None:
    for key in random.sample(range(20), 20):
        tx.put(key, 1)


def add_by_chance(tx: Transaction) -> None:
    tx.add("a", random.randrange(2**40))


def read_by_chance(tx: Transaction) -> None:
    tx.get(random.randrange(2**40))


def scan_by_chance(tx: Transaction) -> None:
    list(tx.scan(start=random.randrange(2**40)))


def raise_by_chance(tx: Transaction) -> None:
    raise ValueError(random.random())


def delete_by_chance(tx: Transaction) -> None:
    tx.delete(random.randrange(2**40))


def answer_a_type_by_turns(tx: Transaction) -> Any:
    return (1, True)[next(_CALLS) % 2]


def answer_a_dict_by_turns(tx: Transaction) -> Any:
    """Equal dicts, but whoever goes through one meets the keys in another order."""
    return ({"a": 1, "b": 2}, {"b": 2, "a": 1})[next(_CALLS) % 2]


CULPRITS = (
    answer_the_time,
    answer_by_chance,
    answer_an_identity,
    answer_the_identity_of_the_transaction,
    answer_the_identity_of_a_list,
    answer_the_hash_of_an_object,
    answer_how_often_it_ran,
    write_by_chance,
    write_in_any_order,
    add_by_chance,
    read_by_chance,
    scan_by_chance,
    raise_by_chance,
    delete_by_chance,
    answer_a_type_by_turns,
    answer_a_dict_by_turns,
)


@pytest.mark.parametrize("function", CULPRITS)
def test_an_operation_that_depends_on_more_than_its_state_is_named(
    function: Callable[..., Any],
) -> None:
    with pytest.raises(NotDeterministic, match=r"operation go\(\) of toy is not deterministic"):
        run(function)


def test_the_error_tells_the_call_both_results_and_what_to_do() -> None:
    answers = count(5)

    def go(tx: Transaction, table: dict[str, int], text: str) -> int:
        tx.put("a", 1)
        return next(answers)

    with pytest.raises(UsageError) as caught:
        run(go, {"x": 1}, "hello")
    assert str(caught.value) == (
        "operation go({'x': 1}, 'hello') of toy is not deterministic: it answered 5, wrote 'a' = "
        "1; executed again on the same state, it answered 6, wrote 'a' = 1. An operation must "
        "depend on nothing but its transaction and its arguments: use tx.timestamp for the clock, "
        "tx.random for chance, sorted(...) for the order of a set, and neither id() nor hash() nor "
        "anything that an earlier call left behind"
    )


def test_of_long_results_the_error_tells_where_they_differ() -> None:
    answers = count(5)

    def go(tx: Transaction) -> list[int]:
        return [*range(1_000), next(answers), *range(1_000)]

    with pytest.raises(NotDeterministic, match=r"998, 999, 5, 0, .*998, 999, 6, 0, ") as caught:
        run(go)
    assert len(str(caught.value)) < 4 * EXCERPT_LENGTH_MAX


def test_time_and_chance_that_come_from_the_request_are_fine() -> None:
    def go(tx: Transaction) -> tuple[int, float]:
        tx.put("drawn", tx.random.choice("abc"))
        return tx.timestamp, tx.random.random()

    assert run(go).error is None


def test_an_operation_may_raise_as_long_as_it_always_does() -> None:
    def go(tx: Transaction) -> None:
        raise ValueError(f"no luck with {tx}")

    assert run(go).error == (
        "ValueError: no luck with <creekdb.execution.transaction.Transaction object>"
    )


def test_an_operation_without_end_is_stopped() -> None:
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
    held = (*(store.values() for store in versions), dict(plain.items()))
    states = [changes(each.items(), EmptyBase()) for each in held]
    assert states[0] == states[1] == states[2]
    assert len(datatype.execution_log) == 2 * len(scripts)


# --- between processes --------------------------------------------------------------------------


def test_the_order_of_a_set_shows_in_the_journal_and_the_operation_is_named() -> None:
    ours = [
        ExecutionRecord("put('a')", "answered None"),
        ExecutionRecord("list()", "answered ('a', 'b')"),
    ]
    theirs = [ours[0], ExecutionRecord("list()", "answered ('b', 'a')")]
    assert first_difference("toy", ours, ours, "elsewhere") is None
    found = first_difference("toy", ours, theirs, "elsewhere")
    assert found is not None
    assert str(found).startswith(
        "operation list() of toy is not deterministic: it answered ('a', 'b'); elsewhere, it "
        "answered ('b', 'a'). "
    )


def test_a_run_that_differs_without_an_operation_that_does_is_not_blamed_on_one() -> None:
    ours = [ExecutionRecord("put('a')", "answered None")]
    for theirs in ([], [ExecutionRecord("put('b')", "answered None")], [*ours, *ours]):
        found = first_difference("toy", ours, theirs, "elsewhere")
        assert found is not None
        assert "the run itself is not deterministic" in str(found)
