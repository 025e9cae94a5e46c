"""Headline of the page: key numbers in sentences, and Creek's latency by kind of transaction.

The headline labels simulated numbers as simulated, and states those of a live run next to them.
"""

from typing import Any, Final, NamedTuple

from creekdb.history import LIVE_SOURCE
from creekdb.pipeline.report import formatting, live_runs
from creekdb.pipeline.report.claims import ClaimResult, ClaimStatus
from creekdb.pipeline.report.evidence import Evidence, ReportRow
from creekdb.pipeline.report.live_runs import LiveFigures
from creekdb.pipeline.report.paper.reference_values import PEAKS_TPS
from creekdb.pipeline.report.quantities import Unit
from creekdb.pipeline.report.queries import (
    STRONG_STABLE,
    WEAK_TENTATIVE,
    Curve,
    QueryResult,
    curve_range,
    latency_range,
    latency_ratio,
    peak_throughput,
)

HIGH_ACCURACY: Final = 0.9
"""Accuracy from which the title claims correct responses."""


class SummaryNumber(NamedTuple):
    """Number with its label and unit, for the top of the page."""

    label: str
    value: str
    unit: str
    note: str


class ReportSummary(NamedTuple):
    """Title, sentences and numbers at the top of the page."""

    title: str
    sentences: list[str]
    numbers: list[SummaryNumber]


class _HeadlineResults(NamedTuple):
    """Results for Creek in the default setup."""

    source: str
    """`simulated` or `live`."""
    peak: QueryResult | None
    weak: QueryResult | None
    stable: QueryResult | None
    accuracy: QueryResult | None
    live: LiveFigures | None
    """Figures of a live run; None without one, or if all results are live."""


def report_summary(evidence: Evidence, claim_results: list[ClaimResult]) -> ReportSummary:
    """Return the headline of the page."""
    results = _HeadlineResults(
        source=evidence.source,
        peak=peak_throughput("creek").evaluate(evidence),
        weak=latency_range("creek", WEAK_TENTATIVE).evaluate(evidence),
        stable=latency_range("creek", STRONG_STABLE).evaluate(evidence),
        accuracy=curve_range(Curve("creek", "accuracy")).evaluate(evidence),
        live=None if evidence.source == LIVE_SOURCE else live_runs.live_figures(evidence, "creek"),
    )
    archie_ratio = latency_ratio("creek", "archie", WEAK_TENTATIVE).evaluate(evidence)
    is_accurate = results.accuracy is not None and results.accuracy.low >= HIGH_ACCURACY
    return ReportSummary(
        title="Immediate responses, almost always correct"
        if results.weak is not None and is_accurate
        else "Creek: measurements",
        sentences=[
            *_latency_sentences(results),
            *_scope_sentences(evidence, claim_results),
            *live_runs.summary_sentences(evidence),
        ],
        numbers=_summary_numbers(results, archie_ratio),
    )


def _latency_sentences(results: _HeadlineResults) -> list[str]:
    """State latencies and accuracy with their source, and those of a live run next to them."""
    weak, stable, accuracy, live = results.weak, results.stable, results.accuracy, results.live
    if weak is None or stable is None or accuracy is None:
        return []
    scope = "On the live cluster" if results.source == LIVE_SOURCE else "In simulation"
    weak_ms = formatting.format_number(weak.typical, Unit.MICROSECONDS)
    stable_ms = formatting.format_number(stable.typical, Unit.MICROSECONDS)
    share = "all" if accuracy.low == 1 else f"at least {formatting.format_share(accuracy.low)}"
    live_weak = live_stable = live_accuracy = ""
    if live is not None:
        if live.weak_us is not None:
            took = _live_median(live.weak_us)
            live_weak = f"; on the live cluster of this machine it took {took}"
        if live.accuracy is not None:
            live_accuracy = f"; on the live cluster, {formatting.format_share(live.accuracy)} did"
        if live.strong_us is not None:
            live_stable = f"; on the live cluster it took {_live_median(live.strong_us)}"
    return [
        f"{scope}, a weak transaction gets its first response after {weak_ms} (mean){live_weak}. "
        "The replica responds without contacting others. "
        f"{scope}, {share} of these responses equal the final response{live_accuracy}. "
        f"{scope}, a strong transaction gets its stable response after {stable_ms} (mean)"
        f"{live_stable}."
    ]


def _live_median(value_us: float) -> str:
    return f"{formatting.format_ms(value_us)} (median)"


