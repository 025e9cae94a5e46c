"""Data type of a statement, and factories for recurring statements.

Latency statements compare means at loads that do not saturate the processors. Other factories
cover statements that the paper repeats for several numbers of warehouses.
"""

import operator
from typing import Any, Final, NamedTuple

from creekdb.pipeline.report.paper.reference_values import (
    PEAKS_TPS_BY_WAREHOUSES,
    SCHEME_NAMES,
    SEQUENTIAL_SCHEMES,
)
from creekdb.pipeline.report.quantities import Band, Unit, band_around
from creekdb.pipeline.report.queries import (
    Curve,
    Query,
    compare_curves,
    curve_maximum,
    curve_range,
    peak_throughput,
)


class Claim(NamedTuple):
    """Statement of the paper, with the query that measures it."""

    subject: str
    paper_text: str
    band: Band
    query: Query
    section: str = ""


MEAN_SUFFIX: Final = "_mean_us"
WEAK_TENTATIVE: Final = f"weak_tentative{MEAN_SUFFIX}"
STRONG_TENTATIVE: Final = f"strong_tentative{MEAN_SUFFIX}"
STRONG_STABLE: Final = f"strong_stable{MEAN_SUFFIX}"
LATENCY_LOAD_SHARE_MAX: Final = 0.9
"""Share of the lowest saturating load up to which latencies are compared. As in the paper, the
processors are not saturated at these loads."""


def latency_curve(scheme: str, measure: str, **overrides: Any) -> Curve:
    return Curve(scheme, measure, overrides, LATENCY_LOAD_SHARE_MAX)


def latency_range(scheme: str, measure: str, **overrides: Any) -> Query:
    return curve_range(latency_curve(scheme, measure, **overrides))


def latency_ratio(one: str, two: str, measure: str, **overrides: Any) -> Query:
    """Return the ratio of the mean latencies of two systems."""
    return compare_curves(
        Unit.RATIO,
        latency_curve(one, measure, **overrides),
        latency_curve(two, measure, **overrides),
        operator.truediv,
        f"{SCHEME_NAMES[one]}'s mean latency ÷ {SCHEME_NAMES[two]}'s",
    )


SEQUENTIAL_TOLERANCE: Final = 0.10
PEAK_TOLERANCE: Final = {1: 0.25, 5: 0.12, 20: 0.12}
"""Relative tolerance of a peak by number of warehouses."""


def peak_claims(warehouses: int) -> list[Claim]:
    claims = []
    for scheme, name in SCHEME_NAMES.items():
        value = PEAKS_TPS_BY_WAREHOUSES[scheme, warehouses]
        is_sequential = scheme in SEQUENTIAL_SCHEMES
        is_unchanged = is_sequential and warehouses != 5
        tolerance = SEQUENTIAL_TOLERANCE if is_sequential else PEAK_TOLERANCE[warehouses]
        claims.append(
            Claim(
                f"Peak throughput of {name}, {_warehouses_text(warehouses)}",
                "roughly the same as before" if is_unchanged else f"about {value / 1000:g}k tx/s",
                band_around(value, tolerance),
                peak_throughput(scheme, warehouses=warehouses),
            )
        )
    return claims


def accuracy_claim(scheme: str, warehouses: int, paper_text: str, band: Band) -> Claim:
    return Claim(
        f"Accuracy of speculation, {SCHEME_NAMES[scheme]}, {_warehouses_text(warehouses)}",
        paper_text,
        band,
        curve_range(Curve(scheme, "accuracy", {"warehouses": warehouses})),
    )


def execution_ratio_claim(scheme: str, warehouses: int, paper_text: str, band: Band) -> Claim:
    return Claim(
        f"Highest execution ratio, {SCHEME_NAMES[scheme]}, {_warehouses_text(warehouses)}",
        paper_text,
        band,
        curve_maximum(scheme, "execution_ratio", warehouses=warehouses),
    )


def _warehouses_text(count: int) -> str:
    return "1 warehouse" if count == 1 else f"{count} warehouses"
