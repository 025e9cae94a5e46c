"""Numbers that the paper's statements require, computed from the evidence."""

import itertools
import operator
from collections.abc import Callable, Mapping
from math import inf, isinf
from statistics import fmean
from typing import Any, Final, NamedTuple

from creekdb.pipeline.report import formatting
from creekdb.pipeline.report.evidence import CurvePoint, Evidence
from creekdb.pipeline.report.partitions import partitioned_runs
from creekdb.pipeline.report.quantities import Unit


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


class Query(NamedTuple):
    """Computation of one number, or of its range."""

    unit: Unit
    description: str
    evaluate: Callable[[Evidence], QueryResult | None]
    """Returns None if the runs do not determine the number."""


# --- peaks ------------------------------------------------------------------------------------


def peak_throughput(scheme: str, **overrides: Any) -> Query:
    def evaluate(evidence: Evidence) -> QueryResult | None:
        peak = evidence.peak(scheme, **overrides)
        if peak is None:
            return None
        return QueryResult(peak.mean, peak.mean, peak.seeds, (peak.mean, peak.bound_tps))

    description = "throughput at the highest unsaturated load, mean over seeds"
    return Query(Unit.PER_SECOND, description, evaluate)


def slowdown(scheme: str, **overrides: Any) -> Query:
    """Return the ratio of the peak of the default setup to that with `overrides`."""
    return Query(
        Unit.RATIO,
        "peak throughput ÷ peak throughput",
        lambda evidence: _peak_ratio(evidence, scheme, {}, overrides),
    )


def peak_scaling(scheme: str, parameter: str) -> Query:
    """Return the peak at the highest value of a parameter, relative to that of the default."""

    def evaluate(evidence: Evidence) -> QueryResult | None:
        tried = [
            value
            for value in evidence.values(parameter)
            if value > evidence.default_setup[parameter]
            and evidence.peak(scheme, **{parameter: value})
        ]
        return _peak_ratio(evidence, scheme, {parameter: max(tried)}, {}) if tried else None

    description = f"peak with the most {parameter} tried ÷ peak of the default setup"
    return Query(Unit.RATIO, description, evaluate)


def _peak_ratio(
    evidence: Evidence, scheme: str, overrides: Mapping[str, Any], base: Mapping[str, Any]
) -> QueryResult | None:
    one, other = evidence.peak(scheme, **overrides), evidence.peak(scheme, **base)
    if one is None or other is None or isinf(other.bound_tps) or not other.mean:
        return None
    ratio = one.mean / other.mean
    possible = one.mean / other.bound_tps, one.bound_tps / other.mean
    return QueryResult(ratio, ratio, min(one.seeds, other.seeds), possible)


# --- curves -----------------------------------------------------------------------------------


class Curve(NamedTuple):
    """A measure over the loads below saturation."""

    scheme: str
    measure: str
    overrides: Mapping[str, Any] = {}
    load_share_max: float = 1.0
    """Upper bound of the loads, as a share of the lowest saturating load. Close to that load,
    latency rises steeply, because all cores are busy at times."""

    @property
    def unit(self) -> Unit:
        if self.measure.endswith("_us"):
            return Unit.MICROSECONDS
        return Unit.RATIO if self.measure == "execution_ratio" else Unit.SHARE

    @property
    def loads(self) -> str:
        """Description of the loads."""
        if self.load_share_max == 1:
            return "all loads below saturation"
        return f"loads up to {100 * self.load_share_max:.0f}\u00a0% of the lowest saturating load"

    def points(self, evidence: Evidence) -> list[CurvePoint]:
        """Return the points of the curve within the bound."""
        points = evidence.curve(self.scheme, self.measure, **self.overrides)
        saturating = min((point.load_tps for point in points if point.is_saturated), default=inf)
        return [
            point
            for point in points
            if not point.is_saturated and point.load_tps <= self.load_share_max * saturating
        ]


def curve_range(curve: Curve) -> Query:
    description = f"range over {curve.loads}, mean over seeds"
    return Query(curve.unit, description, lambda evidence: _range(curve.points(evidence)))


def curve_value(scheme: str, measure: str, load_tps: float, **overrides: Any) -> Query:
    """Return a measure at one load, even if this load saturates the system."""

    def evaluate(evidence: Evidence) -> QueryResult | None:
        points = evidence.curve(scheme, measure, **overrides)
        return _range([point for point in points if point.load_tps == load_tps])

    description = f"at {formatting.format_throughput(load_tps)}, mean over seeds"
    return Query(Curve("", measure).unit, description, evaluate)


def curve_maximum(scheme: str, measure: str, **overrides: Any) -> Query:
    curve = Curve(scheme, measure, overrides)
    description = f"highest over {curve.loads}, mean over seeds"
    return Query(curve.unit, description, lambda evidence: _maximum(curve.points(evidence)))


def overall_maximum(measure: str) -> Query:
    """Return the maximum of a measure over all schemes."""

    def evaluate(evidence: Evidence) -> QueryResult | None:
        curves = [Curve(scheme, measure).points(evidence) for scheme in evidence.schemes]
        return _maximum([point for points in curves for point in points])

    description = "highest over all systems and loads below saturation"
    return Query(Curve("", measure).unit, description, evaluate)


