"""Effects of single parameters, with all others at their defaults (Section 6.3)."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from creekdb.pipeline.report import charts, formatting
from creekdb.pipeline.report.charts import Axis, ChartPanel, ChartRows, curves
from creekdb.pipeline.report.charts.curves import CurveStyle
from creekdb.pipeline.report.charts.theme import DASHES, Palette
from creekdb.pipeline.report.evidence import Evidence
from creekdb.pipeline.report.paper import PEAKS_TPS, PEAKS_TPS_BY_WAREHOUSES, SEQUENTIAL_SCHEMES
from creekdb.pipeline.report.quantities import Unit
from creekdb.pipeline.report.queries import (
    STRONG_STABLE,
    Curve,
    Query,
    QueryResult,
    curve_maximum,
    curve_range,
    latency_range,
    peak_throughput,
)

VARIATIONS: Final = {
    "warehouses": "Contention: warehouses",
    "strong_share": "Share of strong transactions",
    "exec_scale": "Execution time",
    "replicas": "Replicas",
    "cores": "Cores",
    "layout": "Layout of the data",
    "local_reads": "Local reads",
}
"""Title of each varied parameter."""


class VariationRow(NamedTuple):
    """Variation with its panels."""

    parameter: str
    title: str
    panels: list[ChartPanel]
    lines: list[CurveStyle]
    """Lines of this variation, if they differ from the common ones."""


class _Measure(NamedTuple):
    """Measure of one panel."""

    key: str
    title: str
    labels: str
    query: Callable[..., Query]
    """Query by scheme and overrides of the default setup."""
    reduce: Callable[[QueryResult], float]
    has_sequential: bool = True
    """True if sequential systems have a meaningful value."""


_MEASURES: Final = (
    _Measure(
        "peak",
        "Peak throughput, tx/s",
        charts.THOUSANDS_LABEL,
        peak_throughput,
        lambda result: result.high,
    ),
    _Measure(
        "stable",
        "Stable latency, strong, ms",
        charts.PLAIN_LABEL,
        lambda scheme, **where: latency_range(scheme, STRONG_STABLE, **where),
        lambda result: result.typical,
        has_sequential=False,
    ),
    _Measure(
        "accuracy",
        "Lowest accuracy",
        charts.PERCENT_LABEL,
        lambda scheme, **where: curve_range(Curve(scheme, "accuracy", where)),
        lambda result: result.low,
        has_sequential=False,
    ),
    _Measure(
        "executions",
        "Highest execution ratio",
        charts.PLAIN_LABEL,
        lambda scheme, **where: curve_maximum(scheme, "execution_ratio", **where),
        lambda result: result.high,
        has_sequential=False,
    ),
)


_VariationCurve: TypeAlias = tuple[CurveStyle, Mapping[str, Any]]
"""Line, and overrides of the default setup."""


def variation_lines(evidence: Evidence) -> list[CurveStyle]:
    return curves.system_lines(curves.systems_of(evidence.schemes), "")


def draw_variations(evidence: Evidence, palette: Palette) -> list[VariationRow]:
    """Draw the variations with at least two values of their parameter."""
    rows = [_variation_row(evidence, palette, parameter) for parameter in VARIATIONS]
    return [row for row in rows if row.panels]


def _variation_row(evidence: Evidence, palette: Palette, varied: str) -> VariationRow:
    is_layout, variation_curves = varied == "layout", _curves(evidence, varied)
    all_lines = [line for line, _ in variation_curves]
    parameter = "warehouses" if is_layout else varied
    panels = []
    for measure in _MEASURES:
        rows = _chart_rows(evidence, variation_curves, parameter, measure)
        values = list(dict.fromkeys(row["parameter"] for row in rows))
        lines = curves.lines_with_points(all_lines, rows)
        if len(values) < 2 or (is_layout and len(lines) < 2):
            continue
        title = f"{evidence.source} {measure.title.lower()}"
        description = f"{title.capitalize()} by {VARIATIONS[varied].lower()}"
        y = _value_axis(measure, rows)
        spec = charts.parameter_chart(rows, lines, palette, y, values, description)
        panels.append(ChartPanel(f"{varied}-{measure.key}", spec, measure.title))
    return VariationRow(varied, VARIATIONS[varied], panels, all_lines if is_layout else [])


def _curves(evidence: Evidence, parameter: str) -> list[_VariationCurve]:
    """Return one line per scheme; for layouts, one per scheme and layout."""
    lines = variation_lines(evidence)
    if parameter != "layout":
        return [(line, {}) for line in lines]
    default = evidence.default_setup["layout"]
    others = [layout for layout in evidence.values("layout") if layout != default]
    return [
        (
            line._replace(
                label=f"{line.label}, {layout}",
                dash=DASHES["solid" if layout == default else "dashed"],
            ),
            {"layout": layout},
        )
        for line in lines
        for layout in (default, *others)
        if any(evidence.peak(line.scheme, layout=other) for other in others)
    ]


def _value_axis(measure: _Measure, rows: ChartRows) -> Axis:
    numbers = [row[name] for row in rows for name in ("value", "paper") if row[name] is not None]
    if measure.query("").unit in (Unit.SHARE, Unit.RATIO):
        return Axis("", measure.labels, [*numbers, 1.0])
    return Axis("", measure.labels, [*numbers, 0.0], low=0)


def _chart_rows(
    evidence: Evidence, variation_curves: list[_VariationCurve], parameter: str, measure: _Measure
) -> ChartRows:
    rows = []
    for line, overrides in variation_curves:
        if not measure.has_sequential and line.scheme in SEQUENTIAL_SCHEMES:
            continue
        for value in _sorted_values(evidence.values(parameter)):
            query = measure.query(line.scheme, **overrides, **{parameter: value})
            result = query.evaluate(evidence)
            if result is None:
                continue
            number = measure.reduce(result)
            paper = None if overrides else _paper_value(measure.key, line.scheme, parameter, value)
            rows.append(
                {
                    "line": line.label,
                    "parameter": formatting.format_parameter(parameter, value),
                    "value": query.unit.drawn(number),
                    "paper": paper,
                    "paper_text": formatting.format_number(paper, Unit.PER_SECOND),
                    "bound": result.is_lower_bound,
                    "shown": ("at least " if result.is_lower_bound else "")
                    + formatting.format_number(number, query.unit),
                    "seeds": result.seeds,
                }
            )
    return rows


def _sorted_values(values: list[Any]) -> list[Any]:
    """Sort the values; None, every Payment strong, goes between the lowest and the others."""
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
