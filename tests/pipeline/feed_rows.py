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
        "start": None,
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


def range_row(replica: int, start: int, stop: int) -> Row:
    """Return the row that names a range that a replica contributed completely."""
    return dict.fromkeys(FEED.names) | {"replica": replica, "start": start, "index": stop}


def feed_frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return frame(spark, pa.Table.from_pylist(rows, FEED))
