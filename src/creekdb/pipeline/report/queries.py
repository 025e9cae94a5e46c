"""Numbers found in the evidence, in the ways the paper's statements need.

Each is a small value that says in words how it is computed, and computes it. None means: the
runs at hand do not tell.
"""

import itertools
from collections.abc import Callable, Mapping
from math import inf, isinf
from statistics import fmean
from typing import Any, NamedTuple, Protocol

from creekdb.pipeline.report.evidence import Evidence, Point
from creekdb.pipeline.report.partitions import Partitioned, partitioned

Differing = Mapping[str, Any]
USUAL: Differing = {}


class Found(NamedTuple):
    """From the lowest to the highest value; they are one where a single number is asked for."""

    low: float
    high: float
    seeds: int
    possible: tuple[float, float] | None = None
    """Where it must lie, if loads were tried too far apart to know better."""
    mean: float | None = None
    """Over the loads; None where a single number is asked for."""

    @property
    def typical(self) -> float:
        return self.low if self.mean is None else self.mean

    @property
    def is_bound(self) -> bool:
        """Is it only known to be at least this much?"""
        return self.possible is not None and isinf(self.possible[1])


class Finding(Protocol):
    """A way to find a number."""

    @property
    def how(self) -> str: ...

    def find(self, evidence: Evidence) -> Found | None: ...


class PeakThroughput(NamedTuple):
    scheme: str
    differing: Differing = USUAL

    @property
    def how(self) -> str:
        return "throughput at the highest load that did not saturate it, mean over seeds"

    def find(self, evidence: Evidence) -> Found | None:
        peak = evidence.peak(self.scheme, **self.differing)
        if peak is None:
            return None
        return Found(peak.mean, peak.mean, peak.seeds, (peak.mean, peak.too_much))


class PeakRatio(NamedTuple):
    """How many times as high a peak is as another."""

    scheme: str
    differing: Differing
    other: Differing = USUAL

    @property
    def how(self) -> str:
        return "peak throughput ÷ peak throughput"

    def find(self, evidence: Evidence) -> Found | None:
        one = evidence.peak(self.scheme, **self.differing)
        two = evidence.peak(self.scheme, **self.other)
        if one is None or two is None or isinf(two.too_much) or not two.mean:
            return None
        ratio = one.mean / two.mean
        possible = one.mean / two.too_much, one.too_much / two.mean
        return Found(ratio, ratio, min(one.seeds, two.seeds), possible)


class MorePeak(NamedTuple):
    """The peak with the most of something, against the usual one."""

    scheme: str
    parameter: str

    @property
    def how(self) -> str:
        return f"peak with the most {self.parameter} that were tried ÷ the usual peak"

    def find(self, evidence: Evidence) -> Found | None:
        tried = [
            value
            for value in evidence.values(self.parameter)
            if value > evidence.usual[self.parameter]
            and evidence.peak(self.scheme, **{self.parameter: value})
        ]
        if not tried:
            return None
        return PeakRatio(self.scheme, {self.parameter: max(tried)}).find(evidence)


class Range(NamedTuple):
    """Of a measure, over all loads below saturation."""

    scheme: str
    measure: str
    differing: Differing = USUAL
    up_to: float = 1.0
    """Up to which share of the first load that is too much: close to it latency strikes up, as
    cores are short now and then."""

    @property
    def how(self) -> str:
        return f"range over {_loads(self.up_to)}, mean over seeds"

    def find(self, evidence: Evidence) -> Found | None:
        return _range(self.points(evidence))

    def points(self, evidence: Evidence) -> list[Point]:
        points = evidence.curve(self.scheme, self.measure, **self.differing)
        too_much = min((point.load_tps for point in points if point.saturated), default=inf)
        return [
            point
            for point in points
            if not point.saturated and point.load_tps <= self.up_to * too_much
        ]


