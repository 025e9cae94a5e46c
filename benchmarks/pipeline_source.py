"""The Spark source on a live cluster: time of a batch read, and lag of a stream.

A batch read is compared with Spark's own read of the same rows, from the Parquet files that `creek
export` writes. Both count rows of all columns, after a read that warms up. The lag of a commit is
the time from the commit to the moment when the micro-batch with it has been processed. Load,
replicas and Spark share the machine.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import click
from pyspark.sql import DataFrame, SparkSession

from benchmarks.result import Benchmark, Result
from benchmarks.scale import FULL, QUICK, Scale
from creekdb.client import Database, connect
from creekdb.load.local_cluster import LocalCluster
from creekdb.pipeline.spark.session import spark_session

READ_BAR: Final = 10.0
LAG_BAR_S: Final = 2.0
ROWS_SHARE: Final = 5
"""Operations in the tables of the pipeline per row that is read here."""
BATCH_CALLS: Final = 10_000
COMMITS_PER_S: Final = 1_000
COMMITS_PER_S_MIN: Final = 0.95 * COMMITS_PER_S
"""Rate below which the lag does not count, since the cluster did not commit the whole load."""
LAG_WARM_UP_S: Final = 10.0
LAG_S_PER_LIVE_S: Final = 6.0
WARM_UP_BATCHES: Final = 5
PERCENTILE: Final = 0.99
TASKS: Final = 2


@contextmanager
def _cluster(directory: Path) -> Iterator[LocalCluster]:
    directory.mkdir()
    cluster = LocalCluster(directory, replicas=3, options=("--keep-changes", "1h"))
    cluster.start()
    try:
        asyncio.run(cluster.wait_until_ready())
        yield cluster
    finally:
        cluster.stop()


# --- batch reads ------------------------------------------------------------------------------


async def _put_rows(db: Database, rows: int) -> None:
    async with db:
        for first in range(0, rows, BATCH_CALLS):
            numbers = range(first, min(first + BATCH_CALLS, rows))
            calls = [("put", f"key{each:09}", f"value of the row {each}") for each in numbers]
            await db.batch(calls, strong=True)


def _read_s(frame: DataFrame, rows: int) -> float:
    """Return the time of a read of all columns, in seconds."""
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    elapsed = time.perf_counter() - start
    assert frame.count() == rows
    return elapsed


def measure_read(spark: SparkSession, cluster: LocalCluster, rows: int, repeats: int) -> float:
    """Return the time of a batch read, relative to that of the same rows as Parquet."""
    address, exported = cluster.addresses[0], str(cluster.directory / "exported")
    asyncio.run(_put_rows(connect(address, timeout=120), rows))
    command = [sys.executable, "-m", "creekdb", "export", "--at", address, "--out", exported]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def live() -> DataFrame:
        reader = spark.read.format("creek").option("servers", address)
        return reader.option("partitions", TASKS).option("lease", 20).load()

    def parquet() -> DataFrame:
        return spark.read.parquet(f"{exported}/state").select("key", "value")

    for frame in (live, parquet):
        frame().limit(10).collect()
    times = [(_read_s(live(), rows), _read_s(parquet(), rows)) for _ in range(repeats)]
    return min(each for each, _ in times) / min(each for _, each in times)


# --- streams ----------------------------------------------------------------------------------


class Lag(NamedTuple):
    seconds: float
    """99th percentile of the lag of a commit."""
    commits_per_s: float
    """Rate at which the commits reached the stream, by their times and indices."""


def measure_lag(spark: SparkSession, cluster: LocalCluster, warm_up_s: float, span_s: float) -> Lag:
    lags_us: list[int] = []
    commits: list[tuple[int, int]] = []
    batches = measured_from_us = 0

    def process(batch: DataFrame, _: int) -> None:
        nonlocal batches
        columns = batch.selectExpr("unix_micros(_commit_timestamp)", "_commit_index").collect()
        now_us = time.time_ns() // 1000
        batches += 1 if columns else 0
        measured = [(at, index) for at, index in columns if 0 < measured_from_us <= at]
        commits.extend(measured)
        lags_us.extend(now_us - at for at, _ in measured)

    options = {"servers": ",".join(cluster.addresses), "readChangeFeed": "true"}
    changes = spark.readStream.format("creek").options(**options, startingIndex="latest").load()
    writer = changes.writeStream.foreachBatch(process)
    query = writer.option("checkpointLocation", str(cluster.directory / "checkpoint")).start()
    load = ["bench", "kv", "--load", str(COMMITS_PER_S), "--strong-share", "0.1"]
    load += ["--duration", f"{span_s}s", "--warm-up", f"{warm_up_s}s", "--value-bytes", "64"]
    load += [each for address in cluster.addresses for each in ("--at", address)]
    try:
        with connect(cluster.addresses[0]) as db:
            while batches < WARM_UP_BATCHES:  # the first ones load classes and start workers
                db.strong.put("warm-up", batches)
                time.sleep(0.05)
        measured_from_us = time.time_ns() // 1000 + int(warm_up_s * 1e6)
        command = [sys.executable, "-m", "creekdb", *load]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        query.processAllAvailable()
    finally:
        query.stop()
    lags_us.sort()
    lag_s = lags_us[int(len(lags_us) * PERCENTILE)] / 1e6 if lags_us else float("inf")
    return Lag(lag_s, commit_rate(commits))


def commit_rate(commits: Sequence[tuple[int, int]]) -> float:
    """Return the commits per second, from the times in microseconds and indices of some."""
    if len(commits) < 2:
        return 0.0
    times, indices = zip(*commits, strict=True)
    return float((max(indices) - min(indices)) / max(max(times) - min(times), 1) * 1e6)


# --- the table --------------------------------------------------------------------------------


def measure(scale: Scale) -> Iterator[Result]:
    warm_up_s = LAG_WARM_UP_S if scale.includes_minute_runs else 1.0
    with (
        tempfile.TemporaryDirectory(prefix="creek-source-") as directory,
        spark_session(f"local[{TASKS}]", "creek benchmarks") as spark,
        _cluster(Path(directory) / "cluster") as cluster,
    ):
        rows = scale.rows // ROWS_SHARE
        yield Result(
            what="batch read of a live cluster",
            explanation=f"Spark reads {rows:,} rows from a replica, relative to the same rows as "
            "Parquet written by 'creek export'.",
            value=measure_read(spark, cluster, rows, scale.live_rounds),
            bar=READ_BAR,
        )
        lag = measure_lag(spark, cluster, warm_up_s, LAG_S_PER_LIVE_S * scale.live_s)
        yield Result(
            what="lag of a stream",
            explanation=f"99th percentile of the time from a commit to its processed micro-batch, "
            f"at {lag.commits_per_s:,.0f} commits per second on the same cores.",
            value=lag.seconds if lag.commits_per_s >= COMMITS_PER_S_MIN else float("inf"),
            unit="s",
            bar=LAG_BAR_S,
        )


BENCHMARK = Benchmark("pipeline-source", 2, measure)


@click.command()
@click.option("--quick", is_flag=True, help="Read 100,000 rows.")
def main(quick: bool) -> None:
    """Print the time of a batch read and the lag of a stream."""
    for result in measure(QUICK if quick else FULL):
        click.echo(f"{result.what}: {result.value:.2f} {result.unit} (bar {result.bar:g})")


if __name__ == "__main__":
    sys.exit(main(prog_name="python -m benchmarks.pipeline_source"))