def compare_curves(
    unit: Unit, left: Curve, right: Curve, operation: Callable[[float, float], float], label: str
) -> Query:
    """Combine two curves by `operation` at equal loads; the right one is interpolated linearly."""

    def evaluate(evidence: Evidence) -> QueryResult | None:
        right_points = right.points(evidence)
        pairs = [
            (point, value)
            for point in left.points(evidence)
            if (value := _interpolate(right_points, point.load_tps))
        ]
        if not pairs:
            return None
        values = [operation(point.mean, value) for point, value in pairs]
        seeds = min(point.seeds for point in (*right_points, *(point for point, _ in pairs)))
        return QueryResult(min(values), max(values), seeds, mean=fmean(values))

    return Query(unit, f"{label} at equal loads: {left.loads} of both", evaluate)


def _interpolate(points: list[CurvePoint], load_tps: float) -> float | None:
    """Return the value of a curve at a load, or None outside its loads."""
    for left, right in itertools.pairwise(points):
        if left.load_tps <= load_tps <= right.load_tps:
            share = (load_tps - left.load_tps) / (right.load_tps - left.load_tps)
            return left.mean + share * (right.mean - left.mean)
    return next((point.mean for point in points if point.load_tps == load_tps), None)


def _range(points: list[CurvePoint]) -> QueryResult | None:
    if not points:
        return None
    means = [point.mean for point in points]
    seeds = min(point.seeds for point in points)
    return QueryResult(min(means), max(means), seeds, mean=fmean(means))


def _maximum(points: list[CurvePoint]) -> QueryResult | None:
    result = _range(points)
    return None if result is None else result._replace(low=result.high, mean=None)


# --- latencies -------------------------------------------------------------------------------


WEAK_TENTATIVE: Final = "weak_tentative_mean_us"
STRONG_TENTATIVE: Final = "strong_tentative_mean_us"
STRONG_STABLE: Final = "strong_stable_mean_us"
ALL_DONE: Final = "all_done_mean_us"
"""Latency of all transactions, weak and strong."""
LATENCY_LOAD_SHARE_MAX: Final = 0.9
"""Share of the lowest saturating load up to which latencies are compared. As in the paper, the
processors are not saturated at these loads."""


def latency_curve(scheme: str, measure: str, **overrides: Any) -> Curve:
    return Curve(scheme, measure, overrides, LATENCY_LOAD_SHARE_MAX)


def latency_range(scheme: str, measure: str, **overrides: Any) -> Query:
    return curve_range(latency_curve(scheme, measure, **overrides))


def latency_ratio(
    one: str, two: str, measure: str, measure_of_two: str | None = None, **overrides: Any
) -> Query:
    """Return the ratio of the mean latencies of two systems.

    `measure_of_two`: measure of the second system, if it differs.
    """
    other = formatting.scheme_name(two)
    suffix = " of all transactions" if measure_of_two == ALL_DONE else ""
    return compare_curves(
        Unit.RATIO,
        latency_curve(one, measure, **overrides),
        latency_curve(two, measure_of_two or measure, **overrides),
        operator.truediv,
        f"{formatting.scheme_name(one)}'s mean latency ÷ {other}'s{suffix}",
    )


def speculation_saving(scheme: str) -> Query:
    """Return the share of its latency that a scheme saves by execution before the decision."""
    return compare_curves(
        Unit.SHARE,
        Curve(scheme, ALL_DONE),
        Curve(scheme, ALL_DONE, {"decided_only": True}),
        lambda speculative, decided: 1 - speculative / decided,
        "1 − mean latency ÷ mean latency without speculation",
    )


# --- derived numbers --------------------------------------------------------------------------


def difference(left: Query, right: Query) -> Query:
    def evaluate(evidence: Evidence) -> QueryResult | None:
        one, other = left.evaluate(evidence), right.evaluate(evidence)
        if one is None or other is None:
            return None
        value = one.typical - other.typical
        return QueryResult(value, value, min(one.seeds, other.seeds))

    return Query(left.unit, f"difference of the two: {left.description}", evaluate)


def reduce_range(query: Query, reduce: Callable[[QueryResult], float], label: str) -> Query:
    """Return one value of a range: an end, or the mean."""

    def evaluate(evidence: Evidence) -> QueryResult | None:
        result = query.evaluate(evidence)
        if result is None:
            return None
        return result._replace(low=reduce(result), high=reduce(result), mean=None)

    return Query(query.unit, f"{label} of: {query.description}", evaluate)


def partition_growth(scheme: str, column: str, *, in_majority: bool) -> Query:
    """Return the range of the growth of a counter during a partition, in runs of default size."""

    def evaluate(evidence: Evidence) -> QueryResult | None:
        setup = evidence.default_setup | {"scheme": scheme}
        growths = [
            run.growth(column, in_majority)
            for run in partitioned_runs(evidence.tables).values()
            if all(run.row[name] == setup[name] for name in ("scheme", "source", "replicas"))
        ]
        values = [growth for growth in growths if growth is not None]
        return QueryResult(min(values), max(values), len(values)) if values else None

    side = "in" if in_majority else "outside"
    return Query(Unit.COUNT, f"growth of {column} {side} the majority", evaluate)
