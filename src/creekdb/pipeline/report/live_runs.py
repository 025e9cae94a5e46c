"""Live runs, each with its counterpart: the simulated run of the same experiment.

A run is drawn over time from the start of its measurement window: throughput, latency, and the
tentative requests of each replica, with the faults marked. The simulation of the same load and the
same faults is drawn next to it, on the same axes.
"""

from collections.abc import Iterable
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

from creekdb.history import LIVE_SOURCE
from creekdb.pipeline.report import charts, formatting
from creekdb.pipeline.report.charts import Axis, ChartPanel, ChartRows
from creekdb.pipeline.report.charts.theme import DASHED, SOLID, Palette
from creekdb.pipeline.report.evidence import Evidence, ReportRow
from creekdb.pipeline.report.partitions import parse_recorded_faults, rows_by_run
from creekdb.pipeline.report.quantities import Unit
from creekdb.pipeline.schemas import ALL_KINDS
from creekdb.simulation.faults.fault_types import Crash, Fault, Heal, Partition, Restart
from creekdb.simulation.faults.language import describe_fault, format_fault

LIVE_RUNS_MAX: Final = 3
US_PER_S: Final = 1_000_000
WEAK_GROUP: Final = "weak, first response"
STRONG_GROUP: Final = "strong, stable"
RESPONSE_GROUPS: Final = {"weak_tentative": WEAK_GROUP, "strong_stable": STRONG_GROUP}
GROUP_DASHES: Final = {WEAK_GROUP: DASHED, STRONG_GROUP: SOLID}
LATENCY_AXIS: Final = "latency at each replica, median, ms"
TENTATIVE_AXIS: Final = "tentative at each replica"
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
MEASURE_ROWS: Final = (
    ("throughput", "throughput_tps", Unit.PER_SECOND),
    ("accuracy of first responses", "accuracy", Unit.SHARE),
    ("executions per transaction", "execution_ratio", Unit.RATIO),
)
LATENCY_ROWS: Final = (
    ("weak: first response", "weak_tentative"),
    ("weak: final response", "weak_stable"),
    ("strong: first response", "strong_tentative"),
    ("strong: stable response", "strong_stable"),
)
LATENCY_STATISTICS: Final = (("median", "p50_us"), ("p99", "p99_us"))


class LiveRun(NamedTuple):
    """Texts, panels and table of one live run."""

    title: str
    text: str
    faults: list[tuple[str, str]]
    """Time and description of each fault."""
    groups: dict[str, tuple[str, str]]
    """Colour and dash pattern of each group of lines."""
    columns: list[str]
    """Headings of panels and table: live, and simulated if there is a counterpart."""
    panels: list[list[ChartPanel]]
    """One row of panels per quantity."""
    table: dict[str, Any]
    verdict: str
    is_fine: bool


class LiveFigures(NamedTuple):
    """Figures of a live run that the headline states next to the simulated ones."""

    weak_us: float | None
    """Median latency of the first response to weak transactions, in microseconds."""
    strong_us: float | None
    """Median latency of the stable response to strong transactions, in microseconds."""
    accuracy: float | None


def draw_live_runs(evidence: Evidence, palette: Palette) -> list[LiveRun]:
    return [_draw_live_run(evidence, palette, run) for run in _selected_live_runs(evidence)]


def live_run_names(evidence: Evidence) -> set[str]:
    """Return the names of the shown live runs and of their counterparts."""
    live = _selected_live_runs(evidence)
    simulated = (counterpart_of(evidence, run) for run in live)
    return {run["run"] for run in (*live, *simulated) if run is not None}


def counterpart_of(evidence: Evidence, live: ReportRow) -> ReportRow | None:
    """Return the simulated run with equal parameters, ignoring the exact fault times, or None."""
    for run in evidence.tables.runs:
        is_alike = all(run[name] == live[name] for name in COUNTERPART_COLUMNS)
        if run["source"] != LIVE_SOURCE and is_alike and _fault_names(run) == _fault_names(live):
            return run
    return None


