"""Section "Beyond the paper": Creek with its extensions, beside the paper's Creek and Archie.

    figures         Figure 1 with a further system, "Creek, executed once"
    bars            bounds for Creek with all extensions, and whether the runs meet them
    contributions   measures of every set of extensions, at equal warehouses and load
    frontier        latency against the execution ratio of every set, as a picture
    comparisons     wide-area networks by contention, and skewed clocks

"Creek, executed once" is Creek with the largest set of extensions among the runs. The tables of the
section are also written as Markdown. Documents take their numbers from that file.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf, isinf
from typing import Any, Final, NamedTuple

from creekdb.evaluation import EXTENSIONS
from creekdb.history import LIVE_SOURCE
from creekdb.pipeline.report import charts, formatting
from creekdb.pipeline.report.bars import HEADER as BAR_HEADER
from creekdb.pipeline.report.bars import judge_bars
from creekdb.pipeline.report.charts import Axis, ChartPanel, curves
from creekdb.pipeline.report.charts.curves import ChartedSystem, CurveStyle
from creekdb.pipeline.report.charts.theme import EXTENDED, Palette
from creekdb.pipeline.report.evidence import CurvePoint, Evidence
from creekdb.pipeline.report.figures import Figure, draw_figures
from creekdb.pipeline.report.frontier import Setup, draw_frontier
from creekdb.pipeline.report.quantities import Unit
from creekdb.pipeline.report.queries import LATENCY_LOAD_SHARE_MAX
from creekdb.schemes.registry import get_spec
from creekdb.simulation.models.parameters import REGION_POSITIONS_US

EXTENDED_LABEL: Final = "Creek, executed once"
PAPER_LABEL: Final = "Creek, as in the paper"
ARCHIE_LABEL: Final = formatting.scheme_name("archie")
APOLOGIES_PER: Final = 1000
"""Number of weak transactions to which a number of apologies refers."""


class ReportTable(NamedTuple):
    title: str
    header: list[str]
    rows: list[list[str]]


class Comparison(NamedTuple):
    """Systems compared by one parameter, as panels and as a table."""

    key: str
    title: str
    panels: list[ChartPanel]
    table: ReportTable


class BeyondSection(NamedTuple):
    extensions: str
    """Extensions of "Creek, executed once", as a label."""
    figures: list[Figure]
    bars: ReportTable
    contributions: list[ReportTable]
    frontier: list[ChartPanel]
    frontier_table: ReportTable
    comparisons: list[Comparison]
    lines: list[CurveStyle]
    """Lines of the comparisons."""


class _Measure(NamedTuple):
    key: str
    title: str
    name: str
    """Measure in SUMMARY."""
    unit: Unit
    labels: str
    convert: Callable[[float], float] = float
    """Conversion from SUMMARY."""
    of_responses: bool = False
    """True if the measure counts responses that clients have received. A scheme that withholds
    responses is measured by its first executions, which no client has seen."""
    logarithmic: bool = False

    def value(self, scheme: str, mean: float) -> float:
        """Return the measure of a scheme from its mean in SUMMARY."""
        withheld = self.of_responses and not get_spec(scheme).guarantees.tentative
        return self.convert(1.0 if withheld else mean)


_WEAK: Final = _Measure(
    "weak",
    "First response, weak",
    "weak_tentative_mean_us",
    Unit.MICROSECONDS,
    charts.PLAIN_LABEL,
    logarithmic=True,
)
_STABLE: Final = _Measure(
    "stable",
    "Stable response, strong",
    "strong_stable_mean_us",
    Unit.MICROSECONDS,
    charts.PLAIN_LABEL,
)
_FINAL: Final = _Measure(
    "final", "Final response, weak", "weak_stable_mean_us", Unit.MICROSECONDS, charts.PLAIN_LABEL
)
_ACCURACY: Final = _Measure("accuracy", "Accuracy", "accuracy", Unit.SHARE, charts.PERCENT_LABEL)
_EXACT: Final = _Measure(
    "exact", "Exact accuracy", "exact_accuracy", Unit.SHARE, charts.PERCENT_LABEL
)
_APOLOGIES: Final = _Measure(
    "apologies",
    f"Apologies per {APOLOGIES_PER} weak",
    "exact_accuracy",
    Unit.RATIO,
    charts.PLAIN_LABEL,
    lambda accuracy: APOLOGIES_PER * (1 - accuracy),
    of_responses=True,
)
_EXECUTIONS: Final = _Measure(
    "executions", "Execution ratio", "execution_ratio", Unit.RATIO, charts.PLAIN_LABEL
)
_CORES: Final = _Measure("cores", "Cores busy", "cpu_utilisation", Unit.SHARE, charts.PERCENT_LABEL)
_CONTRIBUTION_MEASURES: Final = (_EXECUTIONS, _EXACT, _WEAK, _FINAL, _STABLE, _CORES)
_WIDE_AREA_MEASURES: Final = (_WEAK, _STABLE, _ACCURACY, _APOLOGIES)
_SKEW_MEASURES: Final = (_WEAK._replace(logarithmic=False), _STABLE, _EXACT, _EXECUTIONS)


def beyond_section(evidence: Evidence, palette: Palette) -> BeyondSection | None:
    """Return the section, or None if no run has extensions."""
    systems = compared_systems(evidence)
    if not systems:
        return None
    frontier = draw_frontier(
        evidence, palette, evidence.extension_sets(), _contribution_setups(evidence)
    )
    return BeyondSection(
        extensions=formatting.format_parameter("extensions", _largest_set(evidence)),
        figures=draw_extended_figures(evidence),
        bars=ReportTable("Bars", BAR_HEADER, [each.cells for each in judge_bars(evidence)]),
        contributions=[*contribution_tables(evidence), *peak_tables(evidence)],
        frontier=frontier.panels,
        frontier_table=ReportTable("Frontier", frontier.header, frontier.rows),
        comparisons=list(_comparisons(evidence, systems, palette)),
        lines=curves.system_lines(systems, ""),
    )


def compared_systems(evidence: Evidence) -> list[ChartedSystem]:
    """Return Creek without and with extensions, and Archie; empty without extensions."""
    if not (extensions := _largest_set(evidence)):
        return []
    return [
        ChartedSystem(
            "creek", EXTENDED_LABEL, {"extensions": extensions}, EXTENDED, shape="triangle-up"
        ),
        ChartedSystem("creek", PAPER_LABEL),
        ChartedSystem("archie", ARCHIE_LABEL),
    ]


def _largest_set(evidence: Evidence) -> str:
    """Return the largest set of extensions of simulated runs. An empty text if all runs are live,
    since these have nothing to be compared with."""
    is_live = evidence.source == LIVE_SOURCE
    return "" if is_live else (evidence.extension_sets() or [""])[-1]


def draw_extended_figures(evidence: Evidence) -> list[Figure]:
    """Return Figure 1 with the extended Creek as a further system."""
    systems = compared_systems(evidence)
    return [
        figure._replace(key=figure.key.replace("figure", "beyond"))
        for figure in (draw_figures(evidence, systems) if systems else ())
    ]


# --- contributions -----------------------------------------------------------------------------


def contribution_tables(evidence: Evidence) -> list[ReportTable]:
    """Return one table per number of warehouses and load at which every set of extensions ran.

    Loads close to saturation are omitted, as for all latencies.
    """
    archie = ChartedSystem("archie", ARCHIE_LABEL)
    tables = []
    for setup in _contribution_setups(evidence):
        where = {"warehouses": setup.warehouses}
        systems = [*_extension_systems(evidence.extension_sets(**where)), archie]
        rows = _table_rows(evidence, systems, _CONTRIBUTION_MEASURES, where, setup.load_tps)
        tables.append(ReportTable(setup.title, _header(_CONTRIBUTION_MEASURES), rows))
    return tables


def _contribution_setups(evidence: Evidence) -> list[Setup]:
    setups = []
    for warehouses in evidence.values("warehouses"):
        where = {"warehouses": warehouses}
        sets = evidence.extension_sets(**where)
        if len(sets) < max(2, len(evidence.extension_sets())):
            continue
        for load_tps in _loads_below_saturation(evidence, _extension_systems(sets), where):
            title = f"{_warehouses_text(warehouses)}, {formatting.format_throughput(load_tps)}"
            setups.append(Setup(title, warehouses, load_tps))
    return setups


def _loads_below_saturation(
    evidence: Evidence, systems: list[ChartedSystem], where: Mapping[str, Any]
) -> list[float]:
    """Return the loads at which every system ran, up to a share of the lowest saturating load."""
    curves_by_load = [_points(evidence, system, _EXECUTIONS, where) for system in systems]
    saturating = [
        load_tps
        for points in curves_by_load
        for load_tps, point in points.items()
        if point.is_saturated
    ]
    limit_tps = LATENCY_LOAD_SHARE_MAX * min(saturating, default=inf)
    common = set.intersection(*map(set, curves_by_load))
    return sorted(load_tps for load_tps in common if load_tps <= limit_tps)


def peak_tables(evidence: Evidence) -> list[ReportTable]:
    """Return a table of the peaks of every set of extensions, by number of warehouses."""
    values = evidence.values("warehouses")
    archie = ChartedSystem("archie", ARCHIE_LABEL)
    systems = [*_extension_systems(evidence.extension_sets()), archie]
    rows = [
        [system.label, *(_peak_text(evidence, system, warehouses) for warehouses in values)]
        for system in systems
    ]
    header = ["system", *map(_warehouses_text, values)]
    return [ReportTable("Peak throughput", header, rows)] if values else []


def _extension_systems(sets: Sequence[str]) -> list[ChartedSystem]:
    return [
        ChartedSystem(
            "creek",
            PAPER_LABEL if not each else formatting.format_parameter("extensions", each),
            {"extensions": each},
        )
        for each in sets
    ]


def _peak_text(evidence: Evidence, system: ChartedSystem, warehouses: int) -> str:
    peak = evidence.peak(system.scheme, **system.overrides, warehouses=warehouses)
    if peak is None:
        return formatting.NO_VALUE
    bound = "at least " if isinf(peak.bound_tps) else ""
    seeds = formatting.format_seeds(peak.seeds)
    return f"{bound}{formatting.format_throughput(peak.mean)} ({seeds})"


def _warehouses_text(count: int) -> str:
    return "1 warehouse" if count == 1 else f"{count} warehouses"


# --- comparisons by one parameter --------------------------------------------------------------


def _comparisons(
    evidence: Evidence, systems: list[ChartedSystem], palette: Palette
) -> Iterator[Comparison]:
    """Yield the comparisons with at least two values of their parameter."""
    for regions in REGION_POSITIONS_US:
        if regions > 1:  # one replica in each
            where = {"regions": regions, "replicas": regions}
            values = evidence.values("warehouses", **where)
            title = f"Wide area: {regions} regions"
            key = f"regions-{regions}"
            measures = _WIDE_AREA_MEASURES, (_EXECUTIONS,)
            varied = _Varied(key, title, "warehouses", values, where, *measures)
            yield from _comparison(evidence, systems, palette, varied)
    skews = evidence.values("clock_skew_us")
    varied = _Varied("skew", "Skewed clocks", "clock_skew_us", skews, {}, _SKEW_MEASURES)
    yield from _comparison(evidence, systems, palette, varied)


class _Varied(NamedTuple):
    """Parameter of a comparison, with its values."""

    key: str
    title: str
    parameter: str
    values: list[Any]
    where: Mapping[str, Any]
    """Other differences from the default setup."""
    measures: tuple[_Measure, ...]
    """Measures of the panels, and the first ones of the table."""
    other_measures: tuple[_Measure, ...] = ()
    """Further measures of the table."""

    @property
    def table_measures(self) -> tuple[_Measure, ...]:
        return (*self.measures, *self.other_measures)

    def setups(self) -> list[dict[str, Any]]:
        return [{**self.where, self.parameter: value} for value in self.values]


def _comparison(
    evidence: Evidence, systems: list[ChartedSystem], palette: Palette, varied: _Varied
) -> Iterator[Comparison]:
    load_tps = _common_load(evidence, systems, varied)
    if load_tps is None or len(varied.values) < 2:
        return
    panels = []
    for measure in varied.measures:
        rows = list(_chart_rows(evidence, systems, varied, measure, load_tps))
        lines = curves.lines_with_points(curves.system_lines(systems, measure.name), rows)
        if not rows:
            continue
        unit = ", ms" if measure.unit is Unit.MICROSECONDS else ""
        description = f"{varied.title}: {measure.title.lower()}{unit}, one line per system"
        labels = [formatting.format_parameter(varied.parameter, each) for each in varied.values]
        y = _value_axis(measure, [row["value"] for row in rows])
        spec = charts.parameter_chart(rows, lines, palette, y, labels, description)
        panels.append(
            ChartPanel(f"beyond-{varied.key}-{measure.key}", spec, f"{measure.title}{unit}")
        )
    title = f"{varied.title}, {formatting.format_throughput(load_tps)}"
    table = _comparison_table(evidence, systems, varied, load_tps)._replace(title=title)
    yield Comparison(varied.key, title, panels, table)


def _common_load(evidence: Evidence, systems: list[ChartedSystem], varied: _Varied) -> float | None:
    """Return the highest load at which both variants of Creek ran with every value, or None."""
    loads = [
        set(_points(evidence, system, _STABLE, setup))
        for system in systems
        if system.scheme == "creek"
        for setup in varied.setups()
    ]
    return max(set.intersection(*loads), default=None) if loads else None


def _chart_rows(
    evidence: Evidence,
    systems: list[ChartedSystem],
    varied: _Varied,
    measure: _Measure,
    load_tps: float,
) -> Iterator[dict[str, Any]]:
    for system in systems:
        for value, setup in zip(varied.values, varied.setups(), strict=True):
            point = _points(evidence, system, measure, setup).get(load_tps)
            if point is not None:
                number = measure.value(system.scheme, point.mean)
                yield {
                    "line": system.label,
                    "parameter": formatting.format_parameter(varied.parameter, value),
                    "value": measure.unit.drawn(number),
                    "paper": None,
                    "paper_text": formatting.NO_VALUE,
                    "bound": point.is_saturated,
                    "shown": formatting.format_number(number, measure.unit),
                    "seeds": point.seeds,
                }


def _value_axis(measure: _Measure, values: list[float]) -> Axis:
    if measure.logarithmic:
        return Axis("", measure.labels, values, logarithmic=True)
    if measure.unit is Unit.SHARE or measure is _EXECUTIONS:
        return Axis("", measure.labels, [*values, 1.0])
    return Axis("", measure.labels, [*values, 0.0], low=0)


def _comparison_table(
    evidence: Evidence, systems: list[ChartedSystem], varied: _Varied, load_tps: float
) -> ReportTable:
    name = varied.parameter.removesuffix("_us").replace("_", " ")
    rows = [
        [label, formatting.format_parameter(varied.parameter, value), *cells]
        for system in systems
        for value, setup in zip(varied.values, varied.setups(), strict=True)
        for label, *cells in _table_rows(evidence, [system], varied.table_measures, setup, load_tps)
    ]
    label, *header = _header(varied.table_measures)
    return ReportTable("", [label, name, *header], rows)


# --- tables ------------------------------------------------------------------------------------


def _header(measures: Sequence[_Measure]) -> list[str]:
    return ["system", *(measure.title.lower() for measure in measures), "seeds"]


def _table_rows(
    evidence: Evidence,
    systems: Sequence[ChartedSystem],
    measures: Sequence[_Measure],
    where: Mapping[str, Any],
    load_tps: float,
) -> list[list[str]]:
    """Return label, measures and number of seeds of each system that ran in this setup."""
    rows = []
    for system in systems:
        points = [_points(evidence, system, each, where).get(load_tps) for each in measures]
        known = [point for point in points if point is not None]
        if known:
            mark = " (saturated)" if any(point.is_saturated for point in known) else ""
            cells = [
                formatting.NO_VALUE
                if point is None
                else formatting.format_number(
                    measure.value(system.scheme, point.mean), measure.unit
                )
                for measure, point in zip(measures, points, strict=True)
            ]
            seeds = str(min(point.seeds for point in known))
            rows.append([f"{system.label}{mark}", *cells, seeds])
    return rows


def _points(
    evidence: Evidence, system: ChartedSystem, measure: _Measure, where: Mapping[str, Any]
) -> dict[float, CurvePoint]:
    """Return the points of a system in a setup, by load."""
    overrides = {**where, **system.overrides}
    curve = evidence.curve(system.scheme, measure.name, **overrides)
    return {point.load_tps: point for point in curve}


def section_markdown(section: BeyondSection) -> str:
    """Return all tables of the section as Markdown."""
    lines = [f"`{EXTENDED_LABEL}` is Creek with these extensions: {section.extensions}.", ""]
    lines += [f"- *{name.replace('_', ' ')}*: {text}" for name, text in EXTENSIONS.items()]
    tables = [section.bars, *section.contributions]
    tables += [section.frontier_table] if section.frontier else []
    for table in (*tables, *(each.table for each in section.comparisons)):
        lines += ["", f"**{table.title}**", ""]
        lines += [_markdown_row(table.header), "|" + "---|" * len(table.header)]
        lines += map(_markdown_row, table.rows)
    return "\n".join([*lines, ""])


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
