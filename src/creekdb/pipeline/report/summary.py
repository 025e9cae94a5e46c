"""The few numbers that matter, in words.

The latencies of Creek by kind of transaction, under a middling load.
"""

from typing import Any, Final, NamedTuple

from creekdb.pipeline.report import formatting, live_runs
from creekdb.pipeline.report.claims import ClaimResult, ClaimStatus
from creekdb.pipeline.report.evidence import Evidence, ReportRow
from creekdb.pipeline.report.paper.claim import (
    STRONG_STABLE,
    WEAK_TENTATIVE,
    latency_range,
    latency_ratio,
)
from creekdb.pipeline.report.paper.reference_values import PEAKS_TPS
from creekdb.pipeline.report.quantities import Unit
from creekdb.pipeline.report.queries import MeasureRange, PeakThroughput, QueryResult

HIGH_ACCURACY: Final = 0.9


class SummaryNumber(NamedTuple):
    label: str
    value: str
    unit: str
    note: str


class ReportSummary(NamedTuple):
    title: str
    sentences: list[str]
    numbers: list[SummaryNumber]
    alarms: list[str]


def report_summary(evidence: Evidence, judged: list[ClaimResult]) -> ReportSummary:
    peak = PeakThroughput("creek").evaluate(evidence)
    weak = latency_range("creek", WEAK_TENTATIVE).evaluate(evidence)
    stable = latency_range("creek", STRONG_STABLE).evaluate(evidence)
    accuracy = MeasureRange("creek", "accuracy").evaluate(evidence)
    compared = latency_ratio("creek", "archie", WEAK_TENTATIVE).evaluate(evidence)
    return ReportSummary(
        title="Answers at once, and right almost always"
        if weak is not None and accuracy is not None and accuracy.low >= HIGH_ACCURACY
        else "Creek, measured",
        sentences=[
            *_latency_sentences(weak, stable, accuracy),
            *_scope_sentences(evidence, judged),
            *live_runs.summary_sentences(evidence),
        ],
        numbers=_summary_numbers(peak, weak, stable, compared, accuracy),
        alarms=_alarms(evidence),
    )


def _latency_sentences(
    weak: QueryResult | None, stable: QueryResult | None, accuracy: QueryResult | None
) -> list[str]:
    if weak is None or stable is None or accuracy is None:
        return []
    true = "all" if accuracy.low == 1 else f"at least {formatting.format_share(accuracy.low)}"
    return [
        "A weak transaction is answered after "
        f"{formatting.format_number(weak.typical, Unit.MICROSECONDS)}, without asking any "
        "other replica, "
        f"and {true} of these answers turn out to be true. "
        "A strong one has an answer that will never change after "
        f"{formatting.format_number(stable.typical, Unit.MICROSECONDS)}."
    ]


def _scope_sentences(evidence: Evidence, judged: list[ClaimResult]) -> list[str]:
    marks = [each.status for each in judged]
    told = len(marks) - marks.count(ClaimStatus.NOT_MEASURED)
    runs = len(evidence.tables.runs) or len(evidence.tables.measures)
    seeds = len({row["seed"] for row in evidence.tables.measures})
    held = (
        f"{marks.count(ClaimStatus.HOLDS)} of the {told} statements of the paper that they "
        "tell about hold"
    )
    return [
        f"From {formatting.format_number(runs, Unit.COUNT)} runs of TPC-C with "
        f"{formatting.format_seeds(seeds)}" + (f"; {held}." if told else ".")
    ]


