"""Charts as Vega-Lite specifications.

A chart takes rows and a palette, and does not read tables. In the page, the script sets its
parameters: `hidden` (lines switched off), `statistic`, and the ends of the axes for zooming. A
picture file carries its own legend instead.

    curves    lines of Figure 1        layers    axes, line styles, legend, final specification
    plots     the four chart types     theme     colours and dashes
"""

from creekdb.pipeline.report.charts.layers import AXIS_MARGIN as AXIS_MARGIN
from creekdb.pipeline.report.charts.layers import PERCENT_LABEL as PERCENT_LABEL
from creekdb.pipeline.report.charts.layers import PLAIN_LABEL as PLAIN_LABEL
from creekdb.pipeline.report.charts.layers import THOUSANDS_LABEL as THOUSANDS_LABEL
from creekdb.pipeline.report.charts.layers import Axis as Axis
from creekdb.pipeline.report.charts.layers import ChartPanel as ChartPanel
from creekdb.pipeline.report.charts.layers import ChartRows as ChartRows
from creekdb.pipeline.report.charts.plots import SMALL_FIGURE_HEIGHT as SMALL_FIGURE_HEIGHT
from creekdb.pipeline.report.charts.plots import LineGroup as LineGroup
from creekdb.pipeline.report.charts.plots import ThroughputChart as ThroughputChart
from creekdb.pipeline.report.charts.plots import parameter_chart as parameter_chart
from creekdb.pipeline.report.charts.plots import scatter_chart as scatter_chart
from creekdb.pipeline.report.charts.plots import timeline_chart as timeline_chart
from creekdb.pipeline.report.charts.plots import timeline_row as timeline_row
