"""The configuration and the command of every run."""

from typing import Any

from creekdb.pipeline.report import curves, words
from creekdb.pipeline.report.evidence import SETUP, Evidence
from creekdb.pipeline.report.quantities import Unit
from creekdb.pipeline.report.reading import Row


def made_with(evidence: Evidence) -> dict[str, Any]:
    done = {row["run"]: row["throughput_tps"] for row in evidence.tables.measures}
    order = curves.ordered(evidence.schemes)
    runs = sorted(evidence.tables.runs, key=lambda row: (_place(order, row["scheme"]), row["run"]))
    count = words.number(len(runs), Unit.COUNT)
    return {
        "text": "What all runs have in common, unless it says otherwise: the paper’s environment. "
        "Each command makes the same run again, to the last event, on any machine; but that of a "
        "live run makes another one like it.",
        "title": f"All {count} runs and their commands",
        "usual": [
            (name.replace("_", " "), words.parameter(name, value))
            for name, value in evidence.usual.items()
            if name != "faults"
        ],
        "rows": [_row(evidence, row, done.get(row["run"])) for row in runs],
    }


def _place(order: list[str], scheme: str) -> int:
    return order.index(scheme) if scheme in order else len(order)


def _row(evidence: Evidence, row: Row, done_tps: float | None) -> dict[str, Any]:
    differs = [
        f"{name.replace('_', ' ')} {words.parameter(name, row[name])}"
        for name in SETUP
        if row[name] != evidence.usual[name]
    ]
    return {
        "run": row["run"],
        "scheme": words.name_of(row["scheme"]),
        "differs": ", ".join(differs) or words.NOTHING,
        "load": words.NOTHING if row["load_tps"] is None else words.throughput(row["load_tps"]),
        "seed": row["seed"],
        "done": words.NOTHING if done_tps is None else words.throughput(done_tps),
        "command": row["command"],
    }
