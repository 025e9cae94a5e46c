"""Picture of an anomaly: its transactions as boxes, their dependencies as arrows, and the reasons.

The cycle runs clockwise. The numbers of the arrows refer to the reasons below. An anomaly without a
cycle has no arrows.
"""

import math
import textwrap
from html import escape
from typing import Final, NamedTuple

from creekdb.checkers.blackbox.anomalies.checker import Anomaly
from creekdb.checkers.blackbox.anomalies.dependency_graph import Edge, EdgeKind
from creekdb.checkers.blackbox.anomalies.transactions import Transaction

BOX_WIDTH: Final = 210
LINE: Final = 16
"""Height of a line of text, in pixels."""
BOX_PADDING: Final = 16
MARGIN: Final = 24
GAP: Final = 120
"""Space between two boxes for an arrow and its label, in pixels."""
OPERATIONS_MAX: Final = 8
TEXT_MAX: Final = 25
"""Upper bound for the characters of an operation in a box."""
REASON_COLUMNS: Final = 96
TITLE_HEIGHT: Final = 52
BEND: Final = 26
"""Distance of the middle of an arrow from a straight line, in pixels."""
COLOURS: Final = {
    EdgeKind.WW: "#8250df",
    EdgeKind.WR: "#1f6feb",
    EdgeKind.RW: "#b3261e",
    EdgeKind.RT: "#57606a",
    EdgeKind.RW_RT: "#b3261e",
}
LEGEND: Final = {
    EdgeKind.WW: "wrote before",
    EdgeKind.WR: "was read by",
    EdgeKind.RW: "read before the write of",
    EdgeKind.RT: "ended before the begin of",
    EdgeKind.RW_RT: "read before the write of",
}


class _Box(NamedTuple):
    """A transaction and the centre of its box."""

    transaction: Transaction
    x: float
    y: float
    lines: tuple[str, ...]

    @property
    def height(self) -> float:
        return LINE * (len(self.lines) + 2) + BOX_PADDING

    def border_towards(self, x: float, y: float, space: float) -> tuple[float, float]:
        """Return the point at this distance from the border, on the line to another point."""
        dx, dy = x - self.x, y - self.y
        half_width, half_height = BOX_WIDTH / 2 + space, self.height / 2 + space
        scale = min(
            half_width / abs(dx) if dx else math.inf, half_height / abs(dy) if dy else math.inf
        )
        return self.x + dx * scale, self.y + dy * scale


def render_anomaly(anomaly: Anomaly) -> str:
    """Return the picture as SVG that needs no other file and no style sheet."""
    boxes = _place(anomaly)
    width = max(each.x + BOX_WIDTH / 2 for each in boxes) + MARGIN
    width = max(width, REASON_COLUMNS * 6.3 + 2 * MARGIN)
    bottom = max(each.y + each.height / 2 for each in boxes) + MARGIN + BEND
    reasons = _reason_lines(anomaly)
    height = bottom + LINE * (len(reasons) + 1)
    shift = (width - max(e.x for e in boxes) - min(e.x for e in boxes)) / 2
    boxes = [each._replace(x=each.x + shift) for each in boxes]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{escape(anomaly.name)}: {escape(anomaly.detail)}">',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        _text(MARGIN, 26, f"{anomaly.name}", size=16, weight=600),
        _text(MARGIN, 44, f"strongest model left: {anomaly.strongest_model}", colour="#57606a"),
        *(_arrow(number, edge, boxes) for number, edge in enumerate(anomaly.cycle, start=1)),
        *(_box_element(each) for each in boxes),
        *(
            _text(MARGIN, bottom + LINE * (index + 0.5), text, colour=colour)
            for index, (text, colour) in enumerate(reasons)
        ),
        "</svg>",
    ]
    return "\n".join(parts)


def _place(anomaly: Anomaly) -> list[_Box]:
    """Place the transactions of a cycle on an ellipse, clockwise, and all others in a row."""
    described = [(each, _operation_lines(each)) for each in anomaly.transactions]
    tallest = max(LINE * (len(lines) + 2) + BOX_PADDING for _, lines in described)
    count = len(described)
    step = BOX_WIDTH + GAP
    if count <= 2 or not anomaly.cycle:
        y = TITLE_HEIGHT + 2 * BEND + tallest / 2
        return [
            _Box(each, MARGIN + BOX_WIDTH / 2 + index * step, y, lines)
            for index, (each, lines) in enumerate(described)
        ]
    spread = 2 * math.sin(math.pi / count)
    radius_x, radius_y = step / spread, (tallest + GAP) / spread
    centre_x = MARGIN + BOX_WIDTH / 2 + radius_x
    centre_y = TITLE_HEIGHT + MARGIN + tallest / 2 + radius_y
    angles = [2 * math.pi * index / count - math.pi / 2 for index in range(count)]
    return [
        _Box(each, centre_x + radius_x * math.cos(at), centre_y + radius_y * math.sin(at), lines)
        for at, (each, lines) in zip(angles, described, strict=True)
    ]


