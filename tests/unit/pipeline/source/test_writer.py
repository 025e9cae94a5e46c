"""Writers of `format("creek")`, called as Spark calls them, on a live cluster."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from creekdb.errors import CreekError
from creekdb.pipeline.source.writer import batch_writer, stream_writer
from creekdb.wire.messages import CLIENT_FRAME_BYTES_MAX
from tests.cluster.in_process_cluster import InProcessCluster, running_cluster

SCHEMA = StructType([StructField("key", StringType()), StructField("amount", LongType())])


def rows(*pairs: tuple[str | None, int]) -> pa.RecordBatch:
    keys, amounts = zip(*pairs, strict=True)
    return pa.record_batch([list(keys), list(amounts)], names=["key", "amount"])


def options(cluster: InProcessCluster, **given: str) -> dict[str, str]:
    return {"servers": ",".join(cluster.addresses()), **given}


async def test_a_repeated_batch_of_a_stream_is_written_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as db:

        def write(batch: int) -> None:
            given = options(cluster, operation="increment", sink="totals")
            writer = stream_writer(given, SCHEMA, False)
            writer.write(iter([rows(("a", 100))]))  # an attempt that Spark does not commit
            messages = [writer.write(iter([rows(("a", 1), ("b", 2))])), None]
            writer.commit(messages, batch)

        for batch in (0, 0, 1):
            await asyncio.to_thread(write, batch)
        assert await db.strong.scan("") == (("a", 2), ("b", 4))


async def test_a_bulk_write_needs_no_commit(tmp_path: Path) -> None:
    schema = StructType([StructField("key", StringType()), StructField("value", LongType())])
    batch = pa.record_batch([["a", "b"], [1, 2]], names=["key", "value"])
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as db:

        def write() -> None:
            writer = batch_writer(options(cluster, mode="bulk"), schema, False)
            writer.commit([writer.write(iter([batch]))])

        await asyncio.to_thread(write)
        assert await db.strong.scan("") == (("a", 1), ("b", 2))


async def test_times_are_written_as_text(tmp_path: Path) -> None:
    schema = StructType([StructField("key", StringType()), StructField("value", TimestampType())])
    moments = pa.array([1_795_060_801_000_000], pa.timestamp("us", "UTC"))
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as db:

        def write() -> None:
            writer = batch_writer(options(cluster), schema, False)
            batch = pa.record_batch([["a"], moments], names=["key", "value"])
            writer.commit([writer.write(iter([batch]))])

        await asyncio.to_thread(write)
        assert await db.strong.get("a") == "2026-11-19 04:00:01+00:00"


async def test_errors_are_one_line_that_names_the_option_or_column(tmp_path: Path) -> None:
    key = StructField("key", StringType())
    decimal = StructType([key, StructField("amount", DecimalType())])
    variant = StructType([key, StructField("amount", VariantType())])
    cases: list[tuple[StructType, dict[str, str], str]] = [
        (SCHEMA, {"opration": "put"}, "opration"),
        (SCHEMA, {"operation": "increments"}, "increments"),
        (SCHEMA, {"operation": "delete"}, "column 'amount' is no parameter of delete(key: str)"),
        (SCHEMA, {"table": "t"}, "option table is 't', and the cluster replicates 'kv'"),
        (SCHEMA, {}, "set option table or operation"),
        (SCHEMA, {"servers": "127.0.0.1:1", "timeout": "0.5"}, "option servers: no replica"),
        (SCHEMA, {"tokenFile": "/nowhere/token"}, "option tokenFile"),
        (decimal, {"operation": "increment"}, "column 'amount' has the type decimal"),
        (variant, {"operation": "increment"}, "column 'amount' has the type variant"),
    ]
    async with running_cluster(tmp_path, 1) as cluster:
        for schema, given, message in cases:
            with pytest.raises(CreekError) as raised:
                await asyncio.to_thread(batch_writer, options(cluster, **given), schema, False)
            assert message in str(raised.value)
            assert "\n" not in str(raised.value)
        with pytest.raises(CreekError, match="mode overwrite is not supported"):
            batch_writer(options(cluster), SCHEMA, True)


async def test_a_rejected_row_fails_its_task_and_is_named(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:

        def write(**given: Any) -> None:
            writer = batch_writer(options(cluster, operation="increment", **given), SCHEMA, False)
            writer.write(iter([rows(("a", 1), (None, 2))]))

        with pytest.raises(CreekError, match=r"not null \(row 2: \(None, 2\)\)"):
            await asyncio.to_thread(write)
        await asyncio.to_thread(write, deadLetter=str(tmp_path / "dead"))


async def test_rows_that_cannot_be_sent_become_dead_letters(tmp_path: Path) -> None:
    schema = StructType([StructField("key", StringType()), StructField("value", TimestampType())])
    moments = pa.array([0, 2**62, 0], pa.timestamp("us", "UTC"))
    keys = ["a", "b", "c" * CLIENT_FRAME_BYTES_MAX]
    batch = pa.record_batch([keys, moments], names=["key", "value"])
    async with running_cluster(tmp_path / "cluster", 1) as cluster, cluster.client() as db:

        def write(**given: str) -> None:
            writer = batch_writer(options(cluster, **given), schema, False)
            writer.commit([writer.write(iter([batch]))])

        with pytest.raises(CreekError, match="column 'value' has no valid timestamp"):
            await asyncio.to_thread(write)
        await asyncio.to_thread(write, deadLetter=str(tmp_path / "dead"))
        stored = await db.strong.scan("")

    assert [key for key, _ in stored] == ["a"]
    (file,) = (tmp_path / "dead").iterdir()
    letters = [json.loads(line) for line in file.read_text().splitlines()]
    errors = {letter["error"].partition(" has ")[0]: letter["row"] for letter in letters}
    assert errors["column 'value'"] == {"key": "b", "value": 2**62}
    assert any("store less in it" in letter["error"] for letter in letters)
    assert len(letters) == 2
