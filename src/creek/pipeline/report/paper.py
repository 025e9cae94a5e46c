"""What Section 6 of the paper states, as data.

Each statement has the section it is from, the paper's own words or number, the band that a
measured value must lie in, and how that value is found in the tables. A band is the paper's range
where it gives one; where it gives a number, the number and a tolerance. All numbers of the paper
that a page shows are in this file.
"""

import operator
from enum import StrEnum
from math import inf, isinf
from typing import Final, NamedTuple

from creek.pipeline.report.evidence import Evidence
from creek.pipeline.report.found import (
    Compared,
    Difference,
    DuringPartitions,
    Finding,
    Found,
    Highest,
    HighestOfAll,
    Only,
    PeakRatio,
    PeakThroughput,
    Range,
)
from creek.pipeline.report.partitions import Partitioned

MEAN: Final = "_mean_us"
WEAK: Final = f"weak_tentative{MEAN}"
STRONG_TENTATIVE: Final = f"strong_tentative{MEAN}"
STRONG_STABLE: Final = f"strong_stable{MEAN}"
UP_TO: Final = 0.9
"""Latencies are compared where the processors are not saturated, as in the paper: at loads up to
this share of the first that is too much."""


class Unit(StrEnum):
    PER_SECOND = "per second"
    MICROSECONDS = "microseconds"
    SHARE = "share"
    RATIO = "ratio"
    COUNT = "count"


DIGITS: Final = {
    Unit.PER_SECOND: 0,
    Unit.MICROSECONDS: -1,
    Unit.SHARE: 4,
    Unit.RATIO: 2,
    Unit.COUNT: 0,
}
"""Behind the point, to which a value is rounded before it is compared with a band."""


class Mark(StrEnum):
    HOLDS = "holds"
    DIFFERS = "differs"
    NOT_MEASURED = "not measured"


class Band(NamedTuple):
    low: float
    high: float


class Statement(NamedTuple):
    section: str
    what: str
    paper: str
    unit: Unit
    band: Band
    finding: Finding | None
    """None: nothing in the tables tells."""
    why_not: str = ""


class Judged(NamedTuple):
    statement: Statement
    found: Found | None
    mark: Mark


def judge(evidence: Evidence) -> list[Judged]:
    judged = []
    for statement in STATEMENTS:
        found = None if statement.finding is None else statement.finding.find(evidence)
        judged.append(Judged(statement, found, _mark(statement, found)))
    return judged


def _mark(statement: Statement, found: Found | None) -> Mark:
    """The paper's numbers are rounded, and so are ours before they are compared.

    A lower bound tells something only when it is already enough, or already too much; and loads
    that are too far apart tell nothing as long as the value might lie in the band.
    """
    if found is None:
        return Mark.NOT_MEASURED
    band, digits = statement.band, DIGITS[statement.unit]
    least, most = found.possible or (found.low, found.high)
    if found.is_bound:
        if isinf(band.high) and least >= band.low:
            return Mark.HOLDS
        return Mark.DIFFERS if least > band.high else Mark.NOT_MEASURED
    if band.low <= round(found.low, digits) and round(found.high, digits) <= band.high:
        return Mark.HOLDS
    might = found.possible is not None and least <= band.high and band.low <= most
    return Mark.NOT_MEASURED if might else Mark.DIFFERS


def within(value: float, tolerance: float) -> Band:
    return Band(value * (1 - tolerance), value * (1 + tolerance))


def at_least(value: float) -> Band:
    return Band(value, inf)


def at_most(value: float) -> Band:
    return Band(-inf, value)


def about(value: float, last_digit: float) -> Band:
    """What is rounded to the value, at that digit."""
    return Band(value - last_digit / 2, value + last_digit / 2)


# --- Figure 1, for the marks in the drawings ------------------------------------------------------

