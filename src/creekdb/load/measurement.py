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

LOAD: Final = "the load"
"""What the process that measures is called."""

_TICKS: Final = os.sysconf("SC_CLK_TCK")


class CpuClock:
    """What processes use from `begin` to `end`, and this one beside them."""

    def __init__(self, processes: Mapping[str, int]) -> None:
        self._processes = {**processes, LOAD: os.getpid()}
        self._begun: dict[str, float] = {}
        self.used_s: dict[str, float] = {}

    def begin(self) -> None:
        self._begun = self._read()

    def end(self) -> None:
        self.used_s = {name: now - self._begun[name] for name, now in self._read().items()}

    def _read(self) -> dict[str, float]:
        return {name: _cpu_seconds(process) for name, process in self._processes.items()}


def _cpu_seconds(process: int) -> float:
    """That a process has had so far."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


KINDS: Final = ("weak tentative", "weak final", "strong tentative", "strong stable")
WEAK_TENTATIVE, WEAK_FINAL, STRONG_TENTATIVE, STRONG_STABLE = range(4)


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """In milliseconds, from the question to the answer."""

    answers: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


class Meter:
    def __init__(self, begin_ns: int, end_ns: int) -> None:
        self.begin_ns = begin_ns
        self.end_ns = end_ns
        self.latencies_ns = tuple(array("q") for _ in KINDS)
        self.errors: Counter[str] = Counter()
        """Calls without an answer, by the reason."""
        self.raised = 0
        """Calls whose answer is an error: TPC-C has some."""
        self.asked = 0
        self.weak_done = 0
        self.strong_done = 0
        self.late_ns = array("q")
        """Of a load that does not wait for answers: how late calls were made."""

    def answered(self, kind: int, asked_ns: int, now_ns: int) -> None:
        begin_ns = self.begin_ns
        if not begin_ns <= now_ns <= self.end_ns:
            return
        if begin_ns <= asked_ns:
            self.latencies_ns[kind].append(now_ns - asked_ns)
        if kind == WEAK_TENTATIVE:
            self.weak_done += 1
        elif kind == STRONG_STABLE:
            self.strong_done += 1

    def failed(self, reason: str, now_ns: int) -> None:
        if self.begin_ns <= now_ns <= self.end_ns:
            self.errors[reason] += 1

    @property
    def done(self) -> int:
        return self.weak_done + self.strong_done

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.begin_ns) / 1e9

    def latency(self, kind: int) -> Latency | None:
        return latency(self.latencies_ns[kind])


def latency(nanoseconds: Sequence[int]) -> Latency | None:
    if not nanoseconds:
        return None
    ordered = sorted(nanoseconds)
    return Latency(
        answers=len(ordered),
        mean=sum(ordered) / len(ordered) / 1e6,
        p50=percentile(ordered, 50) / 1e6,
        p95=percentile(ordered, 95) / 1e6,
        p99=percentile(ordered, 99) / 1e6,
        max=ordered[-1] / 1e6,
    )


class Result(msgspec.Struct, frozen=True, kw_only=True):
    throughput_per_s: float
    """Calls that had what they asked for."""
    weak_per_s: float
    strong_per_s: float
    latency_ms: dict[str, Latency]
    """By kind of answer, of those that there were."""
    late_ms: Latency | None
    """How late calls of an open loop were made."""
    raised: int
    """Operations that answered with an error."""
    errors: dict[str, int]
    """Calls without an answer, by the reason."""
    cpu_us: dict[str, float]
    """That a call took of each process: microseconds on a core."""


def result_of(meter: Meter, cpu_s: Mapping[str, float]) -> Result:
    """`cpu_s`: what each process used while it was measured."""
    seconds = meter.seconds
    found = {kind: meter.latency(each) for each, kind in enumerate(KINDS)}
    return Result(
        throughput_per_s=meter.done / seconds,
        weak_per_s=meter.weak_done / seconds,
        strong_per_s=meter.strong_done / seconds,
        latency_ms={kind: each for kind, each in found.items() if each is not None},
        late_ms=latency(meter.late_ns),
        raised=meter.raised,
        errors=dict(sorted(meter.errors.items())),
        cpu_us={name: each * 1e6 / max(1, meter.done) for name, each in cpu_s.items()},
    )
