"""Verdicts of all checkers over all runs.

relational_verdicts   properties that tables determine (`checks.relational`), of any run
run verdicts          properties of recorded histories (`checks.histories`), which the task that
                      simulated or imported a run determined and stored as a table
verdicts              union of both; of two verdicts on one property, the worse counts
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from creekdb.pipeline.checks import relational
from creekdb.pipeline.checks.shared_frames import SharedFrames
from creekdb.pipeline.checks.verdict_names import (
    ILLEGAL,
    OK,
    RELATIONAL_CHECKERS,
    SEVERITIES,
    TPCC_CONDITIONS,
)
from creekdb.pipeline.schemas import VERDICTS
from creekdb.pipeline.spark.frames import conform_to_schema


def verdicts(
    runs: DataFrame,
    operations: DataFrame,
    orders: DataFrame,
    final_states: DataFrame,
    run_verdicts: DataFrame,
    shared: SharedFrames,
) -> DataFrame:
    """Return VERDICTS, valid until `shared` is closed."""
    relational = relational_verdicts(runs, operations, orders, final_states, shared)
    of_runs = run_verdicts.join(F.broadcast(runs.select("run")), "run", "left_semi")
    return worst_verdicts(relational.unionByName(of_runs))


def worst_verdicts(verdicts: DataFrame) -> DataFrame:
    """Return the worst verdict of each run and checker."""
    severity = F.array_position(F.array(*map(F.lit, SEVERITIES)), F.col("verdict"))
    result = F.struct("verdict", "detail", "command")
    worst = F.max_by(result, F.struct(severity, "detail")).alias("worst")
    merged = verdicts.groupBy("run", "checker").agg(worst)
    return conform_to_schema(merged.select("run", "checker", "worst.*"), VERDICTS)


def relational_verdicts(
    runs: DataFrame,
    operations: DataFrame,
    orders: DataFrame,
    final_states: DataFrame,
    shared: SharedFrames,
) -> DataFrame:
    checkers = F.array(*map(F.lit, RELATIONAL_CHECKERS))
    expected = runs.select("run", "command", F.explode(checkers).alias("checker"))
    violations = relational.find_violations(runs, operations, orders, final_states, shared)
    checked = expected.join(violations, ["run", "checker"], "left")
    checked = checked.fillna({"verdict": OK, "detail": ""})
    return conform_to_schema(checked, VERDICTS).unionByName(
        conform_to_schema(_tpcc_condition_verdicts(runs), VERDICTS)
    )


def _tpcc_condition_verdicts(runs: DataFrame) -> DataFrame:
    """Return the verdicts on TPC-C's conditions of simulated runs, which have a trace hash."""
    simulated = runs.where("layout is not null and trace_hash != ''")
    verdict = F.when(F.col("violated") == "", OK).otherwise(ILLEGAL).alias("verdict")
    return simulated.select(
        "run",
        "command",
        F.lit(TPCC_CONDITIONS).alias("checker"),
        verdict,
        F.col("violated").alias("detail"),
    )
