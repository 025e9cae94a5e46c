"""Measures of runs, computed from their tables: `evaluation.measures` as DataFrame code.

    measures    RUNS, OPERATIONS -> MEASURES    one row per run
    latencies   RUNS, OPERATIONS -> LATENCIES   percentiles by nearest rank, to the microsecond
    summary     MEASURES, LATENCIES -> SUMMARY  means over seeds, with confidence intervals
    peaks       MEASURES -> PEAKS               highest unsaturated load of each system
    over_time   RUNS, OPERATIONS -> OVER_TIME   one row per step, replica and kind of response

`evaluation.measures` defines the measures, and both implementations yield equal figures. A ratio
with denominator 0 is null. Rows never leave the JVM.

Confidence intervals use Student's t distribution. For integer degrees of freedom, its distribution
function is a finite sum (Abramowitz and Stegun, 26.7.3 and 26.7.4). Quantiles result from
bisection, without a table or a library.

In OVER_TIME, an operation counts in two steps: as done in the step of its response, and with its
latency in the step of its invocation. A long latency thus appears at its start.
"""

from functools import cache
from math import cos, pi, sin, sqrt, tan
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from creekdb.evaluation.measures import (
    BACKLOG_GROWTH_FACTOR,
    BACKLOG_GROWTH_S,
    BACKLOG_SAMPLES,
    SATURATION_SHARE,
)
from creekdb.history import LIVE_SOURCE
from creekdb.pipeline.schemas import (
    ALL_KINDS,
    EXPERIMENT_COLUMNS,
    LATENCIES,
    MEASURES,
    OVER_TIME,
    PEAKS,
    SUMMARY,
)
from creekdb.pipeline.spark.frames import conform_to_schema

CONFIDENCE_LEVEL = 0.95
BISECTION_STEPS = 80


@cache
def t_quantile(degrees: int) -> float:
    """Return the t within which a value lies with probability CONFIDENCE_LEVEL."""
    low, high = 0.0, pi / 2
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        if central_probability(middle, degrees) < CONFIDENCE_LEVEL:
            low = middle
        else:
            high = middle
    return tan(high) * sqrt(degrees)


def central_probability(angle: float, degrees: int) -> float:
    """Return the probability that |t| < tan(angle) · √degrees for a t-distributed value.

    It results from a finite sum of powers of the cosine. The sum is cos + 2/3 cos³ + 2·4/(3·5)
    cos⁵ … for odd degrees of freedom, and 1 + 1/2 cos² + 1·3/(2·4) cos⁴ … for even ones.
    """
    odd = degrees % 2
    total, term = 0.0, cos(angle) ** odd
    for power in range(odd, degrees - 1, 2):
        total += term
        term *= cos(angle) ** 2 * (power + 1) / (power + 2)
    return (angle + sin(angle) * total) * 2 / pi if odd else sin(angle) * total


US_PER_S: Final = 1_000_000
MEDIAN: Final = 50
PERCENTILES: Final = (MEDIAN, 95, 99)
STATISTICS: Final = ("mean_us", *(f"p{percent}_us" for percent in PERCENTILES))
SUMMARY_COLUMNS: Final = tuple(MEASURES.names[MEASURES.names.index("asked") + 1 :])
"""Measures of SUMMARY. `saturated` counts as 0 or 1, so its mean is a share of the seeds."""
DEGREES_MAX: Final = 100
"""Upper bound for degrees of freedom. Beyond it, intervals are too wide by about one percent."""


def measures(runs: DataFrame, operations: DataFrame) -> DataFrame:
    """Return MEASURES: one row per run."""
    counts = timed_operations(runs, operations).groupBy("run").agg(*_count_columns())
    count_columns = [name for name in counts.columns if name != "run"]
    joined = runs.join(counts, "run", "left").fillna(0, count_columns)
    length_us = F.col("end_us") - F.col("begin_us")
    throughput_tps = _ratio(F.col("done") * US_PER_S, length_us)
    invoked_tps = _ratio(F.col("asked") * US_PER_S, length_us)
    is_open = F.col("load_tps").isNotNull()
    return conform_to_schema(
        joined.select(
            *runs.columns,
            "asked",
            throughput_tps.alias("throughput_tps"),
            F.when(is_open, _is_saturated(throughput_tps, invoked_tps)).alias("saturated"),
            "backlog",
            _ratio(F.col("accurate"), F.col("accurate_known")).alias("accuracy"),
            _ratio(F.col("exact"), F.col("exact_known")).alias("exact_accuracy"),
            _ratio(F.col("executions"), F.col("to_execute")).alias("execution_ratio"),
            _ratio(F.col("busy_us"), F.col("core_us")).alias("cpu_utilisation"),
            _ratio(F.col("bytes"), F.col("capacity_bytes")).alias("network_utilisation"),
            _ratio(F.col("messages"), F.col("asked")).alias("messages_per_operation"),
        ),
        MEASURES,
    )


