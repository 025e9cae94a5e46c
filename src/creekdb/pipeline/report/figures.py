"""Figure 1 of the paper, redrawn, with the texts and controls of each drawing."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from creekdb.pipeline.report import charts, formatting
from creekdb.pipeline.report.charts import Axis, ChartRows, curves
from creekdb.pipeline.report.charts.curves import CurveStyle
from creekdb.pipeline.report.charts.theme import Palette
from creekdb.pipeline.report.evidence import Evidence
from creekdb.pipeline.report.paper.reference_values import CREEK_ACCURACY, PEAKS_TPS
from creekdb.pipeline.report.quantities import Unit

LATENCY_AXIS_FACTOR: Final = 2.5
"""Upper end of the latency axis, as a multiple of the highest latency below saturation."""
LATENCY_AXIS_FLOOR: Final = 0.8
ACCURACY_MEASURES: Final = {"except order numbers": "accuracy", "exact": "exact_accuracy"}
PEAK_LABEL_RATIO: Final = 1.3
"""Ratio up to which neighbouring peaks share one label position, stacked."""
PEAK_LABEL_GAP: Final = 4
"""Ratio to the next higher peak above which a label stands right of its rule."""


class Figure(NamedTuple):
    """Chart with its legend, its rows and its controls."""

    key: str
    title: str
    text: str
    spec: dict[str, Any]
    lines: list[CurveStyle]
    rows: ChartRows
    quantity: str
    choice: str
    """Legend of the statistic control."""
    statistics: dict[str, list[float]]
    """Ends of the value axis by statistic; empty without a choice."""
    x_kind: str
    x_kinds: dict[str, dict[str, Any]]
    """Domain and ticks of the throughput axis by scale type."""


FigureFunction = Callable[[Evidence, Palette, bool], Figure | None]


def figure_1a(evidence: Evidence, palette: Palette, picture: bool = False) -> Figure | None:
    lines, rows = _lines_with_points(
        lines := curves.latency_lines(evidence.schemes), curves.latency_rows(evidence, lines)
    )
    if not rows:
        return None
    x = _throughput_axis(rows, logarithmic=True)
    ends = {name: _latency_domain(rows, name) for name in curves.STATISTICS}
    low, high = ends["mean"]
    title = f"{evidence.source} latency, ms"
    y = Axis(title, charts.PLAIN_LABEL, [low, high], logarithmic=True, low=low, high=high)
    spec = charts.throughput_chart(
        rows,
        lines,
        palette,
        x,
        y,
        description=f"{evidence.source.capitalize()} latency against achieved throughput, "
        "by system and kind of response",
        value_label="latency",
        marks=_paper_peak_marks(evidence, palette),
        statistic="mean",
        picture=picture,
    )
    return Figure(
        key="figure-1a",
        title="Latency against throughput",
        text="Latency at the replica of the client, by load. Where a line rises steeply, the "
        "backlog starts to grow. Solid lines are stable responses, dashed lines tentative ones, "
        "and dotted lines responses that a system computes but withholds. Circles are weak "
        "transactions, squares strong ones. A hollow mark is a saturated run.",
        spec=spec,
        lines=lines,
        rows=rows,
        quantity="latency",
        choice="Statistic",
        statistics=ends,
        x_kind="log",
        x_kinds=x.both_scales("x"),
    )


def figure_1b(evidence: Evidence, palette: Palette, picture: bool = False) -> Figure | None:
    speculating = [scheme for scheme in evidence.schemes if scheme != "smr"]
    lines = curves.scheme_lines(speculating, "accuracy")
    rows = [
        row | {"statistic": name}
        for name, measure in ACCURACY_MEASURES.items()
        for row in curves.measure_rows(
            evidence, [line._replace(measure=measure) for line in lines], Unit.SHARE
        )
    ]
    lines, rows = _lines_with_points(lines, rows)
    if not rows:
        return None
    ends = {name: _accuracy_domain(rows, name) for name in ACCURACY_MEASURES}
    low, high = next(iter(ends.values()))
    axis_title = f"{evidence.source} accuracy"
    return _linear_figure(
        "figure-1b",
        "Accuracy of speculation",
        "Share of weak transactions whose first response equals the final one. The shaded band is "
        "the paper’s range for Creek. The paper must exclude order numbers: two orders of a "
        "district, placed within one network delay, both receive the same number at first.",
        "accuracy",
        lines,
        rows,
        palette,
        Axis(axis_title, charts.PERCENT_LABEL, [low, high], low=low, high=high),
        marks=[{"low": CREEK_ACCURACY[5].low, "high": CREEK_ACCURACY[5].high}],
        picture=picture,
        choice="Responses compared",
        statistics=ends,
    )


def figure_1c(evidence: Evidence, palette: Palette, picture: bool = False) -> Figure | None:
    lines, rows = _lines_with_points(
        lines := curves.scheme_lines(evidence.schemes, "execution_ratio"),
        curves.measure_rows(evidence, lines, Unit.RATIO),
    )
    if not rows:
        return None
    axis_title = f"{evidence.source} executions"
    y = Axis(axis_title, charts.PLAIN_LABEL, [row["value"] for row in rows] + [1.0])
    return _linear_figure(
        "figure-1c",
        "Execution ratio",
        "Mean number of executions of a transaction per replica. Every execution beyond the first "
        "follows a rollback.",
        "executions",
        lines,
        rows,
        palette,
        y,
        marks=[],
        picture=picture,
    )


FIGURES: Final[tuple[FigureFunction, ...]] = (figure_1a, figure_1b, figure_1c)


def _linear_figure(
    key: str,
    title: str,
    text: str,
    quantity: str,
    lines: list[CurveStyle],
    rows: ChartRows,
    palette: Palette,
    y: Axis,
    marks: ChartRows,
    picture: bool,
    choice: str = "",
    statistics: dict[str, list[float]] | None = None,
) -> Figure:
    x = _throughput_axis(rows, logarithmic=False)
    spec = charts.throughput_chart(
        rows,
        lines,
        palette,
        x,
        y,
        description=f"{y.title.capitalize()} against achieved throughput, one line per system",
        value_label=quantity,
        marks=marks,
        statistic=next(iter(statistics)) if statistics else None,
        height=charts.SMALL_FIGURE_HEIGHT,
        picture=picture,
    )
    return Figure(
        key=key,
        title=title,
        text=text,
        spec=spec,
        lines=lines,
        rows=rows,
        quantity=quantity,
        choice=choice,
        statistics=statistics or {},
        x_kind="linear",
        x_kinds=x.both_scales("x"),
    )


def _lines_with_points(
    lines: list[CurveStyle], rows: ChartRows
) -> tuple[list[CurveStyle], ChartRows]:
    """Drop lines without a point."""
    labels = {row["line"] for row in rows}
    return [line for line in lines if line.label in labels], rows


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


def _paper_peak_marks(evidence: Evidence, palette: Palette) -> ChartRows:
    """Return a vertical rule at each peak in the paper, for the schemes of the evidence."""
    schemes: dict[float, list[str]] = {}
    for scheme, peak in PEAKS_TPS.items():
        if scheme in evidence.schemes:
            schemes.setdefault(peak, []).append(scheme)
    return [
        {
            "x": peak,
            "beside": min(other for other in schemes if other * PEAK_LABEL_RATIO > peak),
            "is_right": any(other > peak * PEAK_LABEL_GAP for other in schemes)
            and not any(peak < other <= peak * PEAK_LABEL_GAP for other in schemes),
            "row": 2 + 15 * row,
            "text": f"paper: {' and '.join(map(formatting.scheme_name, named))} {peak / 1000:g}k",
            "colour": palette.scheme(named[0]),
        }
        for row, (peak, named) in enumerate(schemes.items())
    ]
