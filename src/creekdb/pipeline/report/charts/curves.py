"""Lines of Figure 1: scheme, kind of response, and style.

The colour denotes the scheme. Solid lines are stable responses, dashed lines tentative ones, and
dotted lines responses that a scheme withholds. Circles are weak operations, squares strong ones.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from creekdb.pipeline.report import formatting
from creekdb.pipeline.report.charts.theme import DASHES, Dash, scheme_chart
from creekdb.pipeline.report.evidence import CurvePoint, Evidence
from creekdb.pipeline.report.paper import FIGURE_ORDER
from creekdb.pipeline.report.quantities import Unit

INTERVAL_LOW_SHARE_MIN: Final = 0.001
"""Lower end of a drawn confidence interval, as a share of its mean, if the interval includes 0."""


class CurveStyle(NamedTuple):
    label: str
    scheme: str
    measure: str
    """Measure in SUMMARY; for a latency, without its statistic."""
    dash: Dash
    shape: str
    shown: bool = True
    """True if the line is visible initially. The legend toggles it."""
    overrides: Mapping[str, Any] = {}
    """Differences from the default setup."""
    own_colour: str = ""
    """Name of the colour; empty for that of the scheme."""

    @property
    def colour(self) -> str:
        return self.own_colour or self.scheme


class ChartedSystem(NamedTuple):
    """A scheme in one setup, as a system of its own in a chart."""

    scheme: str
    label: str
    overrides: Mapping[str, Any] = {}
    own_colour: str = ""
    shape: str = ""
    """Shape of its points; empty for that of the scheme."""

    def line(self, measure: str) -> CurveStyle:
        """Return one line for a measure."""
        return CurveStyle(
            self.label,
            self.scheme,
            measure,
            DASHES["solid"],
            self.shape or scheme_chart(self.scheme).shape,
            overrides=self.overrides,
            own_colour=self.own_colour,
        )

    def latency_lines(self) -> list[CurveStyle]:
        """Return one line per kind of response."""
        return [
            CurveStyle(
                f"{self.label}, {line.response}" if line.response else self.label,
                self.scheme,
                line.measure,
                DASHES[line.dash],
                line.shape,
                line.shown,
                self.overrides,
                self.own_colour,
            )
            for line in scheme_chart(self.scheme).lines
        ]


def in_paper_order(schemes: list[str]) -> list[str]:
    """Sort schemes: those of the paper first, in its order."""
    known = [scheme for scheme in FIGURE_ORDER if scheme in schemes]
    return known + [scheme for scheme in schemes if scheme not in FIGURE_ORDER]


def systems_of(schemes: list[str]) -> list[ChartedSystem]:
    """Return each scheme in the default setup."""
    return [
        ChartedSystem(scheme, formatting.scheme_name(scheme)) for scheme in in_paper_order(schemes)
    ]


def latency_lines(systems: Iterable[ChartedSystem]) -> list[CurveStyle]:
    return [line for system in systems for line in system.latency_lines()]


def system_lines(systems: Iterable[ChartedSystem], measure: str) -> list[CurveStyle]:
    """Return one line per system."""
    return [system.line(measure) for system in systems]


def lines_with_points(lines: list[CurveStyle], rows: list[dict[str, Any]]) -> list[CurveStyle]:
    labels = {row["line"] for row in rows}
    return [line for line in lines if line.label in labels]


def curve_rows(
    evidence: Evidence, lines: list[CurveStyle], unit: Unit, measures: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the points of all lines as chart rows, including tooltip texts.

    `measures` maps each statistic to its measure, in which `{}` stands for that of the line.
    """
    return [
        {"line": line.label, "statistic": statistic} | _point_fields(point, unit)
        for line in lines
        for statistic, measure in measures.items()
        for point in evidence.curve(line.scheme, measure.format(line.measure), **line.overrides)
        if point.throughput_tps > 0
    ]


def _point_fields(point: CurvePoint, unit: Unit) -> dict[str, Any]:
    low, high, mean = point.low, point.high, point.mean
    return {
        "throughput": point.throughput_tps,
        "value": unit.drawn(mean),
        "low": None if low is None else unit.drawn(max(low, mean * INTERVAL_LOW_SHARE_MIN)),
        "high": None if high is None else unit.drawn(high),
        "saturated": point.is_saturated,
        "shown": formatting.format_number(mean, unit),
        "interval": _interval_text(point, unit),
        "achieved": formatting.format_throughput(point.throughput_tps),
        "offered": formatting.format_throughput(point.load_tps)
        + (" (saturated)" if point.is_saturated else ""),
    }


def _interval_text(point: CurvePoint, unit: Unit) -> str:
    if point.low is None or point.high is None:
        return "single seed"
    interval = formatting.format_span(point.low, point.high, unit)
    return f"{interval} (95 %, {formatting.format_seeds(point.seeds)})"
