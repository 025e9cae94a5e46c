"""What a load took: latencies by kind of answer, what was done, and what went wrong.

Only what was asked for after the warm-up, and answered before the end, counts. A weak call is done
with its tentative answer, a strong one with its stable answer. Of the tentative answers that a
strong call gets, the first is measured.
"""

from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from creekdb.history.percentiles import percentile

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
