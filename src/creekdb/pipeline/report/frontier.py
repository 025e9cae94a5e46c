"""Frontier of the extensions: stable latency against the execution ratio, one point per set.

A set of extensions is on the frontier if no other one is better in both. Holding strong requests
until a deadline lowers the execution ratio and raises the stable latency. Sets without estimates
are omitted, as their ratio is that of the paper. The points are numbered, and a table names them.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from creekdb.pipeline.report import charts, formatting
from creekdb.pipeline.report.charts import Axis, ChartPanel, scatter_chart
from creekdb.pipeline.report.charts.theme import Palette
from creekdb.pipeline.report.evidence import CurvePoint, Evidence
from creekdb.pipeline.report.quantities import Unit
from creekdb.pipeline.report.queries import STRONG_STABLE

RATIO: Final = "execution_ratio"
REQUIRED: Final = "estimates"
"""Extension of every set on the picture, except the empty set."""


class Setup(NamedTuple):
    title: str
    warehouses: int
    load_tps: float


class Frontier(NamedTuple):
    panels: list[ChartPanel]
    """One panel per setup."""
    header: list[str]
    rows: list[list[str]]
    """Numbers of the points, with their sets and values."""


def draw_frontier(
    evidence: Evidence, palette: Palette, sets: Sequence[str], setups: Sequence[Setup]
) -> Frontier:
    """Draw all sets that ran in every setup; without panels if there are fewer than two."""
    chosen = [each for each in sets if not each or REQUIRED in each.split(",")]
    if len(chosen) < 2:
        return Frontier([], [], [])
    header, rows = ["", "extensions"], [[str(i), _name(each)] for i, each in enumerate(chosen, 1)]
    panels = []
    for number, setup in enumerate(setups):
        points = [_point(evidence, each, setup) for each in chosen]
        panels.append(_panel(f"beyond-frontier-{number}", palette, setup, chosen, points))
        header += [f"{setup.title}: stable", "executions"]
        for row, (stable, ratio) in zip(rows, points, strict=True):
            row += [
                formatting.format_number(stable.mean, Unit.MICROSECONDS),
                formatting.format_number(ratio.mean, Unit.RATIO),
            ]
    return Frontier(panels, header, rows)


def _point(evidence: Evidence, extensions: str, setup: Setup) -> tuple[CurvePoint, CurvePoint]:
    """Return the stable latency and the execution ratio of a set in a setup."""
    where: dict[str, Any] = {"extensions": extensions, "warehouses": setup.warehouses}
    stable, ratio = (
        next(
            point
            for point in evidence.curve("creek", measure, **where)
            if point.load_tps == setup.load_tps
        )
        for measure in (STRONG_STABLE, RATIO)
    )
    return stable, ratio


def _panel(
    key: str,
    palette: Palette,
    setup: Setup,
    sets: Sequence[str],
    points: Sequence[tuple[CurvePoint, CurvePoint]],
) -> ChartPanel:
    rows: charts.ChartRows = [
        {
            "x": Unit.MICROSECONDS.drawn(stable.mean),
            "y": ratio.mean,
            "label": str(number),
            "name": _name(each),
            "stable": formatting.format_number(stable.mean, Unit.MICROSECONDS),
            "ratio": formatting.format_number(ratio.mean, Unit.RATIO),
            "seeds": stable.seeds,
        }
        for number, (each, (stable, ratio)) in enumerate(zip(sets, points, strict=True), 1)
    ]
    x = Axis("stable response, ms", charts.PLAIN_LABEL, [row["x"] for row in rows])
    y = Axis("execution ratio", charts.PLAIN_LABEL, [*[row["y"] for row in rows], 1.0])
    description = f"{setup.title}: execution ratio by stable latency, one point per set"
    return ChartPanel(key, scatter_chart(rows, palette, x, y, description), setup.title)


def _name(extensions: str) -> str:
    return formatting.format_parameter("extensions", extensions)
