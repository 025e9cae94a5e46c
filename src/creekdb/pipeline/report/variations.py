"""Section 6.3: what changes when one thing is changed and the rest stays as it was."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from creekdb.pipeline.report import charts, formatting
from creekdb.pipeline.report.charts import Axis, Panel, Rows, curves
from creekdb.pipeline.report.charts.curves import Line
from creekdb.pipeline.report.charts.theme import DASHED, SOLID, Palette
from creekdb.pipeline.report.evidence import Evidence
from creekdb.pipeline.report.paper.claim import STRONG_STABLE, latency
from creekdb.pipeline.report.paper.reference_values import (
    PEAKS_TPS,
    PEAKS_TPS_BY_WAREHOUSES,
    SEQUENTIAL,
)
from creekdb.pipeline.report.quantities import Unit
from creekdb.pipeline.report.queries import Found, Highest, PeakThroughput, Range


class Variation(NamedTuple):
    parameter: str
    title: str
    text: str


VARIATIONS: Final = (
    Variation(
        "warehouses",
        "Contention: warehouses",
        "The fewer warehouses, the more transactions meet in the same rows. With one, speculation "
        "is often in vain; with twenty, hardly ever.",
    ),
    Variation(
        "strong_share",
        "Share of strong transactions",
        "Instead of every Payment, transactions drawn at random are strong. The more of them, the "
        "fewer weak ones there are to take along with each.",
    ),
    Variation(
        "exec_scale",
        "Execution time",
        "When executions take longer, the network matters less and peaks fall in proportion.",
    ),
    Variation(
        "replicas",
        "Replicas",
        "Every replica executes everything, so more replicas carry no more load.",
    ),
    Variation(
        "cores",
        "Cores",
        "Creek and Archie execute side by side and use cores that are added; SMR and Bayou "
        "execute one transaction after the other.",
    ),
    Variation(
        "layout",
        "Layout of the data",
        "A register per row is the plain reading of the paper. With hot columns in registers of "
        "their own and sums that are added to (dashed), transactions conflict less. By warehouses.",
    ),
    Variation(
        "local_reads",
        "Reads at one replica",
        "A weak transaction that only reads may be executed by its replica alone.",
    ),
)


class Row(NamedTuple):
    """A variation with its panels."""

    variation: Variation
    panels: list[Panel]
    lines: list[Line]
    """Where they are not those of all the others."""


class _Measure(NamedTuple):
    key: str
    title: str
    unit: Unit
    labels: str
    find: Callable[[Evidence, str, Mapping[str, Any]], Found | None]
    end: Callable[[Found], float]
    sequential: bool = True
    """Does it say anything about systems that execute one after the other?"""


_MEASURES: Final = (
    _Measure(
        "peak",
        "Peak throughput, tx/s",
        Unit.PER_SECOND,
        charts.THOUSANDS,
        lambda evidence, scheme, where: PeakThroughput(scheme, where).find(evidence),
        lambda found: found.high,
    ),
    _Measure(
        "stable",
        "Stable latency, strong, ms",
        Unit.MICROSECONDS,
        charts.PLAIN,
        lambda evidence, scheme, where: latency(scheme, STRONG_STABLE, **where).find(evidence),
        lambda found: found.typical,
        sequential=False,
    ),
    _Measure(
        "accuracy",
        "Lowest accuracy",
        Unit.SHARE,
        charts.PERCENT,
        lambda evidence, scheme, where: Range(scheme, "accuracy", where).find(evidence),
        lambda found: found.low,
        sequential=False,
    ),
    _Measure(
        "executions",
        "Highest execution ratio",
        Unit.RATIO,
        charts.PLAIN,
        lambda evidence, scheme, where: Highest(scheme, "execution_ratio", where).find(evidence),
        lambda found: found.high,
        sequential=False,
    ),
)


class _Curve(NamedTuple):
    line: Line
    differing: Mapping[str, Any]


def scheme_lines(evidence: Evidence) -> list[Line]:
    return curves.scheme_lines(evidence.schemes, "")


def variations(evidence: Evidence, palette: Palette) -> list[Row]:
    """Those of which at least two values were tried."""
    return [row for each in VARIATIONS if (row := _row(evidence, palette, each)).panels]


def _row(evidence: Evidence, palette: Palette, variation: Variation) -> Row:
    parameter, drawn = variation.parameter, _curves(evidence, variation.parameter)
    if parameter == "layout":
        parameter = "warehouses"
    panels = []
    for measure in _MEASURES:
        rows = _rows(evidence, drawn, parameter, measure)
        values = list(dict.fromkeys(row["parameter"] for row in rows))
        there = {row["line"] for row in rows}
        lines = [each.line for each in drawn if each.line.label in there]
        if len(values) < 2 or (variation.parameter == "layout" and len(lines) < 2):
            continue
        description = f"{measure.title} by {variation.title.lower()}"
        y = _axis(measure, rows)
        spec = charts.by_parameter(rows, lines, palette, y, values, description)
        panels.append(Panel(f"{variation.parameter}-{measure.key}", spec, measure.title))
    own = [each.line for each in drawn] if variation.parameter == "layout" else []
    return Row(variation, panels, own)


def _curves(evidence: Evidence, parameter: str) -> list[_Curve]:
    """A line for each scheme; of layouts, one for each of those, by warehouses."""
    lines = scheme_lines(evidence)
    if parameter != "layout":
        return [_Curve(line, {}) for line in lines]
    usual = evidence.usual["layout"]
    others = [layout for layout in evidence.values("layout") if layout != usual]
    return [
        _Curve(
            line._replace(
                label=f"{line.label}, {layout}", dash=SOLID if layout == usual else DASHED
            ),
            {"layout": layout},
        )
        for line in lines
        for layout in (usual, *others)
        if any(evidence.peak(line.scheme, layout=other) for other in others)
    ]


def _axis(measure: _Measure, rows: Rows) -> Axis:
    numbers = [row[name] for row in rows for name in ("value", "paper") if row[name] is not None]
    if measure.unit in (Unit.SHARE, Unit.RATIO):
        return Axis("", measure.labels, [*numbers, 1.0])
    return Axis("", measure.labels, [*numbers, 0.0], low=0)


def _rows(evidence: Evidence, drawn: list[_Curve], parameter: str, measure: _Measure) -> Rows:
    scale = 1000 if measure.unit is Unit.MICROSECONDS else 1
    rows = []
    for line, differing in drawn:
        if not measure.sequential and line.scheme in SEQUENTIAL:
            continue
        for value in _by_size(evidence.values(parameter)):
            found = measure.find(evidence, line.scheme, {**differing, parameter: value})
            if found is None:
                continue
            shown = formatting.number(measure.end(found), measure.unit)
            paper = None if differing else _paper(measure.key, line.scheme, parameter, value)
            rows.append(
                {
                    "line": line.label,
                    "parameter": formatting.parameter(parameter, value),
                    "value": measure.end(found) / scale,
                    "paper": paper,
                    "paper_says": formatting.NOTHING
                    if paper is None
                    else formatting.throughput(paper),
                    "bound": found.is_bound,
                    "shown": f"at least {shown}" if found.is_bound else shown,
                    "seeds": found.seeds,
                }
            )
    return rows


def _by_size(values: list[Any]) -> list[Any]:
    """What is usual may have no number: every Payment comes between few and many."""
    if None not in values or len(values) < 2:
        return values
    others = [value for value in values if value is not None]
    return [*others[:1], None, *others[1:]]


def _paper(measure: str, scheme: str, parameter: str, value: Any) -> float | None:
    match measure, parameter:
        case "peak", "warehouses":
            return PEAKS_TPS_BY_WAREHOUSES.get((scheme, value))
        case "peak", "exec_scale" if scheme in PEAKS_TPS:
            return PEAKS_TPS[scheme] / float(value)
        case _:
            return None
