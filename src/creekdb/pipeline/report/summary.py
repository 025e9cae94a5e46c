"""The few numbers that matter, in words.

The latencies of Creek by kind of transaction, under a middling load.
"""

from typing import Any, Final, NamedTuple

from creekdb.pipeline.report import formatting, live_runs
from creekdb.pipeline.report.claims import Judged, Mark
from creekdb.pipeline.report.evidence import Evidence, Row
from creekdb.pipeline.report.paper.claim import STRONG_STABLE, WEAK, latency, ratio
from creekdb.pipeline.report.paper.reference_values import PEAKS_TPS
from creekdb.pipeline.report.quantities import Unit
from creekdb.pipeline.report.queries import Found, PeakThroughput, Range

ALMOST: Final = 0.9


class Number(NamedTuple):
    label: str
    value: str
    unit: str
    note: str


class Headline(NamedTuple):
    title: str
    sentences: list[str]
    numbers: list[Number]
    alarms: list[str]


def headline(evidence: Evidence, judged: list[Judged]) -> Headline:
    peak = PeakThroughput("creek").find(evidence)
    weak = latency("creek", WEAK).find(evidence)
    stable = latency("creek", STRONG_STABLE).find(evidence)
    accuracy = Range("creek", "accuracy").find(evidence)
    compared = ratio("creek", "archie", WEAK).find(evidence)
    return Headline(
        title="Answers at once, and right almost always"
        if weak is not None and accuracy is not None and accuracy.low >= ALMOST
        else "Creek, measured",
        sentences=[
            *_lead(weak, stable, accuracy),
            *_scope(evidence, judged),
            *live_runs.sentence(evidence),
        ],
        numbers=_numbers(peak, weak, stable, compared, accuracy),
        alarms=_alarms(evidence),
    )


def _lead(weak: Found | None, stable: Found | None, accuracy: Found | None) -> list[str]:
    if weak is None or stable is None or accuracy is None:
        return []
    true = "all" if accuracy.low == 1 else f"at least {formatting.share(accuracy.low)}"
    return [
        "A weak transaction is answered after "
        f"{formatting.number(weak.typical, Unit.MICROSECONDS)}, without asking any other replica, "
        f"and {true} of these answers turn out to be true. "
        "A strong one has an answer that will never change after "
        f"{formatting.number(stable.typical, Unit.MICROSECONDS)}."
    ]


def _scope(evidence: Evidence, judged: list[Judged]) -> list[str]:
    marks = [each.mark for each in judged]
    told = len(marks) - marks.count(Mark.NOT_MEASURED)
    runs = len(evidence.tables.runs) or len(evidence.tables.measures)
    seeds = len({row["seed"] for row in evidence.tables.measures})
    held = (
        f"{marks.count(Mark.HOLDS)} of the {told} statements of the paper that they tell about hold"
    )
    return [
        f"From {formatting.number(runs, Unit.COUNT)} runs of TPC-C with {formatting.seeds(seeds)}"
        + (f"; {held}." if told else ".")
    ]


def _numbers(
    peak: Found | None,
    weak: Found | None,
    stable: Found | None,
    compared: Found | None,
    accuracy: Found | None,
) -> list[Number]:
    numbers = []
    if peak is not None:
        numbers.append(
            Number(
                "peak throughput of Creek",
                ("≥ " if peak.is_bound else "") + formatting.thousands(peak.low),
                "tx/s",
                _about_peak(peak),
            )
        )
    for label, found in (
        ("until a weak transaction is answered", weak),
        ("until a strong answer is stable", stable),
    ):
        if found is not None:
            value, _, unit = formatting.number(found.typical, Unit.MICROSECONDS).partition(
                formatting.SPACE
            )
            note = formatting.span(found.low, found.high, Unit.MICROSECONDS)
            numbers.append(Number(label, value, unit, _by_load(note)))
    if compared is not None:
        numbers.append(
            Number(
                "of Archie’s latency, for weak transactions",
                f"{compared.typical * 100:.0f}",
                "%",
                _by_load(formatting.percents(compared.low, compared.high)),
            )
        )
    if accuracy is not None:
        value, _, unit = formatting.share(accuracy.low).partition(formatting.SPACE)
        numbers.append(Number("of speculation is right, at worst", value, unit, "below saturation"))
    return numbers


def _about_peak(peak: Found) -> str:
    paper = f"paper: {formatting.thousands(PEAKS_TPS['creek'])}"
    if peak.is_bound or peak.possible is None:
        return paper
    return f"{formatting.thousands(peak.possible[1])} was too much; {paper}"


def _by_load(span: str) -> str:
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


FIRST = ("weak_tentative", "strong_tentative")
LAST = ("strong_stable", "weak_stable")
COLUMNS = ("mean_us", "p50_us", "p99_us")


def by_transaction(evidence: Evidence) -> dict[str, Any] | None:
    run = evidence.typical_run("creek")
    kinds = {} if run is None else evidence.by_kind(run["run"])
    if run is None or not kinds:
        return None
    header = ["transaction", "answers"]
    for answer in ("first answer", "stable"):
        header += [f"{answer}, {name}" for name in ("mean", "median", "p99")]
    return {
        "title": f"By kind of transaction: Creek at {formatting.throughput(run['load_tps'])}",
        "header": header,
        "rows": [_row(kind, answers) for kind, answers in kinds.items()],
    }


def _row(kind: str, answers: dict[str, Row]) -> list[str]:
    first = next((answers[name] for name in FIRST if name in answers), None)
    last = next((answers[name] for name in LAST if name in answers), None)
    count = first or last
    cells = [kind.replace("_", " "), "" if count is None else str(count["answers"])]
    for row in (first, last):
        cells += [
            formatting.NOTHING if row is None else formatting.number(row[name], Unit.MICROSECONDS)
            for name in COLUMNS
        ]
    return cells
