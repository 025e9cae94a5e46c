"""Verdicts, and the names of checks that are not checkers of histories."""

from typing import Final

OK: Final = "ok"
UNKNOWN: Final = "unknown"
ILLEGAL: Final = "illegal"
SEVERITIES: Final = (OK, UNKNOWN, ILLEGAL)
"""Verdicts, the worst last."""

RELATIONAL_CHECKERS: Final = (
    "prefix_order",
    "real_time",
    "session_order",
    "committed_once",
    "convergence",
)
"""Checkers that need only the tables of a run, as relational queries."""

TPCC_CONDITIONS: Final = "tpcc_conditions"
MISSING_EVENTS_CHECK: Final = "events"
"""Checker name for runs without replica events."""
