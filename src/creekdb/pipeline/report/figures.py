"""Figure 1 of the paper, redrawn, with the texts and controls of each drawing.

The drawings take the systems whose lines they contain, so that the report can repeat Figure 1 with
further systems.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Final, NamedTuple

from creekdb.pipeline.report import charts, formatting
from creekdb.pipeline.report.charts import Axis, ChartRows, ThroughputChart, curves
from creekdb.pipeline.report.charts.curves import ChartedSystem, CurveStyle
from creekdb.pipeline.report.evidence import Evidence
from creekdb.pipeline.report.paper import CREEK_ACCURACY, PEAKS_TPS
from creekdb.pipeline.report.quantities import Unit

LATENCY_AXIS_FACTOR: Final = 2.5
"""Upper end of the latency axis, as a multiple of the highest latency below saturation."""
LATENCY_AXIS_FLOOR: Final = 0.8
LATENCY_MEASURES: Final = {
    "mean": "{}_mean_us",
    "median": "{}_p50_us",
    "p95": "{}_p95_us",
    "p99": "{}_p99_us",
}
ACCURACY_MEASURES: Final = {"except order numbers": "accuracy", "exact": "exact_accuracy"}
EXECUTION_MEASURES: Final = {"executions": "execution_ratio"}
"""Measures by statistic. `{}` stands for the kind of response."""
DENSE_LOADS_MIN: Final = 8
"""Number of loads from which on a line shows its course."""
PEAK_LABEL_RATIO: Final = 1.3
"""Ratio up to which neighbouring peaks share one label position, stacked."""
PEAK_LABEL_GAP: Final = 4
"""Ratio to the next higher peak above which a label stands right of its rule."""


class Figure(NamedTuple):
    """Chart with its title and its controls."""

    key: str
    title: str
    chart: ThroughputChart
    choice: str = ""
    """Legend of the statistic control."""
    statistics: Mapping[str, list[float]] = {}
    """Ends of the value axis by statistic; empty without a choice."""

    @property
    def gaps(self) -> str:
        """Note on the loads that the grid leaves out; empty for dense lines up to saturation."""
        loads: dict[str, set[float]] = {}
        saturated = set()
        for row in self.chart.rows:
            loads.setdefault(row["line"], set()).add(row["throughput"])
            if row["saturated"]:
                saturated.add(row["line"])
        counts = [len(each) for each in loads.values()]
        notes = []
        if min(counts) < DENSE_LOADS_MIN:
            number = formatting.format_span(min(counts), max(counts), Unit.COUNT)
            notes.append(
                f"Each line connects {number} measured loads; its course between is unknown."
            )
        if unsaturated := len(loads.keys() - saturated):
            notes.append(f"{_lines_text(unsaturated, len(loads))} before saturation.")
        if notes:
            notes.append("The grid of the paper measures more loads.")
        return " ".join(notes)

    @property
    def x_kind(self) -> str:
        return "log" if self.chart.x.is_logarithmic else "linear"


def _lines_text(count: int, total: int) -> str:
    if count == total:
        return "All lines end"
    return "One line ends" if count == 1 else f"{count} lines end"


def figure_1a(evidence: Evidence, systems: Sequence[ChartedSystem]) -> Figure | None:
    lines = curves.latency_lines(systems)
    rows = curves.curve_rows(evidence, lines, Unit.MICROSECONDS, LATENCY_MEASURES)
    if not rows:
        return None
    ends = {name: _latency_domain(rows, name) for name in LATENCY_MEASURES}
    low, high = ends["mean"]
    title = f"{evidence.source} latency, ms"
    chart = ThroughputChart(
        rows,
        curves.lines_with_points(lines, rows),
        x=_throughput_axis(rows, logarithmic=True),
        y=Axis(title, charts.PLAIN_LABEL, [low, high], logarithmic=True, low=low, high=high),
        description=f"{evidence.source.capitalize()} latency against achieved throughput, "
        "by system and kind of response",
        value_label="latency",
        paper_peaks=_paper_peaks({system.scheme for system in systems}),
        statistic="mean",
    )
    return Figure("figure-1a", "Latency against throughput", chart, "Statistic", ends)


def figure_1b(evidence: Evidence, systems: Sequence[ChartedSystem]) -> Figure | None:
    speculating = [system for system in systems if system.scheme != "smr"]
    lines = curves.system_lines(speculating, "accuracy")
    rows = curves.curve_rows(evidence, lines, Unit.SHARE, ACCURACY_MEASURES)
    if not rows:
        return None
    ends = {name: _accuracy_domain(rows, name) for name in ACCURACY_MEASURES}
    statistic, (low, high) = next(iter(ends.items()))
    y = Axis(f"{evidence.source} accuracy", charts.PERCENT_LABEL, [low, high], low=low, high=high)
    chart = _linear_chart("accuracy", lines, rows, y)._replace(
        paper_band=CREEK_ACCURACY[5], statistic=statistic
    )
    return Figure("figure-1b", "Accuracy of speculation", chart, "Responses compared", ends)


def figure_1c(evidence: Evidence, systems: Sequence[ChartedSystem]) -> Figure | None:
    lines = curves.system_lines(systems, "execution_ratio")
    rows = curves.curve_rows(evidence, lines, Unit.RATIO, EXECUTION_MEASURES)
    if not rows:
        return None
    values = [row["value"] for row in rows] + [1.0]
    y = Axis(f"{evidence.source} executions", charts.PLAIN_LABEL, values)
    return Figure("figure-1c", "Execution ratio", _linear_chart("executions", lines, rows, y))


def draw_figures(
    evidence: Evidence, systems: Sequence[ChartedSystem] | None = None
) -> list[Figure]:
    """Return the parts of Figure 1 that the evidence covers.

    `systems`: the systems to draw; by default, each scheme in the default setup.
    """
    chosen = curves.systems_of(evidence.schemes) if systems is None else systems
    drawn = (draw(evidence, chosen) for draw in (figure_1a, figure_1b, figure_1c))
    return [figure for figure in drawn if figure is not None]


def _linear_chart(
    quantity: str, lines: list[CurveStyle], rows: ChartRows, y: Axis
) -> ThroughputChart:
    return ThroughputChart(
        rows,
        curves.lines_with_points(lines, rows),
        x=_throughput_axis(rows, logarithmic=False),
        y=y,
        description=f"{y.title.capitalize()} against achieved throughput, one line per system",
        value_label=quantity,
        height=charts.SMALL_FIGURE_HEIGHT,
    )


def _throughput_axis(rows: ChartRows, logarithmic: bool) -> Axis:
    throughputs = [row["throughput"] for row in rows if row["throughput"] > 0]
    low = None if logarithmic else 0.0
    title = "transactions per second"
    return Axis(title, charts.THOUSANDS_LABEL, throughputs, logarithmic, low=low)


def _latency_domain(rows: ChartRows, statistic: str) -> list[float]:
    chosen = [row for row in rows if row["statistic"] == statistic]
    unsaturated = [row["value"] for row in chosen if not row["saturated"]]
    values = unsaturated or [row["value"] for row in chosen]
    return [max(min(values) * LATENCY_AXIS_FLOOR, 0.001), max(values) * LATENCY_AXIS_FACTOR]


def _accuracy_domain(rows: ChartRows, statistic: str) -> list[float]:
    values = [row["value"] for row in rows if row["statistic"] == statistic]
    lowest = min([*values, CREEK_ACCURACY[5].low])
    margin = (1 - lowest) * charts.AXIS_MARGIN
    return [lowest - margin, 1 + margin]


def _paper_peaks(drawn: Set[str]) -> ChartRows:
    """Return a vertical rule at each peak in the paper, for the schemes that are drawn."""
    schemes: dict[float, list[str]] = {}
    for scheme, peak in PEAKS_TPS.items():
        if scheme in drawn:
            schemes.setdefault(peak, []).append(scheme)
    return [
        {
            "x": peak,
            "beside": min(other for other in schemes if other * PEAK_LABEL_RATIO > peak),
            "is_right": any(other > peak * PEAK_LABEL_GAP for other in schemes)
            and not any(peak < other <= peak * PEAK_LABEL_GAP for other in schemes),
            "row": 2 + 15 * row,
            "text": f"paper: {' and '.join(map(formatting.scheme_name, named))} {peak / 1000:g}k",
            "scheme": named[0],
        }
        for row, (peak, named) in enumerate(schemes.items())
    ]
