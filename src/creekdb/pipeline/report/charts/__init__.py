"""Charts as Vega-Lite specifications.

A chart takes rows and a palette, and does not read tables. In the page, the script sets its
parameters: `hidden` (lines switched off), `statistic`, and the ends of the axes for zooming. A
picture file carries its own legend instead.

    curves    lines of Figure 1        layers    axes, line styles, legend, final specification
    plots     the three chart types    theme     colours and dashes
"""

from creekdb.pipeline.report.charts.layers import (
    AXIS_MARGIN,
    PERCENT_LABEL,
    PLAIN_LABEL,
    THOUSANDS_LABEL,
    Axis,
    ChartPanel,
    ChartRows,
)
from creekdb.pipeline.report.charts.plots import (
    SMALL_FIGURE_HEIGHT,
    parameter_chart,
    throughput_chart,
    timeline_chart,
)

__all__ = [
    "AXIS_MARGIN",
    "PERCENT_LABEL",
    "PLAIN_LABEL",
    "SMALL_FIGURE_HEIGHT",
    "THOUSANDS_LABEL",
    "Axis",
    "ChartPanel",
    "ChartRows",
    "parameter_chart",
    "throughput_chart",
    "timeline_chart",
]
