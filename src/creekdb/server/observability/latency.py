"""How long calls take, counted at next to no cost: a time or two per call.

Not in `metrics`, where numbers are told as they are: compiled, an int that stands where a float is
declared becomes one.
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
"""Upper bounds of what a histogram tells apart."""
TRACKED_CALLS_MAX: Final = 100_000
"""Calls whose times are known: of more, the oldest are not measured."""


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
    """From when a call is invoked here to when its answers leave."""

    def __init__(self) -> None:
        self.weak_tentative = Histogram()
        self.strong_tentative = Histogram()
        self.strong_stable = Histogram()
        self.weak_final = Histogram()
        self._weak: dict[Dot, float] = {}
        """When each weak call was made that has no answer yet."""
        self._strong: dict[Dot, float] = {}
        self._unfinished: dict[Dot, float] = {}
        """When each call was made that waits for its last answer."""

    def record_invocation(self, id: Dot, strong: bool, at: float) -> None:
        (self._strong if strong else self._weak)[id] = at
        if id.event > 0:  # one that only reads has one answer, and no number
            self._unfinished[id] = at
            if len(self._unfinished) > TRACKED_CALLS_MAX:
                oldest = next(iter(self._unfinished))
                for calls in (self._unfinished, self._weak, self._strong):
                    calls.pop(oldest, None)

    def record_response(self, response: Response, now: float) -> None:
        id, kind = response.id, response.kind
        if kind is ResponseKind.TENTATIVE:
            at = self._weak.pop(id, None)
            if at is not None:
                self.weak_tentative.observe(now - at)
                return
            at = self._strong.pop(id, None)
            if at is not None:
                self.strong_tentative.observe(now - at)
            return
        at = self._unfinished.pop(id, None)
        if at is not None:
            last = self.strong_stable if kind is ResponseKind.STABLE else self.weak_final
            last.observe(now - at)
        if kind is ResponseKind.STABLE:
            self._strong.pop(id, None)  # it came without a tentative one

    def by_response(self) -> dict[str, Histogram]:
        return {
            "weak_tentative": self.weak_tentative,
            "strong_tentative": self.strong_tentative,
            "strong_stable": self.strong_stable,
            "weak_final": self.weak_final,
        }
