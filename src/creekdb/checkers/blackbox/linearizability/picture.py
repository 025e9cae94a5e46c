"""Picture of a counterexample: one lane per client, and one bar per call.

A bar reaches from the invocation to the response. Numbers are positions in the longest order that
was found. The call that cannot follow is red. The time axis keeps the order of events, but not
their distances, so that every label fits.
"""

from collections import defaultdict
from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

from creekdb.checkers.blackbox.linearizability.counterexample import Counterexample, call_text
from creekdb.checkers.blackbox.linearizability.search import Interval

CALLS_MAX: Final = 40
"""Upper bound for the drawn calls. The last ones are drawn."""
LABEL_MAX: Final = 44
"""Upper bound for the characters of a label."""
CHARACTER: Final = 7.9
"""Width of a character of a label, in pixels."""
LANE: Final = 52
BAR: Final = 16
TOP: Final = 84
GAP_MIN: Final = 30
GAP_MAX: Final = 90
"""Bounds for the distance of two events, in pixels. A label may need more."""
MARGIN: Final = 24
WIDTH_MIN: Final = 880
"""Width of the key, in pixels."""
TICK_DISTANCE: Final = 76
"""Least distance of two times on the axis, in pixels."""
_STYLE: Final = """
svg { background: #fff; font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
text { fill: #1f2328 } .title { font: 600 17px system-ui, sans-serif }
.note, .lane, .tick, .key { font: 13px system-ui, sans-serif; fill: #57606a }
.tick { font-size: 11px; text-anchor: middle } .lane { font-weight: 600; text-anchor: end }
.rule { stroke: #eaeef2 } .event { stroke: #d0d7de; stroke-dasharray: 2 4 }
.placed { fill: #0f766e } .free { fill: #afb8c1 } .blocked { fill: #c9252d }
.open { fill: none; stroke-width: 1.5; stroke-dasharray: 5 4 }
.open.placed { stroke: #0f766e } .open.free { stroke: #8c959f } .open.blocked { stroke: #c9252d }
.impossible { fill: #c9252d; font-weight: 600 }
.number { font: 600 11px system-ui, sans-serif; fill: #fff; text-anchor: middle }
"""


class _Bar(NamedTuple):
    call: Interval
    lane: int
    kind: str
    """`placed`, `blocked` or `free`."""
    number: int | None
    """Position in the order, from 1."""

    @property
    def label(self) -> str:
        text = call_text(self.call)
        if not self.call.source.strong:
            text = f"weak {text}"
        return text if len(text) <= LABEL_MAX else f"{text[: LABEL_MAX - 1]}…"


