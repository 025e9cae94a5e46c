"""Batches: several calls as one request, applied all or nothing."""

from typing import Any

import pytest

from creekdb.datatypes.kv import KV
from creekdb.execution.result import ExecutionResult
from creekdb.execution.undo import StateObject
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Request
from creekdb.wire.batches import BATCH, BATCH_CALLS_MAX, is_batch
from creekdb.wire.deduplication import run_request, wrap_call


def run(state: StateObject, number: int, *calls: tuple[str, tuple[Any, ...]]) -> ExecutionResult:
    operation = wrap_call("ann", number, Operation(BATCH, calls))
    request = Request(number, Dot(0, number), operation, True)
    execution = run_request(KV.run_as, request, state)
    state.install(request, execution)
    return execution


def test_calls_of_a_batch_read_earlier_writes_of_it() -> None:
    state = StateObject(KV, {"a": 1, "c": 5})
    calls = ("increment", ("a", 2)), ("put", ("b", 7)), ("delete", ("c",)), ("scan", ())
    execution = run(state, 1, *calls)

    assert execution.outcome.error is None
    value, _, _, scanned = execution.outcome.value
    assert value == 3
    assert scanned == (("a", 3), ("b", 7))
    assert (state.read("a"), state.read("b")) == (3, 7)


def test_a_batch_with_an_error_has_no_effect() -> None:
    state = StateObject(KV, {"a": "text"})
    execution = run(state, 1, ("put", ("b", 1)), ("increment", ("a", 1)))

    assert execution.outcome.error is not None
    assert execution.outcome.error.endswith("(call 2 of 2: increment)")
    assert dict(state.items()).keys() == {"a", ("creek.calls", "ann", 1)}


def test_a_repeated_batch_is_executed_once() -> None:
    state = StateObject(KV)
    calls = ("increment", ("a", 1)), ("increment", ("a", 1))
    first = run(state, 1, *calls)
    operation = wrap_call("ann", 1, Operation(BATCH, calls))
    again = run_request(KV.run_as, Request(2, Dot(0, 2), operation, True), state)

    assert again.outcome.same_as(first.outcome)
    assert again.writes == {}
    assert state.read("a") == 2


def test_internal_operations_are_rejected() -> None:
    execution = run(StateObject(KV), 1, ("creek.forget", (1, "", 0)))

    assert execution.outcome.error is not None
    assert "cannot be called in a batch" in execution.outcome.error


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("put",),
        (("put",),),
        (("put", "a"),),
        ((1, ()),),
        (("put", ()),) * (BATCH_CALLS_MAX + 1),
    ],
)
def test_other_arguments_are_no_batch(arguments: tuple[Any, ...]) -> None:
    assert not is_batch(arguments)
