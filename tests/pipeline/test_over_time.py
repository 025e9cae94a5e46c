"""What was done over time, and how long it took, by step, replica and kind of answer."""

from typing import Any

from pyspark.sql import SparkSession

from creekdb.history import LIVE_SOURCE
from creekdb.pipeline.schemas import OPERATIONS, RUNS
from creekdb.pipeline.stages.measure import TIME_STEPS, over_time
from tests.pipeline.tabled import Row, operations_table, runs_table

BEGIN_US, LENGTH_US = 1_000, TIME_STEPS * 100


def run(name: str, **known: Any) -> Row:
    blank: Row = dict.fromkeys(RUNS.names, 0) | {
        "layout": None,
        "unsettled": None,
        **dict.fromkeys(("scheme", "faults", "trace_hash", "violated", "command"), ""),
    }
    window = {"begin_us": BEGIN_US, "end_us": BEGIN_US + LENGTH_US, "local_reads": False}
    return blank | window | {"run": name, "source": "simulated"} | known


def asked(name: str, replica: int, invoked_us: int, done_us: int | None, strong: bool) -> Row:
    """Times from when measuring begins."""
    blank: Row = dict.fromkeys(OPERATIONS.names)
    answer = "stable_us" if strong else "tentative_us"
    return blank | {
        "run": name,
        "replica": replica,
        "incarnation": 0,
        "event": invoked_us,
        "session": 0,
        "kind": "payment",
        "strong": strong,
        "invoked_us": BEGIN_US + invoked_us,
        answer: None if done_us is None else BEGIN_US + done_us,
    }


def found(spark: SparkSession, runs: list[Row], operations: list[Row]) -> list[tuple[Any, ...]]:
    made = over_time(runs_table(spark, *runs), operations_table(spark, *operations))
    return sorted(tuple(row) for row in made.collect())


def test_a_wait_is_seen_where_it_begins_and_an_answer_where_it_is_given(
    spark: SparkSession,
) -> None:
    operations = [
        asked("live", 0, 10, 20, False),
        asked("live", 0, 30, 90, False),
        asked("live", 0, 40, 250, False),
        asked("live", 1, 50, 60, True),
        asked("live", 1, -50, 110, True),  # asked for before, answered meanwhile
        asked("live", 1, 120, LENGTH_US + 5, True),  # answered after the end
        asked("live", 1, 130, None, True),  # never answered
    ]
    assert found(spark, [run("live", source=LIVE_SOURCE)], operations) == [
        ("live", 0, "weak_tentative", 0, 100, 2, 3, 60, 210),
        ("live", 0, "weak_tentative", 200, 100, 1, 0, None, None),
        ("live", 1, "strong_stable", 0, 100, 1, 1, 10, 10),
        ("live", 1, "strong_stable", 100, 100, 1, 1, LENGTH_US - 115, LENGTH_US - 115),
    ]


def test_only_runs_in_which_something_happened_are_told_of(spark: SparkSession) -> None:
    runs = [run("calm"), run("broken", faults="crash 0 at 1ms"), run("empty", end_us=BEGIN_US)]
    operations = [asked(name, 0, 10, 20, False) for name in ("calm", "broken", "empty")]
    assert {row[0] for row in found(spark, runs, operations)} == {"broken"}
