"""What a statement is."""

from typing import NamedTuple

from creekdb.pipeline.report.found import Finding
from creekdb.pipeline.report.quantities import Band, Unit


class Statement(NamedTuple):
    section: str
    what: str
    paper: str
    unit: Unit
    band: Band
    finding: Finding | None
    """None: nothing in the tables tells."""
    why_not: str = ""
