"""Samples and stored results of a torture."""

from itertools import permutations
from pathlib import Path

import pytest

from creekdb.checkers import Illegal, Inconclusive, Ok, Verdict
from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall
from creekdb.torture.campaign import load_result, samples_of, save_result
from tests.unit.torture.recorded_torture import recorded_torture


def call(begin_us: int, end_us: int | None, strong: bool, status: CallStatus) -> ObservedCall:
    return ObservedCall(
        client="c",
        operation="get",
        arguments=("a",),
        strong=strong,
        invoked_us=begin_us,
        responded_us=end_us,
        status=status,
    )


def test_calls_are_sampled_in_the_second_in_which_they_ended() -> None:
    calls = [
        call(100_000, 101_000, False, CallStatus.OK),
        call(200_000, 203_000, False, CallStatus.ERROR),
        call(900_000, 1_100_000, True, CallStatus.OK),
        call(1_900_000, None, True, CallStatus.UNKNOWN),
    ]

    first, second = samples_of(calls)

    assert (first.second, first.weak, first.strong, first.failed) == (0, 2, 0, 0)
    assert (first.weak_p99_ms, first.strong_p50_ms) == (3.0, None)
    assert (second.second, second.weak, second.strong, second.failed) == (1, 0, 1, 1)
    assert second.strong_p50_ms == 200.0


def test_a_saved_result_is_loaded_unchanged(tmp_path: Path) -> None:
    result = recorded_torture(Illegal("replay", "lost"))

    save_result(result, tmp_path)

    assert load_result(tmp_path / "torture.json") == result


OK, UNKNOWN = Ok("replay"), Inconclusive("replay", "too long")
ILLEGAL = Illegal("replay", "lost")


@pytest.mark.parametrize("verdicts", list(permutations((OK, UNKNOWN, ILLEGAL))))
def test_a_violation_of_any_round_outranks_the_other_verdicts(
    verdicts: tuple[Verdict, ...],
) -> None:
    result = recorded_torture(*verdicts)

    assert result.has_failed
    assert not result.is_inconclusive
    assert result.verdicts == (ILLEGAL,)


@pytest.mark.parametrize("verdicts", list(permutations((OK, UNKNOWN))))
def test_an_unknown_verdict_of_any_round_outranks_ok(verdicts: tuple[Verdict, ...]) -> None:
    result = recorded_torture(*verdicts)

    assert not result.has_failed
    assert result.is_inconclusive
    assert [each.is_inconclusive for each in result.rounds] == [
        each is UNKNOWN for each in verdicts
    ]
    assert result.verdicts == (UNKNOWN,)


def test_the_first_of_several_violations_is_reported() -> None:
    assert recorded_torture(ILLEGAL, Illegal("replay", "again")).verdicts == (ILLEGAL,)
