"""Figure 1 of the paper, redrawn, and what belongs beside each drawing in a page."""

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
"""How many times the highest latency below saturation the axis goes up to: beyond, curves only
strike up."""
LATENCY_AXIS_FLOOR: Final = 0.8
ACCURACY_MEASURES: Final = {"but for order numbers": "accuracy", "to the letter": "exact_accuracy"}
PEAK_LABEL_RATIO: Final = 1.3
"""Peaks that are not further apart are named beside the lowest of them, one below the other."""
PEAK_LABEL_GAP: Final = 4
"""A peak is named on its right where the next one is so many times as high."""


class Figure(NamedTuple):
    """A chart with its legend, its numbers and what can be done with it."""

    key: str
    title: str
    text: str
    spec: dict[str, Any]
    lines: list[CurveStyle]
    rows: ChartRows
    quantity: str
    choice: str
    """What can be chosen: of what is the value?"""
    statistics: dict[str, list[float]]
    """The choices, with the ends of the axis for each; empty where there is none."""
    x_kind: str
    x_kinds: dict[str, dict[str, Any]]
    """Its throughput can be shown on either kind of axis; this is how."""


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
    y = Axis("latency, ms", charts.PLAIN_LABEL, [low, high], logarithmic=True, low=low, high=high)
    spec = charts.throughput_chart(
        rows,
        lines,
        palette,
        x,
        y,
        description="Latency against achieved throughput, by system and kind of answer",
        tells="latency",
        marks=_paper_peak_marks(evidence, palette),
        statistic="mean",
        picture=picture,
    )
    return Figure(
        key="figure-1a",
        title="Latency against throughput",
        text="How long a client waits at its replica, as the system is asked for more. Where a "
        "line strikes up, the backlog begins to grow. Solid lines are stable answers, dashed ones "
        "tentative, dotted ones what a system could have answered but keeps to itself; circles are "
        "weak transactions, squares strong ones. A hollow mark was asked for more than it can do.",
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
    return _linear_figure(
        "figure-1b",
        "Accuracy of speculation",
        "How many weak transactions were answered at once with what turned out to be true. The "
        "shaded band is what the paper reports of Creek. It cannot have counted the numbers that "
        "orders are given: two orders of a district, placed within one network delay, are both "
        "told the next one.",
        "accuracy",
        lines,
        rows,
        palette,
        Axis("accuracy", charts.PERCENT_LABEL, [low, high], low=low, high=high),
        marks=[{"low": CREEK_ACCURACY[5].low, "high": CREEK_ACCURACY[5].high}],
        picture=picture,
        choice="Answers compared",
        statistics=ends,
    )


def figure_1c(evidence: Evidence, palette: Palette, picture: bool = False) -> Figure | None:
    lines, rows = _lines_with_points(
        lines := curves.scheme_lines(evidence.schemes, "execution_ratio"),
        curves.measure_rows(evidence, lines, Unit.RATIO),
    )
    if not rows:
        return None
    y = Axis("executions", charts.PLAIN_LABEL, [row["value"] for row in rows] + [1.0])
    return _linear_figure(
        "figure-1c",
        "Execution ratio",
        "How often a transaction is executed at a replica, on average. One is never twice: what is "
        "above it is work that was done in vain.",
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
    tells: str,
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
        description=f"{title} against achieved throughput, a line for each system",
        tells=tells,
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
        quantity=tells,
        choice=choice,
        statistics=statistics or {},
        x_kind="linear",
        x_kinds=x.both_scales("x"),
    )


def _lines_with_points(
    lines: list[CurveStyle], rows: ChartRows
) -> tuple[list[CurveStyle], ChartRows]:
    """Only lines that have a point."""
    there = {row["line"] for row in rows}
    return [line for line in lines if line.label in there], rows


def _throughput_axis(rows: ChartRows, logarithmic: bool) -> Axis:
    done = [row["throughput"] for row in rows if row["throughput"] > 0]
    low = None if logarithmic else 0.0
    return Axis("transactions per second", charts.THOUSANDS_LABEL, done, logarithmic, low=low)


def _latency_domain(rows: ChartRows, statistic: str) -> list[float]:
    chosen = [row for row in rows if row["statistic"] == statistic]
    calm = [row["value"] for row in chosen if not row["saturated"]] or [
        row["value"] for row in chosen
    ]
    return [max(min(calm) * LATENCY_AXIS_FLOOR, 0.001), max(calm) * LATENCY_AXIS_FACTOR]


def _accuracy_domain(rows: ChartRows, statistic: str) -> list[float]:
    values = [row["value"] for row in rows if row["statistic"] == statistic]
    lowest = min([*values, CREEK_ACCURACY[5].low])
    room = (1 - lowest) * charts.AXIS_MARGIN
    return [lowest - room, 1 + room]


def _paper_peak_marks(evidence: Evidence, palette: Palette) -> ChartRows:
    """An upright line at every peak of the paper, of systems that are there."""
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
