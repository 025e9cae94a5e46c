"""Page of a watched cluster: one file without scripts, which the browser loads again by itself.

It has the style of the report. The charts are drawn when the page is written.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Final, NamedTuple

import vl_convert
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

import creekdb
from creekdb.pipeline.report import formatting
from creekdb.pipeline.report.charts import (
    THOUSANDS_LABEL,
    Axis,
    ChartRows,
    LineGroup,
    theme,
    timeline_chart,
    timeline_row,
)
from creekdb.pipeline.report.charts.theme import DASHES

VEGA_LITE_VERSION: Final = "6.4"
PAGE_FILE: Final = "watch.html"
CHART_WIDTH: Final = 1180
US_PER_S: Final = 1_000_000
PAUSE_STEPS: Final = 5
"""Number of steps without a request after which a line of latencies ends."""
LATENCY_MS_MIN: Final = 0.1
CLOCK_LABEL: Final = "utcFormat(datum.value * 1000, '%H:%M:%S')"
RECENT_STEPS: Final = 10
"""Complete steps over which the throughput in the heading is averaged."""

Row = dict[str, Any]


class WatchView(NamedTuple):
    """Content of the page: rows of WATCH_SCHEMAS, and their origin."""

    servers: Sequence[str]
    cluster: str
    updated_s: float
    """Time of the last refresh, in seconds since 1970."""
    refresh_s: float | None
    """Interval between refreshes; None if there are no more."""
    step_us: int
    total: int
    """Changes since the watch began."""
    throughput: list[Row]
    latency: list[Row]
    apologies: list[Row]
    hot_keys: list[Row]


class KeyNumber(NamedTuple):
    label: str
    value: str
    note: str


def render_page(view: WatchView) -> str:
    """Return the page as HTML."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(_text(__package__, "templates/watch.html"))
    return template.render(
        apologies=view.apologies,
        charts=draw_charts(view),
        colours=theme.colours([], dark=False),
        dark_colours=theme.colours([], dark=True),
        formatting=formatting,
        hot_keys=view.hot_keys,
        numbers=key_numbers(view),
        style=Markup(_text("creekdb.pipeline.report", "templates/page.css")),
        updated=_clock_text(view.updated_s),
        version=creekdb.__version__,
        view=view,
    )


def key_numbers(view: WatchView) -> list[KeyNumber]:
    """Return the figures at the top of the page."""
    recent = _recent_rate(view)
    weak = sum(row["weak"] for row in view.apologies)
    changed = sum(row["apologies"] for row in view.apologies)
    unknown = sum(row["unknown"] for row in view.apologies)
    share = formatting.format_share(changed / (weak - unknown)) if weak > unknown else ""
    return [
        KeyNumber(
            "commits per second",
            formatting.NO_VALUE if recent is None else formatting.format_thousands(recent),
            f"mean of the last complete steps; {_count(view.total)} changes in all",
        ),
        *(
            KeyNumber(
                f"commit latency, {name}",
                formatting.NO_VALUE if row is None else formatting.format_ms(row["p50_us"]),
                "no request yet"
                if row is None
                else f"median of the last step; p99 {formatting.format_ms(row['p99_us'])}",
            )
            for name, row in (("strong", _last(view, True)), ("weak", _last(view, False)))
        ),
        KeyNumber(
            "apologies",
            _count(changed),
            (f"{share} of {_count(weak - unknown)} weak calls" if share else "no weak call yet")
            + (f"; {_count(unknown)} unknown" if unknown else ""),
        ),
    ]


def _recent_rate(view: WatchView) -> float | None:
    totals = _totals(view)
    complete = sorted(totals)[:-1][-RECENT_STEPS:]
    if not complete:
        return None
    span_us = complete[-1] - complete[0] + view.step_us
    return sum(totals[step] for step in complete) * US_PER_S / span_us


def _totals(view: WatchView) -> dict[int, int]:
    totals: dict[int, int] = {}
    for row in view.throughput:
        totals[row["step_us"]] = totals.get(row["step_us"], 0) + row["commits"]
    return totals


