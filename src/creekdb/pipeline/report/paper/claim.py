"""What a statement is.

How latencies are compared: their means, where the processors are not saturated.

What the paper states again and again, for one number of warehouses after the other.
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
    section: str
    subject: str
    paper_text: str
    unit: Unit
    band: Band
    query: Query | None
    """None: nothing in the tables tells."""
    not_measured_reason: str = ""


MEAN_SUFFIX: Final = "_mean_us"
WEAK_TENTATIVE: Final = f"weak_tentative{MEAN_SUFFIX}"
STRONG_TENTATIVE: Final = f"strong_tentative{MEAN_SUFFIX}"
STRONG_STABLE: Final = f"strong_stable{MEAN_SUFFIX}"
LATENCY_LOAD_SHARE_MAX: Final = 0.9
"""Latencies are compared where the processors are not saturated, as in the paper: at loads up to
this share of the first that is too much."""


def latency_range(scheme: str, measure: str, **differing: float) -> MeasureRange:
    return MeasureRange(scheme, measure, differing, LATENCY_LOAD_SHARE_MAX)


def latency_ratio(one: str, two: str, measure: str, **differing: float) -> CurveComparison:
    """Of one system to another."""
    return CurveComparison(
        latency_range(one, measure, **differing),
        latency_range(two, measure, **differing),
        operator.truediv,
        f"{SCHEME_NAMES[one]}'s mean latency ÷ {SCHEME_NAMES[two]}'s",
    )


SEQUENTIAL_TOLERANCE: Final = 0.10
PEAK_TOLERANCE: Final = {1: 0.25, 5: 0.12, 20: 0.12}
"""By warehouses."""


def peak_claims(warehouses: int) -> list[Claim]:
    section = "6.2" if warehouses == 5 else "6.3"
    where = {"warehouses": warehouses}
    statements = []
    for scheme, name in SCHEME_NAMES.items():
        value = PEAKS_TPS_BY_WAREHOUSES[scheme, warehouses]
        sequential = scheme in SEQUENTIAL_SCHEMES
        tolerance = SEQUENTIAL_TOLERANCE if sequential else PEAK_TOLERANCE[warehouses]
        roughly = sequential and warehouses != 5
        statements.append(
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
    return statements


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
