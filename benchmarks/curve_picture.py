"""Latency over load as a picture: the median above, the 99th percentile below, on the same scales.

It looks as the pictures of the report do: the colour tells the system; circles are weak puts,
squares strong ones, diamonds those of who has one kind; what is tentative is dashed. A bar behind a
point goes from the lowest turn to the highest. Both axes are logarithmic. Who did not keep up any
more has a hollow point, or leaves the picture at the top: what was measured there tells only for
how long it went on.
"""

from math import ceil, floor, log, log10
from typing import Any, Final, NamedTuple

import altair as alt
import vl_convert

from benchmarks.curve_figures import NAMES, Figures, Point
from creekdb.pipeline.report.charts import PLAIN_LABEL, THOUSANDS_LABEL
from creekdb.pipeline.report.charts.curves import ANY_SHAPE, STRONG_SHAPE, WEAK_SHAPE
from creekdb.pipeline.report.charts.layers import PICTURE_WIDTH, ROUND_STEPS
from creekdb.pipeline.report.charts.theme import (
    DASHED,
    DOTTED,
    Palette,
    chart_config,
    picture_palette,
)
from creekdb.pipeline.report.page import VEGA_LITE_VERSION

HEIGHT: Final = 270
FOR_NAMES: Final = 124
"""Of the width, before the first load."""
MARGIN: Final = 16
"""Beyond the last load."""
ROOM: Final = 1.6
"""Times the lowest and the highest value."""
APART: Final = 15.0
"""Two names, one below the other."""
FLOOR: Final = "the machine alone"
NOTE: Final = [
    "bars: from the lowest turn to the highest",
    "hollow, or out at the top: does not keep up",
]


class Look(NamedTuple):
    scheme: str
    shape: str
    dash: list[int] | list[float]


LOOKS: Final = {
    "weak": Look("creek", WEAK_SHAPE, DASHED),
    "strong": Look("creek", STRONG_SHAPE, [1, 0]),
    "etcd": Look("etcd", ANY_SHAPE, [1, 0]),
}


class Panel(NamedTuple):
    title: str
    value: str
    """The field of a point."""
    turns: str
    """That of its turns."""


PANELS: Final = (
    Panel("Median, ms", "p50_ms", "p50_turns_ms"),
    Panel("99th percentile, ms", "p99_ms", "p99_turns_ms"),
)


