"""Bars for Creek with its extensions: bounds that its default set of extensions should meet.

Each bar has a band and a query, like a statement of the paper. A bar is judged by the runs with all
extensions, which is the default of a live replica. All measured values come from the tables.
"""

from enum import StrEnum
from typing import Any, Final, NamedTuple

from creekdb.evaluation import EXTENSIONS
from creekdb.pipeline.report import formatting
from creekdb.pipeline.report.claims import ClaimResult, ClaimStatus, evaluate_claims
from creekdb.pipeline.report.evidence import Evidence
from creekdb.pipeline.report.paper import Claim
from creekdb.pipeline.report.quantities import band_from, band_up_to
from creekdb.pipeline.report.queries import (
    STRONG_STABLE,
    WEAK_TENTATIVE,
    curve_value,
    peak_throughput,
)
from creekdb.protocol.extensions import join_extensions

DEFAULT_SET: Final = join_extensions(EXTENSIONS)
SEEDS: Final = 3
"""Number of seeds over which a bar is a mean."""


class BarStatus(StrEnum):
    MET = "met"
    MISSED = "missed"
    NOT_MEASURED = "not measured"


_STATUSES: Final = {
    ClaimStatus.HOLDS: BarStatus.MET,
    ClaimStatus.DIFFERS: BarStatus.MISSED,
    ClaimStatus.NOT_MEASURED: BarStatus.NOT_MEASURED,
}


class BarResult(NamedTuple):
    """Bar with its measured value, as texts."""

    subject: str
    accepted: str
    measured: str
    seeds: str
    status: BarStatus

    @property
    def cells(self) -> list[str]:
        return [self.subject, self.accepted, self.measured, self.seeds, self.status]


HEADER: Final = ["bar", "accepted", "all extensions", "seeds", ""]


def bars(extensions: str = DEFAULT_SET) -> list[Claim]:
    """Return the bars, measured with a set of extensions."""
    chosen: dict[str, Any] = {"extensions": extensions}

    def at(measure: str, load_tps: float, warehouses: int) -> Any:
        return curve_value("creek", measure, load_tps, **chosen, warehouses=warehouses)

    return [
        Claim(subject, "", band, query)
        for subject, band, query in (
            (
                "peak throughput, 5 warehouses",
                band_from(38_000),
                peak_throughput("creek", **chosen, warehouses=5),
            ),
            (
                "peak throughput, 20 warehouses",
                band_from(41_000),
                peak_throughput("creek", **chosen, warehouses=20),
            ),
            (
                "execution ratio, 5 warehouses, 20k tx/s",
                band_up_to(1.10),
                at("execution_ratio", 20_000, 5),
            ),
            (
                "execution ratio, 1 warehouse, 9k tx/s",
                band_up_to(1.10),
                at("execution_ratio", 9_000, 1),
            ),
            (
                "exact accuracy, 1 warehouse, 9k tx/s",
                band_from(0.95),
                at("exact_accuracy", 9_000, 1),
            ),
            (
                "stable Payment, mean, 5 warehouses, 10k tx/s",
                band_up_to(800),
                at(STRONG_STABLE, 10_000, 5),
            ),
            (
                "stable Payment, mean, 5 warehouses, 20k tx/s",
                band_up_to(1_200),
                at(STRONG_STABLE, 20_000, 5),
            ),
            (
                "first weak response, mean, 5 warehouses, 10k tx/s",
                band_up_to(620),
                at(WEAK_TENTATIVE, 10_000, 5),
            ),
        )
    ]


def judge_bars(evidence: Evidence, extensions: str = DEFAULT_SET) -> list[BarResult]:
    """Judge every bar by the runs with a set of extensions."""
    return [_judge(each) for each in evaluate_claims(evidence, bars(extensions))]


def _judge(result: ClaimResult) -> BarResult:
    measured = result.result
    is_complete = measured is not None and measured.seeds >= SEEDS
    seeds = formatting.NO_VALUE if measured is None else str(measured.seeds)
    status = _STATUSES[result.status] if is_complete else BarStatus.NOT_MEASURED
    return BarResult(result.claim.subject, result.band_text, result.measured_text, seeds, status)
