"""Samples and stored results of a torture."""

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from creekdb.checkers import Illegal, Inconclusive, Ok, Verdict
from creekdb.checkers.blackbox.observations import CallStatus, ObservedCall
from creekdb.datatypes.kv import KV
from creekdb.torture import campaign
from creekdb.torture.campaign import (
    TortureConfig,
    load_result,
    run_torture,
    samples_of,
    save_result,
)
from creekdb.torture.faults.nemesis import InjectedFault
from creekdb.torture.round import RoundResult
from creekdb.torture.workload import KvCalls, Subject
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


@pytest.mark.parametrize(("verdict", "is_kept"), [(OK, False), (UNKNOWN, True), (ILLEGAL, True)])
def test_the_directory_of_a_round_without_ok_is_kept(
    verdict: Verdict, is_kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (result,) = recorded_torture(verdict).rounds

    def run_round(*arguments: Any) -> tuple[RoundResult, list[ObservedCall]]:
        (tmp_path / "round-0").mkdir()
        return result, []

    monkeypatch.setattr(campaign, "run_round", run_round)
    config = TortureConfig(minutes=1e-9, seed=1, replicas=3)
    run_torture(config, Subject("kv", KV, KvCalls()), tmp_path, Observer())

    assert (tmp_path / "round-0").exists() == is_kept


class Observer:
    def on_round(self, number: int, replicas: int, elapsed_s: float) -> None:
        assert number == 0

    def on_result(self, result: RoundResult) -> None:
        assert result.number == 0

    def on_stage(self, text: str) -> None: ...

    def on_fault(self, fault: InjectedFault) -> None: ...

    def on_call(self, call: ObservedCall) -> None: ...


def test_the_first_of_several_violations_is_reported() -> None:
    assert recorded_torture(ILLEGAL, Illegal("replay", "again")).verdicts == (ILLEGAL,)