class Highest(NamedTuple):
    """Of a measure, over all loads below saturation."""

    scheme: str
    measure: str
    differing: Differing = USUAL

    @property
    def how(self) -> str:
        return "highest over all loads below saturation, mean over seeds"

    def find(self, evidence: Evidence) -> Found | None:
        found = Range(self.scheme, self.measure, self.differing).find(evidence)
        return None if found is None else found._replace(low=found.high, mean=None)


class Compared(NamedTuple):
    """Two curves at the same loads, put together by `operation`. Between the loads that were tried
    the second is taken to be straight."""

    one: Range
    two: Range
    operation: Callable[[float, float], float]
    words: str

    @property
    def how(self) -> str:
        return f"{self.words} at equal loads: {_loads(self.one.up_to)} of both"

    def find(self, evidence: Evidence) -> Found | None:
        two = self.two.points(evidence)
        pairs = [
            (point, value)
            for point in self.one.points(evidence)
            if (value := _at(two, point.load_tps))
        ]
        if not pairs:
            return None
        values = [self.operation(point.mean, value) for point, value in pairs]
        seeds = min(point.seeds for point in (*two, *(point for point, _ in pairs)))
        return Found(min(values), max(values), seeds, mean=fmean(values))


class HighestOfAll(NamedTuple):
    """Of a measure, over all schemes and their loads below saturation."""

    measure: str

    @property
    def how(self) -> str:
        return "highest over all systems and loads below saturation"

    def find(self, evidence: Evidence) -> Found | None:
        curves = [evidence.below_saturation(each, self.measure) for each in evidence.schemes]
        found = _range([point for curve in curves for point in curve])
        return None if found is None else found._replace(low=found.high, mean=None)


class Difference(NamedTuple):
    """By how much one number exceeds another."""

    one: Finding
    two: Finding

    @property
    def how(self) -> str:
        return f"difference of the two: {self.one.how}"

    def find(self, evidence: Evidence) -> Found | None:
        one, two = self.one.find(evidence), self.two.find(evidence)
        if one is None or two is None:
            return None
        value = one.typical - two.typical
        return Found(value, value, min(one.seeds, two.seeds))


class Only(NamedTuple):
    """One value of a range: an end of it, or its mean."""

    finding: Finding
    end: Callable[[Found], float]
    words: str

    @property
    def how(self) -> str:
        return f"{self.words} of: {self.finding.how}"

    def find(self, evidence: Evidence) -> Found | None:
        found = self.finding.find(evidence)
        if found is None:
            return None
        value = self.end(found)
        return found._replace(low=value, high=value, mean=None)


class DuringPartitions(NamedTuple):
    """What every run with a partition tells of it, on as many replicas as usual: the range over
    those runs."""

    scheme: str
    tell: Callable[[Partitioned], float | None]
    words: str

    @property
    def how(self) -> str:
        return self.words

    def find(self, evidence: Evidence) -> Found | None:
        usual = evidence.usual["source"], evidence.usual["replicas"]
        told = [
            value
            for each in partitioned(evidence.tables)
            if (each.source, each.replicas) == usual
            and each.scheme == self.scheme
            and (value := self.tell(each)) is not None
        ]
        return Found(min(told), max(told), len(told)) if told else None


def _loads(up_to: float) -> str:
    if up_to == 1:
        return "all loads below saturation"
    return f"loads up to {100 * up_to:.0f}\u00a0% of the first that is too much"


def _at(points: list[Point], load_tps: float) -> float | None:
    """The value of a curve at a load; None where it does not reach."""
    for left, right in itertools.pairwise(points):
        if left.load_tps <= load_tps <= right.load_tps:
            share = (load_tps - left.load_tps) / (right.load_tps - left.load_tps)
            return left.mean + share * (right.mean - left.mean)
    return next((point.mean for point in points if point.load_tps == load_tps), None)


def _range(points: list[Point]) -> Found | None:
    if not points:
        return None
    means = [point.mean for point in points]
    seeds = min(point.seeds for point in points)
    return Found(min(means), max(means), seeds, mean=fmean(means))
