"""The charts, as Vega-Lite: curves against throughput, small multiples, and timelines.

A chart takes rows and a palette and knows nothing of tables. In the page it has parameters that
the script sets: `hidden`, the lines that are switched off; `statistic`; and the ends of its axes,
for zooming. A picture has a legend of its own instead.

    throughput  curves, and the paper's marks     axes        where an axis ends, and its labels
    multiples   one measure by a parameter        lines       colours, dashes, marks, a legend
    over_time   replicas, and faults              finishing   what all charts end with
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
