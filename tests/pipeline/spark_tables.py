"""Spark frames of run tables, and of rows written by hand."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from creekdb.history import History
from creekdb.pipeline.schemas import FINAL_STATES, OPERATIONS, RUNS
from creekdb.pipeline.spark.frames import spark_schema
from creekdb.pipeline.stages.run_tables import RunArrowTables

Row = dict[str, Any]


class Frames(NamedTuple):
    runs: DataFrame
    operations: DataFrame
    orders: DataFrame


def frames(spark: SparkSession, runs: Sequence[RunArrowTables]) -> Frames:
    """Return the tables of all runs, each as one frame."""
    tables = (pa.concat_tables([getattr(each, name) for each in runs]) for name in Frames._fields)
    return Frames(*(frame(spark, each) for each in tables))


def final_states(histories: Mapping[str, History]) -> pa.Table:
    """Return FINAL_STATES of histories, by run name."""
    rows = [
        {
            "run": name,
            "replica": final.replica,
            "first": final.first,
            "committed": len(final.committed),
            "tentative": len(final.tentative),
            "order_digest": _digest(final.committed),
            "state_digest": _digest(sorted(map(repr, final.state))),
        }
        for name, history in histories.items()
        for final in history.final_states
    ]
    return pa.Table.from_pylist(rows, FINAL_STATES)


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a frame of a table with combined chunks. Spark 4.3 drops rows of chunked tables."""
    return spark.createDataFrame(table.combine_chunks(), spark_schema(table.schema))


def table(spark: SparkSession, rows: Sequence[Row], schema: pa.Schema) -> DataFrame:
    return frame(spark, pa.Table.from_pylist(list(rows), schema))


def runs_table(spark: SparkSession, *rows: Row) -> DataFrame:
    return table(spark, rows, RUNS)


def operations_table(spark: SparkSession, *rows: Row) -> DataFrame:
    return table(spark, [{**row, "arguments": "[]"} for row in rows], OPERATIONS)


def run_row(**changes: Any) -> Row:
    blank: Row = dict.fromkeys(RUNS.names, 0) | {
        **dict.fromkeys(("source", "scheme", "extensions", "faults", "violated", "command"), ""),
        **dict.fromkeys(("layout", "unsettled")),
        "run": "run",
        "local_reads": False,
        "decided_only": False,
        "trace_hash": "abc",
    }
    return blank | changes


def operation(event: int, **changes: Any) -> Row:
    blank: Row = dict.fromkeys(OPERATIONS.names)
    blank |= {"run": "run", "replica": 0, "incarnation": 0, "event": event, "session": 0}
    blank |= {"kind": "put", "strong": False, "arguments": "[]", "invoked_us": 10 * event}
    return blank | changes
