"""Lines of Figure 1: scheme, kind of response, and style.

The colour denotes the scheme. Solid lines are stable responses, dashed lines tentative ones, and
dotted lines responses that a scheme withholds. Circles are weak operations, squares strong ones.
"""

from typing import Any, Final, NamedTuple

from creekdb.pipeline.report import formatting
from creekdb.pipeline.report.charts.theme import DASHED, DOTTED, SOLID, scheme_chart
from creekdb.pipeline.report.evidence import CurvePoint, Evidence
from creekdb.pipeline.report.paper.reference_values import FIGURE_ORDER
from creekdb.pipeline.report.quantities import Unit

_DASHES: Final[dict[str, list[int] | list[float]]] = {
    "solid": SOLID,
    "dashed": DASHED,
    "dotted": DOTTED,
}
STATISTICS: Final = {"mean": "mean_us", "median": "p50_us", "p95": "p95_us", "p99": "p99_us"}
INTERVAL_LOW_SHARE_MIN: Final = 0.001
"""Lower end of a drawn confidence interval, as a share of its mean, if the interval includes 0."""


class CurveStyle(NamedTuple):
    label: str
    scheme: str
    measure: str
    """Measure in SUMMARY; for a latency, without its statistic."""
    dash: list[int] | list[float]
    shape: str
    shown: bool = True
    """True if the line is visible initially. The legend toggles it."""


def in_paper_order(schemes: list[str]) -> list[str]:
    """Sort schemes: those of the paper first, in its order."""
    known = [scheme for scheme in FIGURE_ORDER if scheme in schemes]
    return known + [scheme for scheme in schemes if scheme not in FIGURE_ORDER]


def latency_lines(schemes: list[str]) -> list[CurveStyle]:
    return [line for scheme in in_paper_order(schemes) for line in _scheme_latency_lines(scheme)]


def _scheme_latency_lines(scheme: str) -> list[CurveStyle]:
    name = formatting.scheme_name(scheme)
    return [
        CurveStyle(
            f"{name}, {line.response}" if line.response else name,
            scheme,
            line.measure,
            _DASHES[line.dash],
            line.shape,
            line.shown,
        )
        for line in scheme_chart(scheme).lines
    ]


def scheme_lines(schemes: list[str], measure: str) -> list[CurveStyle]:
    """Return one line per scheme."""
    return [
        CurveStyle(
            formatting.scheme_name(scheme), scheme, measure, SOLID, scheme_chart(scheme).shape
        )
        for scheme in in_paper_order(schemes)
    ]


def curve_rows(
    line: CurveStyle, points: list[CurvePoint], unit: Unit, **more: Any
) -> list[dict[str, Any]]:
    """Return the points of a line as chart rows, including tooltip texts."""
    return [
        {
            "line": line.label,
            "throughput": point.throughput_tps,
            "value": unit.drawn(point.mean),
            "low": None
            if point.low is None
            else unit.drawn(max(point.low, point.mean * INTERVAL_LOW_SHARE_MIN)),
            "high": None if point.high is None else unit.drawn(point.high),
            "saturated": point.is_saturated,
            "shown": formatting.format_number(point.mean, unit),
            "interval": _interval_text(point, unit),
            "achieved": formatting.format_throughput(point.throughput_tps),
            "offered": formatting.format_throughput(point.load_tps)
            + (" (saturated)" if point.is_saturated else ""),
        }
        | more
        for point in points
        if point.throughput_tps > 0
    ]


def _interval_text(point: CurvePoint, unit: Unit) -> str:
    if point.low is None or point.high is None:
        return "single seed"
    interval = formatting.format_span(point.low, point.high, unit)
    return f"{interval} (95 %, {formatting.format_seeds(point.seeds)})"


def latency_rows(evidence: Evidence, lines: list[CurveStyle]) -> list[dict[str, Any]]:
    return [
        row
        for line in lines
        for name, statistic in STATISTICS.items()
        for row in curve_rows(
            line,
            evidence.curve(line.scheme, f"{line.measure}_{statistic}"),
            Unit.MICROSECONDS,
            statistic=name,
        )
    ]


def measure_rows(evidence: Evidence, lines: list[CurveStyle], unit: Unit) -> list[dict[str, Any]]:
    return [
        row
        for line in lines
        for row in curve_rows(line, evidence.curve(line.scheme, line.measure), unit)
    ]
