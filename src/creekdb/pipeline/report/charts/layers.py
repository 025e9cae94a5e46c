"""Building blocks of all charts: axes, line styles, the legend, and the final specification."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor, log10
from typing import Any, Final, NamedTuple

import altair as alt

from creekdb.pipeline.report.charts.curves import CurveStyle
from creekdb.pipeline.report.charts.theme import Palette, chart_config

THOUSANDS_LABEL: Final = (
    "datum.value >= 1000 ? format(datum.value / 1000, '~r') + 'k' : datum.label"
)
PERCENT_LABEL: Final = "format(datum.value * 100, '~r') + ' %'"
PLAIN_LABEL: Final = "format(datum.value, '~r')"
ROUND_STEPS: Final = (1, 2, 5)
FINE_STEPS: Final = (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9)
ROUND_STEPS_FROM: Final = 8
"""High-to-low ratio above which a logarithmic axis has ticks at ROUND_STEPS only."""
DECADE_STEPS: Final = (1,)
DECADE_STEPS_FROM: Final = 500
"""High-to-low ratio above which a logarithmic axis has ticks at powers of ten only."""
TICKS_MAX: Final = 9
"""Upper bound for labelled ticks. Vega drops every second label above its tick count."""
AXIS_MARGIN: Final = 0.06
"""Margin beyond the outermost values, as a share of the axis."""


class Axis:
    """Title, label format, scale type and domain of one axis."""

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
        self.is_logarithmic = logarithmic
        self.values = values
        self.low, self.high = _domain(values, logarithmic, low, high)

    def share(self, value: float) -> float:
        """Return the position of a value on the axis: 0 at its low end, 1 at its high end."""
        if self.is_logarithmic:
            return log10(value / self.low) / log10(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def both_scales(self, name: str) -> dict[str, dict[str, Any]]:
        """Return domain and ticks for both scale types, for the script of the page."""
        both = {
            "log": Axis(self.title, self.labels, self.values, logarithmic=True),
            "linear": Axis(self.title, self.labels, self.values, low=0),
        }
        return {
            kind: {"low": axis.low, "high": axis.high}
            | ({"ticks": axis.ticks(name)} if axis.is_logarithmic else {})
            for kind, axis in both.items()
        }

    def encode(self, channel: type[alt.X] | type[alt.Y], field: str, tick_count: int) -> Any:
        """Return the position of a field on this axis, horizontal or vertical."""
        name = "x" if channel is alt.X else "y"
        scale = alt.Scale(
            type="log" if self.is_logarithmic else "linear",
            domainMin=alt.ExprRef(f"{name}_low"),
            domainMax=alt.ExprRef(f"{name}_high"),
            nice=False,
            zero=alt.Undefined if self.is_logarithmic else False,
        )
        return channel(f"{field}:Q", scale=scale, axis=self.vega_axis(name, tick_count))

    def vega_axis(self, name: str, count: int) -> alt.Axis:
        return alt.Axis(
            title=self.title,
            labelExpr=self.labels,
            tickCount=max(count, TICKS_MAX) if self.is_logarithmic else count,
            labelOverlap=True,
            values=alt.ExprRef(self.ticks(name)) if self.is_logarithmic else alt.Undefined,
        )

    def ticks(self, name: str) -> str:
        """Return a Vega expression for the ticks of a logarithmic axis; zooming in refines them."""
        spread = f"{name}_high / {name}_low"
        fine = (
            f"{spread} > {ROUND_STEPS_FROM} ? {_ticks(self, ROUND_STEPS)} : "
            f"{_ticks(self, FINE_STEPS)}"
        )
        return f"{spread} > {DECADE_STEPS_FROM} ? {_ticks(self, DECADE_STEPS)} : {fine}"

    def parameters(self, name: str) -> list[alt.Parameter]:
        return [
            alt.param(name=f"{name}_low", value=self.low),
            alt.param(name=f"{name}_high", value=self.high),
        ]


def _ticks(axis: Axis, leading: Sequence[float]) -> list[float]:
    decades = range(floor(log10(axis.low)), ceil(log10(axis.high)))
    return [round(digits * 10.0**decade, 6) for decade in decades for digits in leading]


def _domain(
    values: Sequence[float], logarithmic: bool, low: float | None, high: float | None
) -> tuple[float, float]:
    lowest, highest = min(values, default=1.0), max(values, default=2.0)
    if logarithmic:
        factor = 10 ** (AXIS_MARGIN * max(log10(highest / lowest), 0.3))
        return low or lowest / factor, high or highest * factor
    margin = AXIS_MARGIN * ((highest - lowest) or abs(highest) or 1)
    return (
        lowest - margin if low is None else low,
        highest + margin if high is None else high,
    )


ChartRows = list[dict[str, Any]]
ROWS_DATA: Final = alt.NamedData("rows")
"""Placeholder for the rows. `chart_spec` inserts them, because altair copies data at each step."""
PICTURE_WIDTH: Final = 640


class ChartPanel(NamedTuple):
    """One chart of a group, with its key in the page."""

    key: str
    spec: dict[str, Any]
    title: str = ""
    """Caption for a chart whose axis has no title."""


def nearest_point() -> alt.Parameter:
    """Return a selection of the point closest to the pointer."""
    return alt.selection_point(
        name="pointed_at", on="pointerover", clear="pointerout", nearest=True, empty=False
    )


def layer_charts(*charts: alt.Chart) -> alt.LayerChart:
    chart = alt.layer(*charts)
    assert isinstance(chart, alt.LayerChart)
    return chart


def chart_spec(
    chart: alt.LayerChart,
    rows: ChartRows,
    palette: Palette,
    parameters: list[alt.Parameter],
    description: str,
    height: int,
    legend: alt.LayerChart | None = None,
) -> dict[str, Any]:
    """Return the Vega-Lite specification: a resizable chart, or a picture with a legend."""
    chart = chart.properties(width="container" if legend is None else PICTURE_WIDTH, height=height)
    whole: alt.LayerChart | alt.VConcatChart
    if legend is None:
        fit = alt.AutoSizeParams(type="fit-x", contains="padding")
        whole = chart.properties(autosize=fit, description=description)
    else:
        # The legend shares only the colour, dash and shape scales with the chart.
        whole = alt.vconcat(chart, legend, description=description)
    spec: dict[str, Any] = whole.add_params(*parameters).to_dict()
    spec["datasets"] = spec.get("datasets", {}) | {"rows": rows}
    spec["config"] = chart_config(palette)
    if legend is not None:
        spec["config"] |= {"background": palette["background"], "padding": 16}
    return spec


def tooltip(**titles: str) -> list[alt.Tooltip]:
    """Return a tooltip with the title of each column."""
    return [alt.Tooltip(f"{column}:N", title=title) for column, title in titles.items()]


def styled(channel: Callable[..., Any], field: str, styles: Mapping[str, Any]) -> Any:
    """Encode a field by a style for each of its values, without a legend."""
    scale = alt.Scale(domain=list(styles), range=list(styles.values()))
    return channel(f"{field}:N", scale=scale, legend=None)


def line_encodings(lines: list[CurveStyle], palette: Palette) -> dict[str, Any]:
    dashes = {line.label: line.dash or [1, 0] for line in lines}
    return {
        "color": styled(alt.Color, "line", _line_colours(lines, palette)),
        "strokeDash": styled(alt.StrokeDash, "line", dashes),
    }


def _line_colours(lines: list[CurveStyle], palette: Palette) -> dict[str, str]:
    return {line.label: palette.scheme(line.colour) for line in lines}


def hollow_fill(where: str, lines: list[CurveStyle], palette: Palette) -> Any:
    """Fill points with the colour of their line, or with the background if `where` holds."""
    colour = styled(alt.Fill, "line", _line_colours(lines, palette))
    return alt.condition(where, alt.value(palette["background"]), colour)


def shape_encoding(lines: list[CurveStyle]) -> Any:
    return styled(alt.Shape, "line", {line.label: line.shape for line in lines})


def legend_chart(lines: list[CurveStyle], palette: Palette) -> alt.LayerChart:
    """Return a legend in three columns, for picture files."""
    rows = [
        {"line": line.label, "from": index % 3, "row": index // 3}
        for index, line in enumerate(lines)
    ]
    base = (
        alt.Chart(alt.InlineData(values=rows))
        .transform_calculate(middle="datum.from + 0.045", to="datum.from + 0.09")
        .encode(
            x=alt.X("from:Q", scale=alt.Scale(domain=[0, 3]), axis=None),
            y=alt.Y("row:O", axis=None),
        )
    )
    styles = line_encodings(lines, palette)
    return layer_charts(
        base.mark_rule(strokeWidth=2).encode(x2="to:Q", **styles),
        base.mark_point(filled=True, opacity=1, size=46).encode(
            x="middle:Q", color=styles["color"], shape=shape_encoding(lines)
        ),
        base.mark_text(
            align="left", baseline="middle", dx=8, fontSize=12, color=palette["ink"]
        ).encode(x="to:Q", text="line:N"),
    ).properties(width=PICTURE_WIDTH, height=20 * -(-len(lines) // 3))
