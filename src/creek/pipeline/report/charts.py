"""The charts, as Vega-Lite: curves against throughput, small multiples, and timelines.

A chart takes rows and a palette and knows nothing of tables. In the page it has parameters that
the script sets: `hidden`, the lines that are switched off; `statistic`; and the ends of its axes,
for zooming. A picture has a legend of its own instead.
"""

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Any, Final

import altair as alt

from creek.pipeline.report.curves import Line
from creek.pipeline.report.theme import Palette, config

Rows = list[dict[str, Any]]
_ROWS: Final = alt.NamedData("rows")
"""The rows are put in at the end: altair would copy and check them at every step."""
TALL: Final = 420
MIDDLE: Final = 300
SMALL: Final = 170
PICTURE_WIDTH: Final = 640
ROUND: Final = (1, 2, 5)
FINE: Final = (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9)
ROUND_FROM: Final = 8
"""Where an axis on which a multiple counts spans more than this, only round numbers are marked."""
MARGIN: Final = 0.06
"""How much of an axis is left free beyond its last value."""


class Axis:
    """One axis: its title, its labels, whether it is logarithmic, and from where to where."""

    def __init__(
        self,
        title: str,
        labels: str,
        values: Sequence[float],
        logarithmic: bool = False,
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        self.title = title
        self.labels = labels
        self.logarithmic = logarithmic
        self.values = values
        self.low, self.high = _ends(values, logarithmic, low, high)

    def either(self, name: str) -> dict[str, dict[str, Any]]:
        """What the page's script needs to know to draw it both ways."""
        both = {
            "log": Axis(self.title, self.labels, self.values, logarithmic=True),
            "linear": Axis(self.title, self.labels, self.values, low=0),
        }
        return {
            kind: {"low": axis.low, "high": axis.high}
            | ({"ticks": axis.ticks(name)} if axis.logarithmic else {})
            for kind, axis in both.items()
        }

    def scale(self, name: str) -> alt.Scale:
        return alt.Scale(
            type="log" if self.logarithmic else "linear",
            domainMin=alt.ExprRef(f"{name}_low"),
            domainMax=alt.ExprRef(f"{name}_high"),
            nice=False,
            zero=alt.Undefined if self.logarithmic else False,
        )

    def axis(self, name: str, count: int) -> alt.Axis:
        return alt.Axis(
            title=self.title,
            labelExpr=self.labels,
            tickCount=count,
            labelOverlap=True,
            values=alt.ExprRef(self.ticks(name)) if self.logarithmic else alt.Undefined,
        )

    def ticks(self, name: str) -> str:
        """Where an axis on which a multiple counts is marked: more closely, once zoomed into."""
        spread = f"{name}_high / {name}_low"
        return f"{spread} > {ROUND_FROM} ? {_ticks(self, ROUND)} : {_ticks(self, FINE)}"

    def parameters(self, name: str) -> list[alt.Parameter]:
        return [
            alt.param(name=f"{name}_low", value=self.low),
            alt.param(name=f"{name}_high", value=self.high),
        ]


def _ticks(axis: Axis, leading: Sequence[float]) -> list[float]:
    decades = range(floor(log10(axis.low)), ceil(log10(axis.high)))
    return [round(digits * 10.0**decade, 6) for decade in decades for digits in leading]


def _ends(
    values: Sequence[float], logarithmic: bool, low: float | None, high: float | None
) -> tuple[float, float]:
    least, most = min(values, default=1.0), max(values, default=2.0)
    if logarithmic:
        room = 10 ** (MARGIN * max(log10(most / least), 0.3))
        return low or least / room, high or most * room
    room = MARGIN * ((most - least) or abs(most) or 1)
    return (
        least - room if low is None else low,
        most + room if high is None else high,
    )


THOUSANDS: Final = "datum.value >= 1000 ? format(datum.value / 1000, '~r') + 'k' : datum.label"
PERCENT: Final = "format(datum.value * 100, '~r') + ' %'"
PLAIN: Final = "format(datum.value, '~r')"


def against_throughput(
    rows: Rows,
    lines: list[Line],
    palette: Palette,
    x: Axis,
    y: Axis,
    *,
    description: str,
    tells: str,
    marks: Rows | None = None,
    statistic: str | None = None,
    height: int = TALL,
    picture: bool = False,
) -> dict[str, Any]:
    """Curves with their points, the intervals of confidence, and the paper's `marks` behind them.

    `tells` says what a value is when it is pointed at.
    """
    if picture:
        rows = [row for row in rows if _is_shown(row, lines)]
        lines = [line for line in lines if line.shown]
    base = alt.Chart(_ROWS).transform_filter("indexof(hidden, datum.line) < 0")
    if statistic is not None:
        base = base.transform_filter("datum.statistic === statistic")
    base = base.encode(
        x=alt.X("throughput:Q", scale=x.scale("x"), axis=x.axis("x", 8)),
        y=alt.Y("value:Q", scale=y.scale("y"), axis=y.axis("y", 6)),
        **_look(lines, palette),
    )
    pointed_at = alt.selection_point(
        name="pointed_at", on="pointerover", clear="pointerout", nearest=True, empty=False
    )
    interval = (
        base.transform_filter("isValid(datum.low) && !datum.saturated")
        .mark_rule(clip=True, opacity=0.5, strokeWidth=1.5, strokeDash=[], aria=False)
        .encode(y=alt.Y("low:Q"), y2="high:Q", strokeDash=alt.value([1, 0]))
    )
    curve = base.mark_line(clip=True, strokeWidth=2).encode(order="throughput:Q")
    point = base.mark_point(clip=True, opacity=1, strokeWidth=2).encode(
        strokeDash=alt.value([1, 0]),
        fill=_hollow("datum.saturated", lines, palette),
        shape=_shapes(lines),
        size=alt.value(46) if picture else alt.condition(pointed_at, alt.value(150), alt.value(46)),
        tooltip=[
            alt.Tooltip("line:N", title="line"),
            alt.Tooltip("shown:N", title=tells),
            alt.Tooltip("interval:N", title="interval"),
            alt.Tooltip("done:N", title="throughput"),
            alt.Tooltip("asked:N", title="asked for"),
        ],
    )
    if not picture:
        point = point.add_params(pointed_at)
    chart = _layered(
        *_behind(marks or [], palette), interval, curve, point, *_labels(marks or [], palette)
    )
    return _finished(
        chart,
        rows,
        _legend(lines, palette) if picture else None,
        palette,
        [*x.parameters("x"), *y.parameters("y"), alt.param(name="hidden", value=[])]
        + ([alt.param(name="statistic", value=statistic)] if statistic is not None else []),
        description=description,
        height=height,
        width=PICTURE_WIDTH if picture else "container",
    )


def _is_shown(row: dict[str, Any], lines: list[Line]) -> bool:
    return any(line.shown for line in lines if line.label == row["line"])


def _look(lines: list[Line], palette: Palette) -> dict[str, Any]:
    dashes = alt.Scale(
        domain=[line.label for line in lines], range=[line.dash or [1, 0] for line in lines]
    )
    return {
        "color": alt.Color("line:N", scale=_colours(lines, palette), legend=None),
        "strokeDash": alt.StrokeDash("line:N", scale=dashes, legend=None),
    }


def _colours(lines: list[Line], palette: Palette) -> alt.Scale:
    return alt.Scale(
        domain=[line.label for line in lines],
        range=[palette.scheme(line.scheme) for line in lines],
    )


def _hollow(where: str, lines: list[Line], palette: Palette) -> Any:
    """Filled with the colour of the line, but empty where a condition holds."""
    colour = alt.Fill("line:N", scale=_colours(lines, palette), legend=None)
    return alt.condition(where, alt.value(palette["background"]), colour)


def _shapes(lines: list[Line]) -> alt.Shape:
    return alt.Shape(
        "line:N",
        scale=alt.Scale(
            domain=[line.label for line in lines], range=[line.shape for line in lines]
        ),
        legend=None,
    )


def _behind(marks: Rows, palette: Palette) -> list[alt.Chart]:
    """What the paper says: a dotted line across for an `x`, a band for `low` and `high`."""
    bands = [mark for mark in marks if "low" in mark]
    drawn = [
        alt.Chart(alt.InlineData(values=bands))
        .mark_rect(clip=True, opacity=0.5, color=palette["wash"], aria=False)
        .encode(y=alt.Y("low:Q"), y2="high:Q")
    ]
    return (drawn if bands else []) + [
        alt.Chart(alt.InlineData(values=[mark]))
        .mark_rule(clip=True, strokeDash=[1, 3], opacity=0.8, color=mark["colour"], aria=False)
        .encode(x="x:Q")
        for mark in marks
        if "x" in mark
    ]


def _labels(marks: Rows, palette: Palette) -> list[alt.Chart]:
    """Their names, on a rim of background so that lines may pass behind."""
    return [
        alt.Chart(alt.InlineData(values=[mark]))
        .mark_text(clip=True, align="right", baseline="top", dx=-6, aria=False, **look)
        .encode(x="beside:Q", y=alt.value(mark["row"]), text="text:N")
        for mark in marks
        if "x" in mark
        for look in (
            {"stroke": palette["background"], "strokeWidth": 5, "strokeJoin": "round"},
            {"color": mark["colour"]},
        )
    ]


def by_parameter(
    rows: Rows, lines: list[Line], palette: Palette, y: Axis, values: list[str], description: str
) -> dict[str, Any]:
    """A small multiple: one measure for each value of a parameter, with the paper's as a stroke."""
    base = (
        alt.Chart(_ROWS)
        .transform_filter("indexof(hidden, datum.line) < 0")
        .encode(
            x=alt.X(
                "parameter:N",
                sort=values,
                scale=alt.Scale(paddingOuter=0.35),
                axis=alt.Axis(title=None, labelAngle=0, labelOverlap=False),
            ),
            y=alt.Y("value:Q", scale=y.scale("y"), axis=y.axis("y", 4)),
            color=_look(lines, palette)["color"],
        )
    )
    tells = [
        alt.Tooltip("line:N", title="line"),
        alt.Tooltip("shown:N", title="measured"),
        alt.Tooltip("paper_says:N", title="paper"),
        alt.Tooltip("seeds:N", title="seeds"),
    ]
    of_paper = (
        base.transform_filter("isValid(datum.paper)")
        .mark_point(shape="stroke", size=420, strokeWidth=2, opacity=0.75, aria=False)
        .encode(y=alt.Y("paper:Q"))
    )
    chart = _layered(
        base.mark_line(strokeWidth=1.5, opacity=0.6, aria=False).encode(
            strokeDash=_look(lines, palette)["strokeDash"]
        ),
        *([of_paper] if any(row["paper"] is not None for row in rows) else []),
        base.mark_point(size=64, opacity=1, strokeWidth=1.5).encode(
            shape=_shapes(lines),
            fill=_hollow("datum.bound", lines, palette),
            tooltip=tells,
        ),
    )
    return _finished(
        chart,
        rows,
        None,
        palette,
        [*y.parameters("y"), alt.param(name="hidden", value=[])],
        description=description,
        height=SMALL,
        width="container",
    )


def timeline(
    rows: Rows,
    groups: dict[str, str],
    moments: Rows,
    palette: Palette,
    x: Axis,
    y: Axis,
    description: str,
) -> dict[str, Any]:
    """What each replica held over time; `groups` gives the colour of each group of replicas."""
    base = alt.Chart(_ROWS).encode(
        x=alt.X("at:Q", scale=x.scale("x"), axis=x.axis("x", 8)),
        y=alt.Y("value:Q", scale=y.scale("y"), axis=y.axis("y", 4)),
        detail="replica:N",
        color=alt.Color(
            "group:N",
            scale=alt.Scale(domain=list(groups), range=list(groups.values())),
            legend=None,
        ),
    )
    pointed_at = alt.selection_point(
        name="pointed_at", on="pointerover", clear="pointerout", nearest=True, empty=False
    )
    faults = alt.Chart(alt.InlineData(values=moments)).encode(x="at:Q")
    chart = _layered(
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
            opacity=alt.condition(pointed_at, alt.value(1), alt.value(0)),
            tooltip=[
                alt.Tooltip("line:N", title="line"),
                alt.Tooltip("shown:N", title=y.title),
                alt.Tooltip("when:N", title="at"),
            ],
        )
        .add_params(pointed_at),
    )
    return _finished(
        chart,
        rows,
        None,
        palette,
        [*x.parameters("x"), *y.parameters("y")],
        description=description,
        height=MIDDLE * 2 // 3,
        width="container",
    )


