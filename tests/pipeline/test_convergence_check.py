"""Convergence, checked by digests of orders and states."""

from typing import Any

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
    row: Row = {"run": "run", "replica": replica, "first": 0, "committed": 1, "tentative": 0}
    return row | {"order_digest": "order", "state_digest": "state"} | changes


def convergence(
    spark: SparkSession, members: list[Row], operations: list[Row], **run: Any
) -> str | None:
    """Return the violation of convergence, or None; the request 0.1 is committed."""
    order = [{"run": "run", "replica": 0, "index": 0, "origin": 0, "event": 1}]
    invoked = [operation(1, tentative_us=20, final_us=30, commit_index=0), *operations]
    with SharedFrames() as shared:
        found = find_violations(
            runs_table(spark, run_row(**run)),
            operations_table(spark, *invoked),
            table(spark, order, ORDERS),
            table(spark, members, FINAL_STATES),
            shared,
        )
        rows = found.where(f"checker = '{CHECKER}'").collect()
    assert {row["verdict"] for row in rows} <= {"illegal"}
    return rows[0]["detail"] if rows else None


def test_equal_members_have_converged(spark: SparkSession) -> None:
    assert convergence(spark, [member(0), member(1), member(2)], []) is None


@pytest.mark.parametrize(
    ("changes", "message", "witnesses"),
    [
        (
            {"tentative": 2},
            "liveness: 2 requests never stabilised",
            ["    at the end  replica 1: has 2 on tentative"],
        ),
        (
            {"committed": 0},
            "1 requests are committed, but not at every replica",
            [
                "    at the end  replica 0: has 1 on committed",
                "    at the end  replica 1: has 0 on committed",
            ],
        ),
        (
            {"order_digest": "another"},
            "the committed orders differ",
            [
                "    at the end  replica 0: has the order with digest order",
                "    at the end  replica 1: has the order with digest another",
            ],
        ),
        (
            {"state_digest": "another"},
            "the states differ",
            [
                "    at the end  replica 0: has the state with digest state",
                "    at the end  replica 1: has the state with digest another",
            ],
        ),
    ],
)
def test_a_difference_between_members_is_a_violation(
    spark: SparkSession, changes: Row, message: str, witnesses: list[str]
) -> None:
    detail = convergence(spark, [member(0), member(1, **changes)], [])

    assert detail == "\n".join([message, *witnesses])


def test_orders_that_begin_at_different_positions_are_not_compared(spark: SparkSession) -> None:
    shortened = member(1, first=1, committed=0, order_digest="another")

    assert convergence(spark, [member(0), shortened], []) is None


@pytest.mark.parametrize("members", [[], [member(0)]])
def test_an_unsettled_run_is_illegal(spark: SparkSession, members: list[Row]) -> None:
    unsettled = "requests are tentative" if members else None

    detail = convergence(spark, members, [], unsettled=unsettled)

    witness = "    at the end  replica 0: has 1 committed, 0 tentative"
    message = "liveness: the run did not become quiescent"
    assert detail == "\n".join([message, *([witness] if members else [])])


LOST = "0.2 got a response and was then lost: it is not on committed"


@pytest.mark.parametrize(
    ("replica", "responses", "trace_hash", "is_lost"),
    [
        (0, {"tentative_us": 30}, "abc", True),
        (0, {"final_us": 30}, "", True),
        (0, {"stable_us": 30}, "", True),
        (9, {"stable_us": 30}, "", True),
        (9, {"tentative_us": 30}, "abc", False),  # its replica never restarted
        (0, {"tentative_us": 30}, "", False),  # perhaps before it was durable
        (0, {}, "abc", False),
    ],
)
def test_an_operation_with_a_response_must_be_committed(
    spark: SparkSession, replica: int, responses: Row, trace_hash: str, is_lost: bool
) -> None:
    lost = operation(2, replica=replica, **responses)

    detail = convergence(spark, [member(0), member(1)], [lost], trace_hash=trace_hash)

    assert detail == (LOST.replace("0.2", f"{replica}.2") if is_lost else None)


def test_a_local_read_need_not_be_committed(spark: SparkSession) -> None:
    read = operation(-2, tentative_us=30)

    assert convergence(spark, [member(0), member(1)], [read]) is None
