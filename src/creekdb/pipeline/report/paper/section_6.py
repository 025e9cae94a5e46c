"""Section 6.2: five replicas, five warehouses, every Payment strong.

Section 6.3: what changes with contention, strong transactions, longer executions, and size.

Section 6.4: the analysis, and what happens while the network is split.
"""

import operator
from typing import Final

from creekdb.pipeline.report.paper.claim import (
    STRONG_STABLE,
    STRONG_TENTATIVE,
    WEAK,
    Statement,
    accuracy,
    execution_ratio,
    latency,
    peaks,
    ratio,
)
from creekdb.pipeline.report.paper.reference_values import (
    ACCURACY,
    CONCURRENT,
    FEW_STRONG,
    MANY_STRONG,
    NAMES,
    SEQUENTIAL,
    SLOWER,
)
from creekdb.pipeline.report.partitions import Partitioned
from creekdb.pipeline.report.quantities import Band, Unit, about, at_least, at_most, within
from creekdb.pipeline.report.queries import (
    Compared,
    Difference,
    DuringPartitions,
    Highest,
    HighestOfAll,
    MorePeak,
    Only,
    PeakRatio,
)

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

SECTION_6_2: Final = (*peaks(5), *_LATENCY, *_WORK)


_CONTENTION: Final = (
    *peaks(20),
    *peaks(1),
    *(execution_ratio(scheme, 1, "about 1.8", about(1.8, 0.4)) for scheme in CONCURRENT),
    *(execution_ratio(scheme, 20, "never above 1.1", at_most(1.1)) for scheme in CONCURRENT),
    accuracy("6.3", "creek", 1, "92–100 %", ACCURACY[1]),
    accuracy("6.3", "creek", 20, "perfect", ACCURACY[20]),
    accuracy("6.3", "archie", 20, "perfect", ACCURACY[20]),
)

_SHARE: Final = (
    Statement(
        section="6.3",
        what="Creek ÷ Archie, stable latency, with 50 % strong less with 10 %",
        paper="more strong: a bit closer to Archie's",
        unit=Unit.RATIO,
        band=at_least(0),
        finding=Difference(
            ratio("creek", "archie", STRONG_STABLE, strong_share=MANY_STRONG),
            ratio("creek", "archie", STRONG_STABLE, strong_share=FEW_STRONG),
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
        for scheme in CONCURRENT
    ),
    Statement(
        section="6.3",
        what="Creek ÷ Archie, stable latency, executions × 5, 50 % strong",
        paper="the same",
        unit=Unit.RATIO,
        band=within(1, 0.10),
        finding=ratio(
            "creek", "archie", STRONG_STABLE, exec_scale=SLOWER, strong_share=MANY_STRONG
        ),
    ),
    Statement(
        section="6.3",
        what="Creek ÷ Archie, stable latency, executions × 5, 10 % strong",
        paper="lower for Creek",
        unit=Unit.RATIO,
        band=at_most(1),
        finding=ratio("creek", "archie", STRONG_STABLE, exec_scale=SLOWER, strong_share=FEW_STRONG),
    ),
)

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
            paper="no effect" if scheme in SEQUENTIAL else "higher",
            unit=Unit.RATIO,
            band=within(1, 0.05) if scheme in SEQUENTIAL else at_least(1.05),
            finding=MorePeak(scheme, "cores"),
        )
        for scheme in NAMES
    ),
)

SECTION_6_3: Final = (*_CONTENTION, *_SHARE, *_LONGER, *_SIZE)


SECTION_6_4: Final = (
    Statement(
        section="6.4",
        what="Archie ÷ Creek, latency of weak transactions, at most",
        paper="up to 2.5 times lower",
        unit=Unit.RATIO,
        band=within(2.5, 0.12),
        finding=Only(ratio("archie", "creek", WEAK), lambda found: found.high, "highest"),
    ),
    Statement(
        section="6.4",
        what="Creek ÷ Archie, stable latency, on average",
        paper="improved by 20 %",
        unit=Unit.RATIO,
        band=about(0.8, 0.1),
        finding=Only(ratio("creek", "archie", STRONG_STABLE), lambda found: found.typical, "mean"),
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
