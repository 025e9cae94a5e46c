"""Report of a torture: one self-contained page with a timeline.

The faults are bars above. Latency and throughput follow below, on the same time axis. Grey bands
are the times without faults, in which a round starts, converges and is checked.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Final, NamedTuple

from creekdb.checkers import Illegal, Inconclusive, Ok, Verdict
from creekdb.torture.campaign import SecondSample, TortureResult
from creekdb.torture.faults.nemesis import InjectedFault
from creekdb.torture.faults.plan import GROUPS, FaultGroup, FaultKind

REPORT_FILE: Final = "report.html"
LEFT: Final = 86
"""Space for the labels of the axes, in pixels."""
RIGHT: Final = 16
WIDTH_MIN: Final = 1100
PIXELS_PER_S: Final = 7.0
LANE: Final = 17
"""Height of a row of faults, in pixels."""
LABEL_PIXELS: Final = 5.9
"""Width of a character of a label, in pixels."""
PLOT_HEIGHT: Final = 150
GAP: Final = 34
THEME: Final = {
    "background": ("#fcfbf8", "#15181b"),
    "ink": ("#1f2428", "#e8e4dc"),
    "soft": ("#5b636b", "#a3aab1"),
    "line": ("#dedad1", "#33393f"),
    "wash": ("#f3f0e9", "#1d2125"),
    "good": ("#1f7a45", "#66c98f"),
    "bad": ("#b3261e", "#ff8a80"),
    "network": ("#0a67a3", "#62b9f2"),
    "disk": ("#7d4aa8", "#c39bea"),
    "clock": ("#85660a", "#d9b64a"),
    "members": ("#2b7a4b", "#6cc795"),
    "weak": ("#0f766e", "#5fcabf"),
    "strong": ("#b04a0c", "#f0975a"),
}
"""Colours in light and in dark, by the names of CSS variables: those of the live page."""
COLOURS: Final = {
    FaultGroup.PROCESS: "var(--bad)",
    FaultGroup.NETWORK: "var(--network)",
    FaultGroup.DISK: "var(--disk)",
    FaultGroup.CLOCK: "var(--clock)",
    FaultGroup.MEMBERS: "var(--members)",
    FaultGroup.OPERATION: "var(--soft)",
}
WEAK: Final = "var(--weak)"
STRONG: Final = "var(--strong)"
FAILED: Final = "var(--bad)"
LINE: Final = "var(--line)"
_STYLE: Final = """
:root { color-scheme: light; @light }
@media screen and (prefers-color-scheme: dark) { :root { color-scheme: dark; @dark } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1600px;
  color: var(--ink); background: var(--background); padding: 0 1rem; }
h1, h2 { font-family: ui-serif, Georgia, "Liberation Serif", serif; font-weight: 500 }
h1 { font-size: 1.9rem; margin-bottom: .2rem } h2 { font-size: 1.35rem; margin-top: 2rem }
.ok { color: var(--good) } .illegal { color: var(--bad); font-weight: 600 }
.unknown { color: var(--soft) }
.chart { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; padding: 8px }
.picture { background: white }
.timeline text { font: 11px system-ui, sans-serif; fill: var(--soft) }
.timeline .title { font-weight: 600; fill: var(--ink) } .timeline .fault { fill: var(--ink) }
table { border-collapse: collapse } td, th { padding: .2rem 1.1rem .2rem 0; text-align: left;
  vertical-align: top; border-bottom: 1px solid var(--line) }
