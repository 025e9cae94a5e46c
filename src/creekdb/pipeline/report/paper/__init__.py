"""Statements of Section 6 of the paper, as data.

Each statement has its section, the paper's wording or number, a unit, the band of accepted values,
and the query for the measured value. A band is the paper's range, or its number with a tolerance.
All numbers of the paper on the page come from this package.

    section_6           the statements of Sections 6.2 to 6.4
    reference_values    numbers that drawings or several statements share
"""

from creekdb.pipeline.report.paper.section_6 import CLAIMS as CLAIMS
from creekdb.pipeline.report.paper.section_6 import Claim as Claim
