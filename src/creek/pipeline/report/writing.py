"""Writing the page and its pictures."""

from pathlib import Path
from typing import Final

import vl_convert

from creek.pipeline.report.evidence import Evidence
from creek.pipeline.report.figures import FIGURES
from creek.pipeline.report.page import VEGA_LITE, page
from creek.pipeline.report.reading import read_tables
from creek.pipeline.report.theme import of_picture

PAGE: Final = "report.html"
PICTURES: Final = "figures"
SHARPNESS: Final = 2
"""Pixels of a PNG for each of the drawing."""


def write_report(out: Path) -> Path:
    """Returns where the page is. What an earlier report left there is replaced."""
    evidence = Evidence(read_tables(out))
    _write_pictures(evidence, out / PICTURES)
    target = out / PAGE
    beside = target.with_suffix(".html.new")
    beside.write_text(page(evidence), encoding="utf-8")
    beside.replace(target)
    return target


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
