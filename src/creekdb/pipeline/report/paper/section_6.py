"""Statements of Section 6.

6.2    five replicas, five warehouses, every Payment strong
6.3    effects of contention, strong transactions, longer executions, and cluster size
6.4    analysis, and behaviour during a network partition
"""

import operator
from typing import Final

from creekdb.pipeline.report.paper.claim import (
    STRONG_STABLE,
    STRONG_TENTATIVE,
    WEAK_TENTATIVE,
    Claim,
    accuracy_claim,
    execution_ratio_claim,
    latency_range,
    latency_ratio,
    peak_claims,
)
from creekdb.pipeline.report.paper.reference_values import (
    CONCURRENT_SCHEMES,
    CREEK_ACCURACY,
    SCHEME_NAMES,
    SEQUENTIAL_SCHEMES,
    SLOW_EXEC_SCALE,
    STRONG_SHARE_HIGH,
    STRONG_SHARE_LOW,
)
from creekdb.pipeline.report.partitions import PartitionedRun
from creekdb.pipeline.report.quantities import (
    Band,
    Unit,
    band_around,
    band_from,
    band_up_to,
    rounding_band,
)
from creekdb.pipeline.report.queries import (
    CurveComparison,
    MeasureMaximum,
    OverallMaximum,
    PartitionGrowth,
    PeakRatio,
    PeakScaling,
    QueryDifference,
    ReducedQuery,
)

_LATENCY_CLAIMS: Final = (
    Claim(
        section="6.2",
        subject="Tentative latency of weak transactions, Creek",
        paper_text="steady around 0.5 ms",
        unit=Unit.MICROSECONDS,
        band=Band(500, 600),
        query=latency_range("creek", WEAK_TENTATIVE),
    ),
    Claim(
        section="6.2",
        subject="Tentative latency of Payment, Creek",
        paper_text="about 0.1 ms",
        unit=Unit.MICROSECONDS,
        band=rounding_band(100, 100),
        query=latency_range("creek", STRONG_TENTATIVE),
    ),
    Claim(
        section="6.2",
        subject="Stable latency of Payment, Creek",
        paper_text="0.8–1.2 ms",
        unit=Unit.MICROSECONDS,
        band=Band(800, 1_200),
        query=latency_range("creek", STRONG_STABLE),
    ),
    Claim(
        section="6.2",
        subject="Latency that agreement adds to Payment, Creek",
        paper_text="at least about 0.7–0.8 ms",
        unit=Unit.MICROSECONDS,
        band=band_from(650),
        query=ReducedQuery(
            CurveComparison(
                latency_range("creek", STRONG_STABLE),
                latency_range("creek", STRONG_TENTATIVE),
                operator.sub,
                "stable − tentative mean latency",
            ),
            lambda result: result.low,
            "lowest",
        ),
    ),
    Claim(
        section="6.2",
        subject="Creek ÷ Archie, latency of weak transactions",
        paper_text="37–61 %",
        unit=Unit.RATIO,
        band=Band(0.37, 0.61),
        query=latency_ratio("creek", "archie", WEAK_TENTATIVE),
    ),
    Claim(
        section="6.2",
        subject="Creek ÷ Archie, stable latency of strong transactions",
        paper_text="75–85 %",
        unit=Unit.RATIO,
        band=Band(0.75, 0.85),
        query=latency_ratio("creek", "archie", STRONG_STABLE),
    ),
    Claim(
        section="6.2",
        subject="Latency that speculation saves Archie, at low load",
        paper_text="5–8 % of its latency",
        unit=Unit.SHARE,
        band=Band(0.05, 0.08),
        query=None,
        not_measured_reason="there are no runs of Archie without speculation",
    ),
    Claim(
        section="6.2",
        subject="Bayou ÷ SMR, latency of weak transactions",
        paper_text="Bayou cuts the latency",
        unit=Unit.RATIO,
        band=band_up_to(1),
        query=latency_ratio("bayou", "smr", WEAK_TENTATIVE),
    ),
)

