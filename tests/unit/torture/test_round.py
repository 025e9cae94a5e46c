"""Rounds that fail keep their evidence."""

from pathlib import Path

import pytest

from creekdb.checkers.blackbox import read_calls
from creekdb.datatypes.kv import KV
from creekdb.torture.faults.nemesis import InjectedFault
from creekdb.torture.faults.plan import plan_round
from creekdb.torture.round import CALLS_FILE, ERRORS_FILE, run_round, save_evidence
from creekdb.torture.workload import KvCalls, Subject
from tests.unit.checkers.blackbox.observed_histories import call


class FailingObserver:
    """Observer that raises an error in the first stage of a round."""

    def on_stage(self, text: str) -> None:
        raise KeyError(text)

    def on_fault(self, fault: InjectedFault) -> None:
        pytest.fail("no fault was injected")

    def on_call(self, call: object) -> None:
        pytest.fail("no call was made")


def test_an_unexpected_error_fails_the_round_and_is_saved(tmp_path: Path) -> None:
    subject = Subject("kv", KV, KvCalls())

    result, calls = run_round(
        plan_round(seed=1, number=0), subject, tmp_path / "round", lambda: 1.0, FailingObserver()
    )

    assert result.has_failed
    assert (result.failures, calls) == (("KeyError: 'starting the replicas'",), [])
    assert "in on_stage" in (tmp_path / "round" / ERRORS_FILE).read_text()


def test_the_observed_calls_of_a_failed_round_are_saved(tmp_path: Path) -> None:
    observed = call("a", "put", "x", 1, at=(0, 5))

    save_evidence(tmp_path, [ValueError("first"), KeyError("second")], [observed])

    assert read_calls(tmp_path / CALLS_FILE) == (observed,)
    saved = (tmp_path / ERRORS_FILE).read_text()
    assert "ValueError: first" in saved
    assert "KeyError: 'second'" in saved
