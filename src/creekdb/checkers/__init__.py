"""Consistency checkers: one property of the paper per module. A checker reads a history only.

    for verdict in check_all(history):
        print(verdict.describe())

A verdict is `Ok`, `Illegal` with a small counterexample, or `Inconclusive` if the history lacks
the required records.
"""

from creekdb.checkers.registry import CHECKERS, check_all
from creekdb.checkers.run_index import RunIndex
from creekdb.checkers.verdict import (
    Checker,
    Illegal,
    Inconclusive,
    Ok,
    Verdict,
    Witness,
    verdict_rows,
)
