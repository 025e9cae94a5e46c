"""Writing the page and its pictures."""

from pathlib import Path
from typing import Final, NamedTuple

import vl_convert

from creekdb.errors import StorageFault
from creekdb.pipeline.report import live, markdown
from creekdb.pipeline.report.evidence import Evidence
from creekdb.pipeline.report.figures import FIGURES
from creekdb.pipeline.report.judging import Judged, Mark, judge
from creekdb.pipeline.report.page import VEGA_LITE, page
from creekdb.pipeline.report.reading import read_tables
from creekdb.pipeline.report.theme import of_picture

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
        (out / TABLE).write_text(markdown.table(judged), encoding="utf-8")
        beside.write_text(page(evidence, judged), encoding="utf-8")
        beside.replace(target)
    except OSError as error:
        raise StorageFault(f"cannot write to {out}: {error.strerror or error}") from error
    return Report(target, [_summary(judged), *live.summary(evidence)])


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
