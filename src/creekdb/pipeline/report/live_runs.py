"""Live runs, each with its counterpart: the simulated run of the same experiment.

A run is drawn over time from the start of its measurement window: throughput, latency, and the
tentative requests of each replica, with the faults marked. The simulation of the same load and the
same faults is drawn next to it, on the same axes.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

from creekdb.history import LIVE_SOURCE
from creekdb.pipeline.report import charts, formatting
from creekdb.pipeline.report.charts import Axis, ChartPanel, ChartRows, LineGroup
from creekdb.pipeline.report.charts.theme import DASHES, Palette
from creekdb.pipeline.report.evidence import MEASURES_ROW, Evidence, ReportRow
from creekdb.pipeline.report.partitions import (
    US_PER_S,
    fault_mark,
    fault_name,
    parse_recorded_faults,
    rows_by,
)
from creekdb.pipeline.report.quantities import Unit
from creekdb.simulation.faults.fault_types import Crash, Fault, Heal, Partition, Restart
from creekdb.simulation.faults.language import describe_fault

LIVE_RUNS_MAX: Final = 3
WEAK_GROUP: Final = "weak, first response"
STRONG_GROUP: Final = "strong, stable"
REPLICA_GROUP: Final = "a replica"
RESPONSE_GROUPS: Final = {"weak_tentative": WEAK_GROUP, "strong_stable": STRONG_GROUP}
LATENCY_MS_MIN: Final = 0.01
COUNTERPART_COLUMNS: Final = (
    "scheme",
    "layout",
    "warehouses",
    "load_tps",
    "strong_share",
    "replicas",
    "seed",
)
"""Columns in which a live run and its counterpart agree."""
_LATENCY_LABELS: Final = {
    "weak_tentative": "weak: first response",
    "weak_stable": "weak: final response",
    "strong_tentative": "strong: first response",
    "strong_stable": "strong: stable response",
}
TABLE_ROWS: Final = (
    ("throughput", MEASURES_ROW, "throughput_tps", Unit.PER_SECOND),
    *(
        (f"{label}, {statistic}", response, column, Unit.MICROSECONDS)
        for response, label in _LATENCY_LABELS.items()
        for statistic, column in (("median", "p50_us"), ("p99", "p99_us"))
    ),
    ("accuracy of first responses", MEASURES_ROW, "accuracy", Unit.SHARE),
    ("executions per transaction", MEASURES_ROW, "execution_ratio", Unit.RATIO),
)
"""Label, row, column and unit of the figures of a run."""
FAULT_KINDS: Final = {
    Crash: "a crash",
    Restart: "a restart",
    Partition: "a network partition",
    Heal: "a network repair",
}


class LiveRun(NamedTuple):
    """Faults, panels and table of one live run."""

    row: ReportRow
    seconds: float
    """Length of the measurement window."""
    faults: list[tuple[float, str]]
    """Time in seconds, and description of each fault."""
    fault_kinds: list[str]
    groups: dict[str, LineGroup]
    columns: list[str]
    """Headings of panels and table: live, and simulated if there is a counterpart."""
    panels: list[list[ChartPanel]]
    """One row of panels per quantity."""
    table: dict[str, Any]
    verdict: str
    is_fine: bool


def draw_live_runs(evidence: Evidence, palette: Palette) -> list[LiveRun]:
    return [_draw_live_run(evidence, palette, run) for run in _selected_live_runs(evidence)]


def live_run_names(evidence: Evidence) -> set[str]:
    """Return the names of the shown live runs and of their counterparts."""
    live = _selected_live_runs(evidence)
    return {each["run"] for run in live for each in _with_counterpart(evidence, run)}


def _with_counterpart(evidence: Evidence, live: ReportRow) -> list[ReportRow]:
    counterpart = counterpart_of(evidence, live)
    return [live] if counterpart is None else [live, counterpart]


def counterpart_of(evidence: Evidence, live: ReportRow) -> ReportRow | None:
    """Return the simulated run with equal parameters, ignoring the exact fault times, or None."""
    for run in evidence.tables.runs:
        is_alike = all(run[name] == live[name] for name in COUNTERPART_COLUMNS)
        if run["source"] != LIVE_SOURCE and is_alike and _fault_names(run) == _fault_names(live):
            return run
    return None


def live_figures(evidence: Evidence, scheme: str) -> dict[str, float]:
    """Return the figures of the first live run of a scheme, as far as it has them.

    These are the accuracy, and the median latencies of the first response to weak transactions and
    of the stable response to strong ones.
    """
    runs = (run for run in _selected_live_runs(evidence) if run["scheme"] == scheme)
    run = next(runs, None)
    rows = {} if run is None else evidence.figures_of_run(run["run"])
    figures = {
        "weak_us": rows.get("weak_tentative", {}).get("p50_us"),
        "strong_us": rows.get("strong_stable", {}).get("p50_us"),
        "accuracy": rows.get(MEASURES_ROW, {}).get("accuracy"),
    }
    return {name: value for name, value in figures.items() if value is not None}


def summary_lines(evidence: Evidence) -> list[str]:
    """Return one line per live run, for a terminal."""
    lines = []
    for run in _selected_live_runs(evidence):
        both = _with_counterpart(evidence, run)
        figures = [evidence.figures_of_run(each["run"]) for each in both]
        latencies = []
        for name, response in (("weak", "weak_tentative"), ("strong", "strong_stable")):
            live, *simulated = _cells(figures, response, "p50_us", Unit.MICROSECONDS)
            latencies.append(f"{name} {live}" + "".join(f" (simulated {x})" for x in simulated))
        verdict, _ = _verdict_text(evidence, run)
        line = f"live cluster {run['run']}: median latency {', '.join(latencies)}; {verdict}"
        lines.append(line.replace(formatting.NO_BREAK_SPACE, " "))
    return lines


def _selected_live_runs(evidence: Evidence) -> list[ReportRow]:
    runs = [run for run in evidence.tables.runs if run["source"] == LIVE_SOURCE]
    return sorted(runs, key=lambda run: str(run["run"]))[:LIVE_RUNS_MAX]


def _fault_names(run: ReportRow) -> list[str]:
    return [_chart_name(each) for each in parse_recorded_faults(run["faults"])]


# --- over time ----------------------------------------------------------------------------------


def _draw_live_run(evidence: Evidence, palette: Palette, run: ReportRow) -> LiveRun:
    both = _with_counterpart(evidence, run)
    groups = {
        WEAK_GROUP: LineGroup(palette["good"], DASHES["dashed"]),
        STRONG_GROUP: LineGroup(palette.scheme(run["scheme"])),
    }
    verdict, is_fine = _verdict_text(evidence, run)
    faults = parse_recorded_faults(run["faults"])
    kinds = dict.fromkeys(map(type, faults))
    return LiveRun(
        row=run,
        seconds=_length_s(run),
        faults=[
            ((each.at_us - run["begin_us"]) / US_PER_S, describe_fault(each)) for each in faults
        ],
        fault_kinds=[FAULT_KINDS[kind] for kind in kinds if kind in FAULT_KINDS],
        groups=groups,
        columns=["Live", "Simulated"][: len(both)],
        panels=_draw_panels(evidence, both, groups, palette),
        table=_comparison_table(evidence, both),
        verdict=verdict,
        is_fine=is_fine,
    )


def _draw_panels(
    evidence: Evidence, both: list[ReportRow], groups: dict[str, LineGroup], palette: Palette
) -> list[list[ChartPanel]]:
    """Draw one row of panels per quantity; the panels of a row have the same axes."""
    steps, samples = (
        [rows[run["run"]] for run in both]
        for table in (evidence.tables.over_time, evidence.tables.samples)
        for rows in [rows_by("run", table)]
    )
    groups = groups | {REPLICA_GROUP: LineGroup(palette.scheme(both[0]["scheme"]))}
    x = Axis("seconds", charts.PLAIN_LABEL, [0, _length_s(both[0])], low=0)
    panel_rows = []
    for key, title, points in (
        ("throughput", "transactions per second", list(map(_throughput_points, steps))),
        ("latency", "latency at each replica, median, ms", list(map(_latency_points, steps))),
        ("tentative", "tentative at each replica", list(map(_tentative_points, samples, both))),
    ):
        rows = [row for each in points for row in each]
        if not rows:
            continue
        values, drawn = [row["value"] for row in rows], {row["group"] for row in rows}
        lines = {name: group for name, group in groups.items() if name in drawn}
        is_logarithmic = key == "latency"
        low = None if is_logarithmic else 0.0
        y = Axis(title, charts.PLAIN_LABEL, values, is_logarithmic, low=low)
        panels = []
        for run, own in zip(both, points, strict=True):
            description = f"{title} over time, {run['source']}: {run['run']}"
            marks = _fault_marks(run)
            spec = charts.timeline_chart(own, lines, marks, palette, x, y, description)
            panels.append(ChartPanel(f"live-{key}-{run['run']}", spec))
        panel_rows.append(panels)
    return panel_rows


def _length_s(run: ReportRow) -> float:
    return float(run["end_us"] - run["begin_us"]) / US_PER_S


def _throughput_points(steps: list[ReportRow]) -> ChartRows:
    """Return responses per second over all replicas, by kind of response."""
    done: Counter[tuple[str, int]] = Counter()
    for row in steps:
        done[row["answer"], row["at_us"]] += row["done"]
    length_us = steps[-1]["length_us"] if steps else 1
    times = sorted({at_us for _, at_us in done})
    return [
        charts.timeline_row(group, answer, at_us, rate, formatting.format_throughput(rate), group)
        for answer, group in RESPONSE_GROUPS.items()
        for at_us in times
        for rate in [done[answer, at_us] * US_PER_S / length_us]
    ]


def _latency_points(steps: list[ReportRow]) -> ChartRows:
    """Return the median of each replica. A gap of more than one step interrupts the line."""

    def key(row: ReportRow) -> tuple[str, int]:
        return row["answer"], row["replica"]

    measured = [row for row in steps if row["p50_us"] is not None]
    points: ChartRows = []
    for (answer, replica), lines in groupby(sorted(measured, key=key), key):
        rows = sorted(lines, key=lambda row: int(row["at_us"]))
        group, segment = RESPONSE_GROUPS[answer], 0
        for previous, row in pairwise([rows[0], *rows]):
            segment += row["at_us"] - previous["at_us"] > 2 * row["length_us"]
            points.append(
                charts.timeline_row(
                    group,
                    f"{replica} {answer} {segment}",
                    row["at_us"],
                    max(row["p50_us"] / 1000, LATENCY_MS_MIN),
                    formatting.format_ms(row["p50_us"]),
                    f"replica {replica}, {group}",
                )
            )
    return points


def _tentative_points(samples: list[ReportRow], run: ReportRow) -> ChartRows:
    """Return the tentative requests of each replica. A crash interrupts the line."""
    begin_us, end_us = run["begin_us"], run["end_us"]
    crashes = [each for each in parse_recorded_faults(run["faults"]) if isinstance(each, Crash)]

    def incarnation(row: ReportRow) -> int:
        return sum(each.replica == row["replica"] and each.at_us < row["at_us"] for each in crashes)

    return [
        charts.timeline_row(
            REPLICA_GROUP,
            f"{row['replica']} {incarnation(row)}",
            row["at_us"] - begin_us,
            row["tentative"],
            formatting.format_number(row["tentative"], Unit.COUNT),
            f"replica {row['replica']}",
        )
        for row in sorted(samples, key=lambda row: int(row["at_us"]))
        if begin_us <= row["at_us"] <= end_us
    ]


def _fault_marks(run: ReportRow) -> ChartRows:
    """Return the marks of the faults; a fault is shaded until its repair."""
    faults, begin_us = parse_recorded_faults(run["faults"]), int(run["begin_us"])
    marks = []
    for fault in faults:
        end = _repair_of(fault, faults)
        until_us = None if end is None else end.at_us - begin_us
        marks.append(fault_mark(_chart_name(fault), fault.at_us - begin_us, until_us))
    return marks


def _repair_of(fault: Fault, faults: Iterable[Fault]) -> Fault | None:
    later = (each for each in faults if each.at_us > fault.at_us)
    match fault:
        case Crash(replica=replica):
            return next((x for x in later if isinstance(x, Restart) and x.replica == replica), None)
        case Partition():
            return next((x for x in later if isinstance(x, Heal)), None)
        case _:
            return None


def _chart_name(fault: Fault) -> str:
    """Return a short name, for a chart."""
    match fault:
        case Crash(replica=replica):
            return f"kill {replica}"
        case Partition(groups=groups):
            return "cut " + "|".join(",".join(map(str, group)) for group in groups)
        case _:
            return fault_name(fault)


# --- in numbers ---------------------------------------------------------------------------------


def _comparison_table(evidence: Evidence, both: list[ReportRow]) -> dict[str, Any]:
    figures = [evidence.figures_of_run(run["run"]) for run in both]
    rows = [[label, *_cells(figures, row, column, unit)] for label, row, column, unit in TABLE_ROWS]
    return {"header": ["", "live", "simulated"][: len(both) + 1], "rows": rows}


def _cells(figures: list[dict[str, ReportRow]], row: str, column: str, unit: Unit) -> list[str]:
    """Return one figure of each run as text."""
    values = [each[row][column] if row in each else None for each in figures]
    if unit is Unit.MICROSECONDS:
        return [formatting.NO_VALUE if us is None else formatting.format_ms(us) for us in values]
    return [formatting.format_number(value, unit) for value in values]


def _verdict_text(evidence: Evidence, run: ReportRow) -> tuple[str, bool]:
    """Return the verdict as text, and True if all checkers report ok."""
    verdicts = [row["verdict"] for row in evidence.tables.verdicts if row["run"] == run["run"]]
    if not verdicts:
        return "the run was not verified", False
    ok, illegal = verdicts.count("ok"), verdicts.count("illegal")
    if ok == len(verdicts):
        return f"all {ok} checkers report ok", True
    unknown = len(verdicts) - ok - illegal
    counts = [f"{ok} of {len(verdicts)} checkers report ok"]
    counts += [f"{illegal} found a violation"] if illegal else []
    counts += [f"{unknown} could not decide"] if unknown else []
    return ", ".join(counts), False
