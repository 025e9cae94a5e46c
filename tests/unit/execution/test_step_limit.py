"""Step limit: an endless operation is stopped after the same step on every replica."""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creekdb.errors import BadValue
from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.entry import RequestEntry, tentative_position
from creekdb.execution.mvcc.version_store import VersionStore
from creekdb.execution.result import ExecutionResult
from creekdb.execution.step_limit import STEPS_MAX, OperationStopped
from creekdb.execution.transaction import Transaction, View
from creekdb.execution.undo import StateObject
from creekdb.protocol.request import Operation
from tests.unit.execution.strategies import STEPS as SCRIPTS
from tests.unit.execution.strategies import play, request

LIMIT = 50
STOPPED = f"OperationStopped: operation 'go' took more than {LIMIT} steps"


def run(
    function: Callable[..., Any],
    *arguments: Any,
    steps: int = LIMIT,
    lines: bool = False,
    view: View | None = None,
) -> ExecutionResult:
    datatype = DataType("toy", steps=steps, count_lines=lines)
    datatype.operation(name="go")(function)
    call = request(Operation("go", arguments))
    return datatype.run(call, datatype.sequential() if view is None else view)


def get_forever(tx: Transaction) -> None:
    while True:
        tx.get("a")


def put_forever(tx: Transaction) -> None:
    while True:
        tx.put("a", 1)


def add_forever(tx: Transaction) -> None:
    while True:
        tx.add("a", 1)


def delete_forever(tx: Transaction) -> None:
    while True:
        tx.delete("a")


def scan_forever(tx: Transaction) -> None:
    while True:
        tx.scan()


def fail_forever(tx: Transaction) -> None:
    while True:
        try:
            tx.get(True)
        except BadValue:
            continue


ENDLESS = (
    get_forever,
    put_forever,
    add_forever,
    delete_forever,
    scan_forever,
    fail_forever,
)


@pytest.mark.parametrize("function", ENDLESS)
def test_an_operation_that_calls_its_transaction_forever_is_stopped(
    function: Callable[..., Any],
) -> None:
    execution = run(function)
    assert execution.outcome.error == STOPPED
    assert (execution.writes, execution.blind_adds) == ({}, {})


@pytest.mark.parametrize("steps", [1, 2, 3, 10])
def test_an_operation_is_stopped_at_the_first_step_above_the_limit(steps: int) -> None:
    def go(tx: Transaction, calls: int) -> int:
        for number in range(calls):
            if number % 3 == 0:
                tx.get("a")
            elif number % 3 == 1:
                tx.put("a", number)
            else:
                tx.add("b", 1)
        return calls

    assert run(go, steps, steps=steps).outcome.value == steps
    assert run(go, steps + 1, steps=steps).outcome.error is not None


def test_every_register_that_a_scan_passes_is_a_step() -> None:
    def fill(tx: Transaction, count: int) -> int:
        for number in range(count):
            tx.put(number, number)
        return sum(value for _, value in tx.scan())

    assert run(fill, 10, steps=21).outcome.value == 45
    assert run(fill, 10, steps=20).outcome.error is not None


def test_an_operation_that_catches_every_exception_is_stopped() -> None:
    caught: list[Exception] = []

    def stubborn(tx: Transaction) -> None:
        while True:
            try:
                tx.get("a")
            except Exception as error:  # noqa: BLE001 - like a careless operation
                caught.append(error)

    assert run(stubborn).outcome.error == STOPPED
    assert caught == []


def test_an_operation_that_catches_the_stop_cannot_continue_or_change_its_response() -> None:
    caught = []

    def stubborn(tx: Transaction) -> str:
        tx.put("a", 1)
        for call in (get_forever, put_forever, add_forever):
            try:
                call(tx)
            except OperationStopped:
                caught.append("stopped")
        return "done"

    execution = run(stubborn)
    assert caught == ["stopped"] * 3
    assert execution.outcome.error == STOPPED
    assert execution.writes == {}