def _layered(*charts: alt.Chart) -> alt.LayerChart:
    layered = alt.layer(*charts)
    assert isinstance(layered, alt.LayerChart)
    return layered


def _legend(lines: list[Line], palette: Palette) -> alt.LayerChart:
    """A piece of each line with its name, in columns; for pictures."""
    rows = [
        {"line": line.label, "from": place % 3, "row": place // 3}
        for place, line in enumerate(lines)
    ]
    base = (
        alt.Chart(alt.InlineData(values=rows))
        .transform_calculate(middle="datum.from + 0.045", to="datum.from + 0.09")
        .encode(
            x=alt.X("from:Q", scale=alt.Scale(domain=[0, 3]), axis=None),
            y=alt.Y("row:O", axis=None),
        )
    )
    look = _look(lines, palette)
    return _layered(
        base.mark_rule(strokeWidth=2).encode(x2="to:Q", **look),
        base.mark_point(filled=True, opacity=1, size=46).encode(
            x="middle:Q", color=look["color"], shape=_shapes(lines)
        ),
        base.mark_text(
            align="left", baseline="middle", dx=8, fontSize=12, color=palette["ink"]
        ).encode(x="to:Q", text="line:N"),
    ).properties(width=PICTURE_WIDTH, height=20 * -(-len(lines) // 3))


def _finished(
    chart: alt.LayerChart,
    rows: Rows,
    legend: alt.LayerChart | None,
    palette: Palette,
    parameters: list[alt.Parameter],
    *,
    description: str,
    height: int,
    width: int | str,
) -> dict[str, Any]:
    """As Vega-Lite takes it: a chart of its own, or a picture with its legend."""
    chart = chart.properties(width=width, height=height)
    whole: alt.LayerChart | alt.VConcatChart
    if legend is None:
        fit = alt.AutoSizeParams(type="fit-x", contains="padding")
        whole = chart.properties(autosize=fit, description=description)
    else:
        # The legend's scales are its own, but for those by which lines look as they do.
        whole = alt.vconcat(chart, legend, description=description)
    spec: dict[str, Any] = whole.add_params(*parameters).to_dict()
    spec["datasets"] = spec.get("datasets", {}) | {"rows": rows}
    spec["config"] = config(palette)
    if legend is not None:
        spec["config"] |= {"background": palette["background"], "padding": 16}
    return spec
