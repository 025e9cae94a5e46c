"""Samples and stored results of a torture."""

from pathlib import Path

from creekdb.checkers import Illegal, Ok
from creekdb.torture.campaign import load_result, samples_of, save_result
from creekdb.torture.clients import CallRecord, CallStatus
from tests.unit.torture.recorded_torture import recorded_torture


def call(sent_s: float, duration_s: float, strong: bool, status: CallStatus) -> CallRecord:
    return CallRecord("c", "get", ("a",), strong, sent_s, duration_s, status, None)


def test_calls_are_sampled_in_the_second_in_which_they_ended() -> None:
    records = [
        call(0.1, 0.001, False, CallStatus.OK),
        call(0.2, 0.003, False, CallStatus.ERROR),
        call(0.9, 0.2, True, CallStatus.OK),
        call(0.9, 0.3, True, CallStatus.UNKNOWN),
    ]

    first, second = samples_of(records)

    assert (first.second, first.weak, first.strong, first.failed) == (0, 2, 0, 0)
    assert (first.weak_p99_ms, first.strong_p50_ms) == (3.0, None)
    assert (second.second, second.weak, second.strong, second.failed) == (1, 0, 1, 1)
    assert second.strong_p50_ms == 200.0


def test_a_saved_result_is_loaded_unchanged(tmp_path: Path) -> None:
    result = recorded_torture(Illegal("replay", "lost"))

    save_result(result, tmp_path)

    assert load_result(tmp_path / "torture.json") == result


def test_a_violation_of_any_round_outranks_the_other_verdicts() -> None:
    result = recorded_torture(Ok("replay"), Illegal("replay", "lost"), Ok("replay"))

    assert result.has_failed
    assert result.verdicts == (Illegal("replay", "lost"),)
