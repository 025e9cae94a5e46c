"""The configuration and the command of every run.

The page: everything above, in one file that needs no network.

Whatever comes from data is escaped: in the text by the template, in the charts' data as JSON in
which no `<` is left, and in tooltips by the browser. A policy in the page itself allows its own two
scripts, by their hashes, and no request to anywhere.

Writing the page and its pictures.
"""

from base64 import b64encode
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

import vl_convert
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

import creekdb
from creekdb.errors import StorageFault
from creekdb.pipeline.report import claims, formatting
from creekdb.pipeline.report.charts import curves
from creekdb.pipeline.report.charts.theme import colours, css_name, of_picture, of_style_sheet
from creekdb.pipeline.report.checks import checks
from creekdb.pipeline.report.claims import Judged, Mark, grouped, judge, tally
from creekdb.pipeline.report.evidence import SETUP, Evidence, Row, read_tables
from creekdb.pipeline.report.figures import FIGURES, Figure
from creekdb.pipeline.report.live_runs import live_runs
from creekdb.pipeline.report.live_runs import summary as live_summary
from creekdb.pipeline.report.paper.claim import UP_TO
from creekdb.pipeline.report.quantities import Unit
from creekdb.pipeline.report.summary import by_transaction, headline
from creekdb.pipeline.report.timelines import timelines
from creekdb.pipeline.report.variations import scheme_lines, variations


def made_with(evidence: Evidence) -> dict[str, Any]:
    done = {row["run"]: row["throughput_tps"] for row in evidence.tables.measures}
    order = curves.ordered(evidence.schemes)
    runs = sorted(evidence.tables.runs, key=lambda row: (_place(order, row["scheme"]), row["run"]))
    count = formatting.number(len(runs), Unit.COUNT)
    return {
        "text": "What all runs have in common, unless it says otherwise: the paper’s environment. "
        "Each command makes the same run again, to the last event, on any machine; but that of a "
        "live run makes another one like it.",
        "title": f"All {count} runs and their commands",
        "usual": [
            (name.replace("_", " "), formatting.parameter(name, value))
            for name, value in evidence.usual.items()
            if name != "faults"
        ],
        "rows": [_row(evidence, row, done.get(row["run"])) for row in runs],
    }


def _place(order: list[str], scheme: str) -> int:
    return order.index(scheme) if scheme in order else len(order)


def _row(evidence: Evidence, row: Row, done_tps: float | None) -> dict[str, Any]:
    differs = [
        f"{name.replace('_', ' ')} {formatting.parameter(name, row[name])}"
        for name in SETUP
        if row[name] != evidence.usual[name]
    ]
    return {
        "run": row["run"],
        "scheme": formatting.name_of(row["scheme"]),
        "differs": ", ".join(differs) or formatting.NOTHING,
        "load": formatting.NOTHING
        if row["load_tps"] is None
        else formatting.throughput(row["load_tps"]),
        "seed": row["seed"],
        "done": formatting.NOTHING if done_tps is None else formatting.throughput(done_tps),
        "command": row["command"],
    }


VEGA_LITE: Final = "6.4"
"""Of those that vl-convert brings: what altair writes for."""
EXPOSED: Final = "window.vegaEmbed = vegaEmbed;"
"""What the page's script uses of the libraries."""


def page(evidence: Evidence, judged: list[Judged]) -> str:
    palette = of_style_sheet(evidence.schemes)
    figures = [figure for draw in FIGURES if (figure := draw(evidence, palette, False))]
    varied = variations(evidence, palette)
    timed = timelines(evidence, palette)
    lived = live_runs(evidence, palette)
    charts: dict[str, Any] = {figure.key: _chart(figure) for figure in figures}
    rows = [row.panels for row in varied] + [each.panels for each in timed]
    rows += [row for each in lived for row in each.panels]
    charts |= {panel.key: {"spec": panel.spec} for row in rows for panel in row}
    script, bundle = _file("page.js"), _bundle()
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(_file("page.html"))
    return template.render(
        bundle=Markup(bundle),
        charts=charts,
        checks=checks(evidence),
        figures=[figure._asdict() | {"numbers": _numbers(figure)} for figure in figures],
        headline=headline(evidence, judged),
        live=lived,
        palette=palette,
        runs=made_with(evidence),
        script=Markup(script),
        script_hashes=Markup(" ".join(map(_hash, (bundle, script)))),
        sections=_sections(figures, bool(varied), bool(timed), bool(lived)),
        statements=grouped(judged),
        style=Markup(_variables(evidence.schemes) + _file("page.css")),
        tally=tally(judged),
        transactions=by_transaction(evidence),
        timelines=timed,
        up_to=formatting.percent(UP_TO),
        variation_lines=scheme_lines(evidence),
        variations=varied,
        version=creekdb.__version__,
    )


