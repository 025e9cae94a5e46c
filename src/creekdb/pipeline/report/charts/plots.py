"""The three chart types.

- `parameter_chart`: small multiple of one measure by the value of a parameter.
- `timeline_chart`: one line per replica over time, with faults marked.
- `throughput_chart`: curves against throughput, with the paper's values behind them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import altair as alt

from creekdb.pipeline.report.charts.curves import CurveStyle
from creekdb.pipeline.report.charts.layers import (
    PICTURE_WIDTH,
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
)
from creekdb.pipeline.report.charts.theme import Palette

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
            y=alt.Y("value:Q", scale=y.vega_scale("y"), axis=y.vega_axis("y", 4)),
            color=line_encodings(lines, palette)["color"],
        )
    )
    tooltip = [
        alt.Tooltip("line:N", title="line"),
        alt.Tooltip("shown:N", title="value"),
        alt.Tooltip("paper_text:N", title="paper"),
        alt.Tooltip("seeds:N", title="seeds"),
    ]
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
            tooltip=tooltip,
        ),
    )
    return chart_spec(
        chart,
        rows,
        None,
        palette,
        [*y.parameters("y"), alt.param(name="hidden", value=[])],
        description=description,
        height=MULTIPLE_HEIGHT,
        width="container",
    )


TIMELINE_HEIGHT: Final = 200


def timeline_chart(
    rows: ChartRows,
    groups: dict[str, str],
    fault_marks: ChartRows,
    palette: Palette,
    x: Axis,
    y: Axis,
    description: str,
    dashes: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, Any]:
    """Return a chart over time with one line per replica.

    `groups` maps each group of replicas to its colour, and `dashes` to its dash pattern if the
    lines of the group are not solid.
    """
    dash = [list((dashes or {}).get(group, ())) or [1, 0] for group in groups]
    base = alt.Chart(ROWS_DATA).encode(
        x=alt.X("at:Q", scale=x.vega_scale("x"), axis=x.vega_axis("x", 8)),
        y=alt.Y("value:Q", scale=y.vega_scale("y"), axis=y.vega_axis("y", 4)),
        detail="replica:N",
        color=alt.Color(
            "group:N",
            scale=alt.Scale(domain=list(groups), range=list(groups.values())),
            legend=None,
        ),
        strokeDash=alt.StrokeDash(
            "group:N", scale=alt.Scale(domain=list(groups), range=dash), legend=None
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
            tooltip=[
                alt.Tooltip("line:N", title="line"),
                alt.Tooltip("shown:N", title=y.title),
                alt.Tooltip("when:N", title="at"),
            ],
        )
        .add_params(nearest),
    )
    return chart_spec(
        chart,
        rows,
        None,
        palette,
        [*x.parameters("x"), *y.parameters("y")],
        description=description,
        height=TIMELINE_HEIGHT,
        width="container",
    )


FIGURE_HEIGHT: Final = 420
SMALL_FIGURE_HEIGHT: Final = 300


def throughput_chart(
    rows: ChartRows,
    lines: list[CurveStyle],
    palette: Palette,
    x: Axis,
    y: Axis,
    *,
    description: str,
    value_label: str,
    marks: ChartRows | None = None,
    statistic: str | None = None,
    height: int = FIGURE_HEIGHT,
    picture: bool = False,
) -> dict[str, Any]:
    """Return curves with points, confidence intervals, and the paper's `marks` behind them.

    `value_label` names the value in tooltips.
    """
    if picture:
        rows = [row for row in rows if _is_shown(row, lines)]
        lines = [line for line in lines if line.shown]
    base = alt.Chart(ROWS_DATA).transform_filter("indexof(hidden, datum.line) < 0")
    if statistic is not None:
        base = base.transform_filter("datum.statistic === statistic")
    base = base.encode(
        x=alt.X("throughput:Q", scale=x.vega_scale("x"), axis=x.vega_axis("x", 8)),
        y=alt.Y("value:Q", scale=y.vega_scale("y"), axis=y.vega_axis("y", 6)),
        **line_encodings(lines, palette),
    )
    nearest = nearest_point()
    interval = (
        base.transform_filter("isValid(datum.low) && !datum.saturated")
        .mark_rule(clip=True, opacity=0.5, strokeWidth=1.5, strokeDash=[], aria=False)
        .encode(y=alt.Y("low:Q"), y2="high:Q", strokeDash=alt.value([1, 0]))
    )
    curve = base.mark_line(clip=True, strokeWidth=2).encode(order="throughput:Q")
    point = base.mark_point(clip=True, opacity=1, strokeWidth=2).encode(
        strokeDash=alt.value([1, 0]),
        fill=hollow_fill("datum.saturated", lines, palette),
        shape=shape_encoding(lines),
        size=alt.value(46) if picture else alt.condition(nearest, alt.value(150), alt.value(46)),
        tooltip=[
            alt.Tooltip("line:N", title="line"),
            alt.Tooltip("shown:N", title=value_label),
            alt.Tooltip("interval:N", title="interval"),
            alt.Tooltip("achieved:N", title="throughput"),
            alt.Tooltip("offered:N", title="offered load"),
        ],
    )
    if not picture:
        point = point.add_params(nearest)
    chart = layer_charts(
        *_paper_marks(marks or [], palette),
        interval,
        curve,
        point,
        *_paper_labels(marks or [], palette),
    )
    return chart_spec(
        chart,
        rows,
        legend_chart(lines, palette) if picture else None,
        palette,
        [*x.parameters("x"), *y.parameters("y"), alt.param(name="hidden", value=[])]
        + ([alt.param(name="statistic", value=statistic)] if statistic is not None else []),
        description=description,
        height=height,
        width=PICTURE_WIDTH if picture else "container",
    )


def _is_shown(row: dict[str, Any], lines: list[CurveStyle]) -> bool:
    return any(line.shown for line in lines if line.label == row["line"])


def _paper_marks(marks: ChartRows, palette: Palette) -> list[alt.Chart]:
    """Return the paper's values: a vertical rule for `x`, a band for `low` and `high`."""
    bands = [mark for mark in marks if "low" in mark]
    band_layer = [
        alt.Chart(alt.InlineData(values=bands))
        .mark_rect(clip=True, opacity=0.5, color=palette["wash"], aria=False)
        .encode(y=alt.Y("low:Q"), y2="high:Q")
    ]
    return (band_layer if bands else []) + [
        alt.Chart(alt.InlineData(values=[mark]))
        .mark_rule(clip=True, strokeDash=[1, 3], opacity=0.8, color=mark["colour"], aria=False)
        .encode(x="x:Q")
        for mark in marks
        if "x" in mark
    ]


def _label_side(mark: dict[str, Any]) -> dict[str, Any]:
    """Place a label right or left of its rule. Curves approach a peak from the left."""
    return {"align": "left", "dx": 6} if mark["is_right"] else {"align": "right", "dx": -6}


def _paper_labels(marks: ChartRows, palette: Palette) -> list[alt.Chart]:
    """Return the names of the marks, outlined in the background colour for legibility."""
    return [
        alt.Chart(alt.InlineData(values=[mark]))
        .mark_text(clip=True, baseline="top", aria=False, **_label_side(mark), **style)
        .encode(x="beside:Q", y=alt.value(mark["row"]), text="text:N")
        for mark in marks
        if "x" in mark
        for style in (
            {"stroke": palette["background"], "strokeWidth": 5, "strokeJoin": "round"},
            {"color": mark["colour"]},
        )
    ]