def live_figures(evidence: Evidence, scheme: str) -> LiveFigures | None:
    """Return the figures of the first live run of a scheme, or None."""
    runs = (run for run in _selected_live_runs(evidence) if run["scheme"] == scheme)
    run = next(runs, None)
    if run is None:
        return None
    measures = [row for row in evidence.tables.measures if row["run"] == run["run"]]
    medians = {
        row["answer"]: row["p50_us"]
        for row in evidence.tables.latencies
        if row["run"] == run["run"] and row["kind"] == ALL_KINDS
    }
    return LiveFigures(
        weak_us=medians.get("weak_tentative"),
        strong_us=medians.get("strong_stable"),
        accuracy=next((row["accuracy"] for row in measures), None),
    )


def summary_sentences(evidence: Evidence) -> list[str]:
    """Return the headline's sentence about the live cluster, if there is a live run."""
    runs = _selected_live_runs(evidence)
    if not runs:
        return []
    verdict, _ = _verdict_text(evidence, runs[0])
    faults = _faults_text(runs[0])
    return [
        f"The live cluster ran {runs[0]['replicas']} replicas as processes on one machine"
        f"{f', through {faults}' if faults else ''}: {verdict}."
    ]


def summary_lines(evidence: Evidence) -> list[str]:
    """Return one line per live run, for a terminal."""
    lines = []
    for run in _selected_live_runs(evidence):
        counterpart = counterpart_of(evidence, run)
        both = [run] if counterpart is None else [run, counterpart]
        rows = {label: cells for label, *cells in _comparison_table(evidence, both)["rows"]}
        latencies = [
            f"{name} {rows[f'{label}, median'][0]}"
            + (f" (simulated {rows[f'{label}, median'][1]})" if counterpart is not None else "")
            for name, label in (("weak", LATENCY_ROWS[0][0]), ("strong", LATENCY_ROWS[-1][0]))
        ]
        verdict, _ = _verdict_text(evidence, run)
        line = f"live cluster {run['run']}: median latency {', '.join(latencies)}; {verdict}"
        lines.append(line.replace(formatting.NO_BREAK_SPACE, " "))
    return lines


def _selected_live_runs(evidence: Evidence) -> list[ReportRow]:
    runs = [run for run in evidence.tables.runs if run["source"] == LIVE_SOURCE]
    return sorted(runs, key=lambda run: str(run["run"]))[:LIVE_RUNS_MAX]


def _fault_names(run: ReportRow) -> list[str]:
    return [_fault_name(each) for each in parse_recorded_faults(run["faults"])]


def _faults_text(run: ReportRow) -> str:
    names = {
        Crash: "a crash",
        Restart: "a restart",
        Partition: "a network partition",
        Heal: "a network repair",
    }
    kinds = dict.fromkeys(map(type, parse_recorded_faults(run["faults"])))
    listed = [names[kind] for kind in kinds if kind in names]
    return " and ".join(filter(None, (", ".join(listed[:-1]), *listed[-1:])))


# --- over time ----------------------------------------------------------------------------------


def _draw_live_run(evidence: Evidence, palette: Palette, run: ReportRow) -> LiveRun:
    counterpart = counterpart_of(evidence, run)
    both = [run] if counterpart is None else [run, counterpart]
    colours = {WEAK_GROUP: palette["good"], STRONG_GROUP: palette.scheme(run["scheme"])}
    verdict, is_fine = _verdict_text(evidence, run)
    load = "" if run["load_tps"] is None else f" at {formatting.format_throughput(run['load_tps'])}"
    seconds = (run["end_us"] - run["begin_us"]) / US_PER_S
    return LiveRun(
        title=f"{formatting.scheme_name(run['scheme'])}, {run['replicas']} replicas{load}",
        text=f"{seconds:.0f} seconds of TPC-C with {run['warehouses'] or 'no'} warehouses on "
        f"{run['cores']} cores, which replicas and clients share.",
        faults=[
            (
                f"{(each.at_us - run['begin_us']) / US_PER_S:.1f}{formatting.NO_BREAK_SPACE}s",
                describe_fault(each),
            )
            for each in parse_recorded_faults(run["faults"])
        ],
        groups={
            group: (colour, " ".join(map(str, GROUP_DASHES[group])))
            for group, colour in colours.items()
        },
        columns=["Live", "Simulated"][: len(both)],
        panels=_draw_panels(evidence, both, colours, palette),
        table=_comparison_table(evidence, both),
        verdict=verdict,
        is_fine=is_fine,
    )


