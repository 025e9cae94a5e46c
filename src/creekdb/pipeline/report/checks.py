"""Verdicts: by checker and scheme, and every one that is not fine."""

from collections import Counter
from typing import Any, Final, TypeAlias

from creekdb.history import LIVE_SOURCE
from creekdb.pipeline.report import formatting
from creekdb.pipeline.report.charts import curves
from creekdb.pipeline.report.evidence import Evidence, ReportRow
from creekdb.pipeline.report.quantities import Unit

ENTRIES_MAX: Final = 50
"""Of each kind; a page that lists thousands is not read."""
UNKNOWN_COLUMN: Final = (False, "?")
"""The column of runs that nobody knows."""
VERDICTS_BY_SEVERITY: Final = ("illegal", "unknown", "ok")

CHECKER_DESCRIPTIONS: Final = {
    "prefix_order": "what replicas have committed is one order, of which some have less",
    "reliable_broadcast": "every replica gets every request, each origin’s in their order",
    "promises": "acceptors keep their promises, across crashes too",
    "no_loss": "who votes for a request has it, so that it is never lost",
    "conditional_atomic_broadcast": "a strong request is delivered when its context is there",
    "commit_order": "committed grows as the paper’s procedure says",
    "replay": "the committed order, replayed, gives the last answers and the state",
    "real_time": "who asks strongly after a stable answer sees its effect",
    "session_order": "what a client did first comes first",
    "answers": "clients get the answers that were promised, and no others",
    "fluctuating": "every answer comes from one order of what was asked",
    "convergence": "once all is calm replicas are the same, and nothing answered is lost",
    "committed_once": "what was answered for good stands in the order, in one place",
    "tpcc_conditions": "TPC-C’s own conditions on its tables hold",
    "events": "unknown where a run did not record what replicas did, as large ones do not",
}
"""What a checker asks, in a line; of others, nothing."""

_Column: TypeAlias = tuple[bool, str]
"""Is it of live runs, and of which scheme?"""


def checks_section(evidence: Evidence) -> dict[str, Any]:
    tables = evidence.tables
    verdicts = tables.verdicts
    column_of = {row["run"]: _column_of(row) for row in (*tables.measures, *tables.runs)}
    columns = _sorted_columns({column_of.get(row["run"], UNKNOWN_COLUMN) for row in verdicts})
    counts: dict[tuple[str, _Column], Counter[str]] = {}
    for row in verdicts:
        key = row["checker"], column_of.get(row["run"], UNKNOWN_COLUMN)
        counts.setdefault(key, Counter())[row["verdict"]] += 1
    return {
        "text": _summary_text(evidence),
        "schemes": [
            formatting.scheme_name(scheme) + (", live" if is_live else "")
            for is_live, scheme in columns
        ],
        "rows": [
            {
                "checker": checker.replace("_", " "),
                "asks": CHECKER_DESCRIPTIONS.get(checker, ""),
                "cells": [_cell(counts.get((checker, column), Counter())) for column in columns],
            }
            for checker in dict.fromkeys(row["checker"] for row in verdicts)
        ],
        "details": _failure_details(evidence),
    }


def _column_of(run: ReportRow) -> _Column:
    return run["source"] == LIVE_SOURCE, run["scheme"]


def _sorted_columns(columns: set[_Column]) -> list[_Column]:
    """Live ones come last."""
    schemes = curves.in_paper_order(sorted({scheme for _, scheme in columns}))
    return sorted(columns, key=lambda each: (each[0], schemes.index(each[1])))


def _summary_text(evidence: Evidence) -> str:
    verdicts = evidence.tables.verdicts
    if not verdicts:
        return "These runs have not been verified: there are no verdicts."
    counted = Counter(row["verdict"] for row in verdicts)
    total = formatting.format_number(len(verdicts), Unit.COUNT)
    runs = formatting.format_number(len({row["run"] for row in verdicts}), Unit.COUNT)
    unsure = f"; {counted['unknown']} could not be decided" if counted["unknown"] else ""
    illegal = counted["illegal"]
    found = (
        "none is illegal" if not illegal else f"{illegal} {'is' if illegal == 1 else 'are'} illegal"
    )
    return (
        f"Independent checkers went through the histories of {runs} runs. Of {total} verdicts "
        f"{found}{unsure}."
    )


def _cell(counted: Counter[str]) -> dict[str, str]:
    if not counted:
        return {"state": "none", "text": formatting.NO_VALUE}
    state = next((each for each in VERDICTS_BY_SEVERITY if counted[each]), "unknown")
    if state == "ok":
        return {"state": state, "text": f"ok · {counted['ok']}"}
    known = [f"{counted[each]} {each}" for each in VERDICTS_BY_SEVERITY if counted[each]]
    others = [
        f"{count} {each}" for each, count in counted.items() if each not in VERDICTS_BY_SEVERITY
    ]
    return {"state": state, "text": " · ".join([*known, *others])}


def _failure_details(evidence: Evidence) -> list[tuple[str, list[dict[str, str]], bool]]:
    tables = evidence.tables
    illegal = [_verdict_entry(row) for row in tables.verdicts if row["verdict"] == "illegal"]
    unknown = [
        _verdict_entry(row) for row in tables.verdicts if row["verdict"] not in ("ok", "illegal")
    ]
    violated = [
        _run_entry("TPC-C’s consistency conditions", row, row["violated"])
        for row in tables.runs
        if row["violated"]
    ]
    unsettled = [
        _run_entry("did not come to rest", row, row["unsettled"])
        for row in tables.runs
        if row["unsettled"] is not None
    ]
    failed = [
        {"what": "failed", "run": row["cell"], "detail": row["detail"], "command": ""}
        for row in tables.failed
    ]
    return [
        (f"{name}: {len(found)}", _deduplicate(found), is_open)
        for name, found, is_open in (
            ("Experiments that failed", failed, True),
            ("Illegal", illegal, True),
            ("Conditions violated", violated, True),
            ("Not at rest", unsettled, True),
            ("Not known", unknown, False),
        )
        if found
    ]


def _deduplicate(found: list[dict[str, str]]) -> list[dict[str, str]]:
    """What says the same of many runs is there once, with the first of them."""
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for each in found:
        groups.setdefault((each["what"], each["detail"]), []).append(each)
    shown = [
        first | ({"run": f"{first['run']} and {len(others)} more"} if others else {})
        for first, *others in groups.values()
    ]
    left_out = len(shown) - ENTRIES_MAX
    more = {"what": f"… and {left_out} more", "run": "", "detail": "", "command": ""}
    return shown[:ENTRIES_MAX] + ([more] if left_out > 0 else [])


def _verdict_entry(row: ReportRow) -> dict[str, str]:
    return {
        "what": row["checker"].replace("_", " "),
        "run": row["run"],
        "detail": row["detail"],
        "command": row["command"],
    }


def _run_entry(what: str, row: ReportRow, detail: str) -> dict[str, str]:
    return {"what": what, "run": row["run"], "detail": detail, "command": row["command"]}