def _scope_sentences(evidence: Evidence, claim_results: list[ClaimResult]) -> list[str]:
    statuses = [each.status for each in claim_results]
    measured = len(statuses) - statuses.count(ClaimStatus.NOT_MEASURED)
    runs = evidence.tables.runs or evidence.tables.measures
    live = sum(row["source"] == LIVE_SOURCE for row in runs)
    counts = [
        f"{formatting.format_number(count, Unit.COUNT)} {source}"
        for source, count in (("simulated", len(runs) - live), ("live", live))
        if count
    ]
    seeds = len({row["seed"] for row in evidence.tables.measures})
    holding = (
        f"{statuses.count(ClaimStatus.HOLDS)} of the {measured} statements of the paper that the "
        f"{evidence.source} runs measure hold"
    )
    return [
        f"Source: {' and '.join(counts)} runs of TPC-C with "
        f"{formatting.format_seeds(seeds)}" + (f"; {holding}." if measured else ".")
    ]


def _summary_numbers(
    results: _HeadlineResults, archie_ratio: QueryResult | None
) -> list[SummaryNumber]:
    """Return the key numbers; each label begins with the source of its number."""
    peak, accuracy, live = results.peak, results.accuracy, results.live
    numbers = []

    def add(label: str, text: str, note: str) -> None:
        value, _, unit = text.partition(formatting.NO_BREAK_SPACE)
        numbers.append(SummaryNumber(f"{results.source} {label}", value, unit, note))

    if peak is not None:
        at_least = "≥ " if peak.is_lower_bound else ""
        throughput = formatting.format_throughput(peak.low)
        add("peak throughput of Creek", f"{at_least}{throughput}", _peak_note(peak))
    for label, result, live_us in (
        ("latency of the first response, weak", results.weak, live and live.weak_us),
        ("latency of the stable response, strong", results.stable, live and live.strong_us),
    ):
        if result is not None:
            note = _load_note(formatting.format_span(result.low, result.high, Unit.MICROSECONDS))
            note += "" if live_us is None else f"; live: {_live_median(live_us)}"
            add(label, formatting.format_number(result.typical, Unit.MICROSECONDS), note)
    if archie_ratio is not None:
        span = formatting.format_percent_span(archie_ratio.low, archie_ratio.high)
        label = "latency of weak transactions, relative to Archie"
        add(label, formatting.format_percent(archie_ratio.typical), _load_note(span))
    if accuracy is not None:
        note = "below saturation"
        if live is not None and live.accuracy is not None:
            note += f"; live: {formatting.format_share(live.accuracy)}"
        add("accuracy, lowest", formatting.format_share(accuracy.low), note)
    return numbers


def _peak_note(peak: QueryResult) -> str:
    paper = f"paper: {formatting.format_thousands(PEAKS_TPS['creek'])}"
    if peak.is_lower_bound or peak.possible_range is None:
        return paper
    return f"saturated at {formatting.format_thousands(peak.possible_range[1])}; {paper}"


def _load_note(span: str) -> str:
    """Return the range over the loads, unless all loads gave one value."""
    return f"{span}, by load" if "–" in span else "at all loads below the peak"


FIRST_RESPONSES = ("weak_tentative", "strong_tentative")
FINAL_RESPONSES = ("strong_stable", "weak_stable")
STATISTIC_COLUMNS = ("mean_us", "p50_us", "p99_us")


def transaction_latencies(evidence: Evidence) -> dict[str, Any] | None:
    """Return Creek's latencies by kind of transaction, at about half of its peak load."""
    run = evidence.typical_run("creek")
    kinds = {} if run is None else evidence.latencies_by_kind(run["run"])
    if run is None or not kinds:
        return None
    header = ["transaction", "responses"]
    for response in ("first response", "stable"):
        header += [f"{response}, {name}" for name in ("mean", "median", "p99")]
    load = formatting.format_throughput(run["load_tps"])
    return {
        "title": f"By kind of transaction: Creek at {load}, {run['source']}",
        "header": header,
        "rows": [_transaction_row(kind, latencies) for kind, latencies in kinds.items()],
    }


def _transaction_row(kind: str, latencies: dict[str, ReportRow]) -> list[str]:
    first = next((latencies[name] for name in FIRST_RESPONSES if name in latencies), None)
    last = next((latencies[name] for name in FINAL_RESPONSES if name in latencies), None)
    count = first or last
    cells = [kind.replace("_", " "), "" if count is None else str(count["answers"])]
    for row in (first, last):
        cells += [
            formatting.format_number(None if row is None else row[name], Unit.MICROSECONDS)
            for name in STATISTIC_COLUMNS
        ]
    return cells
