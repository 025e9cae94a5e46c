"""The lines of Figure 1: whose, of which answer, and how they are drawn.

The colour tells the scheme. What is drawn solid is stable; dashed, tentative; dotted, what could
have been answered. Circles are weak operations, squares strong ones.
"""

from typing import Any, Final, NamedTuple

from creekdb.pipeline.report import formatting
from creekdb.pipeline.report.charts.theme import DASHED, DOTTED, SOLID
from creekdb.pipeline.report.evidence import Evidence, Point
from creekdb.pipeline.report.quantities import Unit

PAPER_ORDER: Final = ("creek", "archie", "smr", "bayou")
STATISTICS: Final = {"mean": "mean_us", "median": "p50_us", "p95": "p95_us", "p99": "p99_us"}
WEAK: Final = "circle"
STRONG: Final = "square"
BOTH: Final = "diamond"
LEAST: Final = 0.001
"""An interval that reaches below nothing is drawn down to this share of its mean."""


class Line(NamedTuple):
    label: str
    scheme: str
    measure: str
    """Of SUMMARY; for a latency without its statistic."""
    dash: list[int] | list[float]
    shape: str
    shown: bool = True
    """At first; the legend brings the others."""


_LATENCIES: Final = {
    "creek": (
        Line("Creek, weak tentative", "creek", "weak_tentative", DASHED, WEAK),
        Line("Creek, strong tentative", "creek", "strong_tentative", DASHED, STRONG),
        Line("Creek, strong stable", "creek", "strong_stable", SOLID, STRONG),
    ),
    "archie": (
        Line("Archie, weak stable", "archie", "weak_tentative", SOLID, WEAK),
        Line("Archie, weak would-be tentative", "archie", "weak_speculated", DOTTED, WEAK),
        Line("Archie, strong stable", "archie", "strong_stable", SOLID, STRONG),
        Line(
            "Archie, strong would-be tentative",
            "archie",
            "strong_speculated",
            DOTTED,
            STRONG,
            shown=False,
        ),
    ),
    "smr": (Line("SMR", "smr", "all_done", SOLID, BOTH),),
    "bayou": (
        Line("Bayou, tentative", "bayou", "weak_tentative", DASHED, WEAK),
        Line("Bayou, stable", "bayou", "strong_stable", SOLID, STRONG),
    ),
}


def ordered(schemes: list[str]) -> list[str]:
    """The paper's first, as it names them."""
    known = [scheme for scheme in PAPER_ORDER if scheme in schemes]
    return known + [scheme for scheme in schemes if scheme not in PAPER_ORDER]


def latency_lines(schemes: list[str]) -> list[Line]:
    return [line for scheme in ordered(schemes) for line in _lines_of(scheme)]


def _lines_of(scheme: str) -> tuple[Line, ...]:
    """A scheme that the paper does not have is shown by what its clients wait for."""
    return _LATENCIES.get(scheme) or (
        Line(f"{scheme}, weak first answer", scheme, "weak_tentative", DASHED, WEAK),
        Line(f"{scheme}, strong stable", scheme, "strong_stable", SOLID, STRONG),
    )


def scheme_lines(schemes: list[str], measure: str) -> list[Line]:
    """One line for each scheme."""
    return [
        Line(formatting.name_of(scheme), scheme, measure, SOLID, _SHAPES.get(scheme, "triangle-up"))
        for scheme in ordered(schemes)
    ]


_SHAPES: Final = {"creek": "circle", "archie": "square", "smr": "diamond", "bayou": "cross"}


def rows(line: Line, points: list[Point], unit: Unit, **more: Any) -> list[dict[str, Any]]:
    """The points of a line as rows for a chart, with what is told when one is pointed at."""
    scale = 1000 if unit is Unit.MICROSECONDS else 1
    return [
        {
            "line": line.label,
            "throughput": point.throughput_tps,
            "value": point.mean / scale,
            "low": None if point.low is None else max(point.low, point.mean * LEAST) / scale,
            "high": None if point.high is None else point.high / scale,
            "saturated": point.saturated,
            "shown": formatting.number(point.mean, unit),
            "interval": _interval(point, unit),
            "done": formatting.throughput(point.throughput_tps),
            "asked": formatting.throughput(point.load_tps)
            + (" (more than it can do)" if point.saturated else ""),
        }
        | more
        for point in points
        if point.throughput_tps > 0
    ]


def _interval(point: Point, unit: Unit) -> str:
    if point.low is None or point.high is None:
        return "one seed only"
    interval = formatting.span(point.low, point.high, unit)
    return f"{interval} (95 %, {formatting.seeds(point.seeds)})"


def latency_rows(evidence: Evidence, lines: list[Line]) -> list[dict[str, Any]]:
    return [
        row
        for line in lines
        for name, statistic in STATISTICS.items()
        for row in rows(
            line,
            evidence.curve(line.scheme, f"{line.measure}_{statistic}"),
            Unit.MICROSECONDS,
            statistic=name,
        )
    ]


def measure_rows(evidence: Evidence, lines: list[Line], unit: Unit) -> list[dict[str, Any]]:
    return [
        row for line in lines for row in rows(line, evidence.curve(line.scheme, line.measure), unit)
    ]
