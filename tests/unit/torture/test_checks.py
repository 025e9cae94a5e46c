"""Black-box checks of a round, by data type."""

import msgspec
import pytest

from creekdb.checkers import Illegal, Inconclusive, Ok
from creekdb.checkers.blackbox import get_model
from creekdb.checkers.blackbox.observations import CallStatus, ObservedRun
from creekdb.torture.checks import judge_observations
from tests.unit.checkers.blackbox.kv_runs import serial_run
from tests.unit.checkers.blackbox.observed_histories import call
from tests.unit.checkers.blackbox.transaction_runs import (
    SerialExecution,
    concurrent_run,
    run_of,
    transaction,
)

KEY = "shared 0.1"


def test_every_check_of_the_key_value_store_accepts_a_serial_execution() -> None:
    verdicts = [each.verdict for each in judge_observations(serial_run(1))]

    assert verdicts == [
        Ok("exactly once"),
        Ok("final states"),
        Ok("sessions"),
        Ok("linearizability"),
    ]


def test_a_stale_read_of_a_shared_key_is_illegal() -> None:
    calls = (
        call("a", "put", "shared 0.1", 1, at=(0, 1)),
        call("b", "get", "shared 0.1", at=(2, 3), value=1),
        call("b", "scan", at=(2, 3), value=()),
        call("c", "get", "shared 0.1", at=(4, 5), value=None),
    )
    *_, (verdict, picture) = judge_observations(ObservedRun(datatype="kv", calls=calls))

    assert isinstance(verdict, Illegal)
    assert verdict.checker == "linearizability"
    assert picture is not None


@pytest.mark.parametrize(
    ("final", "expected"), [({KEY: 2}, Ok), ({KEY: 1}, Illegal), ({}, Illegal)]
)
def test_the_final_value_of_a_shared_key_follows_all_calls(
    final: dict[str, int], expected: type
) -> None:
    calls = (
        call("a", "put", KEY, 1, at=(0, 1)),
        call("b", "put", KEY, 2, at=(2, 3), value=1),
        call("b", "put", KEY, 3, at=(2, 3), status=CallStatus.REJECTED),
    )
    run = ObservedRun(datatype="kv", calls=calls, final_states={"0": final})

    assert isinstance(judge_observations(run)[-1].verdict, expected)


@pytest.mark.parametrize(("value", "expected"), [(5, Ok), (6, Illegal)])
def test_calls_of_other_data_types_are_searched_with_a_model(value: int, expected: type) -> None:
    calls = call("a", "increment", 5, at=(0, 1)), call("b", "value", at=(2, 3), value=value)
    run = ObservedRun(datatype="shop:shop", calls=calls, final_states={"0": {"value": 5}})

    assert isinstance(judge_observations(run, get_model("counter"))[-1].verdict, expected)


def test_an_anomaly_of_transactions_has_a_picture() -> None:
    run = concurrent_run([("append", "x", 1), ("r", "x", ())])

    *_, (verdict, picture) = judge_observations(run)

    assert isinstance(verdict, Illegal)
    assert picture is not None
    assert picture.startswith("<svg")


def test_transactions_without_an_anomaly_have_no_picture() -> None:
    assert judge_observations(SerialExecution(1).run(50))[-1] == (Ok("transactions"), None)


def test_transactions_that_allow_no_inference_are_not_judged() -> None:
    run = run_of(transaction([("append", "x", 1)], 0), transaction([("append", "x", 1)], 50))

    assert isinstance(judge_observations(run)[-1].verdict, Inconclusive)


def test_other_data_types_have_the_common_checks() -> None:
    run = msgspec.structs.replace(serial_run(1), datatype="shop:shop")

    checkers = [each.verdict.checker for each in judge_observations(run)]

    assert checkers == ["exactly once", "final states"]
