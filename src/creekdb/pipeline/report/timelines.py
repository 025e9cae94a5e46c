"""Timelines of runs with faults (Section 6.4)."""

from typing import Any, Final, NamedTuple

from creekdb.pipeline.report import charts, formatting
from creekdb.pipeline.report.charts import Axis, ChartPanel, ChartRows
from creekdb.pipeline.report.charts.theme import Palette
from creekdb.pipeline.report.evidence import Evidence, ReportRow
from creekdb.pipeline.report.live_runs import live_run_names
from creekdb.pipeline.report.partitions import (
    FaultMarker,
    PartitionedRun,
    fault_markers,
    partitioned_runs,
    rows_by_run,
)
from creekdb.pipeline.report.quantities import Unit

TIMELINES_MAX: Final = 6
SAMPLES_MAX: Final = 250
"""Upper bound for the points drawn per replica."""
ALL_REPLICAS: Final = "all replicas"
MAJORITY: Final = "in the majority"
MINORITY: Final = "outside the majority"
US_PER_S: Final = 1_000_000


class Timeline(NamedTuple):
    """Panels of one run with faults."""

    run: str
    title: str
    faults: str
    panels: list[ChartPanel]
    groups: dict[str, str]


def draw_timelines(evidence: Evidence, palette: Palette) -> list[Timeline]:
    """Draw one timeline per experiment with faults, of its lowest seed.

    Live runs and their counterparts are excluded; the live section shows them.
    """
    samples_of = rows_by_run(evidence.tables.samples)
    excluded = live_run_names(evidence)
    partitioned = {each.run: each for each in partitioned_runs(evidence.tables)}
    timelines: dict[tuple[Any, ...], Timeline] = {}
    for run in sorted(evidence.tables.runs, key=lambda run: (run["seed"], run["run"])):
        if run["run"] in excluded:
            continue
        key = (run["scheme"], run["faults"], run["load_tps"], run["replicas"])
        samples = samples_of.get(run["run"])
        if run["faults"] and samples and key not in timelines and len(timelines) < TIMELINES_MAX:
            timelines[key] = _timeline(run, samples, partitioned.get(run["run"]), palette)
    return sorted(timelines.values(), key=lambda each: each.title)


def _timeline(
    run: ReportRow, samples: list[ReportRow], split: PartitionedRun | None, palette: Palette
) -> Timeline:
    fault_marks = _fault_marks(fault_markers(run["faults"]), split)
    colours = (
        {ALL_REPLICAS: palette.scheme(run["scheme"])}
        if split is None
        else {MAJORITY: palette.scheme(run["scheme"]), MINORITY: palette["warning"]}
    )
    panels = []
    for column, title in (("tentative", "tentative"), ("committed", "committed")):
        rows = _chart_rows(samples, column, split)
        x = Axis("seconds", charts.PLAIN_LABEL, [row["at"] for row in rows], low=0)
        y = Axis(title, charts.THOUSANDS_LABEL, [row["value"] for row in rows] + [0.0], low=0)
        description = f"Number of {title} operations at each replica over time, in {run['run']}"
        spec = charts.timeline_chart(rows, colours, fault_marks, palette, x, y, description)
        panels.append(ChartPanel(f"timeline-{run['run']}-{column}", spec))
    load = "" if run["load_tps"] is None else f" at {formatting.format_throughput(run['load_tps'])}"
    return Timeline(
        run=run["run"],
        title=f"{formatting.scheme_name(run['scheme'])}{load}, {run['source']}",
        faults=run["faults"],
        panels=panels,
        groups=colours,
    )


def _chart_rows(samples: list[ReportRow], column: str, split: PartitionedRun | None) -> ChartRows:
    times = sorted({row["at_us"] for row in samples})
    every = -(-len(times) // SAMPLES_MAX)
    selected = set(times[::every]) | set(times[-1:])
    return [
        {
            "line": f"replica {row['replica']}, {group}",
            "replica": row["replica"],
            "group": group,
            "at": row["at_us"] / US_PER_S,
            "value": row[column],
            "shown": formatting.format_number(row[column], Unit.COUNT),
            "when": f"{row['at_us'] / US_PER_S:.2f} s",
        }
        for row in sorted(samples, key=lambda row: (row["replica"], row["at_us"]))
        if row["at_us"] in selected
        for group in [_replica_group(row["replica"], split)]
    ]


def _replica_group(replica: int, split: PartitionedRun | None) -> str:
    if split is None:
        return ALL_REPLICAS
    return MAJORITY if replica in split.majority else MINORITY


def _fault_marks(markers: list[FaultMarker], split: PartitionedRun | None) -> ChartRows:
    """Return the marks of the faults; a partition is shaded until it heals."""
    return [
        {"at": each.at_us / US_PER_S, "text": each.text.partition(" at ")[0]}
        | (
            {"until": split.healed_us / US_PER_S}
            if split is not None and each.at_us == split.split_us
            else {}
        )
        for each in markers
    ]
