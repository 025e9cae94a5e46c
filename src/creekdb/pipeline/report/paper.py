"""Statements of Section 6 of the paper, as data, and the numbers that drawings share with them.

6.2    five replicas, five warehouses, every Payment strong
6.3    effects of contention, strong transactions, longer executions, and cluster size
6.4    analysis, and behaviour during a network partition

Each statement has its section, the paper's wording or number, a unit, the band of accepted values,
and the query for the measured value. A band is the paper's range, or its number with a tolerance.
All numbers of the paper on the page come from this module.

The paper has one latency curve for Archie, in which no transaction is strong. Creek's latencies are
therefore compared with the mean of all of Archie's transactions.
"""

import operator
from typing import Any, Final, NamedTuple

from creekdb.pipeline.report import formatting
from creekdb.pipeline.report.quantities import (
    Band,
    Unit,
    band_around,
    band_from,
    band_up_to,
    rounding_band,
)
from creekdb.pipeline.report.queries import (
    ALL_DONE,
    STRONG_STABLE,
    STRONG_TENTATIVE,
    WEAK_TENTATIVE,
    Curve,
    Query,
    compare_curves,
    curve_maximum,
    curve_range,
    difference,
    latency_curve,
    latency_range,
    latency_ratio,
    overall_maximum,
    partition_growth,
    peak_scaling,
    peak_throughput,
    reduce_range,
    slowdown,
    speculation_saving,
)

SCHEME_NAMES: Final = {
    scheme: formatting.scheme_name(scheme) for scheme in ("smr", "bayou", "archie", "creek")
}
"""Systems that the paper compares."""
SEQUENTIAL_SCHEMES: Final = ("smr", "bayou")
"""Schemes that execute transactions sequentially."""
FIGURE_ORDER: Final = ("creek", "archie", "smr", "bayou")
"""Order of the schemes in the figures."""
CONCURRENT_SCHEMES: Final = ("creek", "archie")
PEAKS_TPS: Final = {"smr": 2_700.0, "bayou": 2_700.0, "creek": 32_500.0, "archie": 35_000.0}
"""Peak throughput with five warehouses."""
PEAKS_TPS_BY_WAREHOUSES: Final = {
    ("creek", 1): 11_000.0,
    ("archie", 1): 11_000.0,
    ("creek", 20): 40_000.0,
    ("archie", 20): 40_000.0,
    **{(scheme, 5): peak for scheme, peak in PEAKS_TPS.items()},
    **{(scheme, warehouses): 2_700.0 for scheme in SEQUENTIAL_SCHEMES for warehouses in (1, 20)},
}
CREEK_ACCURACY: Final = {1: Band(0.92, 1.0), 5: Band(0.98, 1.0), 20: Band(0.9995, 1.0)}
"""Accuracy of Creek by number of warehouses. "Perfect" denotes values that round to 100.0 %."""
SLOW_EXEC_SCALE: Final = 5.0
"""Factor of the execution times in Section 6.3."""
STRONG_SHARE_HIGH: Final = 0.5
STRONG_SHARE_LOW: Final = 0.1


class Claim(NamedTuple):
    """Statement of the paper, with the query that measures it."""

    subject: str
    paper_text: str
    band: Band
    query: Query
    section: str = ""


_SEQUENTIAL_TOLERANCE: Final = 0.10
_PEAK_TOLERANCE: Final = {1: 0.25, 5: 0.12, 20: 0.12}
"""Relative tolerance of a peak by number of warehouses."""


def _peak_claims(warehouses: int) -> list[Claim]:
    claims = []
    for scheme, name in SCHEME_NAMES.items():
        value = PEAKS_TPS_BY_WAREHOUSES[scheme, warehouses]
        is_sequential = scheme in SEQUENTIAL_SCHEMES
        is_unchanged = is_sequential and warehouses != 5
        tolerance = _SEQUENTIAL_TOLERANCE if is_sequential else _PEAK_TOLERANCE[warehouses]
        claims.append(
            Claim(
                f"Peak throughput of {name}, {_warehouses_text(warehouses)}",
                "roughly the same as before" if is_unchanged else f"about {value / 1000:g}k tx/s",
                band_around(value, tolerance),
                peak_throughput(scheme, warehouses=warehouses),
            )
        )
    return claims


def _accuracy_claim(scheme: str, warehouses: int, paper_text: str, band: Band) -> Claim:
    return Claim(
        f"Accuracy of speculation, {SCHEME_NAMES[scheme]}, {_warehouses_text(warehouses)}",
        paper_text,
        band,
        curve_range(Curve(scheme, "accuracy", {"warehouses": warehouses})),
    )


