"""Measurements of a watched cluster, as functions of frames.

From rows of FEED, in which each change occurs once, a batch gives rows of `KEPT_SCHEMAS`:

    commits          requests by time step, operation and level, and what became of their responses
    latency_counts   commit latencies by time step and level, rounded and counted
    key_writes       the most written registers of each minute

Sums over the rows of several batches are those of the whole. `throughput`, `latency`, `apologies`
and `hot_keys` are computed from them.

The commit latency of a request is the time from its call until the replica that issued it found it
final. Both times are those of that replica's clock. A client that waits for the stable
response to a strong call waits for this long, apart from its network. The client of a weak call
does not wait: it has its tentative response long before, at a time that the feed does not hold.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias
from pyspark.sql.window import Window

from creekdb.pipeline.spark.frames import conform_to_schema
from creekdb.pipeline.stages.measure import latency_statistics
from creekdb.pipeline.watch.tables import (
    APOLOGIES,
    COMMITS,
    HOT_KEYS,
    KEY_WRITES,
    LATENCY,
    LATENCY_COUNTS,
    THROUGHPUT,
)

US_PER_S: Final = 1_000_000
KEY_STEP_US: Final = 60 * US_PER_S
KEYS_PER_STEP_MAX: Final = 100
"""Registers that are kept of each minute and batch. Others count as not written."""
HOT_KEYS_MAX: Final = 20
SIGNIFICANT_DIGITS: Final = 2
PERCENTILES: Final = (50, 95, 99)


def changes_of(feed: DataFrame) -> DataFrame:
    """Return the changes among rows of FEED, without the rows that end a part."""
    return feed.where("operation is not null")


def commits(feed: DataFrame, step_us: int) -> DataFrame:
    """Return COMMITS. A request belongs to the step in which it became final.

    If that time is unknown, it belongs to the step of its call.
    """
    grouped = (
        changes_of(feed)
        .groupBy(_step(_final_us(), step_us), "operation", "strong")
        .agg(
            F.count("*").alias("commits"),
            F.count_if(F.col("error").isNotNull()).alias("failed"),
            F.count_if(~F.col("changed")).alias("kept"),
            F.count_if(F.col("changed")).alias("changed"),
            F.count_if(F.col("changed").isNull()).alias("unknown"),
        )
    )
    return conform_to_schema(grouped, COMMITS)


def latency_counts(feed: DataFrame, step_us: int) -> DataFrame:
    """Return LATENCY_COUNTS. Clocks that were set back give latencies of 0."""
    known = changes_of(feed).where("committed_us is not null")
    latency_us = F.greatest(F.col("committed_us") - F.col("timestamp_us"), F.lit(0))
    grouped = known.groupBy(
        _step(F.col("committed_us"), step_us), "strong", _rounded(latency_us, "latency_us")
    ).agg(F.count("*").alias("times"))
    return conform_to_schema(grouped, LATENCY_COUNTS)


def key_writes(feed: DataFrame, keys_max: int = KEYS_PER_STEP_MAX) -> DataFrame:
    """Return KEY_WRITES: the most written registers of each minute."""
    step = _step(_final_us(), KEY_STEP_US)
    counted = (
        changes_of(feed)
        .select(step, F.explode("keys").alias("key"))
        .groupBy("step_us", "key")
        .agg(F.count("*").alias("writes"))
    )
    order = Window.partitionBy("step_us").orderBy(F.desc("writes"), "key")
    top = counted.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= keys_max)
    return conform_to_schema(top, KEY_WRITES)


# --- over batches --------------------------------------------------------------------------------


def throughput(commits: DataFrame, step_us: int) -> DataFrame:
    """Return THROUGHPUT, of steps of `step_us`, which may be longer than those of COMMITS."""
    step = _step(F.col("step_us"), step_us)
    grouped = commits.groupBy(step, "strong").agg(F.sum("commits").alias("commits"))
    per_second = F.col("commits") * US_PER_S / F.lit(step_us)
    return conform_to_schema(grouped.withColumn("per_second", per_second), THROUGHPUT)


def latency(latency_counts: DataFrame, step_us: int) -> DataFrame:
    """Return LATENCY, of steps of `step_us`, which may be longer than those of the counts."""
    keys = ("step_us", "strong")
    counted = (
        latency_counts.withColumn("step_us", _step(F.col("step_us"), step_us))
        .groupBy(*keys, "latency_us")
        .agg(F.sum("times").alias("times"))
    )
    statistics = latency_statistics(counted, keys, PERCENTILES)
    return conform_to_schema(statistics.withColumnRenamed("answers", "requests"), LATENCY)


def apologies(commits: DataFrame) -> DataFrame:
    """Return APOLOGIES: weak requests by operation, the most frequent apologies first."""
    grouped = (
        commits.where(~F.col("strong"))
        .groupBy("operation")
        .agg(
            F.sum("commits").alias("weak"),
            F.sum("changed").alias("apologies"),
            F.sum("unknown").alias("unknown"),
        )
    )
    known = F.nullif(F.col("weak") - F.col("unknown"), F.lit(0))
    rows = grouped.withColumn("share", F.col("apologies") / known)
    return conform_to_schema(rows.orderBy(F.desc("apologies"), "operation"), APOLOGIES)


def hot_keys(key_writes: DataFrame, keys_max: int = HOT_KEYS_MAX) -> DataFrame:
    """Return HOT_KEYS: the most written registers."""
    grouped = key_writes.groupBy("key").agg(F.sum("writes").alias("writes"))
    total = F.sum("writes").over(Window.partitionBy())
    rows = grouped.withColumn("share", F.col("writes") / total)
    return conform_to_schema(rows.orderBy(F.desc("writes"), "key").limit(keys_max), HOT_KEYS)


def _final_us() -> Column:
    return F.coalesce("committed_us", "timestamp_us")


def _step(time_us: Column, step_us: int) -> Column:
    return (F.floor(time_us / step_us) * step_us).cast("bigint").alias("step_us")


def _rounded(value: Column, name: str) -> Column:
    """Round down to a few significant digits."""
    digits = F.floor(F.log10(F.greatest(value, F.lit(1)))) - (SIGNIFICANT_DIGITS - 1)
    unit = F.pow(F.lit(10), F.greatest(digits, F.lit(0)))
    return (F.floor(value / unit) * unit).cast("bigint").alias(name)