PEAKS_TPS: Final = {"smr": 2_700.0, "bayou": 2_700.0, "creek": 32_500.0, "archie": 35_000.0}
"""Five warehouses."""
PEAKS_TPS_BY_WAREHOUSES: Final = {
    ("creek", 1): 11_000.0,
    ("archie", 1): 11_000.0,
    ("creek", 20): 40_000.0,
    ("archie", 20): 40_000.0,
    **{(scheme, 5): peak for scheme, peak in PEAKS_TPS.items()},
    **{(scheme, warehouses): 2_700.0 for scheme in ("smr", "bayou") for warehouses in (1, 20)},
}
ACCURACY: Final = {1: Band(0.92, 1.0), 5: Band(0.98, 1.0), 20: Band(0.9995, 1.0)}
"""Of Creek, by warehouses. Perfect is what is rounded to 100.0 %."""
SEQUENTIAL_TOLERANCE: Final = 0.10
PEAK_TOLERANCE: Final = {1: 0.25, 5: 0.12, 20: 0.12}
"""By warehouses."""
SLOWER: Final = 5.0
"""How many times longer executions take in Section 6.3."""
MANY_STRONG: Final = 0.5
FEW_STRONG: Final = 0.1
NAMES: Final = {"smr": "SMR", "bayou": "Bayou", "archie": "Archie", "creek": "Creek"}


# --- what the statements are made of ---------------------------------------------------------


def _peaks(warehouses: int) -> list[Statement]:
    section = "6.2" if warehouses == 5 else "6.3"
    where = {"warehouses": warehouses}
    statements = []
    for scheme, name in NAMES.items():
        value = PEAKS_TPS_BY_WAREHOUSES[scheme, warehouses]
        sequential = scheme in ("smr", "bayou")
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


def _warehouses(count: int) -> str:
    return "1 warehouse" if count == 1 else f"{count} warehouses"


def _latency(scheme: str, measure: str, **differing: float) -> Range:
    return Range(scheme, measure, differing, UP_TO)


def _ratio_to_archie(measure: str, **differing: float) -> Compared:
    return Compared(
        _latency("creek", measure, **differing),
        _latency("archie", measure, **differing),
        operator.truediv,
        "Creek's mean latency ÷ Archie's",
    )


def _accuracy(section: str, scheme: str, warehouses: int, paper: str, band: Band) -> Statement:
    return Statement(
        section=section,
        what=f"Accuracy of speculation, {NAMES[scheme]}, {_warehouses(warehouses)}",
        paper=paper,
        unit=Unit.SHARE,
        band=band,
        finding=Range(scheme, "accuracy", {"warehouses": warehouses}),
    )


def _execution_ratio(scheme: str, warehouses: int, paper: str, band: Band) -> Statement:
    return Statement(
        section="6.3",
        what=f"Highest execution ratio, {NAMES[scheme]}, {_warehouses(warehouses)}",
        paper=paper,
        unit=Unit.RATIO,
        band=band,
        finding=Highest(scheme, "execution_ratio", {"warehouses": warehouses}),
    )


_LATENCY: Final = (
    Statement(
        section="6.2",
        what="Tentative latency of weak transactions, Creek",
        paper="steady around 0.5 ms",
        unit=Unit.MICROSECONDS,
        band=Band(500, 600),
        finding=_latency("creek", WEAK),
    ),
    Statement(
        section="6.2",
        what="Tentative latency of Payment, Creek",
        paper="about 0.1 ms",
        unit=Unit.MICROSECONDS,
        band=about(100, 100),
        finding=_latency("creek", STRONG_TENTATIVE),
    ),
    Statement(
        section="6.2",
        what="Stable latency of Payment, Creek",
        paper="0.8–1.2 ms",
        unit=Unit.MICROSECONDS,
        band=Band(800, 1_200),
        finding=_latency("creek", STRONG_STABLE),
    ),
    Statement(
        section="6.2",
        what="What agreement adds to the latency of Payment, Creek",
        paper="at least about 0.7–0.8 ms",
        unit=Unit.MICROSECONDS,
        band=at_least(650),
        finding=Only(
            Compared(
                _latency("creek", STRONG_STABLE),
                _latency("creek", STRONG_TENTATIVE),
                operator.sub,
                "stable − tentative mean latency",
            ),
            lambda found: found.low,
            "lowest",
        ),
    ),
    Statement(
        section="6.2",
        what="Creek ÷ Archie, latency of weak transactions",
        paper="37–61 %",
        unit=Unit.RATIO,
        band=Band(0.37, 0.61),
        finding=_ratio_to_archie(WEAK),
    ),
    Statement(
        section="6.2",
        what="Creek ÷ Archie, stable latency of strong transactions",
        paper="75–85 %",
        unit=Unit.RATIO,
        band=Band(0.75, 0.85),
        finding=_ratio_to_archie(STRONG_STABLE),
    ),
    Statement(
        section="6.2",
        what="What speculation saves Archie, at low load",
        paper="5–8 % of its latency",
        unit=Unit.SHARE,
        band=Band(0.05, 0.08),
        finding=None,
        why_not="there are no runs of Archie without speculation",
    ),
    Statement(
        section="6.2",
        what="Bayou ÷ SMR, latency of weak transactions",
        paper="Bayou cuts the latency",
        unit=Unit.RATIO,
        band=at_most(1),
        finding=Compared(
            _latency("bayou", WEAK),
            _latency("smr", WEAK),
            operator.truediv,
            "Bayou's mean latency ÷ SMR's",
        ),
    ),
)