def latencies(runs: DataFrame, operations: DataFrame) -> DataFrame:
    """Return LATENCIES. Equal latencies are counted first, which bounds the rows to be sorted.

    They are counted twice. Stored counts would cost more: Spark does not merge the small
    partitions of a stored frame, and runs one task for each of them in every later step.
    """
    responses = (
        timed_operations(runs, operations)
        .where(_is_invoked_in_window())
        .select("run", "kind", F.inline(_response_latencies()))
    )
    keys = ("run", "answer", "kind")
    counted = (
        responses.where("latency_us is not null")
        .groupBy(*keys, "latency_us")
        .agg(F.count("*").alias("times"))
    )
    of_all = counted.withColumn("kind", F.explode(F.array("kind", F.lit(ALL_KINDS))))
    return conform_to_schema(latency_statistics(of_all, keys, PERCENTILES), LATENCIES)


def summary(measures: DataFrame, latencies: DataFrame) -> DataFrame:
    """Return SUMMARY: means over runs that differ only in their seed.

    The name of a latency consists of response kind and statistic, such as `strong_stable_p99_us`.
    It covers all kinds of operations.
    """
    experiments = measures.select("run", *EXPERIMENT_COLUMNS)
    figures = measures.select("run", F.inline(_measure_rows(SUMMARY_COLUMNS)))
    name = F.concat_ws("_", "answer", "measure").alias("measure")
    all_kinds = latencies.where(F.col("kind") == ALL_KINDS)
    times = all_kinds.select("run", "answer", F.inline(_measure_rows(STATISTICS)))
    values = figures.unionByName(times.select("run", name, "value"))
    # Ascending order makes the sums independent of the partitioning.
    grouped = (
        experiments.join(values.where("value is not null"), "run")
        .groupBy(*EXPERIMENT_COLUMNS, "measure")
        .agg(F.sort_array(F.collect_list("value")).alias("sorted"))
        .withColumn("seeds", F.size("sorted"))
        .withColumn("mean", _sum("sorted") / F.col("seeds"))
        .withColumn("squares", F.transform("sorted", lambda x: F.pow(x - F.col("mean"), F.lit(2))))
    )
    degrees = F.col("seeds") - 1
    quantiles = F.array(*(F.lit(t_quantile(each)) for each in range(1, DEGREES_MAX + 1)))
    t = F.element_at(quantiles, F.least(degrees, F.lit(DEGREES_MAX)))
    margin = F.when(degrees > 0, t * F.sqrt(_sum("squares") / degrees / F.col("seeds")))
    return conform_to_schema(
        grouped.withColumns({"low": F.col("mean") - margin, "high": F.col("mean") + margin}),
        SUMMARY,
    )


def peaks(measures: DataFrame) -> DataFrame:
    """Return PEAKS: the highest unsaturated load; of runs with one load, the longest counts.

    A system that every load saturated has no row.
    """
    varied = ("load_tps", "duration_us")
    keys = (*(name for name in EXPERIMENT_COLUMNS if name not in varied), "seed")
    unsaturated = F.struct(*varied, F.col("throughput_tps").alias("peak_tps"))
    grouped = measures.groupBy(*keys).agg(
        F.max(F.when(~F.col("saturated"), unsaturated)).alias("best"),
        F.min(F.when(F.col("saturated"), F.col("load_tps"))).alias("saturating_tps"),
    )
    return conform_to_schema(
        grouped.where("best is not null").select(
            *keys, F.col("best.peak_tps"), F.col("best.load_tps"), "saturating_tps"
        ),
        PEAKS,
    )


# --- operations and the times of their responses -----------------------------------------------


def timed_operations(runs: DataFrame, operations: DataFrame) -> DataFrame:
    """Return operations with the measurement window of their run, and their completion time."""
    windows = F.broadcast(runs.select("run", "begin_us", "end_us"))
    done_us = F.when(F.col("strong"), F.col("stable_us")).otherwise(_first_response_us())
    return operations.join(windows, "run").withColumn("done_us", done_us)


def _first_response_us() -> Column:
    return F.least("tentative_us", "stable_us", "final_us")