def _chart(figure: Figure) -> dict[str, Any]:
    """What the script needs of a figure."""
    return {
        "spec": figure.spec,
        "hidden": [line.label for line in figure.lines if not line.shown],
        "statistics": figure.statistics,
        "x_kinds": figure.x_kinds,
    }


def _numbers(figure: Figure) -> dict[str, Any]:
    """The points of a figure as a table, its statistics side by side."""
    names = list(figure.statistics) or [figure.tells]
    rows: dict[tuple[str, float], dict[str, dict[str, Any]]] = {}
    for row in figure.rows:
        key = row["line"], row["throughput"]
        rows.setdefault(key, {})[row.get("statistic", figure.tells)] = row
    cells = [
        [line, first["asked"], first["done"], first["interval"]]
        + [by_name[name]["shown"] if name in by_name else formatting.NOTHING for name in names]
        for (line, _), by_name in rows.items()
        for first in [next(iter(by_name.values()))]
    ]
    return {"header": ["line", "asked for", "done", f"{names[0]}, interval", *names], "rows": cells}


def _sections(
    figures: list[Figure], varied: bool, timed: bool, lived: bool
) -> Iterable[tuple[str, str]]:
    for figure in figures:
        yield figure.key, figure.tells.capitalize()
    if varied:
        yield "variations", "Variations"
    if timed:
        yield "partition", "Partition"
    if lived:
        yield "live", "Live"
    yield from (("paper", "Paper"), ("checks", "Checks"), ("runs", "Runs"))


def _variables(schemes: list[str]) -> str:
    """The colours, in light and dark: by the reader's system, or by the switch. Print is light."""

    def block(dark: bool) -> str:
        named = colours(schemes, dark) | {"accent": colours(["creek"], dark)["scheme-creek"]}
        return "".join(f"--{css_name(name)}:{colour};" for name, colour in named.items())

    return (
        f":root{{color-scheme:light;{block(False)}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light])"
        f"{{color-scheme:dark;{block(True)}}}}}\n"
        f"@media screen{{:root[data-theme=dark]{{color-scheme:dark;{block(True)}}}}}\n"
    )


@cache
def _bundle() -> str:
    """The libraries that draw, without anything that would end a script early."""
    bundle: str = vl_convert.javascript_bundle(EXPOSED, vl_version=VEGA_LITE)
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _hash(script: str) -> str:
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"


def _file(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


PAGE: Final = "report.html"
TABLE: Final = "statements.md"
PICTURES: Final = "figures"
SHARPNESS: Final = 2
"""Pixels of a PNG for each of the drawing."""


class Report(NamedTuple):
    page: Path
    summary: list[str]
    """A line each."""


def write_report(out: Path) -> Report:
    """What an earlier report left there is replaced."""
    evidence = Evidence(read_tables(out))
    judged = judge(evidence)
    target = out / PAGE
    beside = out / f".{PAGE}.partial"
    try:
        _write_pictures(evidence, out / PICTURES)
        (out / TABLE).write_text(claims.table(judged), encoding="utf-8")
        beside.write_text(page(evidence, judged), encoding="utf-8")
        beside.replace(target)
    except OSError as error:
        raise StorageFault(f"cannot write to {out}: {error.strerror or error}") from error
    return Report(target, [_summary(judged), *live_summary(evidence)])


def _summary(judged: list[Judged]) -> str:
    marks = [each.mark for each in judged]
    hold, differ, not_measured = (marks.count(mark) for mark in Mark)
    counts = f"{hold} hold, {differ} differ, {not_measured} not measured"
    return f"{len(marks)} statements of the paper: {counts}"


def _write_pictures(evidence: Evidence, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    palette = of_picture(evidence.schemes)
    for draw in FIGURES:
        figure = draw(evidence, palette, True)
        if figure is None:
            continue
        svg: str = vl_convert.vegalite_to_svg(figure.spec, vl_version=VEGA_LITE)
        png: bytes = vl_convert.vegalite_to_png(figure.spec, vl_version=VEGA_LITE, scale=SHARPNESS)
        (folder / f"{figure.key}.svg").write_text(svg, encoding="utf-8")
        (folder / f"{figure.key}.png").write_bytes(png)
