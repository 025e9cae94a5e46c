"""Data type of a statement, and factories for recurring statements.

Latency statements compare means at loads that do not saturate the processors. Other factories
cover statements that the paper repeats for several numbers of warehouses.
"""

import operator
from typing import Final, NamedTuple

from creekdb.pipeline.report.paper.reference_values import (
    PEAKS_TPS_BY_WAREHOUSES,
    SCHEME_NAMES,
    SEQUENTIAL_SCHEMES,
)
from creekdb.pipeline.report.quantities import Band, Unit, band_around
from creekdb.pipeline.report.queries import (
    CurveComparison,
    MeasureMaximum,
    MeasureRange,
    PeakThroughput,
    Query,
)


class Claim(NamedTuple):
    """Statement of the paper, with the query that measures it."""

    section: str
    subject: str
    paper_text: str
    unit: Unit
    band: Band
    query: Query | None
    """None if the tables do not contain the value."""
    not_measured_reason: str = ""


MEAN_SUFFIX: Final = "_mean_us"
WEAK_TENTATIVE: Final = f"weak_tentative{MEAN_SUFFIX}"
STRONG_TENTATIVE: Final = f"strong_tentative{MEAN_SUFFIX}"
STRONG_STABLE: Final = f"strong_stable{MEAN_SUFFIX}"
LATENCY_LOAD_SHARE_MAX: Final = 0.9
"""Share of the lowest saturating load up to which latencies are compared. As in the paper, the
processors are not saturated at these loads."""


def latency_range(scheme: str, measure: str, **differing: float) -> MeasureRange:
    return MeasureRange(scheme, measure, differing, LATENCY_LOAD_SHARE_MAX)


def latency_ratio(one: str, two: str, measure: str, **differing: float) -> CurveComparison:
    """Return the ratio of the mean latencies of two systems."""
    return CurveComparison(
        latency_range(one, measure, **differing),
        latency_range(two, measure, **differing),
        operator.truediv,
        f"{SCHEME_NAMES[one]}'s mean latency ÷ {SCHEME_NAMES[two]}'s",
    )


SEQUENTIAL_TOLERANCE: Final = 0.10
PEAK_TOLERANCE: Final = {1: 0.25, 5: 0.12, 20: 0.12}
"""Relative tolerance of a peak by number of warehouses."""


def peak_claims(warehouses: int) -> list[Claim]:
    section = "6.2" if warehouses == 5 else "6.3"
    where = {"warehouses": warehouses}
    claims = []
    for scheme, name in SCHEME_NAMES.items():
        value = PEAKS_TPS_BY_WAREHOUSES[scheme, warehouses]
        sequential = scheme in SEQUENTIAL_SCHEMES
        tolerance = SEQUENTIAL_TOLERANCE if sequential else PEAK_TOLERANCE[warehouses]
        roughly = sequential and warehouses != 5
        claims.append(
            Claim(
                section=section,
                subject=f"Peak throughput of {name}, {_warehouses_text(warehouses)}",
                paper_text="roughly the same as before"
                if roughly
                else f"about {value / 1000:g}k tx/s",
                unit=Unit.PER_SECOND,
                band=band_around(value, tolerance),
                query=PeakThroughput(scheme, where),
            )
        )
    return claims


def accuracy_claim(section: str, scheme: str, warehouses: int, paper: str, band: Band) -> Claim:
    return Claim(
        section=section,
        subject=f"Accuracy of speculation, {SCHEME_NAMES[scheme]}, {_warehouses_text(warehouses)}",
        paper_text=paper,
        unit=Unit.SHARE,
        band=band,
        query=MeasureRange(scheme, "accuracy", {"warehouses": warehouses}),
    )


def execution_ratio_claim(scheme: str, warehouses: int, paper: str, band: Band) -> Claim:
    return Claim(
        section="6.3",
        subject=f"Highest execution ratio, {SCHEME_NAMES[scheme]}, {_warehouses_text(warehouses)}",
        paper_text=paper,
        unit=Unit.RATIO,
        band=band,
        query=MeasureMaximum(scheme, "execution_ratio", {"warehouses": warehouses}),
    )


def _warehouses_text(count: int) -> str:
    return "1 warehouse" if count == 1 else f"{count} warehouses"
