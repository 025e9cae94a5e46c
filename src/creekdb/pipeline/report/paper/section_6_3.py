"""Section 6.3: what changes with contention, strong transactions, longer executions, and size."""

from typing import Final

from creekdb.pipeline.report.found import Difference, Highest, MorePeak, PeakRatio
from creekdb.pipeline.report.paper.by_warehouses import accuracy, execution_ratio, peaks
from creekdb.pipeline.report.paper.latency import STRONG_STABLE, ratio
from creekdb.pipeline.report.paper.numbers import ACCURACY, FEW_STRONG, MANY_STRONG, SLOWER
from creekdb.pipeline.report.paper.statement import Statement
from creekdb.pipeline.report.paper.systems import CONCURRENT, NAMES, SEQUENTIAL
from creekdb.pipeline.report.quantities import Unit, about, at_least, at_most, within

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

STATEMENTS: Final = (*_CONTENTION, *_SHARE, *_LONGER, *_SIZE)
