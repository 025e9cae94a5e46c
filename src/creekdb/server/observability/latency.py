"""Latency histograms of calls, at the cost of one or two timestamps per call.

This module is compiled, `metrics` is not. In compiled code, an int in place of a declared float
becomes a float, and `metrics` must render numbers exactly.
"""

from bisect import bisect_left
from typing import Final

from creekdb.protocol.effects import Response, ResponseKind
from creekdb.protocol.ids.version_vector import Dot

LATENCY_BOUNDS_S: Final[tuple[float, ...]] = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
"""Upper bounds of the histogram buckets, in seconds."""
TRACKED_CALLS_MAX: Final = 100_000
"""Upper bound for tracked calls. Above it, the oldest calls are not measured."""


class Histogram:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BOUNDS_S) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class CallLatencies:
    """Latencies from the invocation of a call at this replica to its responses."""

    def __init__(self) -> None:
        self.weak_tentative = Histogram()
        self.strong_tentative = Histogram()
        self.strong_stable = Histogram()
        self.weak_final = Histogram()
        self._weak: dict[Dot, float] = {}
        """Start times of weak calls without a response."""
        self._strong: dict[Dot, float] = {}
        self._unfinished: dict[Dot, float] = {}
        """Start times of calls that await their last response."""

    def record_invocation(self, id: Dot, strong: bool, started_s: float) -> None:
        (self._strong if strong else self._weak)[id] = started_s
        if id.event > 0:  # a local read has a negative event number and a single response
            self._unfinished[id] = started_s
            if len(self._unfinished) > TRACKED_CALLS_MAX:
                oldest = next(iter(self._unfinished))
                for calls in (self._unfinished, self._weak, self._strong):
                    calls.pop(oldest, None)

    def record_response(self, response: Response, now_s: float) -> None:
        id, kind = response.id, response.kind
        if kind is ResponseKind.TENTATIVE:
            started_s = self._weak.pop(id, None)
            if started_s is not None:
                self.weak_tentative.observe(now_s - started_s)
                return
            started_s = self._strong.pop(id, None)
            if started_s is not None:
                self.strong_tentative.observe(now_s - started_s)
            return
        started_s = self._unfinished.pop(id, None)
        if started_s is not None:
            last = self.strong_stable if kind is ResponseKind.STABLE else self.weak_final
            last.observe(now_s - started_s)
        if kind is ResponseKind.STABLE:
            self._strong.pop(id, None)  # there was no tentative response

    def by_response(self) -> dict[str, Histogram]:
        return {
            "weak_tentative": self.weak_tentative,
            "strong_tentative": self.strong_tentative,
            "strong_stable": self.strong_stable,
            "weak_final": self.weak_final,
        }
