"""Result tables over all runs, as Parquet in an output directory: computing, writing, reading.

    measures/  latencies/  over_time/  summary/  peaks/    by `measure_runs`
    verdicts/                                              by `verify_runs`

The tables conform to `schemas` and are sorted by row, so equal runs give equal tables. A truncated
file, or one with other columns, is reported by name in one line. `output_dir` locates the runs.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession

from creekdb.errors import CreekError, StorageFault, UsageError
from creekdb.pipeline.schemas import RESULT_SCHEMAS
from creekdb.pipeline.spark.frames import conform_to_schema, spark_schema
from creekdb.pipeline.stages import measure, output_dir, run_tables, verify

PRODUCING_STAGE: Final = {"verdicts": "verify"}
"""Stage that writes a table; `measure` for all others."""


class RunFrames(NamedTuple):
    runs: DataFrame
    operations: DataFrame
    orders: DataFrame
    directories: tuple[Path, ...]
    skipped: tuple[str, ...]
    """Reasons why runs were skipped, one line each, with the file name."""


def read_run_frames(spark: SparkSession, out: Path, strict: bool = False) -> RunFrames:
    """Read the tables of all runs; create those of live or otherwise recorded runs first.

    A run that cannot be read is skipped, or raises if `strict`.
    """
    readable: list[Path] = []
    skipped: list[str] = []
    for directory in output_dir.run_directories(out):
        try:
            run_tables.ensure_run_tables(directory)
            output_dir.check_run_directory(directory)
        except CreekError as error:
            if strict:
                raise
            skipped.append(str(error))
        else:
            readable.append(directory)
    if not readable:
        raise UsageError(skipped[0] if skipped else f"{out} holds no runs")
    return RunFrames(
        runs=output_dir.read_run_table(spark, readable, "runs"),
        operations=output_dir.read_run_table(spark, readable, "operations"),
        orders=output_dir.read_run_table(spark, readable, "orders"),
        directories=tuple(readable),
        skipped=tuple(skipped),
    )


def write_result(frame: DataFrame, out: Path, name: str) -> None:
    """Write a table, in place of an earlier one."""
    directory = out / name
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageFault(f"cannot write {directory}: {error.strerror}") from error
    table = conform_to_schema(frame, RESULT_SCHEMAS[name])
    ordered = table.coalesce(1).sortWithinPartitions(*table.columns)
    ordered.write.mode("overwrite").parquet(str(directory))


def read_result(spark: SparkSession, out: Path, name: str) -> DataFrame:
    files = check_result(out, name)
    return spark.read.schema(spark_schema(RESULT_SCHEMAS[name])).parquet(*map(str, files))


def check_result(out: Path, name: str) -> Sequence[Path]:
    """Return the files of a table; raise if they are missing, damaged or of other columns."""
    files = sorted((out / name).glob("*.parquet"))
    if not files:
        stage = PRODUCING_STAGE.get(name, "measure")
        raise UsageError(f"{out} has no {name}; run 'creek pipeline {stage} {out}' first")
    for file in files:
        actual = output_dir.parquet_schema(file)
        # Spark declares every column as nullable.
        expected = [(field.name, field.type) for field in RESULT_SCHEMAS[name]]
        if [(field.name, field.type) for field in actual] != expected:
            raise StorageFault(f"{file} is damaged: its columns differ from those of {name}")
    return files


class MeasureResult(NamedTuple):
    measures: Sequence[Row]
    peaks: Sequence[Row]
    skipped: tuple[str, ...]


def measure_runs(spark: SparkSession, out: Path, strict: bool = False) -> MeasureResult:
    """Write `measures`, `latencies`, `over_time`, `summary` and `peaks`."""
    frames = read_run_frames(spark, out, strict)
    runs, operations = frames.runs, frames.operations
    measures = _write_and_reread(measure.measures(runs, operations), out, "measures")
    latencies = _write_and_reread(measure.latencies(runs, operations), out, "latencies")
    write_result(measure.over_time(runs, operations), out, "over_time")
    write_result(measure.summary(measures, latencies), out, "summary")
    peaks = _write_and_reread(measure.peaks(measures), out, "peaks")
    return MeasureResult(measures.collect(), peaks.collect(), frames.skipped)


class VerifyResult(NamedTuple):
    verdicts: Sequence[Row]
    skipped: tuple[str, ...]


def verify_runs(spark: SparkSession, out: Path, strict: bool = False) -> VerifyResult:
    """Write `verdicts`."""
    frames = read_run_frames(spark, out, strict)
    verdicts = verify.verdicts(frames.runs, frames.operations, frames.orders, frames.directories)
    rows = _write_and_reread(verdicts, out, "verdicts").collect()
    for row in rows:
        if strict and row["checker"] == verify.RUN_DIRECTORY_CHECK:
            raise StorageFault(row["detail"])
    return VerifyResult(rows, frames.skipped)


def _write_and_reread(frame: DataFrame, out: Path, name: str) -> DataFrame:
    """Write a frame and read it back, so that later frames do not compute it again."""
    write_result(frame, out, name)
    return read_result(frame.sparkSession, out, name)
