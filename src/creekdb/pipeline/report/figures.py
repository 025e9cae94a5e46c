"""Figure 1 of the paper, redrawn, and what belongs beside each drawing in a page."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from creekdb.pipeline.report import charts, formatting
from creekdb.pipeline.report.charts import Axis, Rows, curves
from creekdb.pipeline.report.charts.curves import Line
from creekdb.pipeline.report.charts.theme import Palette
from creekdb.pipeline.report.evidence import Evidence
from creekdb.pipeline.report.paper.reference_values import ACCURACY, PEAKS_TPS
from creekdb.pipeline.report.quantities import Unit

HEADROOM: Final = 2.5
"""How many times the highest latency below saturation the axis goes up to: beyond, curves only
strike up."""
ROOM_BELOW: Final = 0.8
COMPARED: Final = {"but for order numbers": "accuracy", "to the letter": "exact_accuracy"}
CLOSE: Final = 1.3
"""Peaks that are not further apart are named beside the lowest of them, one below the other."""
ROOM_RIGHT: Final = 4
"""A peak is named on its right where the next one is so many times as high."""


class Figure(NamedTuple):
    """A chart with its legend, its numbers and what can be done with it."""

    key: str
    title: str
    text: str
    spec: dict[str, Any]
    lines: list[Line]
    rows: Rows
    tells: str
    choice: str
    """What can be chosen: of what is the value?"""
    statistics: dict[str, list[float]]
    """The choices, with the ends of the axis for each; empty where there is none."""
    x_kind: str
    x_kinds: dict[str, dict[str, Any]]
    """Its throughput can be shown on either kind of axis; this is how."""


Draw = Callable[[Evidence, Palette, bool], Figure | None]


def figure_1a(evidence: Evidence, palette: Palette, picture: bool = False) -> Figure | None:
    lines, rows = _present(
        lines := curves.latency_lines(evidence.schemes), curves.latency_rows(evidence, lines)
    )
    if not rows:
        return None
    x = _throughput(rows, logarithmic=True)
    ends = {name: _latency_ends(rows, name) for name in curves.STATISTICS}
    low, high = ends["mean"]
    y = Axis("latency, ms", charts.PLAIN, [low, high], logarithmic=True, low=low, high=high)
    spec = charts.against_throughput(
        rows,
        lines,
        palette,
        x,
        y,
        description="Latency against achieved throughput, by system and kind of answer",
        tells="latency",
        marks=_paper_peaks(evidence, palette),
        statistic="mean",
        picture=picture,
    )
    return Figure(
        key="figure-1a",
        title="Latency against throughput",
        text="How long a client waits at its replica, as the system is asked for more. Where a "
        "line strikes up, the backlog begins to grow. Solid lines are stable answers, dashed ones "
        "tentative, dotted ones what a system could have answered but keeps to itself; circles are "
        "weak transactions, squares strong ones. A hollow mark was asked for more than it can do.",
        spec=spec,
        lines=lines,
        rows=rows,
        tells="latency",
        choice="Statistic",
        statistics=ends,
        x_kind="log",
        x_kinds=x.either("x"),
    )


def figure_1b(evidence: Evidence, palette: Palette, picture: bool = False) -> Figure | None:
    speculating = [scheme for scheme in evidence.schemes if scheme != "smr"]
    lines = curves.scheme_lines(speculating, "accuracy")
    rows = [
        row | {"statistic": name}
        for name, measure in COMPARED.items()
        for row in curves.measure_rows(
            evidence, [line._replace(measure=measure) for line in lines], Unit.SHARE
        )
    ]
    lines, rows = _present(lines, rows)
    if not rows:
        return None
    ends = {name: _accuracy_ends(rows, name) for name in COMPARED}
    low, high = next(iter(ends.values()))
    return _plain(
        "figure-1b",
        "Accuracy of speculation",
        "How many weak transactions were answered at once with what turned out to be true. The "
        "shaded band is what the paper reports of Creek. It cannot have counted the numbers that "
        "orders are given: two orders of a district, placed within one network delay, are both "
        "told the next one.",
        "accuracy",
        lines,
        rows,
        palette,
        Axis("accuracy", charts.PERCENT, [low, high], low=low, high=high),
        marks=[{"low": ACCURACY[5].low, "high": ACCURACY[5].high}],
        picture=picture,
        choice="Answers compared",
        statistics=ends,
    )


def figure_1c(evidence: Evidence, palette: Palette, picture: bool = False) -> Figure | None:
    lines, rows = _present(
        lines := curves.scheme_lines(evidence.schemes, "execution_ratio"),
        curves.measure_rows(evidence, lines, Unit.RATIO),
    )
    if not rows:
        return None
    y = Axis("executions", charts.PLAIN, [row["value"] for row in rows] + [1.0])
    return _plain(
        "figure-1c",
        "Execution ratio",
        "How often a transaction is executed at a replica, on average. One is never twice: what is "
        "above it is work that was done in vain.",
        "executions",
        lines,
        rows,
        palette,
        y,
        marks=[],
        picture=picture,
    )


FIGURES: Final[tuple[Draw, ...]] = (figure_1a, figure_1b, figure_1c)


def _plain(
    key: str,
    title: str,
    text: str,
    tells: str,
    lines: list[Line],
    rows: Rows,
    palette: Palette,
    y: Axis,
    marks: Rows,
    picture: bool,
    choice: str = "",
    statistics: dict[str, list[float]] | None = None,
) -> Figure:
    x = _throughput(rows, logarithmic=False)
    spec = charts.against_throughput(
        rows,
        lines,
        palette,
        x,
        y,
        description=f"{title} against achieved throughput, a line for each system",
        tells=tells,
        marks=marks,
        statistic=next(iter(statistics)) if statistics else None,
        height=charts.MIDDLE,
        picture=picture,
    )
    return Figure(
        key=key,
        title=title,
        text=text,
        spec=spec,
        lines=lines,
        rows=rows,
        tells=tells,
        choice=choice,
        statistics=statistics or {},
        x_kind="linear",
        x_kinds=x.either("x"),
    )


def _present(lines: list[Line], rows: Rows) -> tuple[list[Line], Rows]:
    """Only lines that have a point."""
    there = {row["line"] for row in rows}
    return [line for line in lines if line.label in there], rows


def _throughput(rows: Rows, logarithmic: bool) -> Axis:
    done = [row["throughput"] for row in rows if row["throughput"] > 0]
    low = None if logarithmic else 0.0
    return Axis("transactions per second", charts.THOUSANDS, done, logarithmic, low=low)


def _latency_ends(rows: Rows, statistic: str) -> list[float]:
    chosen = [row for row in rows if row["statistic"] == statistic]
    calm = [row["value"] for row in chosen if not row["saturated"]] or [
        row["value"] for row in chosen
    ]
    return [max(min(calm) * ROOM_BELOW, 0.001), max(calm) * HEADROOM]


def _accuracy_ends(rows: Rows, statistic: str) -> list[float]:
    values = [row["value"] for row in rows if row["statistic"] == statistic]
    lowest = min([*values, ACCURACY[5].low])
    room = (1 - lowest) * charts.MARGIN
    return [lowest - room, 1 + room]


def _paper_peaks(evidence: Evidence, palette: Palette) -> Rows:
    """An upright line at every peak of the paper, of systems that are there."""
    schemes: dict[float, list[str]] = {}
    for scheme, peak in PEAKS_TPS.items():
        if scheme in evidence.schemes:
            schemes.setdefault(peak, []).append(scheme)
    return [
        {
            "x": peak,
            "beside": min(other for other in schemes if other * CLOSE > peak),
            "is_right": any(other > peak * ROOM_RIGHT for other in schemes)
            and not any(peak < other <= peak * ROOM_RIGHT for other in schemes),
            "row": 2 + 15 * row,
            "text": f"paper: {' and '.join(map(formatting.name_of, named))} {peak / 1000:g}k",
            "colour": palette.scheme(named[0]),
        }
        for row, (peak, named) in enumerate(schemes.items())
    ]
