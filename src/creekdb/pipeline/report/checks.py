"""Verdicts by checker and scheme, and a list of every failure."""

from collections import Counter, defaultdict
from typing import Any, Final, TypeAlias

from creekdb.history import LIVE_SOURCE
from creekdb.pipeline.report import formatting
from creekdb.pipeline.report.charts import curves
from creekdb.pipeline.report.evidence import Evidence, ReportRow, ReportTables

ENTRIES_MAX: Final = 50
"""Upper bound for the listed entries of each kind."""
UNKNOWN_COLUMN: Final = (False, "?")
"""Column of verdicts whose run is missing from the tables."""
UNDECIDED: Final = "Undecided"
VERDICTS_BY_SEVERITY: Final = ("illegal", "unknown", "ok")

CHECKER_DESCRIPTIONS: Final = {
    "prefix_order": "committed orders of all replicas are prefixes of one order",
    "reliable_broadcast": "every replica receives every request, in the order of its origin",
    "promises": "acceptors keep their promises, also across crashes",
    "no_loss": "a member that votes for a request stores it, so no request is lost",
    "conditional_atomic_broadcast": "a strong request is delivered after its causal context",
    "commit_order": "committed grows by the paper’s procedure",
    "replay": "a replay of the committed order yields the final responses and the state",
    "real_time": "a strong operation invoked after a stable response observes its effect",
    "session_order": "operations of one client are ordered as it invoked them",
    "responses": "clients receive the responses of their consistency level, and no others",
    "fluctuating": "each response follows from one order of the invoked operations",
    "convergence": "idle replicas are equal, and no operation with a response is missing",
    "committed_once": "every operation with a stable response has exactly one commit position",
    "tpcc_conditions": "TPC-C’s consistency conditions hold on its tables",
    "events": "unknown if a run has no replica events; large runs omit them",
}
"""The property that each checker verifies, in one line."""

_Column: TypeAlias = tuple[bool, str]
"""True for live runs, and the scheme."""


def checks_section(evidence: Evidence) -> dict[str, Any]:
    tables = evidence.tables
    column_of = {
        row["run"]: (row["source"] == LIVE_SOURCE, row["scheme"])
        for row in (*tables.measures, *tables.runs)
    }
    counts: dict[tuple[str, _Column], Counter[str]] = defaultdict(Counter)
    for row in tables.verdicts:
        column = column_of.get(row["run"], UNKNOWN_COLUMN)
        counts[row["checker"], column][row["verdict"]] += 1
    columns = _sorted_columns({column for _, column in counts})
    return {
        "counts": _counts(tables),
        "schemes": [
            formatting.scheme_name(scheme) + (", live" if is_live else "")
            for is_live, scheme in columns
        ],
        "rows": [
            {
                "checker": checker.replace("_", " "),
                "property": CHECKER_DESCRIPTIONS.get(checker, ""),
                "cells": [_cell(counts[checker, column]) for column in columns],
            }
            for checker in dict.fromkeys(row["checker"] for row in tables.verdicts)
        ],
        "details": _failure_details(evidence),
    }


def _sorted_columns(columns: set[_Column]) -> list[_Column]:
    """Sort columns by scheme, simulated runs before live runs."""
    schemes = curves.in_paper_order(sorted({scheme for _, scheme in columns}))
    return sorted(columns, key=lambda each: (each[0], schemes.index(each[1])))


def _counts(tables: ReportTables) -> dict[str, int]:
    """Return the numbers that the page states in its alarms and above the verdicts."""
    verdicts = Counter(row["verdict"] for row in tables.verdicts)
    return {
        "verdicts": len(tables.verdicts),
        "verified_runs": len({row["run"] for row in tables.verdicts}),
        "illegal": verdicts["illegal"],
        "unknown": verdicts["unknown"],
        "illegal_runs": len({row["run"] for row in tables.verdicts if row["verdict"] == "illegal"}),
        "failed": len(tables.failed),
        "violated": sum(bool(row["violated"]) for row in tables.runs),
        "unsettled": sum(row["unsettled"] is not None for row in tables.runs),
    }


def _cell(counted: Counter[str]) -> dict[str, str]:
    if not counted:
        return {"state": "none", "text": formatting.NO_VALUE}
    rank = VERDICTS_BY_SEVERITY.index
    known = sorted((each for each in counted if each in VERDICTS_BY_SEVERITY), key=rank)
    if known[:1] == ["ok"]:
        return {"state": "ok", "text": f"ok · {counted['ok']}"}
    others = [each for each in counted if each not in VERDICTS_BY_SEVERITY]
    text = " · ".join(f"{counted[each]} {each}" for each in (*known, *others))
    return {"state": known[0] if known else "unknown", "text": text}


def _failure_details(evidence: Evidence) -> list[tuple[str, list[dict[str, str]], bool]]:
    tables = evidence.tables
    entries: dict[str, list[dict[str, str]]] = {
        "Failed experiments": [
            _entry("failed", row | {"run": row["cell"], "command": ""}) for row in tables.failed
        ],
        "Illegal": [],
        "Violated conditions": [
            _entry("TPC-C’s consistency conditions", row | {"detail": row["violated"]})
            for row in tables.runs
            if row["violated"]
        ],
        "Not converged": [
            _entry("did not converge", row | {"detail": row["unsettled"]})
            for row in tables.runs
            if row["unsettled"] is not None
        ],
        UNDECIDED: [],
    }
    for row in tables.verdicts:
        if row["verdict"] != "ok":
            title = "Illegal" if row["verdict"] == "illegal" else UNDECIDED
            entries[title].append(_entry(row["checker"].replace("_", " "), row))
    return [
        (f"{title}: {len(listed)}", _deduplicate(listed), title != UNDECIDED)
        for title, listed in entries.items()
        if listed
    ]


def _entry(title: str, row: ReportRow) -> dict[str, str]:
    return {"title": title} | {name: row[name] for name in ("run", "detail", "command")}


def _deduplicate(entries: list[dict[str, str]]) -> list[dict[str, str]]:
    """Merge entries with equal title and detail; keep the first run and the number of others."""
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for entry in entries:
        groups.setdefault((entry["title"], entry["detail"]), []).append(entry)
    shown = [
        first | ({"run": f"{first['run']} and {len(others)} more"} if others else {})
        for first, *others in groups.values()
    ]
    omitted = len(shown) - ENTRIES_MAX
    more = {"title": f"… and {omitted} more", "run": "", "detail": "", "command": ""}
    return shown[:ENTRIES_MAX] + ([more] if omitted > 0 else [])
