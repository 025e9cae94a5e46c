"""Whether what the paper states holds in the runs at hand."""

from enum import StrEnum
from math import isinf
from typing import NamedTuple

from creekdb.pipeline.report.evidence import Evidence
from creekdb.pipeline.report.found import Found
from creekdb.pipeline.report.paper import STATEMENTS
from creekdb.pipeline.report.paper.statement import Statement
from creekdb.pipeline.report.quantities import DIGITS


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
