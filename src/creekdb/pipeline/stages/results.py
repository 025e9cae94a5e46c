"""Result tables over all runs, as Parquet in an output directory: computing, writing, reading.

    measures/  latencies/  over_time/  summary/  peaks/    by `measure_runs`
    verdicts/                                              by `verify_runs`

The tables conform to `schemas`. Their rows are distributed by key and sorted, so equal runs give
equal tables. Spark marks a complete table with the file `_SUCCESS`, and a table without it counts
as absent. The stages return aggregates that Spark computes, never all rows.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from creekdb.errors import StorageFault, UsageError
from creekdb.pipeline.checks.shared_frames import SharedFrames
from creekdb.pipeline.checks.verdict_names import ILLEGAL
from creekdb.pipeline.schemas import EXPERIMENT_COLUMNS, RESULT_SCHEMAS, RUN_SCHEMAS
from creekdb.pipeline.spark.frames import conform_to_schema, spark_schema
from creekdb.pipeline.stages import measure, verify
from creekdb.pipeline.storage import Location, LocationLike

PRODUCING_STAGE: Final = {"verdicts": "verify"}
"""Stage that writes a table; `measure` for all others."""
PARTITION_KEYS: Final = {"summary": ("scheme", "measure"), "peaks": ("scheme", "seed")}
"""Columns by which rows are distributed over files; `run` for all other tables."""
RUNS_PER_FILE: Final = 4096
COUNTEREXAMPLES_MAX: Final = 10
PEAKS_MAX: Final = 1000
"""Upper bound for the systems in the result of `measure_runs`; the table contains all."""
SUCCESS_FILE: Final = "_SUCCESS"


class RunTables(NamedTuple):
    """Tables of all runs, as the tasks of `simulate` wrote them."""

    runs: DataFrame
    operations: DataFrame
    orders: DataFrame
    final_states: DataFrame
    run_verdicts: DataFrame


def read_run_tables(spark: SparkSession, out: LocationLike) -> RunTables:
    return RunTables(*(read_run_table(spark, out, name) for name in RunTables._fields))


def read_run_table(spark: SparkSession, out: LocationLike, name: str) -> DataFrame:
    out = Location.parse(out)
    if not (out / "runs").names():
        raise UsageError(f"{out} has no runs; run 'creek pipeline simulate --out {out}' first")
    if not (out / name).is_directory():
        raise StorageFault(f"{out / name} is missing; simulate the runs again")
    return spark.read.schema(spark_schema(RUN_SCHEMAS[name])).parquet((out / name).uri)


# --- result tables -----------------------------------------------------------------------------


def write_result(frame: DataFrame, out: LocationLike, name: str, run_count: int = 1) -> None:
    """Write a table, in place of an earlier one. `run_count` determines the number of its files."""
    out = Location.parse(out)
    table = conform_to_schema(frame, RESULT_SCHEMAS[name])
    keys = PARTITION_KEYS.get(name, ("run",))
    spread = table.repartition(1 + run_count // RUNS_PER_FILE, *keys)
    ordered = spread.sortWithinPartitions(*table.columns)
    with _storage_faults(f"cannot write {out / name}"):
        ordered.write.mode("overwrite").parquet((out / name).uri)


def read_result(spark: SparkSession, out: LocationLike, name: str) -> DataFrame:
    check_result(out, name)
    table = Location.parse(out) / name
    return spark.read.schema(spark_schema(RESULT_SCHEMAS[name])).parquet(table.uri)


def check_result(out: LocationLike, name: str) -> None:
    """Raise if a table is incomplete or damaged, or has other columns."""
    out = Location.parse(out)
    if not (out / name / SUCCESS_FILE).exists():
        stage = PRODUCING_STAGE.get(name, "measure")
        raise UsageError(f"{out} has no complete {name}; run 'creek pipeline {stage} {out}' first")
    # Spark declares every column as nullable.
    expected = [(field.name, field.type) for field in RESULT_SCHEMAS[name]]
    for file in (out / name).names():
        actual = (out / name / file).read_schema()
        if [(field.name, field.type) for field in actual] != expected:
            raise StorageFault(
                f"{out / name / file} is damaged: its columns differ from those of {name}"
            )


def _write_and_reread(frame: DataFrame, out: Location, name: str, run_count: int) -> DataFrame:
    """Write a frame and read it back, so that later frames do not compute it again."""
    write_result(frame, out, name, run_count)
    return read_result(frame.sparkSession, out, name)


@contextmanager
def _storage_faults(what: str) -> Iterator[None]:
    """Raise StorageFault in one line if Spark cannot read or write a file."""
    try:
        yield
    except Exception as error:
        text = str(error)
        if (damaged := _DAMAGED_FILE.search(text)) is not None:
            raise StorageFault(
                f"{damaged[1].removeprefix('file://')} is damaged; remove it and the file of that "
                "name in 'runs', and simulate again"
            ) from error
        if (reason := _WRITE_ERROR.search(text)) is not None:
            raise StorageFault(f"{what}: {reason[1]}") from error
        raise


_DAMAGED_FILE = re.compile(r"while reading file (\S+?)\.(?:\s|$)")
_WRITE_ERROR = re.compile(
    r"(?:FileNotFound|ParentNotDirectory|FileAlreadyExists|AccessControl|FSError|IO)Exception: (.+)"
)


# --- stages ------------------------------------------------------------------------------------


class MeasureResult(NamedTuple):
    runs: int
    schemes: Sequence[Row]
    """Rows of (scheme, runs, saturated, operations), by scheme."""
    peaks: Sequence[Row]
    """Rows of the columns of PEAKS that describe a system, with `seeds` and the mean `peak_tps`.
    At most PEAKS_MAX rows."""
    measures: DataFrame
    """All rows of MEASURES, read when used."""


def measure_runs(spark: SparkSession, out: LocationLike) -> MeasureResult:
    """Write `measures`, `latencies`, `over_time`, `summary` and `peaks`."""
    out = Location.parse(out)
    runs, operations = (read_run_table(spark, out, name) for name in ("runs", "operations"))
    with _storage_faults(f"cannot measure {out}"):
        count = runs.count()
        measures = _write_and_reread(measure.measures(runs, operations), out, "measures", count)
        latencies = _write_and_reread(measure.latencies(runs, operations), out, "latencies", count)
        write_result(measure.over_time(runs, operations), out, "over_time", count)
        write_result(measure.summary(measures, latencies), out, "summary", count)
        peaks = _write_and_reread(measure.peaks(measures), out, "peaks", count)
        return MeasureResult(count, _scheme_rows(measures), _peak_rows(peaks), measures)


def _scheme_rows(measures: DataFrame) -> Sequence[Row]:
    grouped = measures.groupBy("scheme").agg(
        F.count("*").alias("runs"),
        F.count_if("saturated").alias("saturated"),
        F.sum("asked").alias("operations"),
    )
    return grouped.orderBy("scheme").collect()


def _peak_rows(peaks: DataFrame) -> Sequence[Row]:
    system = [name for name in peaks.columns if name in EXPERIMENT_COLUMNS and name != "load_tps"]
    grouped = peaks.groupBy(*system).agg(
        F.count("*").alias("seeds"), F.avg("peak_tps").alias("peak_tps")
    )
    return grouped.orderBy(*system).limit(PEAKS_MAX).collect()


class VerifyResult(NamedTuple):
    runs: int
    counts: Sequence[Row]
    """Rows of (checker, verdict, runs), by checker and verdict."""
    illegal: int
    """Number of illegal verdicts."""
    counterexamples: Sequence[Row]
    """The first illegal rows of VERDICTS, by run and checker."""
    verdicts: DataFrame
    """All rows of VERDICTS, read when used."""


def verify_runs(
    spark: SparkSession, out: LocationLike, counterexamples_max: int = COUNTEREXAMPLES_MAX
) -> VerifyResult:
    """Write `verdicts`."""
    out = Location.parse(out)
    tables = read_run_tables(spark, out)
    with _storage_faults(f"cannot verify {out}"), SharedFrames() as shared:
        count = tables.runs.count()
        verdicts = _write_and_reread(verify.verdicts(*tables, shared), out, "verdicts", count)
    counts = (
        verdicts.groupBy("checker", "verdict")
        .agg(F.count("*").alias("runs"))
        .orderBy("checker", "verdict")
        .collect()
    )
    illegal = sum(row["runs"] for row in counts if row["verdict"] == ILLEGAL)
    examples = verdicts.where(F.col("verdict") == ILLEGAL).orderBy("run", "checker")
    first = examples.limit(counterexamples_max).collect() if illegal else []
    return VerifyResult(count, counts, illegal, first, verdicts)
