"""How far a mean over a few seeds can be trusted: Student's t distribution.

For whole degrees of freedom its distribution function is a finite sum (Abramowitz and Stegun,
26.7.3 and 26.7.4), so a quantile takes no table and no library: an interval is halved until it is
found.

What runs measure, from the tables that they left: `evaluation.measures`, as DataFrame code.

    measures    RUNS, OPERATIONS -> MEASURES    a row per run
    latencies   RUNS, OPERATIONS -> LATENCIES   percentiles by nearest rank, to the microsecond
    summary     MEASURES, LATENCIES -> SUMMARY  means over seeds, with confidence intervals
    peaks       MEASURES -> PEAKS               the highest load that each system kept up with

What every measure means is said there, and both give the same figures. Ratios of nothing are null.
Nothing here is computed in Python: rows never leave the JVM.

What was done over time, and how long clients waited for it: of runs in which something happened.

    over_time   RUNS, OPERATIONS -> OVER_TIME   a row per step, replica and kind of answer

An operation counts in two steps: as done where it was answered, and with its latency where it was
asked for, so that a wait is seen where it begins. Rows never leave the JVM.
"""

from functools import cache
from math import atan, cos, pi, sin, sqrt, tan
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it  # noqa: N812 - as everybody calls it

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


def central_probability(t: float, degrees: int) -> float:
    """The probability that a value of the t distribution lies between -t and t."""
    return _central_probability_of_angle(atan(t / sqrt(degrees)), degrees)


@cache
def t_quantile(degrees: int) -> float:
    """The t that values stay `within` with a probability of `CONFIDENCE`."""
    low, high = 0.0, pi / 2
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        if _central_probability_of_angle(middle, degrees) < CONFIDENCE_LEVEL:
            low = middle
        else:
            high = middle
    return tan(high) * sqrt(degrees)


def _central_probability_of_angle(angle: float, degrees: int) -> float:
    """The sum is cos + 2/3 cos³ + 2·4/(3·5) cos⁵ … for odd degrees of freedom, and
    1 + 1/2 cos² + 1·3/(2·4) cos⁴ … for even ones."""
    odd = degrees % 2
    total, term = 0.0, cos(angle) ** odd
    for power in range(odd, degrees - 1, 2):
        total += term
        term *= cos(angle) ** 2 * (power + 1) / (power + 2)
    return (angle + sin(angle) * total) * 2 / pi if odd else sin(angle) * total


US_PER_S: Final = 1_000_000
PERCENTILES: Final = (50, 95, 99)
STATISTICS: Final = ("mean_us", *(f"p{percent}_us" for percent in PERCENTILES))
SUMMARY_COLUMNS: Final = tuple(MEASURES.names[MEASURES.names.index("asked") + 1 :])
"""Whether it was saturated as 0 or 1: the mean is the share of the seeds."""
DEGREES_MAX: Final = 100
"""Beyond so many degrees of freedom, quantiles are those of so many: too wide by a hundredth."""


def measures(runs: DataFrame, operations: DataFrame) -> DataFrame:
    counts = timed_operations(runs, operations).groupBy("run").agg(*_count_columns())
    counted = [name for name in counts.columns if name != "run"]
    joined = runs.join(counts, "run", "left").fillna(0, counted)
    length_us = F.col("end_us") - F.col("begin_us")
    throughput_tps = _ratio(F.col("done") * US_PER_S, length_us)
    asked_tps = _ratio(F.col("asked") * US_PER_S, length_us)
    is_open = F.col("load_tps").isNotNull()
    return conform_to_schema(
        joined.select(
            *runs.columns,
            "asked",
            throughput_tps.alias("throughput_tps"),
            F.when(is_open, _is_saturated(throughput_tps, asked_tps)).alias("saturated"),
            "backlog",
            _ratio(F.col("accurate"), F.col("accuracy_told")).alias("accuracy"),
            _ratio(F.col("exact"), F.col("exact_told")).alias("exact_accuracy"),
            _ratio(F.col("executions"), F.col("to_execute")).alias("execution_ratio"),
            _ratio(F.col("busy_us"), F.col("core_us")).alias("cpu_utilisation"),
            _ratio(F.col("bytes"), F.col("capacity_bytes")).alias("network_utilisation"),
            _ratio(F.col("messages"), F.col("asked")).alias("messages_per_operation"),
        ),
        MEASURES,
    )