def _summary_numbers(
    peak: QueryResult | None,
    weak: QueryResult | None,
    stable: QueryResult | None,
    compared: QueryResult | None,
    accuracy: QueryResult | None,
) -> list[SummaryNumber]:
    numbers = []
    if peak is not None:
        numbers.append(
            SummaryNumber(
                "peak throughput of Creek",
                ("≥ " if peak.is_lower_bound else "") + formatting.format_thousands(peak.low),
                "tx/s",
                _peak_note(peak),
            )
        )
    for label, found in (
        ("until a weak transaction is answered", weak),
        ("until a strong answer is stable", stable),
    ):
        if found is not None:
            value, _, unit = formatting.format_number(found.typical, Unit.MICROSECONDS).partition(
                formatting.NO_BREAK_SPACE
            )
            note = formatting.format_span(found.low, found.high, Unit.MICROSECONDS)
            numbers.append(SummaryNumber(label, value, unit, _load_note(note)))
    if compared is not None:
        numbers.append(
            SummaryNumber(
                "of Archie’s latency, for weak transactions",
                f"{compared.typical * 100:.0f}",
                "%",
                _load_note(formatting.format_percent_span(compared.low, compared.high)),
            )
        )
    if accuracy is not None:
        value, _, unit = formatting.format_share(accuracy.low).partition(formatting.NO_BREAK_SPACE)
        numbers.append(
            SummaryNumber("of speculation is right, at worst", value, unit, "below saturation")
        )
    return numbers


def _peak_note(peak: QueryResult) -> str:
    paper = f"paper: {formatting.format_thousands(PEAKS_TPS['creek'])}"
    if peak.is_lower_bound or peak.possible_range is None:
        return paper
    return f"{formatting.format_thousands(peak.possible_range[1])} was too much; {paper}"


def _load_note(span: str) -> str:
    """Loads may have given one value all the same."""
    return f"{span}, by load" if "–" in span else "at all loads below the peak"


def _alarms(evidence: Evidence) -> list[str]:
    """What nobody must overlook."""
    illegal = [row for row in evidence.tables.verdicts if row["verdict"] == "illegal"]
    unsettled = [row for row in evidence.tables.runs if row["unsettled"] is not None]
    violated = [row for row in evidence.tables.runs if row["violated"]]
    failed = len(evidence.tables.failed)
    alarms = [f"{failed} of the experiments failed and are not in this page."] if failed else []
    if illegal:
        runs = len({row["run"] for row in illegal})
        alarms.append(
            f"Checkers found something illegal in {runs} of the runs: see the checks below."
        )
    if violated:
        alarms.append(
            f"TPC-C’s consistency conditions are violated in {len(violated)} of the runs."
        )
    if unsettled:
        alarms.append(f"{len(unsettled)} of the runs did not come to rest.")
    return alarms


FIRST_RESPONSES = ("weak_tentative", "strong_tentative")
FINAL_RESPONSES = ("strong_stable", "weak_stable")
STATISTIC_COLUMNS = ("mean_us", "p50_us", "p99_us")


def transaction_latencies(evidence: Evidence) -> dict[str, Any] | None:
    run = evidence.typical_run("creek")
    kinds = {} if run is None else evidence.latencies_by_kind(run["run"])
    if run is None or not kinds:
        return None
    header = ["transaction", "answers"]
    for answer in ("first answer", "stable"):
        header += [f"{answer}, {name}" for name in ("mean", "median", "p99")]
    load = formatting.format_throughput(run["load_tps"])
    return {
        "title": f"By kind of transaction: Creek at {load}",
        "header": header,
        "rows": [_transaction_row(kind, answers) for kind, answers in kinds.items()],
    }


def _transaction_row(kind: str, answers: dict[str, ReportRow]) -> list[str]:
    first = next((answers[name] for name in FIRST_RESPONSES if name in answers), None)
    last = next((answers[name] for name in FINAL_RESPONSES if name in answers), None)
    count = first or last
    cells = [kind.replace("_", " "), "" if count is None else str(count["answers"])]
    for row in (first, last):
        cells += [
            formatting.NO_VALUE
            if row is None
            else formatting.format_number(row[name], Unit.MICROSECONDS)
            for name in STATISTIC_COLUMNS
        ]
    return cells