def _last(view: WatchView, strong: bool) -> Row | None:
    rows = [row for row in view.latency if row["strong"] == strong]
    return max(rows, key=lambda row: row["step_us"], default=None)


# --- charts --------------------------------------------------------------------------------------


class Chart(NamedTuple):
    title: str
    groups: dict[str, LineGroup]
    svg: Markup


def draw_charts(view: WatchView) -> list[Chart]:
    """Return throughput and latency over time; nothing before the first change."""
    if not view.throughput:
        return []
    palette = theme.css_palette([])
    levels = {
        "weak": LineGroup(palette["accent"]),
        "strong": LineGroup(palette["warning"]),
    }
    percentiles = {
        f"{name}, {percent}": LineGroup(group.colour, DASHES[dash])
        for name, group in levels.items()
        for percent, dash in (("median", "solid"), ("p99", "dashed"))
    }
    steps = sorted(_totals(view))
    times = Axis("UTC", CLOCK_LABEL, [at / US_PER_S for at in (steps[0], steps[-1] + 1)])
    return [
        _chart(
            "Commits per second",
            levels,
            _throughput_rows(view, steps),
            times,
            lambda values: Axis("commits per second", THOUSANDS_LABEL, values, low=0),
        ),
        _chart(
            "Commit latency",
            percentiles,
            _latency_rows(view),
            times,
            lambda values: Axis("milliseconds", "datum.label", values or [1, 10], logarithmic=True),
        ),
    ]


def _chart(
    title: str, groups: dict[str, LineGroup], rows: ChartRows, x: Axis, make_axis: Any
) -> Chart:
    palette = theme.css_palette([])
    y = make_axis([row["value"] for row in rows])
    spec = timeline_chart(rows, groups, [], palette, x, y, title)
    spec["layer"] = [each for each in spec["layer"] if each["mark"]["type"] != "point"]
    spec["params"] = [each for each in spec["params"] if "select" not in each]
    spec["width"] = CHART_WIDTH
    spec["autosize"] = {"type": "pad"}
    svg: str = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE_VERSION)
    shown = {name: group for name, group in groups.items() if _occurs(name, rows)}
    return Chart(
        title, shown, Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1))
    )


def _occurs(group: str, rows: ChartRows) -> bool:
    return any(row["group"] == group for row in rows)


def _throughput_rows(view: WatchView, steps: Sequence[int]) -> ChartRows:
    """Return points of both levels. Steps without a commit count as 0; the last is incomplete."""
    known = {(row["step_us"], row["strong"]): row["per_second"] for row in view.throughput}
    levels = sorted({strong for _, strong in known})
    whole = range(steps[0], steps[-1] + (view.refresh_s is None), view.step_us)
    return [
        _point("strong" if strong else "weak", at, known.get((at, strong), 0.0))
        for strong in levels
        for at in whole
    ]


def _latency_rows(view: WatchView) -> ChartRows:
    """Return points of both levels. A line ends at a pause of several steps."""
    points: ChartRows = []
    pauses = {False: 0, True: 0}
    last_us: dict[bool, int] = {}
    for row in sorted(view.latency, key=lambda row: row["step_us"]):
        strong, at_us = row["strong"], row["step_us"]
        if at_us - last_us.get(strong, at_us) > PAUSE_STEPS * view.step_us:
            pauses[strong] += 1
        last_us[strong] = at_us
        for name, column in (("median", "p50_us"), ("p99", "p99_us")):
            group = f"{'strong' if strong else 'weak'}, {name}"
            value_ms = max(LATENCY_MS_MIN, row[column] / 1000)
            points.append(_point(group, at_us, value_ms, f"{group} {pauses[strong]}"))
    return points


def _point(group: str, at_us: int, value: float, detail: str | None = None) -> Row:
    return timeline_row(group, detail or group, at_us, value, f"{value:.2f}", group)


def _count(value: float) -> str:
    return f"{value:,.0f}".replace(",", formatting.NO_BREAK_SPACE)


def _clock_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _text(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")
