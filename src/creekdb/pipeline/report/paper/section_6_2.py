"""Section 6.2: five replicas, five warehouses, every Payment strong."""

import operator
from typing import Final

from creekdb.pipeline.report.found import Compared, Difference, Highest, HighestOfAll, Only
from creekdb.pipeline.report.paper.by_warehouses import accuracy, peaks
from creekdb.pipeline.report.paper.latency import (
    STRONG_STABLE,
    STRONG_TENTATIVE,
    WEAK,
    latency,
    ratio,
)
from creekdb.pipeline.report.paper.numbers import ACCURACY
from creekdb.pipeline.report.paper.statement import Statement
from creekdb.pipeline.report.paper.systems import CONCURRENT, NAMES
from creekdb.pipeline.report.quantities import Band, Unit, about, at_least, at_most

_LATENCY: Final = (
    Statement(
        section="6.2",
        what="Tentative latency of weak transactions, Creek",
        paper="steady around 0.5 ms",
        unit=Unit.MICROSECONDS,
        band=Band(500, 600),
        finding=latency("creek", WEAK),
    ),
    Statement(
        section="6.2",
        what="Tentative latency of Payment, Creek",
        paper="about 0.1 ms",
        unit=Unit.MICROSECONDS,
        band=about(100, 100),
        finding=latency("creek", STRONG_TENTATIVE),
    ),
    Statement(
        section="6.2",
        what="Stable latency of Payment, Creek",
        paper="0.8–1.2 ms",
        unit=Unit.MICROSECONDS,
        band=Band(800, 1_200),
        finding=latency("creek", STRONG_STABLE),
    ),
    Statement(
        section="6.2",
        what="What agreement adds to the latency of Payment, Creek",
        paper="at least about 0.7–0.8 ms",
        unit=Unit.MICROSECONDS,
        band=at_least(650),
        finding=Only(
            Compared(
                latency("creek", STRONG_STABLE),
                latency("creek", STRONG_TENTATIVE),
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
        finding=ratio("creek", "archie", WEAK),
    ),
    Statement(
        section="6.2",
        what="Creek ÷ Archie, stable latency of strong transactions",
        paper="75–85 %",
        unit=Unit.RATIO,
        band=Band(0.75, 0.85),
        finding=ratio("creek", "archie", STRONG_STABLE),
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
        finding=ratio("bayou", "smr", WEAK),
    ),
)

_WORK: Final = (
    accuracy("6.2", "creek", 5, "98–100 %", ACCURACY[5]),
    accuracy("6.2", "archie", 5, "perfect", Band(0.9995, 1)),
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
        for scheme in CONCURRENT
    ),
)

STATEMENTS: Final = (*peaks(5), *_LATENCY, *_WORK)
