"""Responses and latencies by time step, replica and kind of response."""

from typing import Any

from pyspark.sql import SparkSession

from creekdb.history import LIVE_SOURCE
from creekdb.pipeline.schemas import OPERATIONS, RUNS
from creekdb.pipeline.stages.measure import TIME_STEPS, over_time
from tests.pipeline.spark_tables import Row, operations_table, runs_table

BEGIN_US, LENGTH_US = 1_000, TIME_STEPS * 100


def run_row(name: str, **columns: Any) -> Row:
    blank: Row = dict.fromkeys(RUNS.names, 0) | {
        "layout": None,
        "unsettled": None,
        **dict.fromkeys(("scheme", "extensions", "faults", "trace_hash", "violated"), ""),
        **dict.fromkeys(("local_reads", "decided_only"), False),
        "command": "",
    }
    window = {"begin_us": BEGIN_US, "end_us": BEGIN_US + LENGTH_US}
    return blank | window | {"run": name, "source": "simulated"} | columns


def operation(name: str, replica: int, invoked_us: int, done_us: int | None, strong: bool) -> Row:
    """Return a row of OPERATIONS; times are relative to the measurement window."""
    blank: Row = dict.fromkeys(OPERATIONS.names)
    response = "stable_us" if strong else "tentative_us"
    return blank | {
        "run": name,
        "replica": replica,
        "incarnation": 0,
        "event": invoked_us,
        "session": 0,
        "kind": "payment",
        "strong": strong,
        "arguments": "[]",
        "invoked_us": BEGIN_US + invoked_us,
        response: None if done_us is None else BEGIN_US + done_us,
    }


def steps(spark: SparkSession, runs: list[Row], operations: list[Row]) -> list[tuple[Any, ...]]:
    frame = over_time(runs_table(spark, *runs), operations_table(spark, *operations))
    return sorted(tuple(row) for row in frame.collect())


def test_a_latency_counts_at_the_invocation_and_a_response_when_it_is_sent(
    spark: SparkSession,
) -> None:
    operations = [
        operation("live", 0, 10, 20, False),
        operation("live", 0, 30, 90, False),
        operation("live", 0, 40, 250, False),
        operation("live", 1, 50, 60, True),
        operation("live", 1, -50, 110, True),  # invoked before the window
        operation("live", 1, 120, LENGTH_US + 5, True),  # response after the window
        operation("live", 1, 130, None, True),  # no response
    ]
    assert steps(spark, [run_row("live", source=LIVE_SOURCE)], operations) == [
        ("live", 0, "weak_tentative", 0, 100, 2, 3, 60, 210),
        ("live", 0, "weak_tentative", 200, 100, 1, 0, None, None),
        ("live", 1, "strong_stable", 0, 100, 1, 1, 10, 10),
        ("live", 1, "strong_stable", 100, 100, 1, 1, LENGTH_US - 115, LENGTH_US - 115),
    ]


def test_only_live_runs_and_runs_with_faults_have_steps(spark: SparkSession) -> None:
    runs = [
        run_row("plain"),
        run_row("faulty", faults="crash 0 at 1ms"),
        run_row("empty", end_us=BEGIN_US),
    ]
    operations = [operation(name, 0, 10, 20, False) for name in ("plain", "faulty", "empty")]
    assert {row[0] for row in steps(spark, runs, operations)} == {"faulty"}
