"""Colours, dashes and signs: one look for the page and for the pictures beside it.

In the page a colour is the name of a CSS variable, so that light and dark are a matter of the
style sheet alone and a chart is not drawn again. A picture gets the colours themselves.
"""

from typing import Any, Final

SCHEME_COLOURS: Final = {
    "creek": ("#0a67a3", "#62b9f2"),
    "archie": ("#b04a0c", "#f0975a"),
    "smr": ("#5f6773", "#a9b2bf"),
    "bayou": ("#7d4aa8", "#c39bea"),
    "basic": ("#2b7a4b", "#6cc795"),
}
"""In light and in dark; of schemes that the paper has, and of ours."""
OTHER_COLOURS: Final = (
    ("#a3243b", "#f28a9b"),
    ("#0f766e", "#5fcabf"),
    ("#85660a", "#d9b64a"),
    ("#4553b5", "#9aa6f5"),
)
"""Of schemes that somebody adds."""
INK_COLOURS: Final = {
    "background": ("#fcfbf8", "#15181b"),
    "ink": ("#1f2428", "#e8e4dc"),
    "soft": ("#5b636b", "#a3aab1"),
    "line": ("#dedad1", "#33393f"),
    "wash": ("#f3f0e9", "#1d2125"),
    "good": ("#1f7a45", "#66c98f"),
    "bad": ("#b3261e", "#ff8a80"),
    "unsure": ("#8a6100", "#e0b44c"),
}
FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"
SOLID: Final[list[int]] = []
DASHED: Final = [6, 4]
DOTTED: Final = [1.5, 3.5]


class Palette:
    """Which colour has which name."""

    def __init__(self, colours: dict[str, str]) -> None:
        self.colours = colours

    def __getitem__(self, name: str) -> str:
        return self.colours[name]

    def scheme(self, scheme: str) -> str:
        return self.colours.get(f"scheme-{scheme}", self.colours["ink"])


def colours(schemes: list[str], dark: bool) -> dict[str, str]:
    """All names with their colours, for the schemes that are there."""
    chosen = {name: pair[dark] for name, pair in INK_COLOURS.items()}
    added = [scheme for scheme in schemes if scheme not in SCHEME_COLOURS]
    for scheme in schemes:
        pair = SCHEME_COLOURS.get(scheme)
        if pair is None:
            pair = OTHER_COLOURS[added.index(scheme) % len(OTHER_COLOURS)]
        chosen[f"scheme-{scheme}"] = pair[dark]
    return chosen


def css_palette(schemes: list[str]) -> Palette:
    """Each colour as the variable of the style sheet that holds it."""
    return Palette({name: f"var(--{css_name(name)})" for name in colours(schemes, dark=False)})


def picture_palette(schemes: list[str]) -> Palette:
    return Palette(colours(schemes, dark=False))


def css_name(name: str) -> str:
    """A scheme may be called anything; a variable may not."""
    return "".join(
        sign if sign.isalnum() and sign.isascii() else f"_{ord(sign):x}" for sign in name
    )


def chart_config(palette: Palette) -> dict[str, Any]:
    """What all charts have in common."""
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
