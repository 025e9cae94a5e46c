"""Timelines of runs with faults (Section 6.4)."""

from typing import Any, Final, NamedTuple

from creekdb.pipeline.report import charts, formatting
from creekdb.pipeline.report.charts import Axis, ChartPanel, ChartRows, LineGroup
from creekdb.pipeline.report.charts.theme import Palette
from creekdb.pipeline.report.evidence import Evidence, ReportRow
from creekdb.pipeline.report.live_runs import live_run_names
from creekdb.pipeline.report.partitions import (
    PartitionedRun,
    fault_mark,
    fault_name,
    parse_recorded_faults,
    partitioned_runs,
    rows_by,
)
from creekdb.pipeline.report.quantities import Unit

TIMELINES_MAX: Final = 6
SAMPLES_MAX: Final = 250
"""Upper bound for the points drawn per replica."""
ALL_REPLICAS: Final = "all replicas"
MAJORITY: Final = "in the majority"
MINORITY: Final = "outside the majority"


class Timeline(NamedTuple):
    """Panels of one run with faults."""

    row: ReportRow
    title: str
    panels: list[ChartPanel]
    groups: dict[str, LineGroup]


def draw_timelines(evidence: Evidence, palette: Palette) -> list[Timeline]:
    """Draw one timeline per experiment with faults, of its lowest seed.

    Live runs and their counterparts are excluded; the live section shows them.
    """
    samples_of = rows_by("run", evidence.tables.samples)
    excluded = live_run_names(evidence)
    partitioned = partitioned_runs(evidence.tables)
    timelines: dict[tuple[Any, ...], Timeline] = {}
    for run in sorted(evidence.tables.runs, key=lambda run: (run["seed"], run["run"])):
        if run["run"] in excluded:
            continue
        key = (run["scheme"], run["faults"], run["load_tps"], run["replicas"])
        samples = samples_of[run["run"]]
        if run["faults"] and samples and key not in timelines and len(timelines) < TIMELINES_MAX:
            timelines[key] = _timeline(run, samples, partitioned.get(run["run"]), palette)
    return sorted(timelines.values(), key=lambda each: each.title)


def _timeline(
    run: ReportRow, samples: list[ReportRow], split: PartitionedRun | None, palette: Palette
) -> Timeline:
    scheme = LineGroup(palette.scheme(run["scheme"]))
    groups = (
        {ALL_REPLICAS: scheme}
        if split is None
        else {MAJORITY: scheme, MINORITY: LineGroup(palette["warning"])}
    )
    panels = []
    for column in ("tentative", "committed"):
        rows = _chart_rows(samples, column, split)
        x = Axis("seconds", charts.PLAIN_LABEL, [row["at"] for row in rows], low=0)
        y = Axis(column, charts.THOUSANDS_LABEL, [row["value"] for row in rows] + [0.0], low=0)
        description = f"Number of {column} operations at each replica over time, in {run['run']}"
        marks = _fault_marks(run, split)
        spec = charts.timeline_chart(rows, groups, marks, palette, x, y, description)
        panels.append(ChartPanel(f"timeline-{run['run']}-{column}", spec))
    title = f"{formatting.scheme_name(run['scheme'])}{formatting.format_load(run)}, {run['source']}"
    return Timeline(run, title, panels, groups)


def _chart_rows(samples: list[ReportRow], column: str, split: PartitionedRun | None) -> ChartRows:
    times = sorted({row["at_us"] for row in samples})
    every = -(-len(times) // SAMPLES_MAX)
    selected = set(times[::every]) | set(times[-1:])
    return [
        charts.timeline_row(
            group,
            row["replica"],
            row["at_us"],
            row[column],
            formatting.format_number(row[column], Unit.COUNT),
            f"replica {row['replica']}, {group}",
        )
        for row in sorted(samples, key=lambda row: (row["replica"], row["at_us"]))
        if row["at_us"] in selected
        for group in [_replica_group(row["replica"], split)]
    ]


def _replica_group(replica: int, split: PartitionedRun | None) -> str:
    if split is None:
        return ALL_REPLICAS
    return MAJORITY if replica in split.majority else MINORITY


def _fault_marks(run: ReportRow, split: PartitionedRun | None) -> ChartRows:
    """Return the marks of the faults; a partition is shaded until it heals."""
    marks = []
    for fault in parse_recorded_faults(run["faults"]):
        until_us = split.healed_us if split and fault.at_us == split.split_us else None
        marks.append(fault_mark(fault_name(fault), fault.at_us, until_us))
    return marks
