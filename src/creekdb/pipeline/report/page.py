"""Report page and picture files.

The page is one file that needs no network. All data is escaped: in texts by the template, in chart
data as JSON without `<`, and in tooltips by the browser. The content security policy of the page
admits its own two scripts, by their hashes, and no network request.
"""

from base64 import b64encode
from collections import Counter
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final, NamedTuple

import vl_convert
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

import creekdb
from creekdb.errors import StorageFault
from creekdb.evaluation import EXTENSIONS
from creekdb.pipeline.report import formatting
from creekdb.pipeline.report.beyond import (
    beyond_section,
    draw_extended_figures,
    section_markdown,
)
from creekdb.pipeline.report.charts import curves, theme
from creekdb.pipeline.report.checks import checks_section
from creekdb.pipeline.report.claims import ClaimResult, ClaimStatus, evaluate_claims, markdown_table
from creekdb.pipeline.report.evidence import Evidence, ReportRow, read_report_tables
from creekdb.pipeline.report.figures import Figure, draw_figures
from creekdb.pipeline.report.live_runs import draw_live_runs
from creekdb.pipeline.report.live_runs import summary_lines as live_summary
from creekdb.pipeline.report.paper import PEAKS_TPS
from creekdb.pipeline.report.queries import LATENCY_LOAD_SHARE_MAX
from creekdb.pipeline.report.summary import headline, transaction_latencies
from creekdb.pipeline.report.timelines import draw_timelines
from creekdb.pipeline.report.variations import draw_variations, variation_lines
from creekdb.pipeline.storage import Location

VEGA_LITE_VERSION: Final = "6.4"
"""Vega-Lite version that altair targets, among those in vl-convert."""
BUNDLE_ENTRY: Final = "window.vegaEmbed = vegaEmbed;"
"""Entry point of the libraries that the script of the page uses."""


def render_page(
    evidence: Evidence, results: list[ClaimResult], watch_page: str | None = None
) -> str:
    """Return the page as HTML. `watch_page` is the relative path of the page of a live run."""
    palette = theme.css_palette(evidence.schemes)
    figures = draw_figures(evidence)
    variations = draw_variations(evidence, palette)
    beyond = beyond_section(evidence, palette)
    timelines = draw_timelines(evidence, palette)
    live = draw_live_runs(evidence, palette)
    extended = beyond.figures if beyond else []
    charts: dict[str, Any] = {
        figure.key: _chart_data(figure, palette) for figure in (*figures, *extended)
    }
    rows = [beyond.frontier, *(each.panels for each in beyond.comparisons)] if beyond else []
    rows += [row.panels for row in variations] + [each.panels for each in timelines]
    rows += [row for each in live for row in each.panels]
    charts |= {panel.key: {"spec": panel.spec} for row in rows for panel in row}
    script, bundle = _template_text("page.js"), _script_bundle()
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(_template_text("page.html"))
    return template.render(
        beyond=beyond,
        bundle=Markup(bundle),
        charts=charts,
        checks=checks_section(evidence),
        colours=partial(theme.colours, evidence.schemes),
        css_name=theme.css_name,
        default_setup=evidence.default_setup,
        extended_figures=[(figure, _figure_table(figure)) for figure in extended],
        extension_texts=EXTENSIONS,
        figures=[(figure, _figure_table(figure)) for figure in figures],
        formatting=formatting,
        headline=headline(evidence),
        live=live,
        palette=palette,
        paper_peak_tps=PEAKS_TPS["creek"],
        results=results,
        runs=_sorted_runs(evidence),
        script=Markup(script),
        script_hashes=Markup(" ".join(map(_csp_hash, (bundle, script)))),
        source=evidence.source,
        style=Markup(_template_text("page.css")),
        tally=Counter(each.status for each in results),
        timelines=timelines,
        transactions=transaction_latencies(evidence),
        up_to=formatting.format_percent(LATENCY_LOAD_SHARE_MAX),
        variation_lines=variation_lines(evidence),
        variations=variations,
        version=creekdb.__version__,
        watch_page=watch_page,
    )


def _chart_data(figure: Figure, palette: theme.Palette) -> dict[str, Any]:
    """Return the data of a figure for the script."""
    return {
        "spec": figure.chart.spec(palette),
        "hidden": [line.label for line in figure.chart.lines if not line.shown],
        "statistics": figure.statistics,
        "x_kinds": figure.chart.x.both_scales("x"),
    }


