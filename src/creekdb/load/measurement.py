"""Measurements of a load: latency by kind of response, throughput, errors and CPU time."""

import os
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from creekdb.history.percentiles import percentile

LOAD_PROCESS: Final = "the load"
"""Name of the load generator among the measured processes."""

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class CpuClock:
    """CPU time of processes between `start` and `stop`, including the load generator."""

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
    """Return the CPU time of a process so far, in seconds; 0 if the process has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


RESPONSE_KINDS: Final = ("weak tentative", "weak final", "strong tentative", "strong stable")
WEAK_TENTATIVE, WEAK_FINAL, STRONG_TENTATIVE, STRONG_STABLE = range(4)


class LatencySummary(msgspec.Struct, frozen=True, kw_only=True):
    """Latency from call to response, in milliseconds."""

    answers: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


class LoadMeter:
    """Counters of one load.

    A latency counts if the call was sent after the warm-up and its response arrived before the
    end. A weak call completes with its tentative response, a strong call with its stable response.
    Of the tentative responses to a strong call, the first is measured.
    """

    def __init__(self, begin_ns: int, end_ns: int) -> None:
        self.begin_ns = begin_ns
        self.end_ns = end_ns
        self.latencies_ns = tuple(array("q") for _ in RESPONSE_KINDS)
        self.errors: Counter[str] = Counter()
        """Number of calls without a response, by reason."""
        self.operation_errors = 0
        """Number of calls whose response is an error. TPC-C causes some."""
        self.weak_completed = 0
        self.strong_completed = 0
        self.send_delays_ns = array("q")
        """Delay of each call of an open loop behind its scheduled time."""

    def record_response(self, kind: int, sent_ns: int, now_ns: int) -> None:
        begin_ns = self.begin_ns
        if not begin_ns <= now_ns <= self.end_ns:
            return
        if begin_ns <= sent_ns:
            self.latencies_ns[kind].append(now_ns - sent_ns)
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
    """Summary of one load."""

    throughput_per_s: float
    """Completed calls per second."""
    weak_per_s: float
    strong_per_s: float
    latency_ms: dict[str, LatencySummary]
    """Latency by kind of response, for the kinds that occurred."""
    late_ms: LatencySummary | None
    """Delay of the calls of an open loop behind their scheduled times."""
    raised: int
    """Number of operations that raised an error."""
    errors: dict[str, int]
    """Number of calls without a response, by reason."""
    cpu_us: dict[str, float]
    """CPU time per completed call, in microseconds, by process."""


def load_result(meter: LoadMeter, cpu_s: Mapping[str, float]) -> LoadResult:
    """Return the summary of a load. `cpu_s` is the CPU time of each process."""
    seconds = meter.duration_s
    latencies = {kind: meter.latency_of_kind(index) for index, kind in enumerate(RESPONSE_KINDS)}
    return LoadResult(
        throughput_per_s=meter.completed / seconds,
        weak_per_s=meter.weak_completed / seconds,
        strong_per_s=meter.strong_completed / seconds,
        latency_ms={kind: summary for kind, summary in latencies.items() if summary is not None},
        late_ms=latency_summary(meter.send_delays_ns),
        raised=meter.operation_errors,
        errors=dict(sorted(meter.errors.items())),
        cpu_us={name: used * 1e6 / max(1, meter.completed) for name, used in cpu_s.items()},
    )