def _is_invoked_in_window() -> Column:
    """True for operations invoked after the warm-up."""
    return F.col("invoked_us") >= F.col("begin_us")


def _response_latencies() -> Column:
    """Return (answer, latency_us) by kind of response; the latency is null without a response."""
    strong = F.col("strong")
    final_us = F.coalesce("stable_us", "final_us")
    times_us = {
        "tentative": F.when(strong, F.col("tentative_us")).otherwise(_first_response_us()),
        "stable": F.when(strong, F.col("stable_us")).otherwise(final_us),
        "speculated": F.col("speculated_us"),
    }
    responses = [
        (F.when(strong, f"strong_{name}").otherwise(f"weak_{name}"), at)
        for name, at in times_us.items()
    ]
    responses.append((F.lit("all_done"), F.col("done_us")))
    return F.array(
        *(
            F.struct(name.alias("answer"), (at_us - F.col("invoked_us")).alias("latency_us"))
            for name, at_us in responses
        )
    )


# --- statistics of counted latencies -----------------------------------------------------------


LATENCIES_PER_SLOT: Final = 4096
"""Width of a slot of latencies, in microseconds."""


def latency_statistics(
    counted: DataFrame,
    keys: tuple[str, ...],
    percentiles: tuple[int, ...],
    slot_us: int = LATENCIES_PER_SLOT,
) -> DataFrame:
    """Return number, mean, maximum and percentiles of the latencies of each group.

    `counted` has a latency and its frequency in each row. A percentile is a value by nearest rank:
    slots of adjacent latencies are counted, and only the slots that hold a percentile are sorted.
    """
    slots = counted.withColumn("slot", F.expr(f"latency_us div {slot_us}"))
    totals = slots.groupBy(*keys, "slot").agg(
        F.sum("times").alias("slot_times"),
        F.sum(F.col("latency_us") * F.col("times")).alias("sum_us"),
        F.max("latency_us").alias("max_us"),
    )
    group = Window.partitionBy(*keys)
    ranks = [
        f"struct({each} as percent, (answers * {each} + 99) div 100 as rank)"
        for each in percentiles
    ]
    wanted = (
        totals.select(
            *(*keys, "slot", "slot_times"),
            F.sum("slot_times").over(group.orderBy("slot")).alias("reached"),
            F.sum("slot_times").over(group).alias("answers"),
            F.sum("sum_us").over(group).alias("sum_us"),
            F.max("max_us").over(group).alias("max_us"),
        )
        .selectExpr("*", f"inline(array({', '.join(ranks)}))")
        .where("rank between reached - slot_times + 1 and reached")
        .withColumn("before", F.expr("reached - slot_times"))
        .drop("reached", "slot_times")
    )
    slot = Window.partitionBy(*keys, "slot", "percent").orderBy("latency_us")
    found = (
        slots.join(wanted, [*keys, "slot"])
        .withColumn("reached", F.col("before") + F.sum("times").over(slot))
        .where("reached >= rank")
    )
    return found.groupBy(*keys).agg(
        F.max("answers").alias("answers"),
        F.expr("max(sum_us) / max(answers)").alias("mean_us"),
        F.max("max_us").alias("max_us"),
        *(
            F.expr(f"min(latency_us) filter (where percent = {each})").alias(f"p{each}_us")
            for each in percentiles
        ),
    )


# --- one pass over the operations of a run -----------------------------------------------------


def _count_columns() -> list[Column]:
    weak = _is_invoked_in_window() & ~F.col("strong")
    in_window = F.col("done_us").between(F.col("begin_us"), F.col("end_us"))
    invoked_at, done_at = _sample_index(F.col("invoked_us")), _sample_index(F.col("done_us"))
    half = BACKLOG_SAMPLES // 2
    samples = BACKLOG_SAMPLES + 1
    return [
        F.count_if(_is_invoked_in_window()).alias("asked"),
        F.count_if(in_window).alias("done"),
        *(
            column
            for name, known in (("accurate", "accurate_known"), ("exact", "exact_known"))
            for column in (
                F.count_if(weak & F.col(name)).alias(name),
                F.count_if(weak & F.col(name).isNotNull()).alias(known),
            )
        ),
        _backlog_sum(invoked_at, done_at, 0, half).alias("backlog_first"),
        _backlog_sum(invoked_at, done_at, samples - half, samples).alias("backlog_second"),
        _backlog_sum(invoked_at, done_at, samples - 1, samples).alias("backlog"),
    ]