def _operation_lines(transaction: Transaction) -> tuple[str, ...]:
    lines = [
        text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX // 2]}…{text[1 - TEXT_MAX // 2 :]}"
        for text in (each.describe() for each in transaction.operations)
    ]
    if len(lines) > OPERATIONS_MAX:
        hidden = len(lines) - OPERATIONS_MAX + 1
        lines[OPERATIONS_MAX - 1 :] = [f"… {hidden} more"]
    return tuple(lines)


def _box_element(box: _Box) -> str:
    transaction = box.transaction
    left, top = box.x - BOX_WIDTH / 2, box.y - box.height / 2
    end = "?" if transaction.completed_us is None else f"{transaction.completed_us / 1000:.1f}"
    times = f"{transaction.invoked_us / 1000:.1f} to {end} ms"
    heading = f"{transaction.name}, {transaction.outcome.value}"
    dash = "" if transaction.is_committed else ' stroke-dasharray="5 4"'
    return "".join(
        [
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{BOX_WIDTH}" height="{box.height:.0f}" '
            f'rx="6" fill="#f6f8fa" stroke="#8c959f"{dash}/>',
            _text(left + 10, top + 18, heading, weight=600),
            _text(left + 10, top + 33, f"{_short(transaction.client)}, {times}", 10, "#57606a"),
            *(
                _text(left + 10, top + 36 + LINE * index, line, family="ui-monospace, monospace")
                for index, line in enumerate(box.lines, start=1)
            ),
        ]
    )


def _short(client: str) -> str:
    return client if len(client) <= 18 else f"{client[:8]}…{client[-9:]}"


def _arrow(number: int, edge: Edge, boxes: list[_Box]) -> str:
    """Return a curve on the outer side of the cycle, with the number and the kind of the edge."""
    source = next(each for each in boxes if each.transaction.number == edge.source)
    target = next(each for each in boxes if each.transaction.number == edge.target)
    dx, dy = target.x - source.x, target.y - source.y
    length = math.hypot(dx, dy)
    normal_x, normal_y = dy / length, -dx / length
    middle_x = (source.x + target.x) / 2 + 2 * BEND * normal_x
    middle_y = (source.y + target.y) / 2 + 2 * BEND * normal_y
    begin_x, begin_y = source.border_towards(middle_x, middle_y, 2)
    end_x, end_y = target.border_towards(middle_x, middle_y, 6)
    label_x = (begin_x + 2 * middle_x + end_x) / 4
    label_y = (begin_y + 2 * middle_y + end_y) / 4
    colour = COLOURS[edge.kind]
    dash = ' stroke-dasharray="6 4"' if edge.kind is EdgeKind.RT else ""
    angle = math.atan2(end_y - middle_y, end_x - middle_x)
    head = " ".join(
        f"{end_x - 9 * math.cos(angle + turn):.1f},{end_y - 9 * math.sin(angle + turn):.1f}"
        for turn in (0.42, -0.42)
    )
    label = f"{number} {'rw' if edge.kind is EdgeKind.RW_RT else edge.kind.value}"
    return (
        f'<path d="M{begin_x:.1f},{begin_y:.1f} Q{middle_x:.1f},{middle_y:.1f} {end_x:.1f},'
        f'{end_y:.1f}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>'
        f'<polygon points="{end_x:.1f},{end_y:.1f} {head}" fill="{colour}"/>'
        f'<rect x="{label_x - 18:.1f}" y="{label_y - 10:.1f}" width="36" height="18" rx="9" '
        f'fill="#ffffff" stroke="{colour}"/>'
        + _text(label_x, label_y + 4, label, 11, colour, 600, anchor="middle")
    )


def _reason_lines(anomaly: Anomaly) -> list[tuple[str, str]]:
    """Return the lines below the picture with their colours."""
    if not anomaly.cycle:
        return [(line, "#1f2328") for line in textwrap.wrap(anomaly.detail, REASON_COLUMNS)]
    names = {each.number: each.name for each in anomaly.transactions}
    lines: list[tuple[str, str]] = []
    for number, edge in enumerate(anomaly.cycle, start=1):
        relation = f"{names[edge.source]} {LEGEND[edge.kind]} {names[edge.target]}"
        text = f"{number}  {relation}: {edge.reason}"
        wrapped = textwrap.wrap(text, REASON_COLUMNS, subsequent_indent="    ")
        lines += [(line, COLOURS[edge.kind]) for line in wrapped]
    return lines


def _text(
    x: float,
    y: float,
    text: str,
    size: int = 12,
    colour: str = "#1f2328",
    weight: int = 400,
    *,
    anchor: str = "start",
    family: str = "system-ui, sans-serif",
) -> str:
    # A style attribute, since a style sheet of the surrounding page applies to elements of SVG.
    style = f"font:{weight} {size}px {family};fill:{colour}"
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" xml:space="preserve" '
        f'style="{style}">{escape(text)}</text>'
    )
