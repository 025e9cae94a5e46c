"""Comparison of the paper's statements with the runs, as rows for the page and as Markdown."""

from collections.abc import Iterable
from enum import StrEnum
from itertools import groupby
from math import isinf
from typing import Final, NamedTuple

from creekdb.pipeline.report import formatting
from creekdb.pipeline.report.evidence import Evidence
from creekdb.pipeline.report.paper import CLAIMS, Claim
from creekdb.pipeline.report.quantities import DECIMAL_DIGITS
from creekdb.pipeline.report.queries import QueryResult


class ClaimStatus(StrEnum):
    HOLDS = "holds"
    DIFFERS = "differs"
    NOT_MEASURED = "not measured"


PICTURE_WIDTH: Final = 120
"""Width of the range picture in a table row, in pixels."""
RESULT_WIDTH_MIN: Final = 5.0
"""Width of a single value in the range picture, in pixels."""


class ClaimResult(NamedTuple):
    """Statement with its measured value, and the texts of its row in a table."""

    claim: Claim
    result: QueryResult | None
    status: ClaimStatus

    @property
    def band_text(self) -> str:
        return formatting.format_band(self.claim.band, self.claim.query.unit)

    @property
    def seeds_text(self) -> str:
        return "" if self.result is None else formatting.format_seeds(self.result.seeds)

    @property
    def measured_text(self) -> str:
        result, unit = self.result, self.claim.query.unit
        if result is None:
            return formatting.NO_VALUE
        is_undecided = self.status is ClaimStatus.NOT_MEASURED
        if is_undecided and result.possible_range and not result.is_lower_bound:
            return f"in {formatting.format_span(*result.possible_range, unit)}"
        text = formatting.format_span(result.low, result.high, unit)
        return f"at least {text}" if result.is_lower_bound else text

    @property
    def picture(self) -> dict[str, float] | None:
        """Positions of band and value, in pixels. An open end extends to the edge."""
        band, result = self.claim.band, self.result
        if result is None:
            return None
        if self.status is ClaimStatus.NOT_MEASURED and result.possible_range is not None:
            result = result._replace(low=result.possible_range[0], high=result.possible_range[1])
        ends = [end for end in (band.low, band.high, result.low, result.high) if not isinf(end)]
        low, high = min(ends), max(ends)
        margin = 0.25 * ((high - low) or abs(high) or 1)
        low, high = low - margin, high + margin

        def position(value: float) -> float:
            return round(PICTURE_WIDTH * (min(max(value, low), high) - low) / (high - low), 1)

        width = max(position(result.high) - position(result.low), RESULT_WIDTH_MIN)
        return {
            "band_from": position(band.low),
            "band_width": round(max(position(band.high) - position(band.low), 1.0), 1),
            "from": round((position(result.low) + position(result.high) - width) / 2, 1),
            "width": round(width, 1),
        }


def evaluate_claims(evidence: Evidence, claims: Iterable[Claim] = CLAIMS) -> list[ClaimResult]:
    """Evaluate statements, by default all those of the paper, in their order."""
    results = [(claim, claim.query.evaluate(evidence)) for claim in claims]
    return [ClaimResult(claim, result, _claim_status(claim, result)) for claim, result in results]


def _claim_status(claim: Claim, result: QueryResult | None) -> ClaimStatus:
    """Compare a measured value with its band, rounded like the paper's numbers.

    A lower bound decides a claim only if it lies above an open band's low end or above the band.
    A possible range that overlaps the band leaves the claim undecided.
    """
    if result is None:
        return ClaimStatus.NOT_MEASURED
    band, digits = claim.band, DECIMAL_DIGITS[claim.query.unit]
    lowest, highest = result.possible_range or (result.low, result.high)
    if result.is_lower_bound:
        if isinf(band.high) and lowest >= band.low:
            return ClaimStatus.HOLDS
        return ClaimStatus.DIFFERS if lowest > band.high else ClaimStatus.NOT_MEASURED
    if band.low <= round(result.low, digits) and round(result.high, digits) <= band.high:
        return ClaimStatus.HOLDS
    overlaps = result.possible_range is not None and lowest <= band.high and band.low <= highest
    return ClaimStatus.NOT_MEASURED if overlaps else ClaimStatus.DIFFERS


def markdown_table(results: list[ClaimResult], source: str) -> str:
    """Return one table per section; `source` heads the column of measured values."""
    header = (f"| | paper | accepted | {source} | seeds | |", "|---|---|---|---|---|---|")
    lines: list[str] = []
    for section, group in groupby(results, key=lambda each: each.claim.section):
        lines += [f"**Section {section}**", "", *header]
        for each in group:
            claim, texts = each.claim, (each.band_text, each.measured_text, each.seeds_text)
            cells = claim.subject, claim.paper_text, *texts, each.status
            lines.append(f"| {' | '.join(map(_escape_cell, cells))} |")
        lines.append("")
    return "\n".join(lines)


def _escape_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
