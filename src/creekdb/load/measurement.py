"""What processes of this machine have had of its cores.

What a load took: latencies by kind of answer, what was done, and what went wrong.

Only what was asked for after the warm-up, and answered before the end, counts. A weak call is done
with its tentative answer, a strong one with its stable answer. Of the tentative answers that a
strong call gets, the first is measured.

What came out of a load, as one value.
"""

import os
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from creekdb.history.percentiles import percentile

LOAD_PROCESS: Final = "the load"
"""What the process that measures is called."""

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class CpuClock:
    """What processes use from `begin` to `end`, and this one beside them."""

    def __init__(self, processes: Mapping[str, int]) -> None:
        self._processes = {**processes, LOAD_PROCESS: os.getpid()}
        self._start_s: dict[str, float] = {}
        self.used_s: dict[str, float] = {}

    def start(self) -> None:
        self._start_s = self._read()

    def stop(self) -> None:
        self.used_s = {name: now - self._start_s[name] for name, now in self._read().items()}

    def _read(self) -> dict[str, float]:
        return {name: _cpu_seconds(process) for name, process in self._processes.items()}


def _cpu_seconds(process: int) -> float:
    """That a process has had so far."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


RESPONSE_KINDS: Final = ("weak tentative", "weak final", "strong tentative", "strong stable")
WEAK_TENTATIVE, WEAK_FINAL, STRONG_TENTATIVE, STRONG_STABLE = range(4)


class LatencySummary(msgspec.Struct, frozen=True, kw_only=True):
    """In milliseconds, from the question to the answer."""

    answers: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


class LoadMeter:
    def __init__(self, begin_ns: int, end_ns: int) -> None:
        self.begin_ns = begin_ns
        self.end_ns = end_ns
        self.latencies_ns = tuple(array("q") for _ in RESPONSE_KINDS)
        self.errors: Counter[str] = Counter()
        """Calls without an answer, by the reason."""
        self.operation_errors = 0
        """Calls whose answer is an error: TPC-C has some."""
        self.calls_sent = 0
        self.weak_completed = 0
        self.strong_completed = 0
        self.send_delays_ns = array("q")
        """Of a load that does not wait for answers: how late calls were made."""

    def record_response(self, kind: int, asked_ns: int, now_ns: int) -> None:
        begin_ns = self.begin_ns
        if not begin_ns <= now_ns <= self.end_ns:
            return
        if begin_ns <= asked_ns:
            self.latencies_ns[kind].append(now_ns - asked_ns)
        if kind == WEAK_TENTATIVE:
            self.weak_completed += 1
        elif kind == STRONG_STABLE:
            self.strong_completed += 1

    def record_failure(self, reason: str, now_ns: int) -> None:
        if self.begin_ns <= now_ns <= self.end_ns:
            self.errors[reason] += 1

    @property
    def completed(self) -> int:
        return self.weak_completed + self.strong_completed

    @property
    def duration_s(self) -> float:
        return (self.end_ns - self.begin_ns) / 1e9

    def latency_of_kind(self, kind: int) -> LatencySummary | None:
        return latency_summary(self.latencies_ns[kind])


def latency_summary(nanoseconds: Sequence[int]) -> LatencySummary | None:
    if not nanoseconds:
        return None
    ordered = sorted(nanoseconds)
    return LatencySummary(
        answers=len(ordered),
        mean=sum(ordered) / len(ordered) / 1e6,
        p50=percentile(ordered, 50) / 1e6,
        p95=percentile(ordered, 95) / 1e6,
        p99=percentile(ordered, 99) / 1e6,
        max=ordered[-1] / 1e6,
    )


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    throughput_per_s: float
    """Calls that had what they asked for."""
    weak_per_s: float
    strong_per_s: float
    latency_ms: dict[str, LatencySummary]
    """By kind of answer, of those that there were."""
    late_ms: LatencySummary | None
    """How late calls of an open loop were made."""
    raised: int
    """Operations that answered with an error."""
    errors: dict[str, int]
    """Calls without an answer, by the reason."""
    cpu_us: dict[str, float]
    """That a call took of each process: microseconds on a core."""


def load_result(meter: LoadMeter, cpu_s: Mapping[str, float]) -> LoadResult:
    """`cpu_s`: what each process used while it was measured."""
    seconds = meter.duration_s
    found = {kind: meter.latency_of_kind(each) for each, kind in enumerate(RESPONSE_KINDS)}
    return LoadResult(
        throughput_per_s=meter.completed / seconds,
        weak_per_s=meter.weak_completed / seconds,
        strong_per_s=meter.strong_completed / seconds,
        latency_ms={kind: each for kind, each in found.items() if each is not None},
        late_ms=latency_summary(meter.send_delays_ns),
        raised=meter.operation_errors,
        errors=dict(sorted(meter.errors.items())),
        cpu_us={name: each * 1e6 / max(1, meter.completed) for name, each in cpu_s.items()},
    )
