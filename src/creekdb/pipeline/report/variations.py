"""Section 6.3: what changes when one thing is changed and the rest stays as it was."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from creekdb.pipeline.report import charts, formatting
from creekdb.pipeline.report.charts import Axis, ChartPanel, ChartRows, curves
from creekdb.pipeline.report.charts.curves import CurveStyle
from creekdb.pipeline.report.charts.theme import DASHED, SOLID, Palette
from creekdb.pipeline.report.evidence import Evidence
from creekdb.pipeline.report.paper.claim import STRONG_STABLE, latency_range
from creekdb.pipeline.report.paper.reference_values import (
    PEAKS_TPS,
    PEAKS_TPS_BY_WAREHOUSES,
    SEQUENTIAL_SCHEMES,
)
from creekdb.pipeline.report.quantities import Unit
from creekdb.pipeline.report.queries import (
    MeasureMaximum,
    MeasureRange,
    PeakThroughput,
    QueryResult,
)


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


class VariationRow(NamedTuple):
    """A variation with its panels."""

    variation: Variation
    panels: list[ChartPanel]
    lines: list[CurveStyle]
    """Where they are not those of all the others."""


class _Measure(NamedTuple):
    key: str
    title: str
    unit: Unit
    labels: str
    evaluate: Callable[[Evidence, str, Mapping[str, Any]], QueryResult | None]
    reduce: Callable[[QueryResult], float]
    has_sequential: bool = True
    """Does it say anything about systems that execute one after the other?"""


_MEASURES: Final = (
    _Measure(
        "peak",
        "Peak throughput, tx/s",
        Unit.PER_SECOND,
        charts.THOUSANDS_LABEL,
        lambda evidence, scheme, where: PeakThroughput(scheme, where).evaluate(evidence),
        lambda found: found.high,
    ),
    _Measure(
        "stable",
        "Stable latency, strong, ms",
        Unit.MICROSECONDS,
        charts.PLAIN_LABEL,
        lambda evidence, scheme, where: latency_range(scheme, STRONG_STABLE, **where).evaluate(
            evidence
        ),
        lambda found: found.typical,
        has_sequential=False,
    ),
    _Measure(
        "accuracy",
        "Lowest accuracy",
        Unit.SHARE,
        charts.PERCENT_LABEL,
        lambda evidence, scheme, where: MeasureRange(scheme, "accuracy", where).evaluate(evidence),
        lambda found: found.low,
        has_sequential=False,
    ),
    _Measure(
        "executions",
        "Highest execution ratio",
        Unit.RATIO,
        charts.PLAIN_LABEL,
        lambda evidence, scheme, where: MeasureMaximum(scheme, "execution_ratio", where).evaluate(
            evidence
        ),
        lambda found: found.high,
        has_sequential=False,
    ),
)


class _VariationCurve(NamedTuple):
    line: CurveStyle
    overrides: Mapping[str, Any]


def variation_lines(evidence: Evidence) -> list[CurveStyle]:
    return curves.scheme_lines(evidence.schemes, "")


def draw_variations(evidence: Evidence, palette: Palette) -> list[VariationRow]:
    """Those of which at least two values were tried."""
    return [row for each in VARIATIONS if (row := _variation_row(evidence, palette, each)).panels]


def _variation_row(evidence: Evidence, palette: Palette, variation: Variation) -> VariationRow:
    parameter, drawn = variation.parameter, _curves(evidence, variation.parameter)
    if parameter == "layout":
        parameter = "warehouses"
    panels = []
    for measure in _MEASURES:
        rows = _chart_rows(evidence, drawn, parameter, measure)
        values = list(dict.fromkeys(row["parameter"] for row in rows))
        there = {row["line"] for row in rows}
        lines = [each.line for each in drawn if each.line.label in there]
        if len(values) < 2 or (variation.parameter == "layout" and len(lines) < 2):
            continue
        description = f"{measure.title} by {variation.title.lower()}"
        y = _value_axis(measure, rows)
        spec = charts.parameter_chart(rows, lines, palette, y, values, description)
        panels.append(ChartPanel(f"{variation.parameter}-{measure.key}", spec, measure.title))
    own = [each.line for each in drawn] if variation.parameter == "layout" else []
    return VariationRow(variation, panels, own)


def _curves(evidence: Evidence, parameter: str) -> list[_VariationCurve]:
    """A line for each scheme; of layouts, one for each of those, by warehouses."""
    lines = variation_lines(evidence)
    if parameter != "layout":
        return [_VariationCurve(line, {}) for line in lines]
    usual = evidence.default_setup["layout"]
    others = [layout for layout in evidence.values("layout") if layout != usual]
    return [
        _VariationCurve(
            line._replace(
                label=f"{line.label}, {layout}", dash=SOLID if layout == usual else DASHED
            ),
            {"layout": layout},
        )
        for line in lines
        for layout in (usual, *others)
        if any(evidence.peak(line.scheme, layout=other) for other in others)
    ]


def _value_axis(measure: _Measure, rows: ChartRows) -> Axis:
    numbers = [row[name] for row in rows for name in ("value", "paper") if row[name] is not None]
    if measure.unit in (Unit.SHARE, Unit.RATIO):
        return Axis("", measure.labels, [*numbers, 1.0])
    return Axis("", measure.labels, [*numbers, 0.0], low=0)


def _chart_rows(
    evidence: Evidence, drawn: list[_VariationCurve], parameter: str, measure: _Measure
) -> ChartRows:
    scale = 1000 if measure.unit is Unit.MICROSECONDS else 1
    rows = []
    for line, differing in drawn:
        if not measure.has_sequential and line.scheme in SEQUENTIAL_SCHEMES:
            continue
        for value in _sorted_values(evidence.values(parameter)):
            found = measure.evaluate(evidence, line.scheme, {**differing, parameter: value})
            if found is None:
                continue
            shown = formatting.format_number(measure.reduce(found), measure.unit)
            paper = None if differing else _paper_value(measure.key, line.scheme, parameter, value)
            rows.append(
                {
                    "line": line.label,
                    "parameter": formatting.format_parameter(parameter, value),
                    "value": measure.reduce(found) / scale,
                    "paper": paper,
                    "paper_says": formatting.NO_VALUE
                    if paper is None
                    else formatting.format_throughput(paper),
                    "bound": found.is_lower_bound,
                    "shown": f"at least {shown}" if found.is_lower_bound else shown,
                    "seeds": found.seeds,
                }
            )
    return rows


def _sorted_values(values: list[Any]) -> list[Any]:
    """What is usual may have no number: every Payment comes between few and many."""
    if None not in values or len(values) < 2:
        return values
    others = [value for value in values if value is not None]
    return [*others[:1], None, *others[1:]]


def _paper_value(measure: str, scheme: str, parameter: str, value: Any) -> float | None:
    match measure, parameter:
        case "peak", "warehouses":
            return PEAKS_TPS_BY_WAREHOUSES.get((scheme, value))
        case "peak", "exec_scale" if scheme in PEAKS_TPS:
            return PEAKS_TPS[scheme] / float(value)
        case _:
            return None