class Span(NamedTuple):
    """Of a logarithmic axis."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """How far along it is."""
        return log(value / self.low) / log(self.high / self.low)

    @property
    def scale(self) -> alt.Scale:
        return alt.Scale(type="log", domain=[self.low, self.high], nice=False)

    def ticks(self, low: float) -> list[float]:
        """Round numbers, from `low` on."""
        decades = range(floor(log10(low)), ceil(log10(self.high)))
        marks = [round(digits * 10.0**decade, 6) for decade in decades for digits in ROUND_STEPS]
        return [mark for mark in marks if low <= mark <= self.high]


def svg(figures: Figures) -> str:
    drawn: str = vl_convert.vegalite_to_svg(spec(figures), vl_version=VEGA_LITE_VERSION)
    return drawn


def spec(figures: Figures) -> dict[str, Any]:
    """As Vega-Lite takes it."""
    palette = picture_palette(sorted({look.scheme for look in LOOKS.values()}))
    x, y = _loads(figures), _heights(figures)
    panels = [_panel(panel, figures, palette, x, y) for panel in PANELS]
    whole = alt.vconcat(*panels, spacing=26, description=_description(figures))
    drawn: dict[str, Any] = whole.to_dict()
    title = {"anchor": "start", "color": palette["ink"], "fontSize": 12, "offset": 12}
    drawn["config"] = chart_config(palette) | {
        "background": palette["background"],
        "padding": 16,
        "title": title | {"fontWeight": 600, "frame": "group"},
    }
    return drawn


def _loads(figures: Figures) -> Span:
    """With room for names before the first one."""
    first, last = _first(figures), max(point.load for point in figures.points)
    last = max(last, 2 * first)
    pixel = (last / first) ** (1 / (PICTURE_WIDTH - FOR_NAMES - MARGIN))
    return Span(first / pixel**FOR_NAMES, last * pixel**MARGIN)


def _first(figures: Figures) -> float:
    return min(point.load for point in figures.points)


def _heights(figures: Figures) -> Span:
    """From the machine alone, up to the highest of who keeps up."""
    kept = [point for point in figures.points if point.keeps_up] or figures.points
    values = [value for point in kept for value in (point.p50_ms, point.p99_ms)]
    low = min([*values, figures.floor.p50_ms] if figures.floor is not None else values)
    return Span(low / ROOM, max(values) * ROOM)


def _panel(panel: Panel, figures: Figures, palette: Palette, x: Span, y: Span) -> alt.LayerChart:
    names = figures.systems
    colours = alt.Scale(domain=names, range=[palette.scheme(LOOKS[name].scheme) for name in names])
    dashes = alt.Scale(domain=names, range=[LOOKS[name].dash for name in names])
    shapes = alt.Scale(domain=names, range=[LOOKS[name].shape for name in names])
    is_last = panel is PANELS[-1]
    x_axis = alt.Axis(
        values=x.ticks(_first(figures)),
        title="puts offered in a second" if is_last else None,
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
    line = {"value": value, "load": _first(figures), "end": _loads(figures).high}
    return [
        alt.Chart(alt.InlineData(values=[line]))
        .mark_rule(clip=True, color=palette["soft"], strokeDash=DOTTED, strokeWidth=1.5, aria=False)
        .encode(x=alt.X("load:Q"), x2="end:Q", y=alt.Y("value:Q"))
    ]


def _names(panel: Panel, figures: Figures, palette: Palette, y: Span) -> list[alt.Chart]:
    """Each before the beginning of its line, on a rim of background."""
    begin = {name: getattr(figures.of(name)[0], panel.value) for name in figures.systems}
    colours = {name: palette.scheme(LOOKS[name].scheme) for name in figures.systems}
    if figures.floor is not None:
        begin[FLOOR], colours[FLOOR] = getattr(figures.floor, panel.value), palette["soft"]
    rows = spread({name: HEIGHT * (1 - y.share(value)) for name, value in begin.items()}, APART)
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
    """At the first load, so far down; on a rim of background, so that lines may pass behind."""
    chart = alt.Chart(alt.InlineData(values=[{"load": _first(figures)}]))
    rim = {"stroke": palette["background"], "strokeWidth": 4, "strokeJoin": "round"}
    return [
        chart.mark_text(text=text, lineHeight=APART, **drawn).encode(
            x=alt.X("load:Q"), y=alt.value(row)
        )
        for drawn in (look | rim, look)
    ]


def spread(rows: dict[str, float], apart: float) -> dict[str, float]:
    """In the same order, and each as near to its place as the others let it: those that are too
    close become a group around the middle of their places."""
    groups: list[list[str]] = []
    for name in sorted(rows, key=rows.__getitem__):
        groups.append([name])
        while (
            len(groups) > 1
            and _ends(groups[-2], rows, apart)[1] + apart > (_ends(groups[-1], rows, apart)[0])
        ):
            last = groups.pop()
            groups[-1] += last
    return {
        name: _ends(group, rows, apart)[0] + place * apart
        for group in groups
        for place, name in enumerate(group)
    }


def _ends(group: list[str], rows: dict[str, float], apart: float) -> tuple[float, float]:
    """The first and the last row of a group."""
    middle = sum(rows[name] for name in group) / len(group)
    half = (len(group) - 1) * apart / 2
    return middle - half, middle + half


def _description(figures: Figures) -> str:
    told = [
        f"{NAMES[name]}: {points[0].p50_ms:.2f} ms at {points[0].load:,.0f} in a second, "
        f"measured up to {points[-1].load:,.0f}"
        for name in figures.systems
        if (points := figures.of(name))
    ]
    return f"Latency over load, median and 99th percentile. {'; '.join(told)}."
