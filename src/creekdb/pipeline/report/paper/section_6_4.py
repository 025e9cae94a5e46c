"""Section 6.4: the analysis, and what happens while the network is split."""

from typing import Final

from creekdb.pipeline.report.found import DuringPartitions, Only
from creekdb.pipeline.report.paper.latency import STRONG_STABLE, WEAK, ratio
from creekdb.pipeline.report.paper.statement import Statement
from creekdb.pipeline.report.partitions import Partitioned
from creekdb.pipeline.report.quantities import Band, Unit, about, at_least, within

STATEMENTS: Final = (
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
