"""Whether what the paper states holds in the runs at hand.

The paper's statements beside what was measured, as rows of a table.

The paper's statements beside what was measured, as a table in Markdown: for documents.
"""

from enum import StrEnum
from itertools import groupby
from math import isinf
from typing import Any, Final, NamedTuple

from creekdb.pipeline.report import formatting
from creekdb.pipeline.report.evidence import Evidence
from creekdb.pipeline.report.paper import STATEMENTS
from creekdb.pipeline.report.paper.claim import Statement
from creekdb.pipeline.report.quantities import DIGITS
from creekdb.pipeline.report.queries import Found


class Mark(StrEnum):
    HOLDS = "holds"
    DIFFERS = "differs"
    NOT_MEASURED = "not measured"


class Judged(NamedTuple):
    statement: Statement
    found: Found | None
    mark: Mark


def judge(evidence: Evidence) -> list[Judged]:
    judged = []
    for statement in STATEMENTS:
        found = None if statement.finding is None else statement.finding.find(evidence)
        judged.append(Judged(statement, found, _mark(statement, found)))
    return judged


def _mark(statement: Statement, found: Found | None) -> Mark:
    """The paper's numbers are rounded, and so are ours before they are compared.

    A lower bound tells something only when it is already enough, or already too much; and loads
    that are too far apart tell nothing as long as the value might lie in the band.
    """
    if found is None:
        return Mark.NOT_MEASURED
    band, digits = statement.band, DIGITS[statement.unit]
    least, most = found.possible or (found.low, found.high)
    if found.is_bound:
        if isinf(band.high) and least >= band.low:
            return Mark.HOLDS
        return Mark.DIFFERS if least > band.high else Mark.NOT_MEASURED
    if band.low <= round(found.low, digits) and round(found.high, digits) <= band.high:
        return Mark.HOLDS
    might = found.possible is not None and least <= band.high and band.low <= most
    return Mark.NOT_MEASURED if might else Mark.DIFFERS


WIDTH: Final = 120
"""Of the picture in a row."""
LEAST: Final = 5.0
"""A single value is drawn so wide."""
MANY: Final = 0.25
"""Of the statements: where more are open, the runs are but a part of the paper's."""
ALL: Final = " These are few of the paper’s experiments; “make reproduce” runs all of them."


def grouped(judged: list[Judged]) -> list[tuple[str, list[dict[str, Any]]]]:
    """By section. How a number is found is said once for rows that follow each other."""
    sections = []
    for section, group in groupby(judged, key=lambda each: each.statement.section):
        rows = [_row(each) for each in group]
        hows = [row["how"] for row in rows]
        for row, how, before in zip(rows, hows, [None, *hows], strict=False):
            row["how"] = "" if how == before else how
        sections.append((section, rows))
    return sections


def tally(judged: list[Judged]) -> str:
    marks = [each.mark for each in judged]
    hold, differ, open_ = (marks.count(mark) for mark in Mark)
    return (
        f"Of {len(marks)} statements {hold} hold and {differ} do not; of the other {open_} these "
        "runs do not tell. Where the paper gives a range, that is what is accepted; where it gives "
        "a number, the number and a tolerance." + (ALL if open_ > MANY * len(marks) else "")
    )


def _row(judged: Judged) -> dict[str, Any]:
    statement, found = judged.statement, judged.found
    how = statement.why_not if statement.finding is None else statement.finding.how
    return {
        "what": statement.what,
        "how": how,
        "paper": statement.paper,
        "band": formatting.band(statement.band, statement.unit),
        "measured": _measured(judged),
        "seeds": "" if found is None else formatting.seeds(found.seeds),
        "picture": None if found is None else _picture(judged),
        "mark": judged.mark.value,
    }


def _measured(judged: Judged) -> str:
    found = judged.found
    if found is None:
        return formatting.NOTHING
    unit = judged.statement.unit
    if judged.mark is Mark.NOT_MEASURED and found.possible and not found.is_bound:
        return f"in {formatting.span(*found.possible, unit)}"
    text = formatting.span(found.low, found.high, unit)
    return f"at least {text}" if found.is_bound else text


def _picture(judged: Judged) -> dict[str, float]:
    """Where the band and the value lie between the edges; what is open goes to the edge."""
    band, found = judged.statement.band, judged.found
    assert found is not None
    if judged.mark is Mark.NOT_MEASURED and found.possible is not None:
        found = found._replace(low=found.possible[0], high=found.possible[1])
    ends = [end for end in (band.low, band.high, found.low, found.high) if not isinf(end)]
    low, high = min(ends), max(ends)
    room = 0.25 * ((high - low) or abs(high) or 1)
    low, high = low - room, high + room

    def place(value: float) -> float:
        return round(WIDTH * (min(max(value, low), high) - low) / (high - low), 1)

    width = max(place(found.high) - place(found.low), LEAST)
    return {
        "band_from": place(band.low),
        "band_width": round(max(place(band.high) - place(band.low), 1.0), 1),
        "from": round((place(found.low) + place(found.high) - width) / 2, 1),
        "width": round(width, 1),
    }


HEAD = (
    "| | paper | accepted | measured | seeds | |",
    "|---|---|---|---|---|---|",
)


def table(judged: list[Judged]) -> str:
    lines: list[str] = []
    for section, rows in grouped(judged):
        lines += [f"**Section {section}**", "", *HEAD]
        for row in rows:
            cells = (row[name] for name in ("what", "paper", "band", "measured", "seeds", "mark"))
            lines.append(f"| {' | '.join(map(_escaped, cells))} |")
        lines.append("")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
