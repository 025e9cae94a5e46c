"""Rounds of a torture until its time is over or a round fails, with the data of the report."""

import shutil
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

import msgspec

from creekdb.atomic_write import atomic_write
from creekdb.checkers import Illegal, Inconclusive, Ok, Verdict
from creekdb.checkers.blackbox.observations import ObservedCall
from creekdb.errors import StorageFault
from creekdb.history.percentiles import percentile
from creekdb.torture.faults.plan import ROUND_S, plan_round
from creekdb.torture.follower import MakeFeedStream
from creekdb.torture.round import RoundObserver, RoundResult, run_round
from creekdb.torture.workload import Subject

RESULT_FILE: Final = "torture.json"


class SecondSample(msgspec.Struct, frozen=True, kw_only=True):
    """Calls that ended in one second of the torture. Latencies are in milliseconds.

    A call without a response counts in the second of its invocation.
    """

    second: int
    weak: int
    strong: int
    failed: int
    """Calls that were rejected or had no response in time."""
    weak_p50_ms: float | None
    weak_p99_ms: float | None
    strong_p50_ms: float | None
    strong_p99_ms: float | None


class TortureResult(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a torture, and the data of its report."""

    datatype: str
    seed: int
    command: str
    """Command line that repeats the torture."""
    duration_s: float
    rounds: tuple[RoundResult, ...]
    samples: tuple[SecondSample, ...]

    @property
    def has_failed(self) -> bool:
        return any(each.has_failed for each in self.rounds)

    @property
    def is_inconclusive(self) -> bool:
        """True if no round has failed, and at least one is inconclusive."""
        return not self.has_failed and any(each.is_inconclusive for each in self.rounds)

    @property
    def faults(self) -> int:
        return sum(len(each.faults) for each in self.rounds)

    @property
    def calls(self) -> int:
        return sum(each.calls for each in self.rounds)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The worst verdict of each checker over all rounds."""
        worst: dict[str, Verdict] = {}
        for each in (verdict for result in self.rounds for verdict in result.verdicts):
            worst[each.checker] = max(worst.get(each.checker, each), each, key=_severity)
        return tuple(worst.values())


def _severity(verdict: Verdict) -> int:
    return (Ok, Inconclusive, Illegal).index(type(verdict))


class TortureConfig(msgspec.Struct, frozen=True, kw_only=True):
    minutes: float
    seed: int
    replicas: int | None
    """Number of replicas, or None to draw it for each round."""
    command: str = ""


class TortureObserver(RoundObserver, Protocol):
    """Observer of the progress of a torture."""

    def on_round(self, number: int, replicas: int, elapsed_s: float) -> None:
        """Handle the start of a round."""

    def on_result(self, result: RoundResult) -> None: ...


def run_torture(
    config: TortureConfig,
    subject: Subject,
    directory: Path,
    observer: TortureObserver,
    make_stream: MakeFeedStream | None = None,
) -> TortureResult:
    """Run rounds until the time is over, or until one fails.

    The directory of a failed or inconclusive round is kept, with the data and the output of its
    replicas. With `make_stream`, a stream reads the change feed of each cluster that has one.
    """
    started_s = time.monotonic()

    def now() -> float:
        return time.monotonic() - started_s

    limit_s = 60 * config.minutes
    rounds: list[RoundResult] = []
    observed: list[ObservedCall] = []
    while not rounds or (now() < limit_s and not rounds[-1].has_failed):
        plan = plan_round(config.seed, len(rounds), config.replicas, min(ROUND_S, limit_s))
        observer.on_round(plan.number, plan.replicas, now())
        round_directory = directory / f"round-{plan.number}"
        result, calls = run_round(plan, subject, round_directory, now, observer, make_stream)
        rounds.append(result)
        observed += calls
        observer.on_result(result)
        if not result.has_failed and not result.is_inconclusive:
            shutil.rmtree(round_directory)
    return TortureResult(
        datatype=subject.name,
        seed=config.seed,
        command=config.command,
        duration_s=now(),
        rounds=tuple(rounds),
        samples=samples_of(observed),
    )


def samples_of(calls: Iterable[ObservedCall]) -> tuple[SecondSample, ...]:
    """Return the calls by the second in which they ended. Seconds without calls are left out."""
    by_second: dict[int, list[ObservedCall]] = defaultdict(list)
    for call in calls:
        end_us = call.invoked_us if call.responded_us is None else call.responded_us
        by_second[end_us // 1_000_000].append(call)
    return tuple(_sample(second, ended) for second, ended in sorted(by_second.items()))


def _sample(second: int, calls: list[ObservedCall]) -> SecondSample:
    weak, strong = (
        sorted(
            each.responded_us - each.invoked_us
            for each in calls
            if each.has_response and each.responded_us is not None and each.strong is kind
        )
        for kind in (False, True)
    )
    return SecondSample(
        second=second,
        weak=len(weak),
        strong=len(strong),
        failed=len(calls) - len(weak) - len(strong),
        weak_p50_ms=_percentile_ms(weak, 50),
        weak_p99_ms=_percentile_ms(weak, 99),
        strong_p50_ms=_percentile_ms(strong, 50),
        strong_p99_ms=_percentile_ms(strong, 99),
    )


def _percentile_ms(ordered_us: list[int], percent: int) -> float | None:
    return round(percentile(ordered_us, percent) / 1000, 3) if ordered_us else None


def save_result(result: TortureResult, directory: Path) -> None:
    """Write the result, so that the report can be rendered again."""
    path = directory / RESULT_FILE
    try:
        with atomic_write(path) as partial:
            partial.write_bytes(msgspec.json.encode(result))
    except OSError as error:
        raise StorageFault(f"cannot write {path}: {error.strerror}") from error


def load_result(path: Path) -> TortureResult:
    return msgspec.json.decode(path.read_bytes(), type=TortureResult)