def _draw_panels(
    evidence: Evidence, both: list[ReportRow], colours: dict[str, str], palette: Palette
) -> list[list[ChartPanel]]:
    """Draw one row of panels per quantity; the panels of a row have the same axes."""
    steps, samples = rows_by_run(evidence.tables.over_time), rows_by_run(evidence.tables.samples)
    replica = {"a replica": palette.scheme(both[0]["scheme"])}
    panel_rows = []
    for key, title, logarithmic, groups, rows in (
        (
            "throughput",
            "transactions per second",
            False,
            colours,
            [_throughput_points(steps, run) for run in both],
        ),
        ("latency", LATENCY_AXIS, True, colours, [_latency_points(steps, run) for run in both]),
        (
            "tentative",
            TENTATIVE_AXIS,
            False,
            replica,
            [_tentative_points(samples, run) for run in both],
        ),
    ):
        values = [row["value"] for each in rows for row in each]
        if not values:
            continue
        x = Axis("seconds", charts.PLAIN_LABEL, [0, _length_s(both[0])], low=0)
        low = None if logarithmic else 0.0
        y = Axis(title, charts.PLAIN_LABEL, values, logarithmic, low=low)
        panel_rows.append(
            [
                ChartPanel(
                    f"live-{key}-{run['run']}",
                    charts.timeline_chart(
                        points,
                        groups,
                        _fault_marks(run),
                        palette,
                        x,
                        y,
                        f"{title} over time, {run['source']}: {run['run']}",
                        GROUP_DASHES,
                    ),
                )
                for run, points in zip(both, rows, strict=True)
            ]
        )
    return panel_rows


def _length_s(run: ReportRow) -> float:
    return float(run["end_us"] - run["begin_us"]) / US_PER_S


def _throughput_points(steps: dict[str, list[ReportRow]], run: ReportRow) -> ChartRows:
    """Return responses per second over all replicas, by kind of response."""
    done: dict[tuple[str, int], int] = {}
    length_us = 1
    for row in steps.get(run["run"], ()):
        key = row["answer"], row["at_us"]
        done[key] = done.get(key, 0) + row["done"]
        length_us = row["length_us"]
    times = sorted({at_us for _, at_us in done})
    return [
        _point(RESPONSE_GROUPS[answer], answer, at_us, rate, formatting.format_throughput(rate))
        for answer in RESPONSE_GROUPS
        for at_us in times
        for rate in [done.get((answer, at_us), 0) * US_PER_S / length_us]
    ]


def _latency_points(steps: dict[str, list[ReportRow]], run: ReportRow) -> ChartRows:
    """Return the median of each replica. A gap of more than one step interrupts the line."""

    def key(row: ReportRow) -> tuple[str, int]:
        return row["answer"], row["replica"]

    measured = [row for row in steps.get(run["run"], ()) if row["p50_us"] is not None]
    points: ChartRows = []
    for (answer, replica), group in groupby(sorted(measured, key=key), key):
        rows = sorted(group, key=lambda row: int(row["at_us"]))
        segment = 0
        for previous, row in pairwise([rows[0], *rows]):
            segment += row["at_us"] - previous["at_us"] > 2 * row["length_us"]
            value = max(row["p50_us"] / 1000, LATENCY_MS_MIN)
            shown = formatting.format_ms(row["p50_us"])
            line = f"replica {replica}, {RESPONSE_GROUPS[answer]}"
            detail = f"{replica} {answer} {segment}"
            points.append(_point(RESPONSE_GROUPS[answer], detail, row["at_us"], value, shown, line))
    return points


