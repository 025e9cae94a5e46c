"""Latency between distant sites as a picture: one row per system, on a logarithmic scale.

A hollow circle is the median without latency between the sites. Filled circles are the medians at
each site with it. A dotted line marks the round trip between two sites. The style is that of the
report.
"""

from typing import Any, Final

import altair as alt
import vl_convert

from benchmarks.geography_figures import NAMES, Figures
from creekdb.pipeline.report.charts import PLAIN_LABEL
from creekdb.pipeline.report.charts.layers import PICTURE_WIDTH
from creekdb.pipeline.report.charts.theme import DASHES, Palette, chart_config, picture_palette
from creekdb.pipeline.report.page import VEGA_LITE_VERSION

ROW_HEIGHT: Final = 34
SCHEMES: Final = {"weak": "creek", "strong": "creek", "etcd": "etcd"}
PADDING_FACTOR: Final = 1.6
"""Factor beyond the lowest and the highest value."""


def svg(figures: Figures) -> str:
    rendered: str = vl_convert.vegalite_to_svg(spec(figures), vl_version=VEGA_LITE_VERSION)
    return rendered


def spec(figures: Figures) -> dict[str, Any]:
    """Return the Vega-Lite specification."""
    palette = picture_palette(sorted(set(SCHEMES.values())))
    names = [NAMES[each.system] for each in figures.systems]
    colours = [palette.scheme(SCHEMES[each.system]) for each in figures.systems]
    values = [value for row in _rows(figures) for value in (row["local"], row["distant"])]
    domain = [min(values) / PADDING_FACTOR, max(values) * PADDING_FACTOR]
    ticks = [digits * 10.0**decade for decade in range(-1, 4) for digits in (1, 2, 5)]
    x_axis = alt.Axis(
        title="median latency of a put, ms",
        values=[tick for tick in ticks if domain[0] <= tick <= domain[1]],
        labelExpr=PLAIN_LABEL,
    )
    scale = alt.Scale(type="log", domain=domain, nice=False)
    base = alt.Chart(alt.InlineData(values=_rows(figures))).encode(
        y=alt.Y("name:N", sort=names, axis=alt.Axis(title=None)),
        color=alt.Color("name:N", scale=alt.Scale(domain=names, range=colours), legend=None),
    )
    layered = alt.layer(
        _round_trip(figures, palette),
        base.mark_rule(strokeWidth=2, opacity=0.4, aria=False).encode(
            x=alt.X("local:Q", scale=scale, axis=x_axis), x2="distant:Q"
        ),
        base.mark_point(size=60, strokeWidth=2, fill=palette["background"], opacity=1).encode(
            x=alt.X("local:Q", scale=scale)
        ),
        base.mark_circle(size=70, opacity=1).encode(x=alt.X("distant:Q", scale=scale)),
    )
    title = (
        f"Three sites: hollow next to each other, filled {figures.latency_ms:g} ms apart; "
        "dotted: one round trip"
    )
    chart = layered.properties(
        width=PICTURE_WIDTH,
        height=ROW_HEIGHT * len(names),
        title=title,
        description=_description(figures),
    )
    rendered: dict[str, Any] = chart.to_dict()
    style = {"anchor": "start", "color": palette["ink"], "fontSize": 12, "offset": 12}
    rendered["config"] = chart_config(palette) | {
        "background": palette["background"],
        "padding": 16,
        "title": style | {"fontWeight": 600, "frame": "group"},
    }
    return rendered


def _rows(figures: Figures) -> list[dict[str, Any]]:
    return [
        {"name": NAMES[each.system], "local": each.local.p50_ms, "distant": distant}
        for each in figures.systems
        for distant in each.distant.sites_ms
    ]


def _round_trip(figures: Figures, palette: Palette) -> alt.Chart:
    value = [{"round_trip": 2 * figures.latency_ms}]
    rule = alt.Chart(alt.InlineData(values=value)).mark_rule(
        color=palette["soft"], strokeDash=DASHES["dotted"], strokeWidth=1.5, aria=False
    )
    chart = rule.encode(x=alt.X("round_trip:Q"))
    assert isinstance(chart, alt.Chart)
    return chart


def _description(figures: Figures) -> str:
    parts = [
        f"{NAMES[each.system]}: {each.local.p50_ms:.2f} ms local, {each.distant.p50_ms:.2f} ms at "
        f"a distance of {figures.latency_ms:g} ms"
        for each in figures.systems
    ]
    return f"Median latency of a put. {'; '.join(parts)}."