def _sample_index(at_us: Column) -> Column:
    """Return the index of the first backlog sample at or after a time.

    Sample times are `begin + length * sample // BACKLOG_SAMPLES`. Times after the last sample have
    an index beyond the last.
    """
    since_us = at_us - F.col("begin_us")
    length_us = F.col("end_us") - F.col("begin_us")
    rounded_up = F.ceil(since_us * BACKLOG_SAMPLES / F.nullif(length_us, F.lit(0)))
    return F.when(since_us <= 0, 0).otherwise(F.coalesce(rounded_up, F.lit(BACKLOG_SAMPLES + 1)))


def _backlog_sum(invoked_at: Column, done_at: Column, begin: int, end: int) -> Column:
    """Return the sum of the backlog over the samples from `begin` to before `end`.

    An operation is in the backlog from the sample of its invocation to before that of its response.
    """

    def samples_from(sample: Column) -> Column:
        return F.lit(end) - F.greatest(F.lit(begin), F.least(sample, F.lit(end)))

    done = F.when(F.col("done_us").isNotNull(), samples_from(done_at)).otherwise(0)
    return F.sum(samples_from(invoked_at) - done)


def _is_saturated(throughput_tps: Column, invoked_tps: Column) -> Column:
    half = F.lit(float(BACKLOG_SAMPLES // 2))
    first, second = F.col("backlog_first") / half, F.col("backlog_second") / half
    grows = second > BACKLOG_GROWTH_FACTOR * first + BACKLOG_GROWTH_S * invoked_tps
    return (throughput_tps < SATURATION_SHARE * invoked_tps) | grows


def _ratio(part: Column, whole: Column) -> Column:
    return part / F.nullif(whole, F.lit(0))


# --- over seeds --------------------------------------------------------------------------------


def _measure_rows(columns: tuple[str, ...]) -> Column:
    """Return the columns as rows of (measure, value)."""
    return F.array(
        *(
            F.struct(F.lit(name).alias("measure"), F.col(name).cast("double").alias("value"))
            for name in columns
        )
    )


def _sum(numbers: str) -> Column:
    return F.aggregate(numbers, F.lit(0.0), lambda total, number: total + number)


TIME_STEPS: Final = 30
"""Number of steps in the measurement window of a run."""
TIME_STEP_KEYS: Final = ("run", "replica", "answer", "step")


def over_time(runs: DataFrame, operations: DataFrame) -> DataFrame:
    """Return OVER_TIME, for live runs and runs with faults."""
    selected = runs.where((F.col("faults") != "") | (F.col("source") == LIVE_SOURCE))
    completed = (
        timed_operations(selected, operations)
        .where("done_us is not null and end_us > begin_us")
        .withColumn("answer", F.when(F.col("strong"), "strong_stable").otherwise("weak_tentative"))
        .withColumn("latency_us", F.col("done_us") - F.col("invoked_us"))
    )
    keys = ("run", "replica", "answer")
    is_step = F.col("step").between(0, TIME_STEPS - 1)
    done = (
        completed.select(*keys, _step_index("done_us"))
        .where(is_step)
        .groupBy(*TIME_STEP_KEYS)
        .agg(F.count("*").alias("done"))
    )
    counted = (
        completed.select(*keys, _step_index("invoked_us"), "latency_us")
        .where(is_step)
        .groupBy(*TIME_STEP_KEYS, "latency_us")
        .agg(F.count("*").alias("times"))
    )
    invoked = latency_statistics(counted, TIME_STEP_KEYS, (MEDIAN,))
    grouped = (
        done.unionByName(invoked, allowMissingColumns=True)
        .groupBy(*TIME_STEP_KEYS)
        .agg(
            F.coalesce(F.max("done"), F.lit(0)).alias("done"),
            F.coalesce(F.max("answers"), F.lit(0)).alias("asked"),
            F.max(f"p{MEDIAN}_us").alias("p50_us"),
            F.max("max_us").alias("max_us"),
        )
    )
    length_us = F.floor((F.col("end_us") - F.col("begin_us")) / TIME_STEPS)
    windows = F.broadcast(selected.select("run", length_us.alias("length_us")))
    return conform_to_schema(
        grouped.join(windows, "run").withColumn("at_us", F.col("step") * F.col("length_us")),
        OVER_TIME,
    )


def _step_index(at: str) -> Column:
    since_us = F.col(at) - F.col("begin_us")
    return F.floor(since_us * TIME_STEPS / (F.col("end_us") - F.col("begin_us"))).alias("step")