_WORK_CLAIMS: Final = (
    accuracy_claim("6.2", "creek", 5, "98–100 %", CREEK_ACCURACY[5]),
    accuracy_claim("6.2", "archie", 5, "perfect", Band(0.9995, 1)),
    Claim(
        section="6.2",
        subject="Highest execution ratio, Creek − Archie, 5 warehouses",
        paper_text="slightly higher for Creek",
        unit=Unit.RATIO,
        band=band_from(0),
        query=QueryDifference(
            MeasureMaximum("creek", "execution_ratio"), MeasureMaximum("archie", "execution_ratio")
        ),
    ),
    Claim(
        section="6.2",
        subject="Load of the network, any system",
        paper_text="not saturated",
        unit=Unit.SHARE,
        band=band_up_to(0.9),
        query=OverallMaximum("network_utilisation"),
    ),
    *(
        Claim(
            section="6.2",
            subject=f"Load of the processors close to the peak, {SCHEME_NAMES[scheme]}",
            paper_text="fully utilised",
            unit=Unit.SHARE,
            band=band_from(0.9),
            query=MeasureMaximum(scheme, "cpu_utilisation"),
        )
        for scheme in CONCURRENT_SCHEMES
    ),
)

CLAIMS_6_2: Final = (*peak_claims(5), *_LATENCY_CLAIMS, *_WORK_CLAIMS)


_CONTENTION_CLAIMS: Final = (
    *peak_claims(20),
    *peak_claims(1),
    *(
        execution_ratio_claim(scheme, 1, "about 1.8", rounding_band(1.8, 0.4))
        for scheme in CONCURRENT_SCHEMES
    ),
    *(
        execution_ratio_claim(scheme, 20, "never above 1.1", band_up_to(1.1))
        for scheme in CONCURRENT_SCHEMES
    ),
    accuracy_claim("6.3", "creek", 1, "92–100 %", CREEK_ACCURACY[1]),
    accuracy_claim("6.3", "creek", 20, "perfect", CREEK_ACCURACY[20]),
    accuracy_claim("6.3", "archie", 20, "perfect", CREEK_ACCURACY[20]),
)

_STRONG_SHARE_CLAIMS: Final = (
    Claim(
        section="6.3",
        subject="Creek ÷ Archie, stable latency, 50 % strong minus 10 % strong",
        paper_text="more strong: a bit closer to Archie's",
        unit=Unit.RATIO,
        band=band_from(0),
        query=QueryDifference(
            latency_ratio("creek", "archie", STRONG_STABLE, strong_share=STRONG_SHARE_HIGH),
            latency_ratio("creek", "archie", STRONG_STABLE, strong_share=STRONG_SHARE_LOW),
        ),
    ),
    Claim(
        section="6.3",
        subject="Highest execution ratio, Creek, 50 % strong minus 10 % strong",
        paper_text="more strong: slightly higher",
        unit=Unit.RATIO,
        band=band_from(0),
        query=QueryDifference(
            MeasureMaximum("creek", "execution_ratio", {"strong_share": STRONG_SHARE_HIGH}),
            MeasureMaximum("creek", "execution_ratio", {"strong_share": STRONG_SHARE_LOW}),
        ),
    ),
)

