"""How lines look: the colour of their scheme, their dashes, their marks; and a legend of them."""

from typing import Any

import altair as alt

from creekdb.pipeline.report.charts.finishing import PICTURE_WIDTH, layered
from creekdb.pipeline.report.curves import Line
from creekdb.pipeline.report.theme import Palette


def look(lines: list[Line], palette: Palette) -> dict[str, Any]:
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


def hollow(where: str, lines: list[Line], palette: Palette) -> Any:
    """Filled with the colour of the line, but empty where a condition holds."""
    colour = alt.Fill("line:N", scale=_colours(lines, palette), legend=None)
    return alt.condition(where, alt.value(palette["background"]), colour)


def shapes(lines: list[Line]) -> alt.Shape:
    return alt.Shape(
        "line:N",
        scale=alt.Scale(
            domain=[line.label for line in lines], range=[line.shape for line in lines]
        ),
        legend=None,
    )


def legend(lines: list[Line], palette: Palette) -> alt.LayerChart:
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
    looks = look(lines, palette)
    return layered(
        base.mark_rule(strokeWidth=2).encode(x2="to:Q", **looks),
        base.mark_point(filled=True, opacity=1, size=46).encode(
            x="middle:Q", color=looks["color"], shape=shapes(lines)
        ),
        base.mark_text(
            align="left", baseline="middle", dx=8, fontSize=12, color=palette["ink"]
        ).encode(x="to:Q", text="line:N"),
    ).properties(width=PICTURE_WIDTH, height=20 * -(-len(lines) // 3))