def counterexample_svg(found: Counterexample) -> str:
    """Return the picture as an SVG document."""
    drawn = [each for each in found.calls if each is not found.blocked][1 - CALLS_MAX :]
    drawn = sorted([*drawn, found.blocked], key=lambda call: call.start_us)
    lanes, names = _lanes(drawn)
    bars = [_bar(call, lane, found) for call, lane in zip(drawn, lanes, strict=True)]
    left = MARGIN + max(len(name) for name in names) * CHARACTER + 16
    positions = _positions(bars, left + 12)
    notes = _notes(found, len(found.calls) - len(drawn))
    ends = [positions[bar.call.start_us] + len(bar.label) * CHARACTER for bar in bars]
    texts = [len(note) * 6.6 for note in notes]
    width = max(WIDTH_MIN, max(*ends, *positions.values()) + 2 * MARGIN, max(texts) + 2 * MARGIN)
    bottom = TOP + len(names) * LANE
    parts = [
        _title(found, notes),
        *_grid(names, positions, left, width, bottom),
        *(_draw(bar, positions, width - MARGIN) for bar in bars),
        *_key(bottom + 58),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{bottom + 78}" '
        f'viewBox="0 0 {width:.0f} {bottom + 78}"><style>{_STYLE}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def _bar(call: Interval, lane: int, found: Counterexample) -> _Bar:
    if call is found.blocked:
        return _Bar(call, lane, "blocked", None)
    for number, placed in enumerate(found.order, 1):
        if placed is call:
            return _Bar(call, lane, "placed", number)
    return _Bar(call, lane, "free", None)


def _lanes(calls: Sequence[Interval]) -> tuple[list[int], list[str]]:
    """Return the lane of each call, and the name of each lane.

    Overlapping calls of one client have several lanes.
    """
    rows: dict[str, list[int | None]] = defaultdict(list)
    """Time from which each row of a client is free. None: never, since a call has no response."""
    placed: list[tuple[str, int]] = []
    for call in calls:
        of_client = rows[call.source.client]
        free = (
            row
            for row, at_us in enumerate(of_client)
            if at_us is not None and at_us < call.start_us
        )
        row = next(free, len(of_client))
        of_client[row : row + 1] = [call.end_us]
        placed.append((call.source.client, row))
    clients = sorted(rows, key=lambda name: (len(name) if name.isdecimal() else 0, name))
    order = [(client, row) for client in clients for row in range(len(rows[client]))]
    names = [client if row == 0 else "" for client, row in order]
    return [order.index(each) for each in placed], names


def _positions(bars: Sequence[_Bar], left: float) -> dict[int, float]:
    """Return the x coordinate of each time: in order, with space for the labels."""
    times = {bar.call.start_us for bar in bars}
    times.update(bar.call.end_us for bar in bars if bar.call.end_us is not None)
    following: dict[int, list[_Bar]] = defaultdict(list)
    last_in_lane: dict[int, _Bar] = {}
    for bar in bars:
        if (before := last_in_lane.get(bar.lane)) is not None:
            following[bar.call.start_us].append(before)
        last_in_lane[bar.lane] = bar
    gap = min(GAP_MAX, max(GAP_MIN, (WIDTH_MIN - left - 4 * MARGIN) / len(times)))
    positions: dict[int, float] = {}
    at = left
    for time in sorted(times):
        for before in following[time]:
            at = max(at, positions[before.call.start_us] + len(before.label) * CHARACTER + 16)
        positions[time] = at
        at += gap
    return positions


def _title(found: Counterexample, notes: Sequence[str]) -> str:
    title = f"Not linearizable: no order explains {call_text(found.blocked)}"
    lines = [f'<text class="title" x="{MARGIN}" y="32">{escape(title)}</text>']
    for row, note in enumerate(notes):
        lines.append(f'<text class="note" x="{MARGIN}" y="{52 + 17 * row}">{escape(note)}</text>')
    return "".join(lines)


def _notes(found: Counterexample, hidden: int) -> list[str]:
    notes = []
    if found.omitted:
        earlier = f"{found.omitted} earlier call{'s' if found.omitted > 1 else ''}"
        notes.append(f"After {earlier}, whatever the state was: {found.states_text()}.")
    else:
        notes.append(f"From the initial state: {found.states_text()}.")
    if hidden:
        notes.append(f"{hidden} more calls take part and are not drawn.")
    return notes


def _grid(
    names: Sequence[str], positions: dict[int, float], left: float, width: float, bottom: float
) -> list[str]:
    lines = []
    for lane, name in enumerate(names):
        y = TOP + lane * LANE
        if name:
            lines.append(
                f'<line class="rule" x1="{MARGIN}" x2="{width - MARGIN:.0f}" y1="{y}" y2="{y}"/>'
            )
        lines.append(f'<text class="lane" x="{left - 12:.0f}" y="{y + 38}">{escape(name)}</text>')
    last = -TICK_DISTANCE
    for time, x in positions.items():
        lines.append(
            f'<line class="event" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom + 6}"/>'
        )
        if x - last >= TICK_DISTANCE:
            last = int(x)
            text = f"{time / 1000:.3f} ms"
            lines.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 22}">{text}</text>')
    return lines


def _draw(bar: _Bar, positions: dict[int, float], right: float) -> str:
    x, y = positions[bar.call.start_us], TOP + bar.lane * LANE + 25
    end = right if bar.call.end_us is None else positions[bar.call.end_us]
    width = max(end - x, 8)
    openness = " open" if bar.call.end_us is None else ""
    parts = [
        f"<g><title>{escape(call_text(bar.call))}</title>",
        f'<rect class="{bar.kind}{openness}" x="{x:.1f}" y="{y}" width="{width:.1f}" '
        f'height="{BAR}" rx="4"/>',
        f'<text class="{"impossible" if bar.kind == "blocked" else ""}" x="{x:.1f}" y="{y - 6}">'
        f"{escape(bar.label)}</text>",
    ]
    if bar.number is not None:
        middle = x + min(width / 2, 14)
        if openness:
            parts.append(f'<circle class="placed" cx="{middle:.1f}" cy="{y + 8}" r="8"/>')
        parts.append(f'<text class="number" x="{middle:.1f}" y="{y + 12}">{bar.number}</text>')
    return "".join([*parts, "</g>"])


def _key(y: float) -> list[str]:
    entries = (
        ("placed", "longest order found, with positions"),
        ("blocked", "cannot follow"),
        ("free", "not placed"),
        ("free open", "no response: at any later time, or never"),
    )
    x, parts = float(MARGIN), []
    for kind, text in entries:
        parts.append(
            f'<rect class="{kind}" x="{x:.0f}" y="{y - 10}" width="22" height="11" rx="3"/>'
        )
        parts.append(f'<text class="key" x="{x + 30:.0f}" y="{y}">{text}</text>')
        x += 52 + len(text) * 6.4
    return parts
