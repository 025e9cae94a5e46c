"""Colours, dashes and fonts that the page and the picture files share.

In the page, each colour is a CSS variable: the style sheet alone switches between light and dark,
without redrawing charts. A picture file contains the colours themselves.
"""

from collections.abc import Sequence
from itertools import cycle
from typing import Any, Final, TypeAlias

from creekdb.schemes.core.spec import SchemeChart
from creekdb.schemes.registry import SCHEMES

OTHER_COLOURS: Final = (
    ("#a3243b", "#f28a9b"),
    ("#0f766e", "#5fcabf"),
    ("#85660a", "#d9b64a"),
    ("#4553b5", "#9aa6f5"),
)
"""Light and dark colours for schemes without their own."""
EXTENDED: Final = "creek-extended"
"""Name of the colour of Creek with extensions beyond the paper."""
EXTENDED_COLOURS: Final = ("#a1177f", "#ee8fd0")
INK_COLOURS: Final = {
    "background": ("#fcfbf8", "#15181b"),
    "ink": ("#1f2428", "#e8e4dc"),
    "soft": ("#5b636b", "#a3aab1"),
    "line": ("#dedad1", "#33393f"),
    "wash": ("#f3f0e9", "#1d2125"),
    "good": ("#1f7a45", "#66c98f"),
    "bad": ("#b3261e", "#ff8a80"),
    "warning": ("#8a6100", "#e0b44c"),
}
FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"
Dash: TypeAlias = Sequence[float]
"""Lengths of strokes and gaps; empty for a solid line."""
DASHES: Final[dict[str, Dash]] = {"solid": [], "dashed": [6, 4], "dotted": [1.5, 3.5]}


def scheme_chart(scheme: str) -> SchemeChart:
    return SCHEMES[scheme].chart if scheme in SCHEMES else SchemeChart()


class Palette(dict[str, str]):
    """Colours by name."""

    def scheme(self, scheme: str) -> str:
        return self.get(f"scheme-{scheme}", self["ink"])


def colours(schemes: list[str], dark: bool) -> dict[str, str]:
    """Return the colours of the light or dark theme by name, including those of `schemes`."""
    chosen = {name: pair[dark] for name, pair in INK_COLOURS.items()}
    others = cycle(OTHER_COLOURS)
    named = {f"scheme-{scheme}": scheme for scheme in schemes} | {"accent": "creek"}
    for name, scheme in named.items():
        chosen[name] = (scheme_chart(scheme).colours or next(others))[dark]
    chosen[f"scheme-{EXTENDED}"] = EXTENDED_COLOURS[dark]
    return chosen


def css_palette(schemes: list[str]) -> Palette:
    """Return a palette that refers to the CSS variables of the page."""
    return Palette({name: f"var(--{css_name(name)})" for name in colours(schemes, dark=False)})


def picture_palette(schemes: list[str]) -> Palette:
    return Palette(colours(schemes, dark=False))


def css_name(name: str) -> str:
    """Return a valid CSS identifier. A scheme name may contain any character."""
    return "".join(
        char if char.isalnum() and char.isascii() else f"_{ord(char):x}" for char in name
    )


def chart_config(palette: Palette) -> dict[str, Any]:
    """Return the Vega configuration that all charts share."""
    return {
        "background": None,
        "font": FONT,
        "padding": 4,
        "view": {"stroke": None, "cursor": "crosshair"},
        "axis": {
            "domainColor": palette["line"],
            "gridColor": palette["line"],
            "gridOpacity": 0.7,
            "labelColor": palette["soft"],
            "labelFontSize": 12,
            "labelPadding": 6,
            "tickColor": palette["line"],
            "ticks": False,
            "titleColor": palette["soft"],
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 10,
        },
        "axisX": {"grid": False, "ticks": True, "titleAnchor": "end"},
        "axisY": {
            "domain": False,
            "titleAngle": 0,
            "titleAlign": "left",
            "titleAnchor": "end",
            "titleX": 0,
            "titleY": -14,
        },
        "text": {"color": palette["soft"], "fontSize": 11},
    }
