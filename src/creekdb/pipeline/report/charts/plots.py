"""The four chart types.

- `parameter_chart`: small multiple of one measure by the value of a parameter.
- `scatter_chart`: small multiple of numbered points by two measures.
- `timeline_chart`: one line per replica over time, with faults marked.
- `ThroughputChart`: curves against throughput, with the paper's values behind them.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import altair as alt

from creekdb.pipeline.report.charts.curves import CurveStyle
from creekdb.pipeline.report.charts.layers import (
    ROWS_DATA,
    Axis,
    ChartRows,
    chart_spec,
    hollow_fill,
    layer_charts,
    legend_chart,
    line_encodings,
    nearest_point,
    shape_encoding,
    styled,
    tooltip,
)
from creekdb.pipeline.report.charts.theme import DASHES, Dash, Palette
from creekdb.pipeline.report.quantities import Band

MULTIPLE_HEIGHT: Final = 170


def parameter_chart(
    rows: ChartRows,
    lines: list[CurveStyle],
    palette: Palette,
    y: Axis,
    values: list[str],
    description: str,
) -> dict[str, Any]:
    """Return a small multiple: a measure by parameter value, with a stroke at the paper's value."""
    base = (
        alt.Chart(ROWS_DATA)
        .transform_filter("indexof(hidden, datum.line) < 0")
        .encode(
            x=alt.X(
                "parameter:N",
                sort=values,
                scale=alt.Scale(paddingOuter=0.35),
                axis=alt.Axis(title=None, labelAngle=0, labelOverlap=False),
            ),
            y=y.encode(alt.Y, "value", 4),
            color=line_encodings(lines, palette)["color"],
        )
    )
    paper_strokes = (
        base.transform_filter("isValid(datum.paper)")
        .mark_point(shape="stroke", size=420, strokeWidth=2, opacity=0.75, aria=False)
        .encode(y=alt.Y("paper:Q"))
    )
    chart = layer_charts(
        base.mark_line(strokeWidth=1.5, opacity=0.6, aria=False).encode(
            strokeDash=line_encodings(lines, palette)["strokeDash"]
        ),
        *([paper_strokes] if any(row["paper"] is not None for row in rows) else []),
        base.mark_point(size=64, opacity=1, strokeWidth=1.5).encode(
            shape=shape_encoding(lines),
            fill=hollow_fill("datum.bound", lines, palette),
            tooltip=tooltip(line="line", shown="value", paper_text="paper", seeds="seeds"),
        ),
    )
    parameters = [*y.parameters("y"), alt.param(name="hidden", value=[])]
    return chart_spec(chart, rows, palette, parameters, description, MULTIPLE_HEIGHT)


def scatter_chart(
    rows: ChartRows, palette: Palette, x: Axis, y: Axis, description: str
) -> dict[str, Any]:
    """Return a small multiple: points by two measures, each with the number of its system."""
    base = alt.Chart(ROWS_DATA).encode(x=x.encode(alt.X, "x", 4), y=y.encode(alt.Y, "y", 4))
    chart = layer_charts(
        base.mark_point(filled=True, size=64, opacity=1, color=palette["accent"]).encode(
            tooltip=tooltip(name="extensions", stable=x.title, ratio=y.title, seeds="seeds")
        ),
        base.mark_text(align="left", dx=8, dy=-6, color=palette["ink"], aria=False).encode(
            text="label:N"
        ),
    )
    parameters = [*x.parameters("x"), *y.parameters("y")]
    return chart_spec(chart, rows, palette, parameters, description, MULTIPLE_HEIGHT)


TIMELINE_HEIGHT: Final = 200
US_PER_S: Final = 1_000_000


class LineGroup(NamedTuple):
    """Colour and dash pattern of the lines of one group."""

    colour: str
    dash: Dash = DASHES["solid"]


def timeline_row(
    group: str, detail: str, at_us: int, value: float, shown: str, line: str
) -> dict[str, Any]:
    """Return a point of a timeline. Points with equal `detail` form a line."""
    return {
        "group": group,
        "replica": detail,
        "line": line,
        "at": at_us / US_PER_S,
        "value": value,
        "shown": shown,
        "when": f"{at_us / US_PER_S:.2f} s",
    }