def latencies(runs: DataFrame, operations: DataFrame) -> DataFrame:
    """Equal latencies are counted first, so that what is sorted is short however long a run is."""
    each = (
        timed_operations(runs, operations)
        .where(_is_invoked_in_window())
        .select("run", "kind", F.inline(_response_latencies()))
    )
    keys = ("run", "answer", "kind")
    counted = (
        each.where("latency_us is not null")
        .groupBy(*keys, "latency_us")
        .agg(F.count("*").alias("times"))
        .withColumn("kind", F.explode(F.array("kind", F.lit(ALL_KINDS))))
        .groupBy(*keys, "latency_us")
        .agg(F.sum("times").alias("times"))
    )
    group = Window.partitionBy(*keys)
    ranked = counted.withColumns(
        {
            "rank": F.sum("times").over(group.orderBy("latency_us")),
            "answers": F.sum("times").over(group),
        }
    )
    return conform_to_schema(
        ranked.groupBy(*keys).agg(
            F.sum("times").alias("answers"),
            (F.sum(F.col("latency_us") * F.col("times")) / F.sum("times")).alias("mean_us"),
            *(_percentile(percent).alias(f"p{percent}_us") for percent in PERCENTILES),
        ),
        LATENCIES,
    )


def summary(measured: DataFrame, timed: DataFrame) -> DataFrame:
    """Over runs that differ in their seed alone. A latency is called after the answer and the
    statistic, as `strong_stable_p99_us`; it is that of all kinds of operations together."""
    experiments = measured.select("run", *EXPERIMENT_COLUMNS)
    figures = measured.select("run", F.inline(_measure_rows(SUMMARY_COLUMNS)))
    named = F.concat_ws("_", "answer", "measure").alias("measure")
    all_kinds = timed.where(F.col("kind") == ALL_KINDS)
    times = all_kinds.select("run", "answer", F.inline(_measure_rows(STATISTICS)))
    values = figures.unionByName(times.select("run", named, "value"))
    # In ascending order, so that the sums are the same however the rows are spread.
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


def peaks(measured: DataFrame) -> DataFrame:
    """Of loads that were tried more than once, the longest run counts. A system that kept up with
    none of its loads has no row."""
    varied = ("load_tps", "duration_us")
    keys = (*(name for name in EXPERIMENT_COLUMNS if name not in varied), "seed")
    kept_up = F.struct(*varied, F.col("throughput_tps").alias("peak_tps"))
    found = measured.groupBy(*keys).agg(
        F.max(F.when(~F.col("saturated"), kept_up)).alias("best"),
        F.min(F.when(F.col("saturated"), F.col("load_tps"))).alias("saturating_tps"),
    )
    return conform_to_schema(
        found.where("best is not null").select(
            *keys, F.col("best.peak_tps"), F.col("best.load_tps"), "saturating_tps"
        ),
        PEAKS,
    )


# --- operations, and when they were answered ---------------------------------------------------


def timed_operations(runs: DataFrame, operations: DataFrame) -> DataFrame:
    """Operations with the window of their run, and when each of them was done."""
    windows = F.broadcast(runs.select("run", "begin_us", "end_us"))
    done_us = F.when(F.col("strong"), F.col("stable_us")).otherwise(_first_response_us())
    return operations.join(windows, "run").withColumn("done_us", done_us)


def _first_response_us() -> Column:
    return F.least("tentative_us", "stable_us", "final_us")


def _is_invoked_in_window() -> Column:
    """Was it asked for while measuring?"""
    return F.col("invoked_us") >= F.col("begin_us")


def _response_latencies() -> Column:
    """The answers to an operation, as (answer, latency_us); null what it did not get."""
    strong = F.col("strong")
    certain_us = F.coalesce("stable_us", "final_us")
    times_us = {
        "tentative": F.when(strong, F.col("tentative_us")).otherwise(_first_response_us()),
        "stable": F.when(strong, F.col("stable_us")).otherwise(certain_us),
        "speculated": F.col("speculated_us"),
    }
    strength = F.when(strong, "strong").otherwise("weak")
    answers = [(F.concat_ws("_", strength, F.lit(name)), at) for name, at in times_us.items()]
    answers.append((F.lit("all_done"), F.col("done_us")))
    return F.array(
        *(
            F.struct(name.alias("answer"), (at_us - F.col("invoked_us")).alias("latency_us"))
            for name, at_us in answers
        )
    )


def _percentile(percent: int) -> Column:
    """By nearest rank: the least latency that so many in a hundred do not exceed."""
    reached = F.col("rank") * 100 >= F.col("answers") * percent
    return F.min(F.when(reached, F.col("latency_us")))


# --- a run, in one pass over its operations ----------------------------------------------------


def _count_columns() -> list[Column]:
    weak = _is_invoked_in_window() & ~F.col("strong")
    in_window = F.col("done_us").between(F.col("begin_us"), F.col("end_us"))
    asked_at, done_at = _sample_index(F.col("invoked_us")), _sample_index(F.col("done_us"))
    half = BACKLOG_SAMPLES // 2
    samples = BACKLOG_SAMPLES + 1
    return [
        F.count_if(_is_invoked_in_window()).alias("asked"),
        F.count_if(in_window).alias("done"),
        *(
            column
            for name, told in (("accurate", "accuracy_told"), ("exact", "exact_told"))
            for column in (
                F.count_if(weak & F.col(name)).alias(name),
                F.count_if(weak & F.col(name).isNotNull()).alias(told),
            )
        ),
        _backlog_sum(asked_at, done_at, 0, half).alias("backlog_first"),
        _backlog_sum(asked_at, done_at, samples - half, samples).alias("backlog_second"),
        _backlog_sum(asked_at, done_at, samples - 1, samples).alias("backlog"),
    ]


