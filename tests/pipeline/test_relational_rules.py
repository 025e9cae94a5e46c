"""Relational checkers on small tables written by hand, one violation each.

Convergence has tests of its own.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from creekdb.pipeline.checks.relational import find_violations
from creekdb.pipeline.checks.shared_frames import SharedFrames
from creekdb.pipeline.schemas import FINAL_STATES, ORDERS
from tests.pipeline.spark_tables import (
    Row,
    operation,
    operations_table,
    run_row,
    runs_table,
    table,
)

ILLEGAL, UNKNOWN = "illegal", "unknown"
Order = tuple[tuple[int, int], ...]
"""Committed requests of a replica, each as replica and event, by position."""
ORDER: Order = ((0, 1), (0, 2), (0, 3))


def committed(event: int, index: int | None, **changes: Any) -> Row:
    """Return a weak operation of replica 0 that had a tentative response."""
    at_us = 10 * event
    return operation(event, tentative_us=at_us + 1, commit_index=index, **changes)


THREE = (committed(1, 0), committed(2, 1), committed(3, 2))


class Case(NamedTuple):
    operations: tuple[Row, ...] = THREE
    orders: tuple[Order, ...] = (ORDER, ORDER)
    """Committed orders of replicas 0, 1, …"""
    first: int = 0
    """Position of the first recorded request."""
    expected: Mapping[str, str] = MappingProxyType({})
    """Verdicts of the checkers that do not accept the run."""


CASES = {
    "a correct run": Case(),
    "a stable response without a commit": Case(
        (*THREE, operation(4, strong=True, stable_us=45)),
        expected={"committed_once": ILLEGAL, "real_time": ILLEGAL},
    ),
    "a final response without a commit": Case(
        (*THREE, operation(4, tentative_us=41, final_us=45)),
        expected={"committed_once": ILLEGAL},
    ),
    "a tentative response without a commit": Case((*THREE, committed(4, None, incarnation=0))),
    "another request at the position of an operation": Case(
        orders=(((0, 1), (1, 9), (0, 3)), ((0, 1), (1, 9), (0, 3))),
        expected={"committed_once": ILLEGAL},
    ),
    "two operations at one position": Case(
        (*THREE, committed(4, 2)), expected={"committed_once": ILLEGAL}
    ),
    "a missing position": Case(first=1, expected={"prefix_order": UNKNOWN}),
    "a missing position and a disagreement": Case(
        orders=(ORDER, ((0, 1), (0, 2), (1, 7))),
        first=1,
        expected={"prefix_order": ILLEGAL, "committed_once": ILLEGAL},
    ),
    "a request at two positions": Case(
        (committed(1, 0), committed(2, 1)),
        ((*ORDER[:2], (0, 1)), (*ORDER[:2], (0, 1))),
        expected={"prefix_order": ILLEGAL},
    ),
    "a weak request lost in the middle of a session": Case(
        (committed(1, 0), operation(2), committed(3, 1)),
        (((0, 1), (0, 3)), ((0, 1), (0, 3))),
        expected={"session_order": ILLEGAL},
    ),
    "a weak request lost at the end of a session": Case(
        (committed(1, 0), committed(2, 1), operation(3)), (ORDER[:2], ORDER[:2])
    ),
    "a lost weak request whose identifier is used again": Case(
        (committed(1, 0), operation(2), committed(2, 1, incarnation=1), committed(3, 2)),
    ),
    "a weak request lost at another replica": Case(
        (committed(1, 0), operation(2, replica=1), committed(3, 1)),
        (((0, 1), (0, 3)), ((0, 1), (0, 3))),
    ),
    "weak requests of a session in another order": Case(
        (committed(1, 0), committed(2, 2), committed(3, 1)),
        (((0, 1), (0, 3), (0, 2)), ((0, 1), (0, 3), (0, 2))),
        expected={"session_order": ILLEGAL},
    ),
}


@pytest.fixture(scope="module")
def verdicts(spark: SparkSession) -> dict[str, dict[str, str]]:
    """Return the verdicts of all cases, by case and checker."""
    orders = [
        {"run": name, "replica": replica, "index": index, "origin": origin, "event": event}
        for name, case in CASES.items()
        for replica, order in enumerate(case.orders)
        for index, (origin, event) in list(enumerate(order))[case.first :]
    ]
    operations = [{**each, "run": name} for name, case in CASES.items() for each in case.operations]
    runs = [run_row(run=name, scheme="creek") for name in CASES]
    with SharedFrames() as shared:
        found = find_violations(
            runs_table(spark, *runs),
            operations_table(spark, *operations),
            table(spark, orders, ORDERS),
            table(spark, [], FINAL_STATES),
            shared,
        ).collect()
    return {
        name: {
            row["checker"]: row["verdict"]
            for row in found
            if row["run"] == name and row["checker"] != "convergence"
        }
        for name in CASES
    }


@pytest.mark.parametrize("name", CASES)
def test_exactly_the_violated_rules_are_reported(
    verdicts: dict[str, dict[str, str]], name: str
) -> None:
    assert verdicts[name] == CASES[name].expected
