"""Numbers found in the evidence, in the ways the paper's statements need.

Each is a small value that says in words how it is computed, and computes it. None means: the
runs at hand do not tell.
"""

import itertools
from collections.abc import Callable, Mapping
from math import inf, isinf
from statistics import fmean
from typing import Any, NamedTuple, Protocol

from creekdb.pipeline.report.evidence import CurvePoint, Evidence
from creekdb.pipeline.report.partitions import PartitionedRun, partitioned_runs

SetupOverrides = Mapping[str, Any]
NO_OVERRIDES: SetupOverrides = {}


class QueryResult(NamedTuple):
    """From the lowest to the highest value; they are one where a single number is asked for."""

    low: float
    high: float
    seeds: int
    possible_range: tuple[float, float] | None = None
    """Where it must lie, if loads were tried too far apart to know better."""
    mean: float | None = None
    """Over the loads; None where a single number is asked for."""

    @property
    def typical(self) -> float:
        return self.low if self.mean is None else self.mean

    @property
    def is_lower_bound(self) -> bool:
        """Is it only known to be at least this much?"""
        return self.possible_range is not None and isinf(self.possible_range[1])


class Query(Protocol):
    """A way to find a number."""

    @property
    def description(self) -> str: ...

    def evaluate(self, evidence: Evidence) -> QueryResult | None: ...


class PeakThroughput(NamedTuple):
    scheme: str
    overrides: SetupOverrides = NO_OVERRIDES

    @property
    def description(self) -> str:
        return "throughput at the highest load that did not saturate it, mean over seeds"

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        peak = evidence.peak(self.scheme, **self.overrides)
        if peak is None:
            return None
        return QueryResult(peak.mean, peak.mean, peak.seeds, (peak.mean, peak.saturating_tps))


class PeakRatio(NamedTuple):
    """How many times as high a peak is as another."""

    scheme: str
    overrides: SetupOverrides
    base_overrides: SetupOverrides = NO_OVERRIDES

    @property
    def description(self) -> str:
        return "peak throughput ÷ peak throughput"

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        one = evidence.peak(self.scheme, **self.overrides)
        two = evidence.peak(self.scheme, **self.base_overrides)
        if one is None or two is None or isinf(two.saturating_tps) or not two.mean:
            return None
        ratio = one.mean / two.mean
        possible = one.mean / two.saturating_tps, one.saturating_tps / two.mean
        return QueryResult(ratio, ratio, min(one.seeds, two.seeds), possible)


class PeakScaling(NamedTuple):
    """The peak with the most of something, against the usual one."""

    scheme: str
    parameter: str

    @property
    def description(self) -> str:
        return f"peak with the most {self.parameter} that were tried ÷ the usual peak"

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        tried = [
            value
            for value in evidence.values(self.parameter)
            if value > evidence.default_setup[self.parameter]
            and evidence.peak(self.scheme, **{self.parameter: value})
        ]
        if not tried:
            return None
        return PeakRatio(self.scheme, {self.parameter: max(tried)}).evaluate(evidence)


class MeasureRange(NamedTuple):
    """Of a measure, over all loads below saturation."""

    scheme: str
    measure: str
    overrides: SetupOverrides = NO_OVERRIDES
    load_share_max: float = 1.0
    """Up to which share of the first load that is too much: close to it latency strikes up, as
    cores are short now and then."""

    @property
    def description(self) -> str:
        return f"range over {_load_range_text(self.load_share_max)}, mean over seeds"

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        return _result_of_points(self.points(evidence))

    def points(self, evidence: Evidence) -> list[CurvePoint]:
        points = evidence.curve(self.scheme, self.measure, **self.overrides)
        too_much = min((point.load_tps for point in points if point.is_saturated), default=inf)
        return [
            point
            for point in points
            if not point.is_saturated and point.load_tps <= self.load_share_max * too_much
        ]


