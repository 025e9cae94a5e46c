"""Rows of FEED, written by hand."""

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from creekdb.pipeline.watch.tables import FEED
from tests.pipeline.spark_tables import frame

Row = dict[str, Any]
SECOND_US = 1_000_000


def change_row(index: int, replica: int = 0, **fields: Any) -> Row:
    """Return a weak `put` of replica 0, called at `index` milliseconds and final 5 ms later."""
    called_us = fields.get("timestamp_us", index * 1000)
    return {
        "replica": replica,
        "index": index,
        "origin": 0,
        "event": index,
        "timestamp_us": called_us,
        "committed_us": called_us + 5000,
        "operation": "put",
        "strong": False,
        "changed": False,
        "error": None,
        "client": "c",
        "number": index,
        "keys": ['"a"'],
        "digest": index * 31,
        "body": None,
    } | fields


def end_row(replica: int, index: int) -> Row:
    return dict.fromkeys(FEED.names) | {"replica": replica, "index": index}


def feed_frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return frame(spark, pa.Table.from_pylist(rows, FEED))
