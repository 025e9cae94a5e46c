"""Consistency checkers: one property of the paper per file, each of which reads histories only.

    for verdict in check_all(history):
        print(verdict.describe())

A checker answers `Ok`, `Illegal` with a small counterexample, or `Inconclusive` when the history
does not tell.
"""

from creekdb.checkers.registry import CHECKERS, Checker, check_all
from creekdb.checkers.run_index import RunIndex
from creekdb.checkers.verdict import Illegal, Inconclusive, Ok, Verdict, Witness, verdict_rows

__all__ = [
    "CHECKERS",
    "Checker",
    "Illegal",
    "Inconclusive",
    "Ok",
    "RunIndex",
    "Verdict",
    "Witness",
    "check_all",
    "verdict_rows",
]