th { font-weight: 400; color: var(--soft) } .n { text-align: right; white-space: nowrap }
.scroll { overflow-x: auto } .scroll td:last-child { min-width: 16rem }
pre { background: var(--wash); padding: .8rem; overflow-x: auto; border-radius: 8px }
.key span { margin-right: 1.2rem }
"""


class _Axis(NamedTuple):
    """Mapping of seconds to pixels."""

    duration_s: float
    width: float

    def x(self, at_s: float) -> float:
        return round(LEFT + at_s / self.duration_s * (self.width - LEFT - RIGHT), 1)


class _Bar(NamedTuple):
    """A fault in its row."""

    fault: InjectedFault
    lane: int


def render_report(result: TortureResult) -> str:
    """Return the report as one HTML page that needs no other file."""
    verdict = (
        '<span class="illegal">a violation was found</span>'
        if result.has_failed
        else '<span class="ok">no violation was found</span>'
    )
    summary = (
        f"{result.faults} faults, {result.calls} calls, {len(result.rounds)} rounds in "
        f"{result.duration_s / 60:.1f} minutes: {verdict}"
    )
    title = f"Torture of {escape(result.datatype)}, seed {result.seed}"
    parts = [
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_style()}</style></head><body><h1>{title}</h1><p>{summary}</p>",
        *_failure_parts(result),
        f'<h2>Timeline</h2>{_key()}<div class="chart">{render_timeline(result)}</div>',
        f"<h2>Checks</h2>{_checks_table(result)}",
        f"<h2>Faults</h2>{_faults_table(result)}",
        f"<h2>Repeat it</h2><pre>{escape(result.command)}</pre></body></html>",
    ]
    return "\n".join(parts)


# --- timeline ---------------------------------------------------------------------------------


def render_timeline(result: TortureResult) -> str:
    """Return the timeline as an SVG picture."""
    duration_s = max(result.duration_s, 1.0)
    axis = _Axis(duration_s, max(WIDTH_MIN, LEFT + RIGHT + duration_s * PIXELS_PER_S))
    bars = _place_bars([fault for each in result.rounds for fault in each.faults], axis)
    lanes_top = 24
    latency_top = lanes_top + LANE * (1 + max((bar.lane for bar in bars), default=0)) + GAP
    throughput_top = latency_top + PLOT_HEIGHT + GAP
    bottom = throughput_top + PLOT_HEIGHT
    height = bottom + 26
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="timeline" width="{axis.width:g}" '
        f'height="{height}" '
        f'viewBox="0 0 {axis.width:g} {height}" role="img" aria-label="faults, latency and '
        'throughput over time">',
        *_bands(result, axis, lanes_top, bottom),
        *_time_axis(axis, lanes_top, bottom),
        f'<text class="title" x="4" y="{lanes_top + 12}">faults</text>',
        *(_bar_element(bar, axis, lanes_top) for bar in bars),
        *_latency_plot(result.samples, axis, latency_top),
        *_throughput_plot(result.samples, axis, throughput_top),
        "</svg>",
    ]
    return "\n".join(parts)


def _place_bars(faults: Iterable[InjectedFault], axis: _Axis) -> list[_Bar]:
    """Assign each fault to the first row where neither its bar nor its label overlaps another."""
    ends: list[float] = []
    bars: list[_Bar] = []
    for fault in sorted(faults, key=lambda each: each.begin_s):
        begin = axis.x(fault.begin_s)
        end = max(axis.x(fault.end_s), begin + 12 + LABEL_PIXELS * len(_label(fault)))
        lane = next((index for index, each in enumerate(ends) if each < begin), len(ends))
        ends[lane : lane + 1] = [end + 4]
        bars.append(_Bar(fault, lane))
    return bars


def _label(fault: InjectedFault) -> str:
    if not fault.detail[:1].isdigit() or fault.kind is FaultKind.ROLLING_RESTART:
        return fault.kind.value
    side, is_partition, _ = fault.detail.partition(" from ")
    return f"{fault.kind.value} {side if is_partition else side.partition(',')[0]}"


def _bar_element(bar: _Bar, axis: _Axis, top: float) -> str:
    fault = bar.fault
    begin = axis.x(fault.begin_s)
    width = max(3.0, axis.x(fault.end_s) - begin)
    y = top + bar.lane * LANE
    hint = f"{fault.kind.value}: {fault.detail}, {fault.begin_s:.1f} to {fault.end_s:.1f} s"
    return (
        f"<g><title>{escape(hint)}</title>"
        f'<rect x="{begin:g}" y="{y + 2:g}" width="{width:.1f}" height="{LANE - 4}" rx="2" '
        f'fill="{COLOURS[GROUPS[fault.kind]]}" fill-opacity="0.35"/>'
        f'<rect x="{begin:g}" y="{y + 2:g}" width="3" height="{LANE - 4}" '
        f'fill="{COLOURS[GROUPS[fault.kind]]}"/>'
        f'<text class="fault" x="{begin + 6:g}" y="{y + 12:g}">{escape(_label(fault))}</text></g>'
    )


def _bands(result: TortureResult, axis: _Axis, top: float, bottom: float) -> list[str]:
    """Return the grey bands between the faults of the rounds."""
    edges = [0.0]
    for each in result.rounds:
        first_s = min((fault.begin_s for fault in each.faults), default=each.faults_end_s)
        edges += [first_s, each.faults_end_s]
    edges.append(result.duration_s)
    return [
        f'<rect x="{axis.x(begin_s):g}" y="{top:g}" height="{bottom - top:g}" '
        f'width="{max(0.0, axis.x(end_s) - axis.x(begin_s)):.1f}" fill="{LINE}" '
        'fill-opacity="0.45"/>'
        for begin_s, end_s in zip(edges[::2], edges[1::2], strict=True)
    ]


def _time_axis(axis: _Axis, top: float, bottom: float) -> list[str]:
    step_s = next(
        step for step in (5, 10, 30, 60, 120, 300, 600, math.inf) if axis.duration_s / step <= 24
    )
    parts = []
    for tick in range(int(axis.duration_s // step_s) + 1):
        at_s = int(tick * step_s)
        x = axis.x(at_s)
        parts.append(
            f'<line x1="{x:g}" x2="{x:g}" y1="{top:g}" y2="{bottom:g}" stroke="{LINE}" '
            f'stroke-width="0.6"/><text x="{x:g}" y="{bottom + 16:g}" text-anchor="middle">'
            f"{at_s // 60}:{at_s % 60:02}</text>"
        )
    return parts


Value = Callable[[SecondSample], float | None]


def _latency_plot(samples: Sequence[SecondSample], axis: _Axis, top: float) -> list[str]:
    """Plot latencies on a logarithmic scale from 0.1 ms to 10 s."""
    low, high = -1.0, 4.0

    def y(value_ms: float) -> float:
        position = (min(high, max(low, math.log10(max(value_ms, 1e-9)))) - low) / (high - low)
        return round(top + PLOT_HEIGHT * (1 - position), 1)

    ticks = [(0.1, "0.1 ms"), (1, "1 ms"), (10, "10 ms"), (100, "100 ms"), (1000, "1 s")]
    curves: tuple[tuple[Value, str, str], ...] = (
        (lambda each: each.strong_p99_ms, STRONG, "0.4"),
        (lambda each: each.strong_p50_ms, STRONG, "1"),
        (lambda each: each.weak_p99_ms, WEAK, "0.4"),
        (lambda each: each.weak_p50_ms, WEAK, "1"),
    )
    return [
        f'<text class="title" x="4" y="{top - 8:g}">latency per second, p50 and p99 (pale)</text>',
        *_grid(axis, [(y(value), text) for value, text in (*ticks, (10_000, "10 s"))]),
        *(
            _curve(samples, value, axis, y, f'stroke="{colour}" stroke-opacity="{opacity}"')
            for value, colour, opacity in curves
        ),
    ]


def _throughput_plot(samples: Sequence[SecondSample], axis: _Axis, top: float) -> list[str]:
    highest = max((each.weak + each.strong + each.failed for each in samples), default=1)
    limit = max(10, math.ceil(highest / 10) * 10)

    def y(value: float) -> float:
        return round(top + PLOT_HEIGHT * (1 - value / limit), 1)

    seconds = {each.second: each for each in samples}
    absent = SecondSample(
        second=0,
        weak=0,
        strong=0,
        failed=0,
        weak_p50_ms=None,
        weak_p99_ms=None,
        strong_p50_ms=None,
        strong_p99_ms=None,
    )
    steps = [(second, seconds.get(second, absent)) for second in range(int(axis.duration_s) + 1)]
    bar_width = max(1.0, axis.x(1) - axis.x(0) - 0.5)
    parts = [
        f'<text class="title" x="4" y="{top - 8:g}">calls per second with a response, and without '
        "one (red)</text>",
        *_grid(axis, [(y(limit * share / 2), f"{limit * share // 2}") for share in range(3)]),
    ]
    for second, sample in steps:
        base = 0
        for count, colour in (
            (sample.weak, WEAK),
            (sample.strong, STRONG),
            (sample.failed, FAILED),
        ):
            if count:
                parts.append(
                    f'<rect x="{axis.x(second):g}" y="{y(base + count):g}" '
                    f'width="{bar_width:.1f}" height="{y(base) - y(base + count):.1f}" '
                    f'fill="{colour}" fill-opacity="0.7"/>'
                )
            base += count
    return parts


def _grid(axis: _Axis, ticks: Iterable[tuple[float, str]]) -> list[str]:
    return [
        f'<line x1="{LEFT}" x2="{axis.width - RIGHT:g}" y1="{y:g}" y2="{y:g}" stroke="{LINE}" '
        f'stroke-width="0.6"/><text x="{LEFT - 6}" y="{y + 4:g}" text-anchor="end">{text}</text>'
        for y, text in ticks
    ]


def _curve(
    samples: Sequence[SecondSample],
    value: Value,
    axis: _Axis,
    y: Callable[[float], float],
    style: str,
) -> str:
    """Return one line, interrupted where a second has no such call."""
    steps: list[str] = []
    previous: int | None = None
    for each in samples:
        plotted = value(each)
        if plotted is None:
            continue
        command = "L" if previous == each.second - 1 else "M"
        steps.append(f"{command}{axis.x(each.second + 0.5):g},{y(plotted):g}h0.1")
        previous = each.second
    return f'<path d="{"".join(steps)}" fill="none" stroke-width="1.5" {style}/>'


# --- text -------------------------------------------------------------------------------------


def _key() -> str:
    entries = [*((group.value, COLOURS[group]) for group in FaultGroup)]
    entries += [("weak calls", WEAK), ("strong calls", STRONG), ("no faults", LINE)]
    spans = (f'<span><b style="color:{colour}">■</b> {text}</span>' for text, colour in entries)
    return f'<p class="key">{"".join(spans)}</p>'


def _style() -> str:
    light, dark = (
        " ".join(f"--{name}: {each[place]};" for name, each in THEME.items()) for place in (0, 1)
    )
    return _STYLE.replace("@light", light).replace("@dark", dark)


def _failure_parts(result: TortureResult) -> Iterable[str]:
    for each in result.rounds:
        failures = [(text, "") for text in each.failures]
        failures += [
            (verdict.describe(), each.pictures.get(verdict.checker, ""))
            for verdict in each.verdicts
            if isinstance(verdict, Illegal)
        ]
        for text, picture in failures:
            yield f'<h2 class="illegal">Round {each.number} failed</h2><pre>{escape(text)}</pre>'
            if picture:
                yield f'<div class="chart picture">{picture}</div>'


STYLES: Final[dict[type[Verdict], str]] = {Ok: "ok", Illegal: "illegal", Inconclusive: "unknown"}


def _checks_table(result: TortureResult) -> str:
    rows = []
    for verdict in result.verdicts:
        style = STYLES[type(verdict)]
        text = verdict.describe().partition("\n")[0].partition(verdict.checker)
        rows.append(
            f"<tr><td>{escape(verdict.checker)}</td>"
            f'<td class="{style}">{escape(text[0].strip())}{escape(text[2])}</td></tr>'
        )
    return f"<table>{''.join(rows)}</table>"


def _faults_table(result: TortureResult) -> str:
    rows = [
        f'<tr><td class="n">{each.number}</td><td class="n">{fault.begin_s:.1f} s</td>'
        f'<td class="n">{fault.end_s - fault.begin_s:.1f} s</td>'
        f"<td>{escape(fault.kind.value)}</td>"
        f"<td>{escape(fault.detail)}</td></tr>"
        for each in result.rounds
        for fault in sorted(each.faults, key=lambda fault: fault.begin_s)
    ]
    numbers = "".join(f'<th class="n">{name}</th>' for name in ("round", "at", "for"))
    head = f"<tr>{numbers}<th>fault</th><th>detail</th></tr>"
    return f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>'
