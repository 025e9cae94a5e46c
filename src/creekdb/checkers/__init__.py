"""Consistency checkers: one property of the paper per module. A checker reads a history only.

    for verdict in check_all(history):
        print(verdict.describe())

A verdict is `Ok`, `Illegal` with a small counterexample, or `Inconclusive` if the history lacks
the required records.
"""

from creekdb.checkers.registry import CHECKERS as CHECKERS
from creekdb.checkers.registry import check_all as check_all
from creekdb.checkers.run_index import RunIndex as RunIndex
from creekdb.checkers.verdict import Checker as Checker
from creekdb.checkers.verdict import Illegal as Illegal
from creekdb.checkers.verdict import Inconclusive as Inconclusive
from creekdb.checkers.verdict import Ok as Ok
from creekdb.checkers.verdict import Verdict as Verdict
from creekdb.checkers.verdict import Witness as Witness
from creekdb.checkers.verdict import verdict_rows as verdict_rows
