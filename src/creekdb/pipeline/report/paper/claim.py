"""What a statement is.

How latencies are compared: their means, where the processors are not saturated.

What the paper states again and again, for one number of warehouses after the other.
"""

import operator
from typing import Final, NamedTuple

from creekdb.pipeline.report.paper.reference_values import (
    NAMES,
    PEAKS_TPS_BY_WAREHOUSES,
    SEQUENTIAL,
)
from creekdb.pipeline.report.quantities import Band, Unit, within
from creekdb.pipeline.report.queries import Compared, Finding, Highest, PeakThroughput, Range


class Statement(NamedTuple):
    section: str
    what: str
    paper: str
    unit: Unit
    band: Band
    finding: Finding | None
    """None: nothing in the tables tells."""
    why_not: str = ""


MEAN: Final = "_mean_us"
WEAK: Final = f"weak_tentative{MEAN}"
STRONG_TENTATIVE: Final = f"strong_tentative{MEAN}"
STRONG_STABLE: Final = f"strong_stable{MEAN}"
UP_TO: Final = 0.9
"""Latencies are compared where the processors are not saturated, as in the paper: at loads up to
this share of the first that is too much."""


def latency(scheme: str, measure: str, **differing: float) -> Range:
    return Range(scheme, measure, differing, UP_TO)


def ratio(one: str, two: str, measure: str, **differing: float) -> Compared:
    """Of one system to another."""
    return Compared(
        latency(one, measure, **differing),
        latency(two, measure, **differing),
        operator.truediv,
        f"{NAMES[one]}'s mean latency ÷ {NAMES[two]}'s",
    )


SEQUENTIAL_TOLERANCE: Final = 0.10
PEAK_TOLERANCE: Final = {1: 0.25, 5: 0.12, 20: 0.12}
"""By warehouses."""


def peaks(warehouses: int) -> list[Statement]:
    section = "6.2" if warehouses == 5 else "6.3"
    where = {"warehouses": warehouses}
    statements = []
    for scheme, name in NAMES.items():
        value = PEAKS_TPS_BY_WAREHOUSES[scheme, warehouses]
        sequential = scheme in SEQUENTIAL
        tolerance = SEQUENTIAL_TOLERANCE if sequential else PEAK_TOLERANCE[warehouses]
        roughly = sequential and warehouses != 5
        statements.append(
            Statement(
                section=section,
                what=f"Peak throughput of {name}, {_warehouses(warehouses)}",
                paper="roughly the same as before" if roughly else f"about {value / 1000:g}k tx/s",
                unit=Unit.PER_SECOND,
                band=within(value, tolerance),
                finding=PeakThroughput(scheme, where),
            )
        )
    return statements


def accuracy(section: str, scheme: str, warehouses: int, paper: str, band: Band) -> Statement:
    return Statement(
        section=section,
        what=f"Accuracy of speculation, {NAMES[scheme]}, {_warehouses(warehouses)}",
        paper=paper,
        unit=Unit.SHARE,
        band=band,
        finding=Range(scheme, "accuracy", {"warehouses": warehouses}),
    )


def execution_ratio(scheme: str, warehouses: int, paper: str, band: Band) -> Statement:
    return Statement(
        section="6.3",
        what=f"Highest execution ratio, {NAMES[scheme]}, {_warehouses(warehouses)}",
        paper=paper,
        unit=Unit.RATIO,
        band=band,
        finding=Highest(scheme, "execution_ratio", {"warehouses": warehouses}),
    )


def _warehouses(count: int) -> str:
    return "1 warehouse" if count == 1 else f"{count} warehouses"
