"""Measuring and verifying what is in a folder: tables read, computed and written."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession

from creekdb.errors import StorageFault
from creekdb.pipeline import measure, store, verify
from creekdb.pipeline.over_time import over_time


class Measured(NamedTuple):
    measures: Sequence[Row]
    peaks: Sequence[Row]
    skipped: tuple[str, ...]


def measure_runs(spark: SparkSession, out: Path, strict: bool = False) -> Measured:
    """Writes `measures`, `latencies`, `over_time`, `summary` and `peaks`."""
    given = store.read_runs(spark, out, strict)
    measured = _kept(spark, measure.measures(given.runs, given.operations), out, "measures")
    timed = _kept(spark, measure.latencies(given.runs, given.operations), out, "latencies")
    store.write(over_time(given.runs, given.operations), out, "over_time")
    _kept(spark, measure.summary(measured, timed), out, "summary")
    peaks = _kept(spark, measure.peaks(measured), out, "peaks")
    return Measured(measured.collect(), peaks.collect(), given.skipped)


class Verified(NamedTuple):
    verdicts: Sequence[Row]
    skipped: tuple[str, ...]


def verify_runs(spark: SparkSession, out: Path, strict: bool = False) -> Verified:
    """Writes `verdicts`."""
    given = store.read_runs(spark, out, strict)
    found = verify.verdicts(given.runs, given.operations, given.orders, given.folders)
    told = _kept(spark, found, out, "verdicts").collect()
    for row in told:
        if strict and row["checker"] == verify.FOLDER:
            raise StorageFault(row["detail"])
    return Verified(told, given.skipped)


def _kept(spark: SparkSession, frame: DataFrame, out: Path, name: str) -> DataFrame:
    """Written, and read again: what is computed from it need not compute it once more."""
    store.write(frame, out, name)
    return store.read(spark, out, name)
