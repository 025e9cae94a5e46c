"""What was done over time, and how long clients waited for it: of runs in which something happened.

    over_time   RUNS, OPERATIONS -> OVER_TIME   a row per step, replica and kind of answer

An operation counts in two steps: as done where it was answered, and with its latency where it was
asked for, so that a wait is seen where it begins. Rows never leave the JVM.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from creekdb.history import LIVE
from creekdb.pipeline.declared import declared
from creekdb.pipeline.measure import timed_operations
from creekdb.pipeline.schemas import OVER_TIME

STEPS: Final = 30
"""Of a run, from when it is measured to its end."""
KEYS: Final = ("run", "replica", "answer", "step")


def over_time(runs: DataFrame, operations: DataFrame) -> DataFrame:
    watched = runs.where((F.col("faults") != "") | (F.col("source") == LIVE))
    answered = (
        timed_operations(watched, operations)
        .where("done_us is not null and end_us > begin_us")
        .withColumn("answer", F.when(F.col("strong"), "strong_stable").otherwise("weak_tentative"))
        .withColumn("latency_us", F.col("done_us") - F.col("invoked_us"))
    )
    kept = ("run", "replica", "answer")
    nothing = F.lit(None).cast("bigint")
    done = answered.select(
        *kept, _step("done_us"), F.lit(1).alias("done"), nothing.alias("latency_us")
    )
    asked = answered.select(*kept, _step("invoked_us"), F.lit(0).alias("done"), "latency_us")
    grouped = (
        done.unionByName(asked)
        .where(F.col("step").between(0, STEPS - 1))
        .groupBy(*KEYS)
        .agg(
            F.sum("done").alias("done"),
            F.count("latency_us").alias("asked"),
            F.sort_array(F.collect_list("latency_us")).alias("sorted"),
        )
    )
    length_us = F.floor((F.col("end_us") - F.col("begin_us")) / STEPS)
    windows = F.broadcast(watched.select("run", length_us.alias("length_us")))
    return declared(
        grouped.join(windows, "run").withColumns(
            {
                "at_us": F.col("step") * F.col("length_us"),
                "p50_us": _ranked("sorted", F.ceil(F.size("sorted") / 2)),
                "max_us": _ranked("sorted", F.size("sorted")),
            }
        ),
        OVER_TIME,
    )


def _step(at: str) -> Column:
    since_us = F.col(at) - F.col("begin_us")
    return F.floor(since_us * STEPS / (F.col("end_us") - F.col("begin_us"))).alias("step")


def _ranked(numbers: str, rank: Column) -> Column:
    """The one of that rank, from 1 on; null where there are none."""
    return F.when(F.size(numbers) > 0, F.element_at(numbers, rank.cast("int")))