def _sample_index(at_us: Column) -> Column:
    """The first sample of the backlog that is not before this time: they are taken at
    `begin + length * sample // BACKLOG_SAMPLES`. Any number beyond the last one: after it."""
    since_us = at_us - F.col("begin_us")
    length_us = F.col("end_us") - F.col("begin_us")
    rounded_up = F.ceil(since_us * BACKLOG_SAMPLES / F.nullif(length_us, F.lit(0)))
    return F.when(since_us <= 0, 0).otherwise(F.coalesce(rounded_up, F.lit(BACKLOG_SAMPLES + 1)))


def _backlog_sum(asked_at: Column, done_at: Column, begin: int, end: int) -> Column:
    """The sum over the samples from `begin` to before `end`: an operation is in all of them from
    the one when it was asked for until the one when it was done."""

    def from_then_on(sample: Column) -> Column:
        return F.lit(end) - F.greatest(F.lit(begin), F.least(sample, F.lit(end)))

    done = F.when(F.col("done_us").isNotNull(), from_then_on(done_at)).otherwise(0)
    return F.sum(from_then_on(asked_at) - done)


def _is_saturated(throughput_tps: Column, asked_tps: Column) -> Column:
    half = F.lit(float(BACKLOG_SAMPLES // 2))
    first, second = F.col("backlog_first") / half, F.col("backlog_second") / half
    grows = second > BACKLOG_GROWTH_FACTOR * first + BACKLOG_GROWTH_S * asked_tps
    return (throughput_tps < SATURATION_SHARE * asked_tps) | grows


def _ratio(part: Column, whole: Column) -> Column:
    return part / F.nullif(whole, F.lit(0))


# --- over seeds --------------------------------------------------------------------------------


def _measure_rows(columns: tuple[str, ...]) -> Column:
    """The columns as rows of (measure, value)."""
    return F.array(
        *(
            F.struct(F.lit(name).alias("measure"), F.col(name).cast("double").alias("value"))
            for name in columns
        )
    )


def _sum(numbers: str) -> Column:
    return F.aggregate(numbers, F.lit(0.0), lambda total, number: total + number)


TIME_STEPS: Final = 30
"""Of a run, from when it is measured to its end."""
TIME_STEP_KEYS: Final = ("run", "replica", "answer", "step")


def over_time(runs: DataFrame, operations: DataFrame) -> DataFrame:
    watched = runs.where((F.col("faults") != "") | (F.col("source") == LIVE_SOURCE))
    answered = (
        timed_operations(watched, operations)
        .where("done_us is not null and end_us > begin_us")
        .withColumn("answer", F.when(F.col("strong"), "strong_stable").otherwise("weak_tentative"))
        .withColumn("latency_us", F.col("done_us") - F.col("invoked_us"))
    )
    kept = ("run", "replica", "answer")
    nothing = F.lit(None).cast("bigint")
    done = answered.select(
        *kept, _step_index("done_us"), F.lit(1).alias("done"), nothing.alias("latency_us")
    )
    asked = answered.select(*kept, _step_index("invoked_us"), F.lit(0).alias("done"), "latency_us")
    grouped = (
        done.unionByName(asked)
        .where(F.col("step").between(0, TIME_STEPS - 1))
        .groupBy(*TIME_STEP_KEYS)
        .agg(
            F.sum("done").alias("done"),
            F.count("latency_us").alias("asked"),
            F.sort_array(F.collect_list("latency_us")).alias("sorted"),
        )
    )
    length_us = F.floor((F.col("end_us") - F.col("begin_us")) / TIME_STEPS)
    windows = F.broadcast(watched.select("run", length_us.alias("length_us")))
    return conform_to_schema(
        grouped.join(windows, "run").withColumns(
            {
                "at_us": F.col("step") * F.col("length_us"),
                "p50_us": _value_at_rank("sorted", F.ceil(F.size("sorted") / 2)),
                "max_us": _value_at_rank("sorted", F.size("sorted")),
            }
        ),
        OVER_TIME,
    )


def _step_index(at: str) -> Column:
    since_us = F.col(at) - F.col("begin_us")
    return F.floor(since_us * TIME_STEPS / (F.col("end_us") - F.col("begin_us"))).alias("step")


def _value_at_rank(numbers: str, rank: Column) -> Column:
    """The one of that rank, from 1 on; null where there are none."""
    return F.when(F.size(numbers) > 0, F.element_at(numbers, rank.cast("int")))
