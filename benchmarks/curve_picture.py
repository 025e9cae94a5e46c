"""Latency over load as a picture: the median above, the 99th percentile below, on the same scales.

The picture follows the report's style. The colour denotes the system. Circles are weak puts,
squares strong ones, diamonds those of systems with one kind. Tentative responses are dashed. A bar
behind a point spans the range of the rounds. Both axes are logarithmic. A system that no longer
keeps up has a hollow point or leaves the picture at the top, because its latency there only
reflects the duration of the measurement.
"""

from math import ceil, floor, log, log10
from typing import Any, Final, NamedTuple

import altair as alt
import vl_convert

from benchmarks.curve_figures import NAMES, Figures, Point
from creekdb.pipeline.report.charts import PLAIN_LABEL, THOUSANDS_LABEL
from creekdb.pipeline.report.charts.layers import PICTURE_WIDTH, ROUND_STEPS
from creekdb.pipeline.report.charts.theme import (
    DASHES,
    Dash,
    Palette,
    chart_config,
    picture_palette,
)
from creekdb.pipeline.report.page import VEGA_LITE_VERSION

HEIGHT: Final = 270
NAMES_WIDTH: Final = 124
"""Width before the first load, in pixels."""
MARGIN_WIDTH: Final = 16
"""Width after the last load, in pixels."""
PADDING_FACTOR: Final = 1.6
"""Factor beyond the lowest and the highest value."""
NAME_DISTANCE: Final = 15.0
"""Distance between two names, in pixels."""
FLOOR: Final = "the machine alone"
NOTE: Final = [
    "bars: range of the rounds",
    "hollow, or off the top: does not keep up",
]


class Style(NamedTuple):
    scheme: str
    shape: str
    dash: Dash


STYLES: Final = {
    "weak": Style("creek", "circle", DASHES["dashed"]),
    "strong": Style("creek", "square", [1, 0]),
    "etcd": Style("etcd", "diamond", [1, 0]),
}


class Panel(NamedTuple):
    title: str
    value: str
    """Field of a point."""
    turns: str
    """Field with the values of its rounds."""


PANELS: Final = (
    Panel("Median, ms", "p50_ms", "p50_turns_ms"),
    Panel("99th percentile, ms", "p99_ms", "p99_turns_ms"),
)


