"""Numbers that the paper's statements require, computed from the evidence.

Each query is a small value that describes its computation and performs it. The result is None if
the runs do not determine the number.
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
    """Lowest and highest value of a quantity; both are equal for a single number."""

    low: float
    high: float
    seeds: int
    possible_range: tuple[float, float] | None = None
    """Bounds of the true value, if the tried loads are too far apart to determine it."""
    mean: float | None = None
    """Mean over the loads; None for a single number."""

    @property
    def typical(self) -> float:
        return self.low if self.mean is None else self.mean

    @property
    def is_lower_bound(self) -> bool:
        """True if the true value has no known upper bound."""
        return self.possible_range is not None and isinf(self.possible_range[1])


class Query(Protocol):
    """Computation of one number."""

    @property
    def description(self) -> str: ...

    def evaluate(self, evidence: Evidence) -> QueryResult | None: ...


class PeakThroughput(NamedTuple):
    """Peak throughput of a scheme."""

    scheme: str
    overrides: SetupOverrides = NO_OVERRIDES

    @property
    def description(self) -> str:
        return "throughput at the highest unsaturated load, mean over seeds"

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        peak = evidence.peak(self.scheme, **self.overrides)
        if peak is None:
            return None
        return QueryResult(peak.mean, peak.mean, peak.seeds, (peak.mean, peak.saturating_tps))


class PeakRatio(NamedTuple):
    """Ratio of two peaks of one scheme."""

    scheme: str
    overrides: SetupOverrides
    base_overrides: SetupOverrides = NO_OVERRIDES

    @property
    def description(self) -> str:
        return "peak throughput ÷ peak throughput"

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        numerator = evidence.peak(self.scheme, **self.overrides)
        base = evidence.peak(self.scheme, **self.base_overrides)
        if numerator is None or base is None or isinf(base.saturating_tps) or not base.mean:
            return None
        ratio = numerator.mean / base.mean
        possible = numerator.mean / base.saturating_tps, numerator.saturating_tps / base.mean
        return QueryResult(ratio, ratio, min(numerator.seeds, base.seeds), possible)


class PeakScaling(NamedTuple):
    """Peak at the highest value of a parameter, relative to the peak of the default setup."""

    scheme: str
    parameter: str

    @property
    def description(self) -> str:
        return f"peak with the most {self.parameter} tried ÷ peak of the default setup"

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
    """Range of a measure over all loads below saturation."""

    scheme: str
    measure: str
    overrides: SetupOverrides = NO_OVERRIDES
    load_share_max: float = 1.0
    """Upper bound of the loads, as a share of the lowest saturating load. Close to that load,
    latency rises steeply, because all cores are busy at times."""

    @property
    def description(self) -> str:
        return f"range over {_load_range_text(self.load_share_max)}, mean over seeds"

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        return _result_of_points(self.points(evidence))

    def points(self, evidence: Evidence) -> list[CurvePoint]:
        """Return the points of the curve within the bound."""
        points = evidence.curve(self.scheme, self.measure, **self.overrides)
        saturating = min((point.load_tps for point in points if point.is_saturated), default=inf)
        return [
            point
            for point in points
            if not point.is_saturated and point.load_tps <= self.load_share_max * saturating
        ]


class MeasureMaximum(NamedTuple):
    """Maximum of a measure over all loads below saturation."""

    scheme: str
    measure: str
    overrides: SetupOverrides = NO_OVERRIDES

    @property
    def description(self) -> str:
        return "highest over all loads below saturation, mean over seeds"

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        result = MeasureRange(self.scheme, self.measure, self.overrides).evaluate(evidence)
        return None if result is None else result._replace(low=result.high, mean=None)


class CurveComparison(NamedTuple):
    """Two curves combined by `operation` at equal loads; the right one is interpolated linearly."""

    left: MeasureRange
    right: MeasureRange
    operation: Callable[[float, float], float]
    label: str

    @property
    def description(self) -> str:
        return f"{self.label} at equal loads: {_load_range_text(self.left.load_share_max)} of both"

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        right_points = self.right.points(evidence)
        pairs = [
            (point, value)
            for point in self.left.points(evidence)
            if (value := _interpolate(right_points, point.load_tps))
        ]
        if not pairs:
            return None
        values = [self.operation(point.mean, value) for point, value in pairs]
        seeds = min(point.seeds for point in (*right_points, *(point for point, _ in pairs)))
        return QueryResult(min(values), max(values), seeds, mean=fmean(values))


class OverallMaximum(NamedTuple):
    """Maximum of a measure over all schemes and their loads below saturation."""

    measure: str

    @property
    def description(self) -> str:
        return "highest over all systems and loads below saturation"

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        curves = [evidence.below_saturation(each, self.measure) for each in evidence.schemes]
        result = _result_of_points([point for curve in curves for point in curve])
        return None if result is None else result._replace(low=result.high, mean=None)


class QueryDifference(NamedTuple):
    """Difference of two numbers."""

    left: Query
    right: Query

    @property
    def description(self) -> str:
        return f"difference of the two: {self.left.description}"

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        left, right = self.left.evaluate(evidence), self.right.evaluate(evidence)
        if left is None or right is None:
            return None
        value = left.typical - right.typical
        return QueryResult(value, value, min(left.seeds, right.seeds))


class ReducedQuery(NamedTuple):
    """One value of a range: an end, or the mean."""

    query: Query
    reduce: Callable[[QueryResult], float]
    label: str

    @property
    def description(self) -> str:
        return f"{self.label} of: {self.query.description}"

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        result = self.query.evaluate(evidence)
        if result is None:
            return None
        value = self.reduce(result)
        return result._replace(low=value, high=value, mean=None)


class PartitionGrowth(NamedTuple):
    """Range of a growth over all runs of the default size with a partition."""

    scheme: str
    measure: Callable[[PartitionedRun], float | None]
    label: str

    @property
    def description(self) -> str:
        return self.label

    def evaluate(self, evidence: Evidence) -> QueryResult | None:
        default = evidence.default_setup["source"], evidence.default_setup["replicas"]
        values = [
            value
            for each in partitioned_runs(evidence.tables)
            if (each.source, each.replicas) == default
            and each.scheme == self.scheme
            and (value := self.measure(each)) is not None
        ]
        return QueryResult(min(values), max(values), len(values)) if values else None


def _load_range_text(up_to: float) -> str:
    if up_to == 1:
        return "all loads below saturation"
    return f"loads up to {100 * up_to:.0f}\u00a0% of the lowest saturating load"


def _interpolate(points: list[CurvePoint], load_tps: float) -> float | None:
    """Return the value of a curve at a load, or None outside its loads."""
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
