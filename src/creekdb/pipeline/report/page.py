"""The page: everything above, in one file that needs no network.

Whatever comes from data is escaped: in the text by the template, in the charts' data as JSON in
which no `<` is left, and in tooltips by the browser. A policy in the page itself allows its own two
scripts, by their hashes, and no request to anywhere.
"""

from base64 import b64encode
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

import vl_convert
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

import creekdb
from creekdb.pipeline.report import words
from creekdb.pipeline.report.checks import checks
from creekdb.pipeline.report.evidence import Evidence
from creekdb.pipeline.report.figures import FIGURES, Figure
from creekdb.pipeline.report.headline import headline
from creekdb.pipeline.report.judging import Judged
from creekdb.pipeline.report.live import live_runs
from creekdb.pipeline.report.made_with import made_with
from creekdb.pipeline.report.paper.latency import UP_TO
from creekdb.pipeline.report.statements import grouped, tally
from creekdb.pipeline.report.theme import colours, css_name, of_style_sheet
from creekdb.pipeline.report.timelines import timelines
from creekdb.pipeline.report.transactions import by_transaction
from creekdb.pipeline.report.variations import scheme_lines, variations

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
        up_to=words.percent(UP_TO),
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
        + [by_name[name]["shown"] if name in by_name else words.NOTHING for name in names]
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
    return files(__package__).joinpath("page", name).read_text(encoding="utf-8")