class LogRange(NamedTuple):
    """Range of a logarithmic axis."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """Return the position on the axis, from 0 to 1."""
        return log(value / self.low) / log(self.high / self.low)

    @property
    def scale(self) -> alt.Scale:
        return alt.Scale(type="log", domain=[self.low, self.high], nice=False)

    def ticks(self, low: float) -> list[float]:
        """Return round numbers from `low` on."""
        decades = range(floor(log10(low)), ceil(log10(self.high)))
        marks = [round(digits * 10.0**decade, 6) for decade in decades for digits in ROUND_STEPS]
        return [mark for mark in marks if low <= mark <= self.high]


def svg(figures: Figures) -> str:
    rendered: str = vl_convert.vegalite_to_svg(spec(figures), vl_version=VEGA_LITE_VERSION)
    return rendered


def spec(figures: Figures) -> dict[str, Any]:
    """Return the Vega-Lite specification."""
    palette = picture_palette(sorted({look.scheme for look in STYLES.values()}))
    x, y = _x_range(figures), _y_range(figures)
    panels = [_panel(panel, figures, palette, x, y) for panel in PANELS]
    chart = alt.vconcat(*panels, spacing=26, description=_description(figures))
    rendered: dict[str, Any] = chart.to_dict()
    title = {"anchor": "start", "color": palette["ink"], "fontSize": 12, "offset": 12}
    rendered["config"] = chart_config(palette) | {
        "background": palette["background"],
        "padding": 16,
        "title": title | {"fontWeight": 600, "frame": "group"},
    }
    return rendered


def _x_range(figures: Figures) -> LogRange:
    """Return the x range, with space for names before the first load."""
    first, last = _first_load(figures), max(point.load for point in figures.points)
    last = max(last, 2 * first)
    pixel = (last / first) ** (1 / (PICTURE_WIDTH - NAMES_WIDTH - MARGIN_WIDTH))
    return LogRange(first / pixel**NAMES_WIDTH, last * pixel**MARGIN_WIDTH)


def _first_load(figures: Figures) -> float:
    return min(point.load for point in figures.points)


def _y_range(figures: Figures) -> LogRange:
    """Return the y range, from the machine alone up to the highest value that keeps up."""
    reference = [point for point in figures.points if point.keeps_up] or figures.points
    values = [value for point in reference for value in (point.p50_ms, point.p99_ms)]
    low = min([*values, figures.floor.p50_ms] if figures.floor is not None else values)
    return LogRange(low / PADDING_FACTOR, max(values) * PADDING_FACTOR)


def _panel(
    panel: Panel, figures: Figures, palette: Palette, x: LogRange, y: LogRange
) -> alt.LayerChart:
    names = figures.systems
    colours = alt.Scale(domain=names, range=[palette.scheme(STYLES[name].scheme) for name in names])
    dashes = alt.Scale(domain=names, range=[STYLES[name].dash for name in names])
    shapes = alt.Scale(domain=names, range=[STYLES[name].shape for name in names])
    is_last = panel is PANELS[-1]
    x_axis = alt.Axis(
        values=x.ticks(_first_load(figures)),
        title="offered puts per second" if is_last else None,
        labels=is_last,
        labelExpr=THOUSANDS_LABEL,
    )
    y_axis = alt.Axis(values=y.ticks(y.low), title=None, labelExpr=PLAIN_LABEL, labelOverlap=True)
    rows = alt.InlineData(values=[_row(panel, point) for point in figures.points])
    base = alt.Chart(rows).encode(
        x=alt.X("load:Q", scale=x.scale, axis=x_axis),
        y=alt.Y("value:Q", scale=y.scale, axis=y_axis),
        color=alt.Color("system:N", scale=colours, legend=None),
    )
    layered = alt.layer(
        *_floor(panel, figures, palette),
        base.transform_filter("datum.keeps_up")
        .mark_rule(clip=True, opacity=0.3, strokeWidth=4, aria=False)
        .encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_line(clip=True, strokeWidth=2).encode(
            strokeDash=alt.StrokeDash("system:N", scale=dashes, legend=None), order="load:Q"
        ),
        base.mark_point(clip=True, opacity=1, strokeWidth=1.5, size=36).encode(
            shape=alt.Shape("system:N", scale=shapes, legend=None),
            fill=alt.condition(
                "datum.keeps_up",
                alt.Fill("system:N", scale=colours, legend=None),
                alt.value(palette["background"]),
            ),
        ),
        *_names(panel, figures, palette, y),
        *([] if is_last else _text(NOTE, figures, palette, 6, align="left")),
    )
    assert isinstance(layered, alt.LayerChart)
    return layered.properties(width=PICTURE_WIDTH, height=HEIGHT, title=panel.title)


def _row(panel: Panel, point: Point) -> dict[str, Any]:
    turns = getattr(point, panel.turns)
    return {
        "system": point.system,
        "load": point.load,
        "value": getattr(point, panel.value),
        "low": min(turns),
        "high": max(turns),
        "keeps_up": point.keeps_up,
    }


def _floor(panel: Panel, figures: Figures, palette: Palette) -> list[alt.Chart]:
    if figures.floor is None:
        return []
    value = getattr(figures.floor, panel.value)
    line = {"value": value, "load": _first_load(figures), "end": _x_range(figures).high}
    return [
        alt.Chart(alt.InlineData(values=[line]))
        .mark_rule(
            clip=True,
            color=palette["soft"],
            strokeDash=DASHES["dotted"],
            strokeWidth=1.5,
            aria=False,
        )
        .encode(x=alt.X("load:Q"), x2="end:Q", y=alt.Y("value:Q"))
    ]


def _names(panel: Panel, figures: Figures, palette: Palette, y: LogRange) -> list[alt.Chart]:
    """Return the name of each line, before its first point."""
    start_values = {
        name: getattr(figures.points_of(name)[0], panel.value) for name in figures.systems
    }
    colours = {name: palette.scheme(STYLES[name].scheme) for name in figures.systems}
    if figures.floor is not None:
        start_values[FLOOR], colours[FLOOR] = getattr(figures.floor, panel.value), palette["soft"]
    rows = spread_rows(
        {name: HEIGHT * (1 - y.share(value)) for name, value in start_values.items()}, NAME_DISTANCE
    )
    return [
        text
        for name, row in rows.items()
        for text in _text(
            NAMES.get(name, name), figures, palette, row, align="right", dx=-10, color=colours[name]
        )
    ]


def _text(
    text: str | list[str], figures: Figures, palette: Palette, row: float, **look: Any
) -> list[alt.Chart]:
    """Return a text at the first load and height `row`, outlined in the background colour."""
    chart = alt.Chart(alt.InlineData(values=[{"load": _first_load(figures)}]))
    rim = {"stroke": palette["background"], "strokeWidth": 4, "strokeJoin": "round"}
    return [
        chart.mark_text(text=text, lineHeight=NAME_DISTANCE, **style).encode(
            x=alt.X("load:Q"), y=alt.value(row)
        )
        for style in (look | rim, look)
    ]


def spread_rows(rows: dict[str, float], distance: float) -> dict[str, float]:
    """Return rows at least `distance` from each other, in the same order and close to the original
    ones. Rows that are too close form a group around the mean of their positions."""
    groups: list[list[str]] = []
    for name in sorted(rows, key=rows.__getitem__):
        groups.append([name])
        while (
            len(groups) > 1
            and _ends(groups[-2], rows, distance)[1] + distance
            > (_ends(groups[-1], rows, distance)[0])
        ):
            last = groups.pop()
            groups[-1] += last
    return {
        name: _ends(group, rows, distance)[0] + index * distance
        for group in groups
        for index, name in enumerate(group)
    }


def _ends(group: list[str], rows: dict[str, float], distance: float) -> tuple[float, float]:
    """Return the first and the last row of a group."""
    middle = sum(rows[name] for name in group) / len(group)
    half = (len(group) - 1) * distance / 2
    return middle - half, middle + half


def _description(figures: Figures) -> str:
    descriptions = [
        f"{NAMES[name]}: {points[0].p50_ms:.2f} ms at {points[0].load:,.0f} per second, "
        f"measured up to {points[-1].load:,.0f}"
        for name in figures.systems
        if (points := figures.points_of(name))
    ]
    return f"Latency over load, median and 99th percentile. {'; '.join(descriptions)}."