def timeline_chart(
    rows: ChartRows,
    groups: dict[str, LineGroup],
    fault_marks: ChartRows,
    palette: Palette,
    x: Axis,
    y: Axis,
    description: str,
) -> dict[str, Any]:
    """Return a chart over time with one line per replica."""
    base = alt.Chart(ROWS_DATA).encode(
        x=x.encode(alt.X, "at", 8),
        y=y.encode(alt.Y, "value", 4),
        detail="replica:N",
        color=styled(alt.Color, "group", {name: each.colour for name, each in groups.items()}),
        strokeDash=styled(
            alt.StrokeDash, "group", {name: each.dash or [1, 0] for name, each in groups.items()}
        ),
    )
    nearest = nearest_point()
    faults = alt.Chart(alt.InlineData(values=fault_marks)).encode(x="at:Q")
    chart = layer_charts(
        faults.mark_rect(clip=True, color=palette["wash"], aria=False)
        .transform_filter("isValid(datum.until)")
        .encode(x2="until:Q"),
        faults.mark_rule(clip=True, strokeDash=[1, 3], color=palette["soft"], aria=False),
        faults.mark_text(clip=True, align="left", baseline="top", dx=5, aria=False).encode(
            y=alt.value(2), text="text:N"
        ),
        base.mark_line(clip=True, strokeWidth=1.6, opacity=0.85),
        base.mark_point(clip=True, filled=True, size=70)
        .encode(
            strokeDash=alt.value([1, 0]),
            opacity=alt.condition(nearest, alt.value(1), alt.value(0)),
            tooltip=tooltip(line="line", shown=y.title, when="at"),
        )
        .add_params(nearest),
    )
    parameters = [*x.parameters("x"), *y.parameters("y")]
    return chart_spec(chart, rows, palette, parameters, description, TIMELINE_HEIGHT)


FIGURE_HEIGHT: Final = 420
SMALL_FIGURE_HEIGHT: Final = 300


class ThroughputChart(NamedTuple):
    """Curves with points, confidence intervals, and the paper's values behind them."""

    rows: ChartRows
    lines: list[CurveStyle]
    x: Axis
    y: Axis
    description: str
    value_label: str
    """Name of the value in tooltips."""
    height: int = FIGURE_HEIGHT
    paper_band: Band | None = None
    paper_peaks: Sequence[dict[str, Any]] = ()
    """Throughputs with their labels and schemes."""
    statistic: str | None = None
    """Statistic that is selected initially, if the rows contain several."""

    def spec(self, palette: Palette) -> dict[str, Any]:
        """Return the chart for the page."""
        nearest = nearest_point()
        size = alt.condition(nearest, alt.value(150), alt.value(46))
        points = self._points(palette).encode(size=size).add_params(nearest)
        return self._spec(palette, points)

    def picture_spec(self, palette: Palette) -> dict[str, Any]:
        """Return the chart for a picture file: with a legend, and without hidden lines."""
        lines = [line for line in self.lines if line.shown]
        labels = {line.label for line in lines}
        rows = [row for row in self.rows if row["line"] in labels]
        shown = self._replace(rows=rows, lines=lines)
        points = shown._points(palette).encode(size=alt.value(46))
        return shown._spec(palette, points, legend_chart(lines, palette))

    def _spec(
        self, palette: Palette, points: alt.Chart, legend: alt.LayerChart | None = None
    ) -> dict[str, Any]:
        base = self._base(palette)
        interval = (
            base.transform_filter("isValid(datum.low) && !datum.saturated")
            .mark_rule(clip=True, opacity=0.5, strokeWidth=1.5, strokeDash=[], aria=False)
            .encode(y=alt.Y("low:Q"), y2="high:Q", strokeDash=alt.value([1, 0]))
        )
        curve = base.mark_line(clip=True, strokeWidth=2).encode(order="throughput:Q")
        layers = [interval, curve, points, *self._end_labels(palette)]
        if self.paper_band is not None:
            layers.insert(0, _paper_band(self.paper_band, palette))
        if self.paper_peaks:
            rules, *labels = _paper_peaks(self.paper_peaks, palette)
            layers = [rules, *layers, *labels]
        parameters = [
            *self.x.parameters("x"),
            *self.y.parameters("y"),
            alt.param(name="hidden", value=[]),
        ]
        if self.statistic is not None:
            parameters.append(alt.param(name="statistic", value=self.statistic))
        return chart_spec(
            layer_charts(*layers),
            label_ends(self.rows, self.x, self.y, self.height),
            palette,
            parameters,
            self.description,
            self.height,
            legend,
        )

    def _base(self, palette: Palette) -> alt.Chart:
        encoded: alt.Chart = self._points_on_axes().encode(**line_encodings(self.lines, palette))
        return encoded

    def _points_on_axes(self) -> alt.Chart:
        """Return the visible rows of the chosen statistic, placed on both axes."""
        base = alt.Chart(ROWS_DATA).transform_filter("indexof(hidden, datum.line) < 0")
        if self.statistic is not None:
            base = base.transform_filter("datum.statistic === statistic")
        encoded: alt.Chart = base.encode(
            x=self.x.encode(alt.X, "throughput", 8),
            y=self.y.encode(alt.Y, "value", 6),
        )
        return encoded

    def _end_labels(self, palette: Palette) -> tuple[alt.Chart, alt.Chart]:
        """Return the names of the lines at their last points, outlined for legibility."""
        ends = self._points_on_axes().transform_filter("isValid(datum.shift)")
        colour = line_encodings(self.lines, palette)["color"]
        style: dict[str, Any] = {
            "clip": True,
            "aria": False,
            "baseline": "middle",
            "fontSize": END_LABEL_SIZE_PX,
            "align": alt.ExprRef("datum.is_right ? 'left' : 'right'"),
            "dx": alt.ExprRef("datum.is_right ? 9 : -9"),
            "dy": alt.ExprRef("datum.shift"),
        }
        outlined = ends.mark_text(
            stroke=palette["background"], strokeWidth=4, strokeJoin="round", **style
        ).encode(text="line:N")
        return outlined, ends.mark_text(**style).encode(text="line:N", color=colour)

    def _points(self, palette: Palette) -> alt.Chart:
        points: alt.Chart = self._base(palette).mark_point(clip=True, opacity=1, strokeWidth=2)
        return points.encode(
            strokeDash=alt.value([1, 0]),
            fill=hollow_fill("datum.saturated", self.lines, palette),
            shape=shape_encoding(self.lines),
            tooltip=tooltip(
                line="line",
                shown=self.value_label,
                interval="interval",
                achieved="throughput",
                offered="offered load",
            ),
        )