class MeasureMaximum(NamedTuple):
    """Of a measure, over all loads below saturation."""

    scheme: str
    measure: str
    overrides: SetupOverrides = NO_OVERRIDES

    @property
    def description(self) -> str:
        return "highest over all loads below saturation, mean over seeds"

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        found = MeasureRange(self.scheme, self.measure, self.overrides).evaluate(evidence)
        return None if found is None else found._replace(low=found.high, mean=None)


class CurveComparison(NamedTuple):
    """Two curves at the same loads, put together by `operation`. Between the loads that were tried
    the second is taken to be straight."""

    left: MeasureRange
    right: MeasureRange
    operation: Callable[[float, float], float]
    label: str

    @property
    def description(self) -> str:
        return f"{self.label} at equal loads: {_load_range_text(self.left.load_share_max)} of both"

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        two = self.right.points(evidence)
        pairs = [
            (point, value)
            for point in self.left.points(evidence)
            if (value := _interpolate(two, point.load_tps))
        ]
        if not pairs:
            return None
        values = [self.operation(point.mean, value) for point, value in pairs]
        seeds = min(point.seeds for point in (*two, *(point for point, _ in pairs)))
        return QueryResult(min(values), max(values), seeds, mean=fmean(values))


class OverallMaximum(NamedTuple):
    """Of a measure, over all schemes and their loads below saturation."""

    measure: str

    @property
    def description(self) -> str:
        return "highest over all systems and loads below saturation"

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        curves = [evidence.below_saturation(each, self.measure) for each in evidence.schemes]
        found = _result_of_points([point for curve in curves for point in curve])
        return None if found is None else found._replace(low=found.high, mean=None)


class QueryDifference(NamedTuple):
    """By how much one number exceeds another."""

    left: Query
    right: Query

    @property
    def description(self) -> str:
        return f"difference of the two: {self.left.description}"

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        one, two = self.left.evaluate(evidence), self.right.evaluate(evidence)
        if one is None or two is None:
            return None
        value = one.typical - two.typical
        return QueryResult(value, value, min(one.seeds, two.seeds))


class ReducedQuery(NamedTuple):
    """One value of a range: an end of it, or its mean."""

    query: Query
    reduce: Callable[[QueryResult], float]
    label: str

    @property
    def description(self) -> str:
        return f"{self.label} of: {self.query.description}"

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        found = self.query.evaluate(evidence)
        if found is None:
            return None
        value = self.reduce(found)
        return found._replace(low=value, high=value, mean=None)


class PartitionGrowth(NamedTuple):
    """What every run with a partition tells of it, on as many replicas as usual: the range over
    those runs."""

    scheme: str
    measure: Callable[[PartitionedRun], float | None]
    label: str

    @property
    def description(self) -> str:
        return self.label

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        usual = evidence.default_setup["source"], evidence.default_setup["replicas"]
        told = [
            value
            for each in partitioned_runs(evidence.tables)
            if (each.source, each.replicas) == usual
            and each.scheme == self.scheme
            and (value := self.measure(each)) is not None
        ]
        return QueryResult(min(told), max(told), len(told)) if told else None


def _load_range_text(up_to: float) -> str:
    if up_to == 1:
        return "all loads below saturation"
    return f"loads up to {100 * up_to:.0f}\u00a0% of the first that is too much"


def _interpolate(points: list[CurvePoint], load_tps: float) -> float | None:
    """The value of a curve at a load; None where it does not reach."""
    for left, right in itertools.pairwise(points):
        if left.load_tps <= load_tps <= right.load_tps:
            share = (load_tps - left.load_tps) / (right.load_tps - left.load_tps)
            return left.mean + share * (right.mean - left.mean)
    return next((point.mean for point in points if point.load_tps == load_tps), None)


def _result_of_points(points: list[CurvePoint]) -> QueryResult | None:
    if not points:
        return None
    means = [point.mean for point in points]
    seeds = min(point.seeds for point in points)
    return QueryResult(min(means), max(means), seeds, mean=fmean(means))