_EXECUTION_TIME_CLAIMS: Final = (
    *(
        Claim(
            section="6.3",
            subject=f"Peak of {name} ÷ its peak with executions × 5",
            paper_text="five times",
            unit=Unit.RATIO,
            band=band_around(SLOW_EXEC_SCALE, 0.10),
            query=PeakRatio(scheme, {}, {"exec_scale": SLOW_EXEC_SCALE}),
        )
        for scheme, name in SCHEME_NAMES.items()
    ),
    *(
        Claim(
            section="6.3",
            subject=(
                f"Highest execution ratio, {SCHEME_NAMES[scheme]}, executions × 5 "
                "minus executions × 1"
            ),
            paper_text="lower than before",
            unit=Unit.RATIO,
            band=band_up_to(0),
            query=QueryDifference(
                MeasureMaximum(scheme, "execution_ratio", {"exec_scale": SLOW_EXEC_SCALE}),
                MeasureMaximum(scheme, "execution_ratio"),
            ),
        )
        for scheme in CONCURRENT_SCHEMES
    ),
    Claim(
        section="6.3",
        subject="Creek ÷ Archie, stable latency, executions × 5, 50 % strong",
        paper_text="the same",
        unit=Unit.RATIO,
        band=band_around(1, 0.10),
        query=latency_ratio(
            "creek",
            "archie",
            STRONG_STABLE,
            exec_scale=SLOW_EXEC_SCALE,
            strong_share=STRONG_SHARE_HIGH,
        ),
    ),
    Claim(
        section="6.3",
        subject="Creek ÷ Archie, stable latency, executions × 5, 10 % strong",
        paper_text="lower for Creek",
        unit=Unit.RATIO,
        band=band_up_to(1),
        query=latency_ratio(
            "creek",
            "archie",
            STRONG_STABLE,
            exec_scale=SLOW_EXEC_SCALE,
            strong_share=STRONG_SHARE_LOW,
        ),
    ),
)

_CLUSTER_SIZE_CLAIMS: Final = (
    *(
        Claim(
            section="6.3",
            subject=f"Peak of {name} with more replicas ÷ with five",
            paper_text="no better",
            unit=Unit.RATIO,
            band=band_up_to(1.05),
            query=PeakScaling(scheme, "replicas"),
        )
        for scheme, name in SCHEME_NAMES.items()
    ),
    *(
        Claim(
            section="6.3",
            subject=f"Peak of {SCHEME_NAMES[scheme]} with more cores ÷ with 16",
            paper_text="no effect" if scheme in SEQUENTIAL_SCHEMES else "higher",
            unit=Unit.RATIO,
            band=band_around(1, 0.05) if scheme in SEQUENTIAL_SCHEMES else band_from(1.05),
            query=PeakScaling(scheme, "cores"),
        )
        for scheme in SCHEME_NAMES
    ),
)

CLAIMS_6_3: Final = (
    *_CONTENTION_CLAIMS,
    *_STRONG_SHARE_CLAIMS,
    *_EXECUTION_TIME_CLAIMS,
    *_CLUSTER_SIZE_CLAIMS,
)


CLAIMS_6_4: Final = (
    Claim(
        section="6.4",
        subject="Archie ÷ Creek, latency of weak transactions, at most",
        paper_text="up to 2.5 times lower",
        unit=Unit.RATIO,
        band=band_around(2.5, 0.12),
        query=ReducedQuery(
            latency_ratio("archie", "creek", WEAK_TENTATIVE), lambda result: result.high, "highest"
        ),
    ),
    Claim(
        section="6.4",
        subject="Creek ÷ Archie, stable latency, on average",
        paper_text="improved by 20 %",
        unit=Unit.RATIO,
        band=rounding_band(0.8, 0.1),
        query=ReducedQuery(
            latency_ratio("creek", "archie", STRONG_STABLE), lambda result: result.typical, "mean"
        ),
    ),
    Claim(
        section="6.4",
        subject="Operations that a minority accepts during a partition, Creek",
        paper_text="remains available",
        unit=Unit.COUNT,
        band=band_from(1),
        query=PartitionGrowth(
            "creek",
            PartitionedRun.minority_tentative_growth,
            "growth of tentative outside the majority",
        ),
    ),
    Claim(
        section="6.4",
        subject="Operations that a minority commits during a partition, Creek",
        paper_text="stable responses in the majority only",
        unit=Unit.COUNT,
        band=Band(0, 0),
        query=PartitionGrowth(
            "creek",
            PartitionedRun.minority_committed_growth,
            "growth of committed outside the majority",
        ),
    ),
    Claim(
        section="6.4",
        subject="Operations that the majority commits during a partition, Creek",
        paper_text="stable responses in the majority",
        unit=Unit.COUNT,
        band=band_from(1),
        query=PartitionGrowth(
            "creek", PartitionedRun.majority_committed_growth, "growth of committed in the majority"
        ),
    ),
)