def _execution_ratio_claim(scheme: str, warehouses: int, paper_text: str, band: Band) -> Claim:
    return Claim(
        f"Highest execution ratio, {SCHEME_NAMES[scheme]}, {_warehouses_text(warehouses)}",
        paper_text,
        band,
        curve_maximum(scheme, "execution_ratio", warehouses=warehouses),
    )


def _warehouses_text(count: int) -> str:
    return "1 warehouse" if count == 1 else f"{count} warehouses"


def archie_ratio(measure: str, **overrides: Any) -> Query:
    """Return a latency of Creek relative to the mean of all of Archie's transactions."""
    return latency_ratio("creek", "archie", measure, ALL_DONE, **overrides)


_LATENCY_CLAIMS: Final = (
    Claim(
        "Tentative latency of weak transactions, Creek",
        "steady around 0.5 ms",
        Band(500, 600),
        latency_range("creek", WEAK_TENTATIVE),
    ),
    Claim(
        "Tentative latency of Payment, Creek",
        "about 0.1 ms",
        rounding_band(100, 100),
        latency_range("creek", STRONG_TENTATIVE),
    ),
    Claim(
        "Stable latency of Payment, Creek",
        "0.8–1.2 ms",
        Band(800, 1_200),
        latency_range("creek", STRONG_STABLE),
    ),
    Claim(
        "Latency that agreement adds to Payment, Creek",
        "at least about 0.7–0.8 ms",
        band_from(650),
        reduce_range(
            compare_curves(
                Unit.MICROSECONDS,
                latency_curve("creek", STRONG_STABLE),
                latency_curve("creek", STRONG_TENTATIVE),
                operator.sub,
                "stable − tentative mean latency",
            ),
            lambda result: result.low,
            "lowest",
        ),
    ),
    Claim(
        "Creek ÷ Archie, latency of weak transactions",
        "37–61 %",
        Band(0.37, 0.61),
        archie_ratio(WEAK_TENTATIVE),
    ),
    Claim(
        "Creek ÷ Archie, stable latency of strong transactions",
        "75–85 %",
        Band(0.75, 0.85),
        archie_ratio(STRONG_STABLE),
    ),
    Claim(
        "Latency that speculation saves Archie, at low load",
        "5–8 % of its latency",
        Band(0.05, 0.08),
        speculation_saving("archie"),
    ),
    Claim(
        "Bayou ÷ SMR, latency of weak transactions",
        "Bayou cuts the latency",
        band_up_to(1),
        latency_ratio("bayou", "smr", WEAK_TENTATIVE),
    ),
)

_WORK_CLAIMS: Final = (
    _accuracy_claim("creek", 5, "98–100 %", CREEK_ACCURACY[5]),
    _accuracy_claim("archie", 5, "perfect", Band(0.9995, 1)),
    Claim(
        "Highest execution ratio, Creek − Archie, 5 warehouses",
        "slightly higher for Creek",
        band_from(0),
        difference(
            curve_maximum("creek", "execution_ratio"), curve_maximum("archie", "execution_ratio")
        ),
    ),
    Claim(
        "Load of the network, any system",
        "not saturated",
        band_up_to(0.9),
        overall_maximum("network_utilisation"),
    ),
    *(
        Claim(
            f"Load of the processors close to the peak, {SCHEME_NAMES[scheme]}",
            "fully utilised",
            band_from(0.9),
            curve_maximum(scheme, "cpu_utilisation"),
        )
        for scheme in CONCURRENT_SCHEMES
    ),
)

_CONTENTION_CLAIMS: Final = (
    *_peak_claims(20),
    *_peak_claims(1),
    *(
        _execution_ratio_claim(scheme, 1, "about 1.8", rounding_band(1.8, 0.4))
        for scheme in CONCURRENT_SCHEMES
    ),
    *(
        _execution_ratio_claim(scheme, 20, "never above 1.1", band_up_to(1.1))
        for scheme in CONCURRENT_SCHEMES
    ),
    _accuracy_claim("creek", 1, "92–100 %", CREEK_ACCURACY[1]),
    _accuracy_claim("creek", 20, "perfect", CREEK_ACCURACY[20]),
    _accuracy_claim("archie", 20, "perfect", CREEK_ACCURACY[20]),
)