def _tentative_points(samples: dict[str, list[ReportRow]], run: ReportRow) -> ChartRows:
    """Return the tentative requests of each replica. A crash interrupts the line."""
    begin_us, end_us = run["begin_us"], run["end_us"]
    crashes = [each for each in parse_recorded_faults(run["faults"]) if isinstance(each, Crash)]

    def incarnation(row: ReportRow) -> int:
        return sum(each.replica == row["replica"] and each.at_us < row["at_us"] for each in crashes)

    return [
        _point(
            "a replica",
            f"{row['replica']} {incarnation(row)}",
            row["at_us"] - begin_us,
            row["tentative"],
            formatting.format_number(row["tentative"], Unit.COUNT),
            f"replica {row['replica']}",
        )
        for row in sorted(samples.get(run["run"], ()), key=lambda row: int(row["at_us"]))
        if begin_us <= row["at_us"] <= end_us
    ]


def _point(
    group: str, detail: str, at_us: int, value: float, shown: str, line: str | None = None
) -> dict[str, Any]:
    return {
        "group": group,
        "replica": detail,
        "line": line or group,
        "at": at_us / US_PER_S,
        "value": value,
        "shown": shown,
        "when": f"{at_us / US_PER_S:.2f} s",
    }


def _fault_marks(run: ReportRow) -> ChartRows:
    """Return the marks of the faults; a fault is shaded until its repair."""
    faults = parse_recorded_faults(run["faults"])

    def seconds(fault: Fault) -> float:
        return (fault.at_us - int(run["begin_us"])) / US_PER_S

    return [
        {"at": seconds(each), "text": _fault_name(each)}
        | ({"until": seconds(end)} if (end := _repair_of(each, faults)) is not None else {})
        for each in faults
    ]


def _repair_of(fault: Fault, faults: Iterable[Fault]) -> Fault | None:
    later = (each for each in faults if each.at_us > fault.at_us)
    match fault:
        case Crash(replica=replica):
            return next((x for x in later if isinstance(x, Restart) and x.replica == replica), None)
        case Partition():
            return next((x for x in later if isinstance(x, Heal)), None)
        case _:
            return None


def _fault_name(fault: Fault) -> str:
    """Return a short name, for a chart."""
    match fault:
        case Crash(replica=replica):
            return f"kill {replica}"
        case Partition(groups=groups):
            return "cut " + "|".join(",".join(map(str, group)) for group in groups)
        case _:
            return format_fault(fault).partition(" at ")[0]


# --- in numbers ---------------------------------------------------------------------------------


def _comparison_table(evidence: Evidence, both: list[ReportRow]) -> dict[str, Any]:
    measures = {row["run"]: row for row in evidence.tables.measures}
    latencies = {
        (row["run"], row["answer"]): row
        for row in evidence.tables.latencies
        if row["kind"] == ALL_KINDS
    }
    rows = [
        [label, *(_cell(measures.get(run["run"]), name, unit) for run in both)]
        for label, name, unit in MEASURE_ROWS[:1]
    ]
    rows += [
        [
            f"{label}, {statistic}",
            *(_cell(latencies.get((run["run"], answer)), name, Unit.MICROSECONDS) for run in both),
        ]
        for label, answer in LATENCY_ROWS
        for statistic, name in LATENCY_STATISTICS
    ]
    rows += [
        [label, *(_cell(measures.get(run["run"]), name, unit) for run in both)]
        for label, name, unit in MEASURE_ROWS[1:]
    ]
    return {"header": ["", "live", "simulated"][: len(both) + 1], "rows": rows}


def _cell(row: ReportRow | None, name: str, unit: Unit) -> str:
    if row is None or row[name] is None:
        return formatting.NO_VALUE
    if unit is Unit.MICROSECONDS:
        return formatting.format_ms(row[name])
    return formatting.format_number(row[name], unit)


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
