"""Small multiples: one measure for each value of a parameter."""

from typing import Any, Final

import altair as alt

from creekdb.pipeline.report.charts.axes import Axis
from creekdb.pipeline.report.charts.finishing import ROWS, Rows, finished, layered
from creekdb.pipeline.report.charts.lines import hollow, look, shapes
from creekdb.pipeline.report.curves import Line
from creekdb.pipeline.report.theme import Palette

SMALL: Final = 170


def by_parameter(
    rows: Rows, lines: list[Line], palette: Palette, y: Axis, values: list[str], description: str
) -> dict[str, Any]:
    """A small multiple: one measure for each value of a parameter, with the paper's as a stroke."""
    base = (
        alt.Chart(ROWS)
        .transform_filter("indexof(hidden, datum.line) < 0")
        .encode(
            x=alt.X(
                "parameter:N",
                sort=values,
                scale=alt.Scale(paddingOuter=0.35),
                axis=alt.Axis(title=None, labelAngle=0, labelOverlap=False),
            ),
            y=alt.Y("value:Q", scale=y.scale("y"), axis=y.axis("y", 4)),
            color=look(lines, palette)["color"],
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
    chart = layered(
        base.mark_line(strokeWidth=1.5, opacity=0.6, aria=False).encode(
            strokeDash=look(lines, palette)["strokeDash"]
        ),
        *([of_paper] if any(row["paper"] is not None for row in rows) else []),
        base.mark_point(size=64, opacity=1, strokeWidth=1.5).encode(
            shape=shapes(lines),
            fill=hollow("datum.bound", lines, palette),
            tooltip=tells,
        ),
    )
    return finished(
        chart,
        rows,
        None,
        palette,
        [*y.parameters("y"), alt.param(name="hidden", value=[])],
        description=description,
        height=SMALL,
        width="container",
    )
