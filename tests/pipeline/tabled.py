"""Tables in Spark: of runs, and of rows written by hand."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from creekdb.pipeline.schemas import OPERATIONS, RUNS
from creekdb.pipeline.spark.frames import spark_schema
from creekdb.pipeline.stages.run_tables import RunArrowTables

Row = dict[str, Any]


class Frames(NamedTuple):
    runs: DataFrame
    operations: DataFrame
    orders: DataFrame


def frames(spark: SparkSession, runs: Sequence[RunArrowTables]) -> Frames:
    """Of all runs together."""
    together = (pa.concat_tables([getattr(each, name) for each in runs]) for name in Frames._fields)
    return Frames(*(frame(spark, each) for each in together))


def frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """In one piece: of a table in many, Spark 4.3 takes only some."""
    made = spark.createDataFrame(table.combine_chunks(), spark_schema(table.schema))
    assert made.count() == table.num_rows
    return made


def table(spark: SparkSession, rows: Sequence[Row], schema: pa.Schema) -> DataFrame:
    return frame(spark, pa.Table.from_pylist(list(rows), schema))


def runs_table(spark: SparkSession, *rows: Row) -> DataFrame:
    return table(spark, rows, RUNS)


def operations_table(spark: SparkSession, *rows: Row) -> DataFrame:
    return table(spark, rows, OPERATIONS)
