"""One axis of a chart: from where to where it goes, and how its numbers are written."""

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Any, Final

import altair as alt

THOUSANDS: Final = "datum.value >= 1000 ? format(datum.value / 1000, '~r') + 'k' : datum.label"
PERCENT: Final = "format(datum.value * 100, '~r') + ' %'"
PLAIN: Final = "format(datum.value, '~r')"
ROUND: Final = (1, 2, 5)
FINE: Final = (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9)
ROUND_FROM: Final = 8
"""Where an axis on which a multiple counts spans more than this, only round numbers are marked."""
TENS: Final = (1,)
TENS_FROM: Final = 500
"""And where it spans more than this, only powers of ten."""
TICKS_MAX: Final = 9
"""Of more than these every second one would be left out, and round numbers with them."""
MARGIN: Final = 0.06
"""How much of an axis is left free beyond its last value."""


class Axis:
    """One axis: its title, its labels, whether it is logarithmic, and from where to where."""

    def __init__(
        self,
        title: str,
        labels: str,
        values: Sequence[float],
        logarithmic: bool = False,
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        self.title = title
        self.labels = labels
        self.logarithmic = logarithmic
        self.values = values
        self.low, self.high = _ends(values, logarithmic, low, high)

    def either(self, name: str) -> dict[str, dict[str, Any]]:
        """What the page's script needs to know to draw it both ways."""
        both = {
            "log": Axis(self.title, self.labels, self.values, logarithmic=True),
            "linear": Axis(self.title, self.labels, self.values, low=0),
        }
        return {
            kind: {"low": axis.low, "high": axis.high}
            | ({"ticks": axis.ticks(name)} if axis.logarithmic else {})
            for kind, axis in both.items()
        }

    def scale(self, name: str) -> alt.Scale:
        return alt.Scale(
            type="log" if self.logarithmic else "linear",
            domainMin=alt.ExprRef(f"{name}_low"),
            domainMax=alt.ExprRef(f"{name}_high"),
            nice=False,
            zero=alt.Undefined if self.logarithmic else False,
        )

    def axis(self, name: str, count: int) -> alt.Axis:
        return alt.Axis(
            title=self.title,
            labelExpr=self.labels,
            tickCount=max(count, TICKS_MAX) if self.logarithmic else count,
            labelOverlap=True,
            values=alt.ExprRef(self.ticks(name)) if self.logarithmic else alt.Undefined,
        )

    def ticks(self, name: str) -> str:
        """Where an axis on which a multiple counts is marked: more closely, once zoomed into."""
        spread = f"{name}_high / {name}_low"
        fine = f"{spread} > {ROUND_FROM} ? {_ticks(self, ROUND)} : {_ticks(self, FINE)}"
        return f"{spread} > {TENS_FROM} ? {_ticks(self, TENS)} : {fine}"

    def parameters(self, name: str) -> list[alt.Parameter]:
        return [
            alt.param(name=f"{name}_low", value=self.low),
            alt.param(name=f"{name}_high", value=self.high),
        ]


def _ticks(axis: Axis, leading: Sequence[float]) -> list[float]:
    decades = range(floor(log10(axis.low)), ceil(log10(axis.high)))
    return [round(digits * 10.0**decade, 6) for decade in decades for digits in leading]


def _ends(
    values: Sequence[float], logarithmic: bool, low: float | None, high: float | None
) -> tuple[float, float]:
    least, most = min(values, default=1.0), max(values, default=2.0)
    if logarithmic:
        room = 10 ** (MARGIN * max(log10(most / least), 0.3))
        return low or least / room, high or most * room
    room = MARGIN * ((most - least) or abs(most) or 1)
    return (
        least - room if low is None else low,
        most + room if high is None else high,
    )
