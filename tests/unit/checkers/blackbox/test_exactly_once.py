"""Calls that take effect once: known-good, known-bad and mutated runs."""

from typing import Any

import msgspec
import pytest

from creekdb.checkers import Illegal, Ok
from creekdb.checkers.blackbox.exactly_once import check_exactly_once
from creekdb.checkers.blackbox.linearizability.models import ANY_VALUE
from creekdb.checkers.blackbox.observations import (
    CallStatus,
    FinalObservation,
    ObservedCall,
    ObservedRun,
)
from tests.unit.checkers.blackbox.kv_runs import call, kv_run, serial_run
from tests.unit.checkers.blackbox.transaction_runs import transaction

OK = CallStatus.OK
INCREMENT = call("c", 0, "increment", "n", value=1)
UNKNOWN_INCREMENT = call("c", 10, "increment", "n", status=CallStatus.UNKNOWN)
REJECTED_INCREMENT = call("c", 0, "increment", "n", status=CallStatus.REJECTED)
REJECTED_PUT = call("c", 0, "put", "k", 6, status=CallStatus.REJECTED)


@pytest.mark.parametrize("seed", range(20))
def test_serial_executions_execute_every_call_once(seed: int) -> None:
    assert check_exactly_once(serial_run(seed)) == Ok("exactly once")


@pytest.mark.parametrize(("count", "is_legal"), [(0, False), (1, True), (2, True), (3, False)])
def test_a_call_of_unknown_outcome_counts_at_most_once(count: int, is_legal: bool) -> None:
    verdict = check_exactly_once(kv_run(INCREMENT, UNKNOWN_INCREMENT, r0={"n": count}))

    assert isinstance(verdict, Ok) == is_legal


@pytest.mark.parametrize("replica", ["r0", "r1"])
def test_the_counters_of_every_replica_are_compared(replica: str) -> None:
    run = serial_run(3)
    state = dict(run.final_states[replica])
    state["all count"] += 1000
    changed = msgspec.structs.replace(run, final_states={**run.final_states, replica: state})

    verdict = check_exactly_once(changed)
    assert isinstance(verdict, Illegal)
    assert "all count" in verdict.message


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ((call("c", 0, "put", "k", 5, value=5),), "returned a previous value"),
        ((call("c", 0, "put", "k", 5), call("d", 10, "get", "k", value=4)), "another value"),
        ((REJECTED_PUT, call("d", 10, "get", "k", value=6)), "was rejected"),
        ((INCREMENT, call("c", 10, "get", "n", value=2)), "up to then add 1"),
        ((INCREMENT, call("c", 10, "scan", "", value=(("n", 2),))), "up to then add 1"),
        ((call("c", 0, "get", "n", value=1), call("c", 10, "increment", "n")), "then add 0"),
        ((REJECTED_INCREMENT, call("c", 10, "get", "n", value=1)), "up to then add 0"),
        ((INCREMENT, call("c", 10, "get", "n", value="2")), "it was read as '2'"),
        ((INCREMENT, call("c", 10, "scan", "", value=5)), "not a list of pairs"),
        ((INCREMENT, call("c", 10, "scan", "", value=((1, 2, 3),))), "not a list of pairs"),
    ],
)
def test_responses_reveal_calls_that_were_executed_twice_or_never(
    calls: tuple[ObservedCall, ...], message: str
) -> None:
    verdict = check_exactly_once(kv_run(*calls))

    assert isinstance(verdict, Illegal)
    assert message in verdict.message


@pytest.mark.parametrize(
    "write",
    [
        call("d", 10, "put", "k", 6),
        call("d", 10, "put_if_absent", "k", 6, value=6),
        call("d", 10, "compare_and_set", "k", 5, 6, value=True),
    ],
    ids=lambda write: write.operation,
)
def test_a_key_with_another_write_may_have_another_value(write: ObservedCall) -> None:
    run = kv_run(call("c", 0, "put", "k", 5), write, call("c", 20, "get", "k", value=6))

    assert check_exactly_once(run) == Ok("exactly once")


@pytest.mark.parametrize(
    ("value", "changed", "is_legal"),
    [(1, False, True), (2, True, True), (1, True, False), (2, False, False)],
)
def test_a_final_response_is_changed_if_it_differs(
    value: int, changed: bool, is_legal: bool
) -> None:
    final = FinalObservation(20, CallStatus.OK, value, changed)
    weak = call("c", 0, "withdraw", "ann", value=1, strong=False, final=final)
    run = ObservedRun(datatype="bank", calls=(weak,))

    assert isinstance(check_exactly_once(run), Ok) == is_legal


@pytest.mark.parametrize("value", [None, "1", 1.0, True])
def test_a_final_counter_is_an_integer(value: Any) -> None:
    verdict = check_exactly_once(kv_run(INCREMENT, r0={"n": value}))

    assert isinstance(verdict, Illegal)
    assert verdict.message.endswith(f"on replica r0 is {value!r}")


@pytest.mark.parametrize(
    "calls",
    [
        (call("c", 0, "put", "k", 5, value=ANY_VALUE),),
        (call("c", 0, "put", "k", 5), call("d", 10, "get", "k", value=ANY_VALUE)),
        (INCREMENT, call("c", 10, "scan", value=ANY_VALUE)),
        (
            call("c", 0, "put", "k", 5, strong=False, final=FinalObservation(9, OK, 4, None)),
            call("d", 10, "put", "k", 4),
        ),
    ],
)
def test_responses_that_were_not_recorded_are_no_evidence(calls: tuple[ObservedCall, ...]) -> None:
    assert check_exactly_once(kv_run(*calls)) == Ok("exactly once")


def test_a_final_error_is_another_response_than_a_tentative_value() -> None:
    final = FinalObservation(20, CallStatus.ERROR, "LookupError", True)
    weak = call("c", 0, "withdraw", "ann", value=1, strong=False, final=final)

    assert isinstance(check_exactly_once(ObservedRun(datatype="bank", calls=(weak,))), Ok)


@pytest.mark.parametrize(
    ("status", "elements", "is_legal"),
    [
        (CallStatus.OK, (7,), True),
        (CallStatus.OK, (), False),
        (CallStatus.OK, (7, 7), False),
        (CallStatus.REJECTED, (), True),
        (CallStatus.REJECTED, (7,), False),
        (CallStatus.ERROR, (7,), False),
        (CallStatus.UNKNOWN, (), True),
        (CallStatus.UNKNOWN, (7,), True),
        (CallStatus.UNKNOWN, (7, 7), False),
    ],
)
def test_an_append_is_in_the_final_list_once_or_never(
    status: CallStatus, elements: tuple[Any, ...], is_legal: bool
) -> None:
    appended = transaction([("append", "x", 7), ("r", "x", None)], 0, 5, status)
    run = ObservedRun(
        datatype="transactions", calls=(appended,), final_states={"0": {"x": elements}}
    )

    assert isinstance(check_exactly_once(run), Ok) == is_legal


def test_a_tentative_error_of_an_append_is_no_evidence() -> None:
    failed = transaction([("append", "x", 7)], 0, 5, CallStatus.ERROR)
    weak = msgspec.structs.replace(failed, strong=False)

    for state in ({}, {"x": (7,)}):
        run = ObservedRun(datatype="transactions", calls=(weak,), final_states={"0": state})
        assert isinstance(check_exactly_once(run), Ok)
