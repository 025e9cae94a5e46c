"""Consistency checkers: one property of the paper per file, each of which reads histories only.

    for verdict in check_all(history):
        print(verdict.describe())

A checker answers `Ok`, `Illegal` with a small counterexample, or `Unknown` when the history does
not tell.
"""

from creekdb.checkers.registry import CHECKERS, Checker, check_all
from creekdb.checkers.run_index import Run
from creekdb.checkers.verdict import Illegal, Ok, Unknown, Verdict, Witness, rows

__all__ = [
    "CHECKERS",
    "Checker",
    "Illegal",
    "Ok",
    "Run",
    "Unknown",
    "Verdict",
    "Witness",
    "check_all",
    "rows",
]
