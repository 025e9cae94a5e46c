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
from creekdb.pipeline.report.paper import CLAIMS
from creekdb.pipeline.report.paper.claim import Claim
from creekdb.pipeline.report.quantities import DECIMAL_DIGITS
from creekdb.pipeline.report.queries import QueryResult


class ClaimStatus(StrEnum):
    HOLDS = "holds"
    DIFFERS = "differs"
    NOT_MEASURED = "not measured"


class ClaimResult(NamedTuple):
    claim: Claim
    result: QueryResult | None
    status: ClaimStatus


def evaluate_claims(evidence: Evidence) -> list[ClaimResult]:
    judged = []
    for statement in CLAIMS:
        found = None if statement.query is None else statement.query.evaluate(evidence)
        judged.append(ClaimResult(statement, found, _claim_status(statement, found)))
    return judged


def _claim_status(statement: Claim, found: QueryResult | None) -> ClaimStatus:
    """The paper's numbers are rounded, and so are ours before they are compared.

    A lower bound tells something only when it is already enough, or already too much; and loads
    that are too far apart tell nothing as long as the value might lie in the band.
    """
    if found is None:
        return ClaimStatus.NOT_MEASURED
    band, digits = statement.band, DECIMAL_DIGITS[statement.unit]
    least, most = found.possible_range or (found.low, found.high)
    if found.is_lower_bound:
        if isinf(band.high) and least >= band.low:
            return ClaimStatus.HOLDS
        return ClaimStatus.DIFFERS if least > band.high else ClaimStatus.NOT_MEASURED
    if band.low <= round(found.low, digits) and round(found.high, digits) <= band.high:
        return ClaimStatus.HOLDS
    might = found.possible_range is not None and least <= band.high and band.low <= most
    return ClaimStatus.NOT_MEASURED if might else ClaimStatus.DIFFERS


PICTURE_WIDTH: Final = 120
"""Of the picture in a row."""
RESULT_WIDTH_MIN: Final = 5.0
"""A single value is drawn so wide."""
NOT_MEASURED_SHARE_MAX: Final = 0.25
"""Of the statements: where more are open, the runs are but a part of the paper's."""
PARTIAL_GRID_HINT: Final = (
    " These are few of the paper’s experiments; “make reproduce” runs all of them."
)


def claim_rows_by_section(judged: list[ClaimResult]) -> list[tuple[str, list[dict[str, Any]]]]:
    """By section. How a number is found is said once for rows that follow each other."""
    sections = []
    for section, group in groupby(judged, key=lambda each: each.claim.section):
        rows = [_claim_row(each) for each in group]
        hows = [row["how"] for row in rows]
        for row, how, before in zip(rows, hows, [None, *hows], strict=False):
            row["how"] = "" if how == before else how
        sections.append((section, rows))
    return sections


def tally_text(judged: list[ClaimResult]) -> str:
    marks = [each.status for each in judged]
    hold, differ, open_ = (marks.count(mark) for mark in ClaimStatus)
    return (
        f"Of {len(marks)} statements {hold} hold and {differ} do not; of the other {open_} these "
        "runs do not tell. Where the paper gives a range, that is what is accepted; where it gives "
        "a number, the number and a tolerance."
        + (PARTIAL_GRID_HINT if open_ > NOT_MEASURED_SHARE_MAX * len(marks) else "")
    )


def _claim_row(judged: ClaimResult) -> dict[str, Any]:
    statement, found = judged.claim, judged.result
    how = statement.not_measured_reason if statement.query is None else statement.query.description
    return {
        "what": statement.subject,
        "how": how,
        "paper": statement.paper_text,
        "band": formatting.format_band(statement.band, statement.unit),
        "measured": _measured_text(judged),
        "seeds": "" if found is None else formatting.format_seeds(found.seeds),
        "picture": None if found is None else _range_picture(judged),
        "mark": judged.status.value,
    }


def _measured_text(judged: ClaimResult) -> str:
    found = judged.result
    if found is None:
        return formatting.NO_VALUE
    unit = judged.claim.unit
    if (
        judged.status is ClaimStatus.NOT_MEASURED
        and found.possible_range
        and not found.is_lower_bound
    ):
        return f"in {formatting.format_span(*found.possible_range, unit)}"
    text = formatting.format_span(found.low, found.high, unit)
    return f"at least {text}" if found.is_lower_bound else text


def _range_picture(judged: ClaimResult) -> dict[str, float]:
    """Where the band and the value lie between the edges; what is open goes to the edge."""
    band, found = judged.claim.band, judged.result
    assert found is not None
    if judged.status is ClaimStatus.NOT_MEASURED and found.possible_range is not None:
        found = found._replace(low=found.possible_range[0], high=found.possible_range[1])
    ends = [end for end in (band.low, band.high, found.low, found.high) if not isinf(end)]
    low, high = min(ends), max(ends)
    room = 0.25 * ((high - low) or abs(high) or 1)
    low, high = low - room, high + room

    def place(value: float) -> float:
        return round(PICTURE_WIDTH * (min(max(value, low), high) - low) / (high - low), 1)

    width = max(place(found.high) - place(found.low), RESULT_WIDTH_MIN)
    return {
        "band_from": place(band.low),
        "band_width": round(max(place(band.high) - place(band.low), 1.0), 1),
        "from": round((place(found.low) + place(found.high) - width) / 2, 1),
        "width": round(width, 1),
    }


MARKDOWN_HEADER = (
    "| | paper | accepted | measured | seeds | |",
    "|---|---|---|---|---|---|",
)


def markdown_table(judged: list[ClaimResult]) -> str:
    lines: list[str] = []
    for section, rows in claim_rows_by_section(judged):
        lines += [f"**Section {section}**", "", *MARKDOWN_HEADER]
        for row in rows:
            cells = (row[name] for name in ("what", "paper", "band", "measured", "seeds", "mark"))
            lines.append(f"| {' | '.join(map(_escape_cell, cells))} |")
        lines.append("")
    return "\n".join(lines)


def _escape_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
