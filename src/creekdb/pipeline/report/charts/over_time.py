"""Charts over time, a line for each replica, with the faults marked."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import altair as alt

from creekdb.pipeline.report.charts.axes import Axis
from creekdb.pipeline.report.charts.finishing import ROWS, Rows, finished, layered, pointed_at
from creekdb.pipeline.report.theme import Palette

LOW: Final = 200


def timeline(
    rows: Rows,
    groups: dict[str, str],
    moments: Rows,
    palette: Palette,
    x: Axis,
    y: Axis,
    description: str,
    dashes: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, Any]:
    """What each replica held over time; `groups` gives the colour of each group of replicas, and
    `dashes` how lines of some are drawn that are not solid."""
    dash = [list((dashes or {}).get(group, ())) or [1, 0] for group in groups]
    base = alt.Chart(ROWS).encode(
        x=alt.X("at:Q", scale=x.scale("x"), axis=x.axis("x", 8)),
        y=alt.Y("value:Q", scale=y.scale("y"), axis=y.axis("y", 4)),
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
    nearest = pointed_at()
    faults = alt.Chart(alt.InlineData(values=moments)).encode(x="at:Q")
    chart = layered(
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
    return finished(
        chart,
        rows,
        None,
        palette,
        [*x.parameters("x"), *y.parameters("y")],
        description=description,
        height=LOW,
        width="container",
    )
