"""Numbered tasks that Spark runs on its executors, and that return a few rows each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

TaskRow: TypeAlias = Mapping[str, Any]


def run_tasks(
    spark: "SparkSession",
    count: int,
    task: Callable[[int], Sequence[TaskRow]],
    schema: pa.Schema,
) -> "list[Row]":
    """Call `task` with each number below `count`, and return the rows of all calls."""
    from creekdb.pipeline.spark.frames import spark_schema  # noqa: PLC0415 - needs Spark

    numbers = spark.range(0, count, 1, count)
    function = partial(_run_batches, task, schema)
    return numbers.mapInArrow(function, spark_schema(schema)).collect()


def _run_batches(
    task: Callable[[int], Sequence[TaskRow]],
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield pa.RecordBatch.from_pylist([*task(number)], schema=schema)