END_LABEL_SIZE_PX: Final = 11
END_LABEL_GAP_PX: Final = 13
"""Smallest vertical distance of two labels."""
END_LABEL_WIDTH_SHARE: Final = 0.3
"""Horizontal distance from which on two labels cannot overlap, as a share of the axis."""
END_LABEL_RIGHT_SHARE_MAX: Final = 0.75
"""Position on the axis up to which a label fits on the right of its point."""
END_LABEL_LEFT_SHARE_MIN: Final = 0.2
"""Position on the axis from which on a label fits on the left of its point."""
END_LABEL_OFFSET_PX: Final = 13
"""Vertical distance of a label from its point, where the line may pass beside the point."""


def label_ends(rows: ChartRows, x: Axis, y: Axis, height_px: int) -> ChartRows:
    """Return the rows, with the place of a label for one end of each line.

    Lines over a logarithmic axis are labelled at their first point, because they rise steeply
    before the last one. `shift` moves a label down, in pixels, so that labels do not overlap.
    `is_right` is the side of the label.
    """
    labelled = [dict(row) for row in rows]
    placed: list[tuple[Any, float, float]] = []
    for index in sorted(_ends(rows, x), key=lambda each: -rows[each]["value"]):
        row = labelled[index]
        across = x.share(row["throughput"])
        if x.is_logarithmic:
            is_right = across < END_LABEL_LEFT_SHARE_MIN
            offset = -END_LABEL_OFFSET_PX if is_right else 0
        else:
            is_right, offset = across <= END_LABEL_RIGHT_SHARE_MAX, END_LABEL_OFFSET_PX
        point = height_px * (1 - min(max(y.share(row["value"]), 0.0), 1.0))
        down = point + offset
        for statistic, other_across, other_down in placed:
            is_near = abs(across - other_across) < END_LABEL_WIDTH_SHARE
            if statistic == row["statistic"] and is_near:
                down = max(down, other_down + END_LABEL_GAP_PX)
        placed.append((row["statistic"], across, down))
        row["shift"], row["is_right"] = round(down - point, 1), is_right
    return labelled


def _ends(rows: ChartRows, x: Axis) -> list[int]:
    """Return the indices of the rows whose points receive the labels."""
    ends: dict[tuple[Any, Any], int] = {}
    for index, row in enumerate(rows):
        known = ends.setdefault((row["statistic"], row["line"]), index)
        is_later = row["throughput"] > rows[known]["throughput"]
        if is_later != x.is_logarithmic and index != known:
            ends[row["statistic"], row["line"]] = index
    return list(ends.values())


def _paper_band(band: Band, palette: Palette) -> alt.Chart:
    chart: alt.Chart = alt.Chart(alt.InlineData(values=[band._asdict()]))
    chart = chart.mark_rect(clip=True, opacity=0.5, color=palette["wash"], aria=False)
    return chart.encode(y=alt.Y("low:Q"), y2="high:Q")


def _paper_peaks(peaks: Sequence[dict[str, Any]], palette: Palette) -> tuple[alt.Chart, ...]:
    """Return a vertical rule for each peak, and its label, outlined for legibility.

    A label is right or left of its rule. Curves approach a peak from the left.
    """
    rows = [peak | {"colour": palette.scheme(peak["scheme"])} for peak in peaks]
    base, colour = alt.Chart(alt.InlineData(values=rows)), alt.Color("colour:N", scale=None)
    rules = base.mark_rule(clip=True, strokeDash=[1, 3], opacity=0.8, aria=False)
    labels = base.encode(x="beside:Q", y=alt.Y("row:Q", scale=None), text="text:N")
    style: dict[str, Any] = {
        "clip": True,
        "baseline": "top",
        "aria": False,
        "align": alt.ExprRef("datum.is_right ? 'left' : 'right'"),
        "dx": alt.ExprRef("datum.is_right ? 6 : -6"),
    }
    outlined = labels.mark_text(
        stroke=palette["background"], strokeWidth=5, strokeJoin="round", **style
    )
    named = labels.mark_text(**style).encode(color=colour)
    return rules.encode(x="x:Q", color=colour), outlined, named
