"""Features that the compliance suite of SQLAlchemy may expect of the dialect."""

from typing import Final

from sqlalchemy.testing.requirements import SuiteRequirements

EXPECTED_FAILURES: Final[dict[str, str]] = {}
"""Failed tests by name, with the reason."""


class Requirements(SuiteRequirements):
    """Features beyond the defaults of the suite, and defaults that do not apply."""
