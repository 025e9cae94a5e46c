"""The tables that stages make of all runs, as Parquet in a pipeline's folder.

    measures/  latencies/  over_time/  summary/  peaks/    by measuring
    verdicts/                                              by verifying

They are written as `schemas` declares them, in the order of their rows, so that the same runs give
the same tables. A file that was cut off, or that holds other columns, is named in one line. Where
runs are, and what is in their folders, is told by `output`.

Measuring and verifying what is in a folder: tables read, computed and written.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession

from creekdb.errors import CreekError, StorageFault, UsageError
from creekdb.pipeline.schemas import LATENCIES, MEASURES, OVER_TIME, PEAKS, SUMMARY, VERDICTS
from creekdb.pipeline.spark.frames import conform_to_schema, spark_schema
from creekdb.pipeline.stages import measure, output_dir, verify
from creekdb.pipeline.stages.measure import over_time

RESULT_SCHEMAS: Final = {
    "measures": MEASURES,
    "latencies": LATENCIES,
    "over_time": OVER_TIME,
    "summary": SUMMARY,
    "peaks": PEAKS,
    "verdicts": VERDICTS,
}
PRODUCING_STAGE: Final = {"verdicts": "verify"}
"""The stage that makes a table, where it is not `measure`."""


class RunFrames(NamedTuple):
    """The tables of all runs in a folder, each as one."""

    runs: DataFrame
    operations: DataFrame
    orders: DataFrame
    directories: tuple[Path, ...]
    skipped: tuple[str, ...]
    """Why runs were left out: a line each, which names the file."""


def read_run_frames(spark: SparkSession, out: Path, strict: bool = False) -> RunFrames:
    """`strict`: a run that cannot be read is an error, not left out. Runs that somebody else
    recorded, a live cluster for instance, get their tables first."""
    readable: list[Path] = []
    skipped: list[str] = []
    for folder in output_dir.run_directories(out):
        try:
            output_dir.ensure_run_tables([folder])
            output_dir.check_run_directory(folder)
        except CreekError as error:
            if strict:
                raise
            skipped.append(str(error))
        else:
            readable.append(folder)
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
    """In place of an earlier one."""
    folder = out / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageFault(f"cannot write {folder}: {error.strerror}") from error
    table = conform_to_schema(frame, RESULT_SCHEMAS[name])
    in_order = table.coalesce(1).sortWithinPartitions(*table.columns)
    in_order.write.mode("overwrite").parquet(str(folder))


def read_result(spark: SparkSession, out: Path, name: str) -> DataFrame:
    files = check_result(out, name)
    return spark.read.schema(spark_schema(RESULT_SCHEMAS[name])).parquet(*map(str, files))


def check_result(out: Path, name: str) -> Sequence[Path]:
    """The files of a table, which are whole and hold its columns."""
    files = sorted((out / name).glob("*.parquet"))
    if not files:
        stage = PRODUCING_STAGE.get(name, "measure")
        raise UsageError(f"{out} has no {name} yet: make them with 'creek pipeline {stage} {out}'")
    for file in files:
        found = output_dir.parquet_schema(file)
        # Spark writes every column as one that may be null.
        expected = [(field.name, field.type) for field in RESULT_SCHEMAS[name]]
        if [(field.name, field.type) for field in found] != expected:
            raise StorageFault(f"{file} is damaged: its columns are others than {name} has")
    return files


class MeasureResult(NamedTuple):
    measures: Sequence[Row]
    peaks: Sequence[Row]
    skipped: tuple[str, ...]


def measure_runs(spark: SparkSession, out: Path, strict: bool = False) -> MeasureResult:
    """Writes `measures`, `latencies`, `over_time`, `summary` and `peaks`."""
    given = read_run_frames(spark, out, strict)
    measured = _write_and_reread(
        spark, measure.measures(given.runs, given.operations), out, "measures"
    )
    timed = _write_and_reread(
        spark, measure.latencies(given.runs, given.operations), out, "latencies"
    )
    write_result(over_time(given.runs, given.operations), out, "over_time")
    _write_and_reread(spark, measure.summary(measured, timed), out, "summary")
    peaks = _write_and_reread(spark, measure.peaks(measured), out, "peaks")
    return MeasureResult(measured.collect(), peaks.collect(), given.skipped)


class VerifyResult(NamedTuple):
    verdicts: Sequence[Row]
    skipped: tuple[str, ...]


def verify_runs(spark: SparkSession, out: Path, strict: bool = False) -> VerifyResult:
    """Writes `verdicts`."""
    given = read_run_frames(spark, out, strict)
    found = verify.verdicts(given.runs, given.operations, given.orders, given.directories)
    told = _write_and_reread(spark, found, out, "verdicts").collect()
    for row in told:
        if strict and row["checker"] == verify.RUN_DIRECTORY_CHECK:
            raise StorageFault(row["detail"])
    return VerifyResult(told, given.skipped)


def _write_and_reread(spark: SparkSession, frame: DataFrame, out: Path, name: str) -> DataFrame:
    """Written, and read again: what is computed from it need not compute it once more."""
    write_result(frame, out, name)
    return read_result(spark, out, name)