_WORK: Final = (
    _accuracy("6.2", "creek", 5, "98–100 %", ACCURACY[5]),
    _accuracy("6.2", "archie", 5, "perfect", Band(0.9995, 1)),
    Statement(
        section="6.2",
        what="Highest execution ratio, Creek − Archie, 5 warehouses",
        paper="slightly higher for Creek",
        unit=Unit.RATIO,
        band=at_least(0),
        finding=Difference(
            Highest("creek", "execution_ratio"), Highest("archie", "execution_ratio")
        ),
    ),
    Statement(
        section="6.2",
        what="Load of the network, any system",
        paper="not saturated",
        unit=Unit.SHARE,
        band=at_most(0.9),
        finding=HighestOfAll("network_utilisation"),
    ),
    *(
        Statement(
            section="6.2",
            what=f"Load of the processors close to the peak, {NAMES[scheme]}",
            paper="fully utilised",
            unit=Unit.SHARE,
            band=at_least(0.9),
            finding=Highest(scheme, "cpu_utilisation"),
        )
        for scheme in ("creek", "archie")
    ),
)

_CONTENTION: Final = (
    *_peaks(20),
    *_peaks(1),
    *(_execution_ratio(scheme, 1, "about 1.8", about(1.8, 0.4)) for scheme in ("creek", "archie")),
    *(
        _execution_ratio(scheme, 20, "never above 1.1", at_most(1.1))
        for scheme in ("creek", "archie")
    ),
    _accuracy("6.3", "creek", 1, "92–100 %", ACCURACY[1]),
    _accuracy("6.3", "creek", 20, "perfect", ACCURACY[20]),
    _accuracy("6.3", "archie", 20, "perfect", ACCURACY[20]),
)

_SHARE: Final = (
    Statement(
        section="6.3",
        what="Creek ÷ Archie, stable latency, with 50 % strong less with 10 %",
        paper="more strong: a bit closer to Archie's",
        unit=Unit.RATIO,
        band=at_least(0),
        finding=Difference(
            _ratio_to_archie(STRONG_STABLE, strong_share=MANY_STRONG),
            _ratio_to_archie(STRONG_STABLE, strong_share=FEW_STRONG),
        ),
    ),
    Statement(
        section="6.3",
        what="Highest execution ratio, Creek, with 50 % strong less with 10 %",
        paper="more strong: slightly higher",
        unit=Unit.RATIO,
        band=at_least(0),
        finding=Difference(
            Highest("creek", "execution_ratio", {"strong_share": MANY_STRONG}),
            Highest("creek", "execution_ratio", {"strong_share": FEW_STRONG}),
        ),
    ),
)

