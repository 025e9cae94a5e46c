"""What all charts are made of and end with: rows, layers, and the specification."""

from typing import Any, Final, NamedTuple

import altair as alt

from creekdb.pipeline.report.theme import Palette, config

Rows = list[dict[str, Any]]
ROWS: Final = alt.NamedData("rows")
"""The rows are put in at the end: altair would copy and check them at every step."""
PICTURE_WIDTH: Final = 640


class Panel(NamedTuple):
    """A chart among others, with its place in the page."""

    key: str
    spec: dict[str, Any]
    title: str = ""
    """Where its axis has none."""


def pointed_at() -> alt.Parameter:
    """Of all points the one that is closest to the pointer."""
    return alt.selection_point(
        name="pointed_at", on="pointerover", clear="pointerout", nearest=True, empty=False
    )


def layered(*charts: alt.Chart) -> alt.LayerChart:
    chart = alt.layer(*charts)
    assert isinstance(chart, alt.LayerChart)
    return chart


def finished(
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
