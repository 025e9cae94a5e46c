"""Final states as clients read them."""

from typing import Any

import msgspec
import pytest

from creekdb.checkers import Illegal, Inconclusive, Ok
from creekdb.checkers.blackbox.final_states import check_final_states
from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall
from tests.unit.checkers.blackbox.kv_runs import call, kv_run, serial_run

PUT = call("c", 0, "put", "k", 5, strong=False)
REJECTED = call("c", 0, "put", "k", 5, status=CallStatus.REJECTED)
STRONG, OTHER = call("c", 0, "put", "k", 5), call("d", 0, "put", "k", 6)
UNKNOWN = call("c", 0, "put", "k", 5, status=CallStatus.UNKNOWN)


@pytest.mark.parametrize("seed", range(10))
def test_serial_executions_converge(seed: int) -> None:
    assert check_final_states(serial_run(seed)) == Ok("final states")


def test_without_final_states_there_is_no_verdict() -> None:
    assert isinstance(check_final_states(kv_run(PUT)), Inconclusive)


@pytest.mark.parametrize("other", [{"k": 5}, {"k": 5, "z": 2}, {"k": 5, "z": 1.0}])
def test_states_that_differ_are_reported(other: dict[str, float]) -> None:
    verdict = check_final_states(kv_run(PUT, r0={"k": 5, "z": 1}, r1=other))

    assert isinstance(verdict, Illegal)
    assert "the states differ under 'z'" in verdict.message
    assert [each.actor for each in verdict.counterexample] == ["replica r0", "replica r1"]


def test_every_state_is_compared() -> None:
    verdict = check_final_states(kv_run(PUT, r0={"k": 5}, r1={"k": 5}, r2={"k": 5, "z": 1}))

    assert isinstance(verdict, Illegal)
    assert [each.actor for each in verdict.counterexample] == ["replica r0", "replica r2"]


def test_a_difference_of_any_other_data_type_is_reported_too() -> None:
    run = msgspec.structs.replace(kv_run(r0={1: 2}, r1={1: 3}), datatype="bank")

    assert isinstance(check_final_states(run), Illegal)


@pytest.mark.parametrize(
    ("put", "state", "message"),
    [
        (PUT, {}, "had a response"),
        (PUT, {"k": 4}, "the final value is 4"),
        (REJECTED, {"k": 5}, "that was not rejected has its final value"),
        ((STRONG, OTHER), {}, "had a response"),
        ((STRONG, OTHER), {"k": None}, "the final value is None"),
        ((STRONG, OTHER), {"k": 5.0}, "the final value is 5.0"),
        ((REJECTED, OTHER), {"k": 5}, "the final value is 5"),
        ((STRONG, UNKNOWN), {}, "had a response"),
    ],
)
def test_lost_and_rejected_writes_are_reported(
    put: ObservedCall | tuple[ObservedCall, ...], state: dict[str, Any], message: str
) -> None:
    puts = put if isinstance(put, tuple) else (put,)
    verdict = check_final_states(kv_run(*puts, r0=state))

    assert isinstance(verdict, Illegal)
    assert message in verdict.message


@pytest.mark.parametrize("final", [5, 6])
def test_the_final_value_is_that_of_any_put(final: int) -> None:
    assert check_final_states(kv_run(STRONG, OTHER, r0={"k": final})) == Ok("final states")


@pytest.mark.parametrize("state", [{}, {"k": 5}])
def test_a_put_of_unknown_outcome_may_be_missing(state: dict[str, int]) -> None:
    assert check_final_states(kv_run(UNKNOWN, r0=state)) == Ok("final states")
