"""The latencies of Creek by kind of transaction, under a middling load."""

from typing import Any

from creekdb.pipeline.report import words
from creekdb.pipeline.report.evidence import Evidence
from creekdb.pipeline.report.quantities import Unit
from creekdb.pipeline.report.reading import Row

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
        "title": f"By kind of transaction: Creek at {words.throughput(run['load_tps'])}",
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
            words.NOTHING if row is None else words.number(row[name], Unit.MICROSECONDS)
            for name in COLUMNS
        ]
    return cells
