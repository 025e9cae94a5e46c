"""Convergence, checked by digests of orders and states.

Each case is one run. All runs are checked at once: a query costs more than the rows of a case.
"""

from collections.abc import Mapping
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

CHECKER = "convergence"


def member(replica: int, **changes: Any) -> Row:
    row: Row = {"replica": replica, "first": 0, "committed": 1, "tentative": 0}
    return row | {"order_digest": "order", "state_digest": "state"} | changes


def lines(*texts: str) -> str:
    return "\n    at the end  replica ".join(texts)


class Case(NamedTuple):
    """One run, whose request 0.1 is committed."""

    detail: str | None
    """The violation of convergence, or None."""
    members: tuple[Row, ...] = (member(0), member(1))
    operation: Row | None = None
    """An operation that is not committed."""
    run: Mapping[str, Any] = {}


def case_of_lost_call(replica: int, responses: Row, trace_hash: str, is_lost: bool) -> Case:
    message = f"{replica}.2 got a response and was then lost: it is not on committed"
    lost = operation(2, replica=replica, **responses)
    return Case(message if is_lost else None, operation=lost, run={"trace_hash": trace_hash})


UNSETTLED = "liveness: the run did not become quiescent"
CASES = {
    "equal members": Case(None, (member(0), member(1), member(2))),
    "tentative requests": Case(
        lines("liveness: 2 requests never stabilised", "1: has 2 on tentative"),
        (member(0), member(1, tentative=2)),
    ),
    "a missing commit": Case(
        lines(
            "1 requests are committed, but not at every replica",
            "0: has 1 on committed",
            "1: has 0 on committed",
        ),
        (member(0), member(1, committed=0)),
    ),
    "another order": Case(
        lines(
            "the committed orders differ",
            "0: has the order with digest order",
            "1: has the order with digest another",
        ),
        (member(0), member(1, order_digest="another")),
    ),
    "another state": Case(
        lines(
            "the states differ",
            "0: has the state with digest state",
            "1: has the state with digest another",
        ),
        (member(0), member(1, state_digest="another")),
    ),
    "orders that begin at different positions": Case(
        None, (member(0), member(1, first=1, committed=0, order_digest="another"))
    ),
    "unsettled, without members": Case(UNSETTLED, ()),
    "unsettled, with a member": Case(
        lines(UNSETTLED, "0: has 1 committed, 0 tentative"),
        (member(0),),
        run={"unsettled": "requests are tentative"},
    ),
    "lost after a tentative response": case_of_lost_call(0, {"tentative_us": 30}, "abc", True),
    "lost after a final response": case_of_lost_call(0, {"final_us": 30}, "", True),
    "lost after a stable response": case_of_lost_call(0, {"stable_us": 30}, "", True),
    "lost by a removed replica": case_of_lost_call(9, {"stable_us": 30}, "", True),
    "at a replica that never restarted": case_of_lost_call(9, {"tentative_us": 30}, "abc", False),
    "perhaps not durable": case_of_lost_call(0, {"tentative_us": 30}, "", False),
    "without a response": case_of_lost_call(0, {}, "abc", False),
    "a local read": Case(None, operation=operation(-2, tentative_us=30)),
}


@pytest.fixture(scope="module")
def details(spark: SparkSession) -> dict[str, str]:
    """Violations of convergence, by case."""
    committed = operation(1, tentative_us=20, final_us=30, commit_index=0)
    runs, operations, order, members = [], [], [], []
    for name, case in CASES.items():
        in_run = {"run": name}
        runs.append(run_row(**in_run, **case.run))
        operations += [each | in_run for each in (committed, case.operation) if each is not None]
        order.append(in_run | {"replica": 0, "index": 0, "origin": 0, "event": 1})
        members += [each | in_run for each in case.members]
    with SharedFrames() as shared:
        found = find_violations(
            runs_table(spark, *runs),
            operations_table(spark, *operations),
            table(spark, order, ORDERS),
            table(spark, members, FINAL_STATES),
            shared,
        )
        rows = found.where(f"checker = '{CHECKER}'").collect()
    assert {row["verdict"] for row in rows} == {"illegal"}
    assert len({row["run"] for row in rows}) == len(rows)
    return {row["run"]: row["detail"] for row in rows}


@pytest.mark.parametrize("case", CASES)
def test_a_run_converges_or_the_difference_is_shown(details: dict[str, str], case: str) -> None:
    assert details.get(case) == CASES[case].detail