@given(SCRIPTS, st.integers(1, 12))
def test_the_number_of_steps_does_not_depend_on_the_store(
    script: tuple[Any, ...], steps: int
) -> None:
    store = VersionStore()
    entry = RequestEntry(
        request(Operation("go", ())), tentative_position(request(Operation("go", ())))
    )
    snapshot = store.snapshot(entry.position)
    plain = StateObject(DataType("plain"))
    versioned, undone = (run(play, script, steps=steps, view=view) for view in (snapshot, plain))
    assert versioned.outcome == undone.outcome


def test_an_invalid_limit_is_rejected() -> None:
    assert DataType("toy").steps == STEPS_MAX
    for steps in (0, -1, True, 1.5, None):
        with pytest.raises(BadValue, match="the step limit of toy must be an int from 1"):
            DataType("toy", steps=steps)  # type: ignore[arg-type]


# --- lines --------------------------------------------------------------------------------------


def spin(tx: Transaction) -> None:
    while True:
        pass


def spin_in_one_line(tx: Transaction) -> int:
    return sum(1 for _ in iter(int, 1))


def spin_in_a_helper(tx: Transaction) -> None:
    spin(tx)


def spin_inside(tx: Transaction) -> None:
    def inner() -> None:
        while True:
            pass

    inner()


def naturals() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


def iterate_forever(tx: Transaction) -> None:
    for _ in naturals():
        pass


def fibonacci(number: int) -> int:
    return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)


def recurse_widely(tx: Transaction) -> int:
    return fibonacci(60)


def draw_random_numbers_forever(tx: Transaction) -> None:
    while tx.random.random() < 2:
        pass


ENDLESS_LOOPS = (
    spin,
    spin_in_one_line,
    spin_in_a_helper,
    spin_inside,
    iterate_forever,
    recurse_widely,
    draw_random_numbers_forever,
)


@pytest.mark.parametrize("function", ENDLESS_LOOPS)
def test_counting_lines_stops_a_loop_without_the_transaction(
    function: Callable[..., Any],
) -> None:
    assert run(function, lines=True).outcome.error == STOPPED


def triangle(tx: Transaction, count: int) -> int:
    total = 0
    for number in range(count):
        total += sum(each for each in range(number))
        tx.put("total", total)
    return total


@given(st.integers(0, 12), st.integers(1, 300))
def test_the_number_of_lines_is_deterministic(count: int, steps: int) -> None:
    first, second = (run(triangle, count, steps=steps, lines=True) for _ in range(2))
    assert first == second


def steps_needed(function: Callable[..., Any], *arguments: Any) -> int:
    return next(
        steps
        for steps in range(1, 1_000)
        if run(function, *arguments, steps=steps, lines=True).outcome.error is None
    )


def test_longer_loops_take_more_steps_and_internal_lines_take_none() -> None:
    def read_once(tx: Transaction) -> None:
        tx.get("a")

    assert steps_needed(read_once) == 2  # one call of the operation, one of the transaction
    assert steps_needed(triangle, 3) < steps_needed(triangle, 4)


def parse_number(tx: Transaction, text: str) -> int:
    import re  # noqa: PLC0415 - the import is part of the test

    re.purge()
    match = re.match(r"(\d+|[a-z]{3,7}){1,4}$", text)
    return len(match[0]) if match is not None else 0


def test_lines_of_the_standard_library_are_not_counted() -> None:
    assert steps_needed(parse_number, "12abc") == 1


@pytest.mark.parametrize("lines", [False, True])
def test_the_previous_tracer_is_restored(lines: bool) -> None:
    def debugger(frame: FrameType, event: str, argument: Any) -> None:
        return None

    previous = sys.gettrace()
    sys.settrace(debugger)
    try:
        for function in (spin if lines else get_forever, triangle):
            run(function, *((1,) if function is triangle else ()), lines=lines)
            assert sys.gettrace() is debugger
    finally:
        sys.settrace(previous)
