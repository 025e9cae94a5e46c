"""Latency histograms of calls, at the cost of one or two timestamps per call.

This module is compiled, `metrics` is not. In compiled code, an int in place of a declared float
becomes a float, and `metrics` must render numbers exactly.
"""

from bisect import bisect_left
from typing import Final

from creekdb.protocol.effects import ResponseKind

_TENTATIVE: Final = ResponseKind.TENTATIVE
_STABLE: Final = ResponseKind.STABLE

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

    def record(self, strong: bool, kind: ResponseKind, elapsed_s: float) -> None:
        if kind is _TENTATIVE:
            histogram = self.strong_tentative if strong else self.weak_tentative
        else:
            histogram = self.strong_stable if kind is _STABLE else self.weak_final
        histogram.observe(elapsed_s)

    def by_response(self) -> dict[str, Histogram]:
        return {
            "weak_tentative": self.weak_tentative,
            "strong_tentative": self.strong_tentative,
            "strong_stable": self.strong_stable,
            "weak_final": self.weak_final,
        }
