"""Headline of the page: key numbers, and Creek's latency by kind of transaction."""

from itertools import product
from typing import Any, Final, NamedTuple

from creekdb.history import LIVE_SOURCE
from creekdb.pipeline.report import formatting, live_runs
from creekdb.pipeline.report.evidence import Evidence, ReportRow
from creekdb.pipeline.report.paper import archie_ratio
from creekdb.pipeline.report.quantities import Unit
from creekdb.pipeline.report.queries import (
    STRONG_STABLE,
    WEAK_TENTATIVE,
    Curve,
    QueryResult,
    curve_range,
    latency_range,
    peak_throughput,
)

HIGH_ACCURACY: Final = 0.9
"""Accuracy from which the title claims correct responses."""
_HEADLINE_QUERIES: Final = {
    "peak": peak_throughput("creek"),
    "weak": latency_range("creek", WEAK_TENTATIVE),
    "stable": latency_range("creek", STRONG_STABLE),
    "archie_ratio": archie_ratio(WEAK_TENTATIVE),
    "accuracy": curve_range(Curve("creek", "accuracy")),
}


class Headline(NamedTuple):
    """Numbers at the top of the page. The template states each with its source."""

    creek: dict[str, QueryResult]
    """Results for Creek in the default setup that the runs determine, by name."""
    live: dict[str, float]
    """Figures of a live run to state next to them; empty if all results are live."""
    run_counts: dict[str, int]
    """Number of runs by source."""
    seeds: int

    @property
    def is_accurate(self) -> bool:
        return "accuracy" in self.creek and self.creek["accuracy"].low >= HIGH_ACCURACY


def headline(evidence: Evidence) -> Headline:
    tables = evidence.tables
    results = {name: query.evaluate(evidence) for name, query in _HEADLINE_QUERIES.items()}
    runs = tables.runs or tables.measures
    live_count = sum(row["source"] == LIVE_SOURCE for row in runs)
    return Headline(
        creek={name: result for name, result in results.items() if result is not None},
        live={} if evidence.source == LIVE_SOURCE else live_runs.live_figures(evidence, "creek"),
        run_counts={"simulated": len(runs) - live_count, LIVE_SOURCE: live_count},
        seeds=len({row["seed"] for row in tables.measures}),
    )


FIRST_RESPONSES = ("weak_tentative", "strong_tentative")
FINAL_RESPONSES = ("strong_stable", "weak_stable")
STATISTICS = {"mean": "mean_us", "median": "p50_us", "p99": "p99_us"}


def transaction_latencies(evidence: Evidence) -> dict[str, Any] | None:
    """Return Creek's latencies by kind of transaction, at about half of its peak load."""
    run = evidence.typical_run("creek")
    kinds = {} if run is None else evidence.latencies_by_kind(run["run"])
    if run is None or not kinds:
        return None
    columns = product(("first response", "stable"), STATISTICS)
    header = ["transaction", "responses", *map(", ".join, columns)]
    load = formatting.format_throughput(run["load_tps"])
    return {
        "title": f"By kind of transaction: Creek at {load}, {run['source']}",
        "header": header,
        "rows": [_transaction_row(kind, latencies) for kind, latencies in kinds.items()],
    }


def _transaction_row(kind: str, latencies: dict[str, ReportRow]) -> list[str]:
    first, last = (
        next((latencies[name] for name in names if name in latencies), {})
        for names in (FIRST_RESPONSES, FINAL_RESPONSES)
    )
    numbers = [row.get(column) for row in (first, last) for column in STATISTICS.values()]
    texts = [formatting.format_number(number, Unit.MICROSECONDS) for number in numbers]
    return [kind.replace("_", " "), str((first or last).get("answers", "")), *texts]