_LONGER: Final = (
    *(
        Statement(
            section="6.3",
            what=f"How much higher is the peak of {name} than with executions × 5",
            paper="five times",
            unit=Unit.RATIO,
            band=within(SLOWER, 0.10),
            finding=PeakRatio(scheme, {}, {"exec_scale": SLOWER}),
        )
        for scheme, name in NAMES.items()
    ),
    *(
        Statement(
            section="6.3",
            what=f"Highest execution ratio, {NAMES[scheme]}, with executions × 5 less as usual",
            paper="lower than before",
            unit=Unit.RATIO,
            band=at_most(0),
            finding=Difference(
                Highest(scheme, "execution_ratio", {"exec_scale": SLOWER}),
                Highest(scheme, "execution_ratio"),
            ),
        )
        for scheme in ("creek", "archie")
    ),
    Statement(
        section="6.3",
        what="Creek ÷ Archie, stable latency, executions × 5, 50 % strong",
        paper="the same",
        unit=Unit.RATIO,
        band=within(1, 0.10),
        finding=_ratio_to_archie(STRONG_STABLE, exec_scale=SLOWER, strong_share=MANY_STRONG),
    ),
    Statement(
        section="6.3",
        what="Creek ÷ Archie, stable latency, executions × 5, 10 % strong",
        paper="lower for Creek",
        unit=Unit.RATIO,
        band=at_most(1),
        finding=_ratio_to_archie(STRONG_STABLE, exec_scale=SLOWER, strong_share=FEW_STRONG),
    ),
)


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


_SIZE: Final = (
    *(
        Statement(
            section="6.3",
            what=f"Peak of {name} with more replicas ÷ with five",
            paper="no better",
            unit=Unit.RATIO,
            band=at_most(1.05),
            finding=MorePeak(scheme, "replicas"),
        )
        for scheme, name in NAMES.items()
    ),
    *(
        Statement(
            section="6.3",
            what=f"Peak of {NAMES[scheme]} with more cores ÷ with 16",
            paper="no effect" if scheme in ("smr", "bayou") else "higher",
            unit=Unit.RATIO,
            band=within(1, 0.05) if scheme in ("smr", "bayou") else at_least(1.05),
            finding=MorePeak(scheme, "cores"),
        )
        for scheme in NAMES
    ),
)

_ANALYSIS: Final = (
    Statement(
        section="6.4",
        what="Archie ÷ Creek, latency of weak transactions, at most",
        paper="up to 2.5 times lower",
        unit=Unit.RATIO,
        band=within(2.5, 0.12),
        finding=Only(
            Compared(
                _latency("archie", WEAK),
                _latency("creek", WEAK),
                operator.truediv,
                "Archie's mean latency ÷ Creek's",
            ),
            lambda found: found.high,
            "highest",
        ),
    ),
    Statement(
        section="6.4",
        what="Creek ÷ Archie, stable latency, on average",
        paper="improved by 20 %",
        unit=Unit.RATIO,
        band=about(0.8, 0.1),
        finding=Only(_ratio_to_archie(STRONG_STABLE), lambda found: found.typical, "mean"),
    ),
    Statement(
        section="6.4",
        what="Operations that a minority takes in while the network is split, Creek",
        paper="remains available",
        unit=Unit.COUNT,
        band=at_least(1),
        finding=DuringPartitions(
            "creek", Partitioned.tentative_beyond, "growth of tentative at replicas out of touch"
        ),
    ),
    Statement(
        section="6.4",
        what="Operations that a minority commits meanwhile, Creek",
        paper="stable answers in the majority only",
        unit=Unit.COUNT,
        band=Band(0, 0),
        finding=DuringPartitions(
            "creek", Partitioned.committed_beyond, "growth of committed at replicas out of touch"
        ),
    ),
    Statement(
        section="6.4",
        what="Operations that the majority commits meanwhile, Creek",
        paper="stable answers in the majority",
        unit=Unit.COUNT,
        band=at_least(1),
        finding=DuringPartitions(
            "creek", Partitioned.committed_within, "growth of committed in the majority"
        ),
    ),
)

STATEMENTS: Final[tuple[Statement, ...]] = (
    *_peaks(5),
    *_LATENCY,
    *_WORK,
    *_CONTENTION,
    *_SHARE,
    *_LONGER,
    *_SIZE,
    *_ANALYSIS,
)
