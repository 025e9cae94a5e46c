"""What Section 6 of the paper states, as data.

Each statement has the section it is from, the paper's own words or number, the band that a
measured value must lie in, and how that value is found in the tables. A band is the paper's range
where it gives one; where it gives a number, the number and a tolerance. All numbers of the paper
that a page shows are in this folder.

    section_6_2, section_6_3, section_6_4     the statements
    by_warehouses, latency                    those that are made alike
    numbers, systems                          what drawings show, too
    statement                                 what a statement is
"""

from typing import Final

from creekdb.pipeline.report.paper import section_6
from creekdb.pipeline.report.paper.claim import Claim

CLAIMS: Final[tuple[Claim, ...]] = (
    *section_6.CLAIMS_6_2,
    *section_6.CLAIMS_6_3,
    *section_6.CLAIMS_6_4,
)
