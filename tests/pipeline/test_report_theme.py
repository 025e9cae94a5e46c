"""Report, live page and documentation have the same colours and fonts."""

import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import pytest

from creekdb.pipeline.report.charts.theme import colours
from creekdb.torture.report import THEME

ROOT = Path(__file__).parents[2]
REPORT = resources.files("creekdb.pipeline.report").joinpath("templates", "page.css").read_text()
PAGE = resources.files("creekdb.http.page").joinpath("assets", "page.css").read_text()
SITE = (ROOT / "docs" / "assets" / "site.css").read_text()
THEMES = {
    (PAGE, "light"): ":root {",
    (PAGE, "dark"): ':root[data-theme="dark"] {',
    (SITE, "light"): '[data-md-color-scheme="default"] {',
    (SITE, "dark"): '[data-md-color-scheme="slate"] {',
}
NAMES = {"warning": "unsure"}
"""Names of colours on the live page that differ from those of the report."""


def variables(css: str, selector: str) -> dict[str, str]:
    block = css[css.index(selector) :].partition("}")[0]
    return dict(re.findall(r"--([\w-]+): ([^;]+);", block))


@pytest.mark.parametrize(("css", "theme"), THEMES, ids=("page", "page-dark", "site", "site-dark"))
def test_the_colours_are_those_of_the_report(css: str, theme: str) -> None:
    ours: Mapping[str, str] = colours(["creek"], dark=theme == "dark")
    theirs = variables(css, THEMES[css, theme])
    shared = {name: theirs.get(NAMES.get(name, name)) for name in ours}
    known = {name: colour for name, colour in shared.items() if colour is not None}
    assert known.keys() >= {"background", "ink", "soft", "line", "wash", "accent"}
    assert known == {name: ours[name] for name in known}


def test_the_fonts_are_those_of_the_report() -> None:
    fonts = variables(REPORT, ":root {")
    page, site = variables(PAGE, ":root {"), variables(SITE, ":root > * {")
    for name in ("serif", "sans", "mono"):
        assert page[name] == fonts[name]
    assert site["serif"] == fonts["serif"]
    assert fonts["sans"].startswith(site["md-text-font"])
    assert fonts["mono"].startswith(site["md-code-font"])


def test_the_report_of_a_torture_has_the_same_colours() -> None:
    for place, is_dark in enumerate((False, True)):
        ours = colours(["creek"], dark=is_dark)
        shared = {name: each[place] for name, each in THEME.items() if name in ours}
        assert shared.keys() >= {"background", "ink", "soft", "line", "wash"}
        assert shared == {name: ours[name] for name in shared}