_STRONG_SHARE_CLAIMS: Final = (
    Claim(
        "Creek ÷ Archie, stable latency, 50 % strong minus 10 % strong",
        "more strong: a bit closer to Archie's",
        band_from(0),
        difference(
            archie_ratio(STRONG_STABLE, strong_share=STRONG_SHARE_HIGH),
            archie_ratio(STRONG_STABLE, strong_share=STRONG_SHARE_LOW),
        ),
    ),
    Claim(
        "Highest execution ratio, Creek, 50 % strong minus 10 % strong",
        "more strong: slightly higher",
        band_from(0),
        difference(
            curve_maximum("creek", "execution_ratio", strong_share=STRONG_SHARE_HIGH),
            curve_maximum("creek", "execution_ratio", strong_share=STRONG_SHARE_LOW),
        ),
    ),
)

_EXECUTION_TIME_CLAIMS: Final = (
    *(
        Claim(
            f"Peak of {name} ÷ its peak with executions × 5",
            "five times",
            band_around(SLOW_EXEC_SCALE, 0.10),
            slowdown(scheme, exec_scale=SLOW_EXEC_SCALE),
        )
        for scheme, name in SCHEME_NAMES.items()
    ),
    *(
        Claim(
            (
                f"Highest execution ratio, {SCHEME_NAMES[scheme]}, executions × 5 "
                "minus executions × 1"
            ),
            "lower than before",
            band_up_to(0),
            difference(
                curve_maximum(scheme, "execution_ratio", exec_scale=SLOW_EXEC_SCALE),
                curve_maximum(scheme, "execution_ratio"),
            ),
        )
        for scheme in CONCURRENT_SCHEMES
    ),
    Claim(
        "Creek ÷ Archie, stable latency, executions × 5, 50 % strong",
        "the same",
        band_around(1, 0.10),
        archie_ratio(STRONG_STABLE, exec_scale=SLOW_EXEC_SCALE, strong_share=STRONG_SHARE_HIGH),
    ),
    Claim(
        "Creek ÷ Archie, stable latency, executions × 5, 10 % strong",
        "lower for Creek",
        band_up_to(1),
        archie_ratio(STRONG_STABLE, exec_scale=SLOW_EXEC_SCALE, strong_share=STRONG_SHARE_LOW),
    ),
)

_CLUSTER_SIZE_CLAIMS: Final = (
    *(
        Claim(
            f"Peak of {name} with more replicas ÷ with five",
            "no better",
            band_up_to(1.05),
            peak_scaling(scheme, "replicas"),
        )
        for scheme, name in SCHEME_NAMES.items()
    ),
    *(
        Claim(
            f"Peak of {SCHEME_NAMES[scheme]} with more cores ÷ with 16",
            "no effect" if scheme in SEQUENTIAL_SCHEMES else "higher",
            band_around(1, 0.05) if scheme in SEQUENTIAL_SCHEMES else band_from(1.05),
            peak_scaling(scheme, "cores"),
        )
        for scheme in SCHEME_NAMES
    ),
)

_PARTITION_AND_ANALYSIS_CLAIMS: Final = (
    Claim(
        "Archie ÷ Creek, latency of weak transactions, at most",
        "up to 2.5 times lower",
        band_around(2.5, 0.12),
        reduce_range(
            latency_ratio("archie", "creek", ALL_DONE, WEAK_TENTATIVE),
            lambda result: result.high,
            "highest",
        ),
    ),
    Claim(
        "Creek ÷ Archie, stable latency, on average",
        "improved by 20 %",
        rounding_band(0.8, 0.1),
        reduce_range(archie_ratio(STRONG_STABLE), lambda result: result.typical, "mean"),
    ),
    Claim(
        "Operations that a minority accepts during a partition, Creek",
        "remains available",
        band_from(1),
        partition_growth("creek", "tentative", in_majority=False),
    ),
    Claim(
        "Operations that a minority commits during a partition, Creek",
        "stable responses in the majority only",
        Band(0, 0),
        partition_growth("creek", "committed", in_majority=False),
    ),
    Claim(
        "Operations that the majority commits during a partition, Creek",
        "stable responses in the majority",
        band_from(1),
        partition_growth("creek", "committed", in_majority=True),
    ),
)

_SECTIONS: Final = {
    "6.2": (*_peak_claims(5), *_LATENCY_CLAIMS, *_WORK_CLAIMS),
    "6.3": (
        *_CONTENTION_CLAIMS,
        *_STRONG_SHARE_CLAIMS,
        *_EXECUTION_TIME_CLAIMS,
        *_CLUSTER_SIZE_CLAIMS,
    ),
    "6.4": _PARTITION_AND_ANALYSIS_CLAIMS,
}
CLAIMS: Final = tuple(
    claim._replace(section=section) for section, claims in _SECTIONS.items() for claim in claims
)