def _figure_table(figure: Figure) -> dict[str, Any]:
    """Return the points of a figure as a table, with one column per statistic."""
    chart = figure.chart
    names = list(figure.statistics) or [chart.value_label]
    rows: dict[tuple[str, float], dict[str, dict[str, Any]]] = {}
    for row in chart.rows:
        key = row["line"], row["throughput"]
        rows.setdefault(key, {})[row["statistic"]] = row
    cells = [
        [line, first["offered"], first["achieved"], first["interval"]]
        + [by_name[name]["shown"] if name in by_name else formatting.NO_VALUE for name in names]
        for (line, _), by_name in rows.items()
        for first in [next(iter(by_name.values()))]
    ]
    header = ["line", "offered load", "throughput", f"{names[0]}, interval", *names]
    return {"header": header, "rows": cells}


def _sorted_runs(evidence: Evidence) -> list[ReportRow]:
    """Return the runs by scheme, each with its measured throughput."""
    throughputs = {row["run"]: row["throughput_tps"] for row in evidence.tables.measures}
    order = curves.in_paper_order(sorted({row["scheme"] for row in evidence.tables.runs}))
    runs = sorted(evidence.tables.runs, key=lambda row: (order.index(row["scheme"]), row["run"]))
    return [row | {"throughput_tps": throughputs.get(row["run"])} for row in runs]


@cache
def _script_bundle() -> str:
    """Return the chart libraries, escaped so that no text in them ends the script element."""
    bundle: str = vl_convert.javascript_bundle(BUNDLE_ENTRY, vl_version=VEGA_LITE_VERSION)
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _csp_hash(script: str) -> str:
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"


def _template_text(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


PAGE_FILE: Final = "report.html"
WATCH_PAGE: Final = "watch/watch.html"
"""Page of the watch of a recorded live run, relative to the report."""
CLAIMS_FILE: Final = "statements.md"
BEYOND_FILE: Final = "beyond.md"
PICTURES_DIR: Final = "figures"
PNG_SCALE: Final = 2
"""Pixels of a PNG per unit of the drawing."""


class Report(NamedTuple):
    """Location of the written page, and its summary."""

    page: Location
    summary: list[str]
    """Lines for a terminal."""


def write_report(out: Location) -> Report:
    """Write the page, the statements and the pictures; replace those of an earlier report.

    The tables of Creek's extensions are a file of their own, if there are any.
    """
    evidence = Evidence(read_report_tables(out))
    results = evaluate_claims(evidence)
    statements = markdown_table(results, evidence.source)
    beyond = beyond_section(evidence, theme.picture_palette(evidence.schemes))
    has_watch = (out / WATCH_PAGE).is_file()
    try:
        if beyond is not None:
            (out / BEYOND_FILE).write_bytes(section_markdown(beyond).encode())
        _write_pictures(evidence, out / PICTURES_DIR)
        (out / CLAIMS_FILE).write_bytes(statements.encode())
        (out / PAGE_FILE).write_bytes(
            render_page(evidence, results, WATCH_PAGE if has_watch else None).encode()
        )
    except OSError as error:
        raise StorageFault(f"cannot write to {out}: {error.strerror or error}") from error
    return Report(
        out / PAGE_FILE, [_claims_line(results, evidence.source), *live_summary(evidence)]
    )


def _claims_line(results: list[ClaimResult], source: str) -> str:
    tally = Counter(each.status for each in results)
    hold, differ, not_measured = (tally[status] for status in ClaimStatus)
    counts = f"{hold} hold, {differ} differ, {not_measured} not measured"
    return f"{len(results)} statements of the paper, {source} runs: {counts}"


def _write_pictures(evidence: Evidence, directory: Location) -> None:
    palette = theme.picture_palette(evidence.schemes)
    for figure in (*draw_figures(evidence), *draw_extended_figures(evidence)):
        spec = figure.chart.picture_spec(palette)
        svg: str = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE_VERSION)
        png: bytes = vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE_VERSION, scale=PNG_SCALE)
        (directory / f"{figure.key}.svg").write_bytes(svg.encode())
        (directory / f"{figure.key}.png").write_bytes(png)
