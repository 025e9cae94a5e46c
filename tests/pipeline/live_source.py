"""Streams of a live cluster on a standalone Spark cluster, under failures.

    python -m tests.pipeline.live_source --seconds 40

A master and two workers run a stream while clients write to three replicas. Meanwhile an executor
is killed, each replica in turn is killed and started again, and the query is stopped and started
again from its checkpoint. In the end, the rows of the stream must be those of the change feed:
none missing, none twice.
"""

import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import click
import msgspec
from pyspark.sql import SparkSession

from creekdb.client import CallFailed, connect
from creekdb.load.local_cluster import LocalCluster
from creekdb.pipeline.spark.session import spark_session
from creekdb.wire.json_values import to_json
from tests.pipeline.live_clusters import live_cluster, servers
from tests.pipeline.standalone_cluster import StandaloneCluster, standalone_cluster

REPLICAS = 3
STEP_S = 4.0
"""Time after each failure in which the stream must continue, in seconds."""


class Writer(threading.Thread):
    """Client that writes until it is stopped."""

    def __init__(self, cluster: LocalCluster, seed: int) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._random = Random(seed)
        self.stopped = threading.Event()
        self.calls = 0

    def run(self) -> None:
        random = self._random
        with connect(servers(self._cluster), timeout=30, patience=30) as db:
            for number in count():
                if self.stopped.is_set():
                    return
                level = db.strong if random.random() < 0.3 else db.weak
                key = f"key{random.randrange(200)}"
                try:
                    if random.random() < 0.1:
                        level.delete(key)
                    else:
                        level.put(key, number)
                    self.calls += 1
                except CallFailed:
                    pass
                time.sleep(0.005)


def start_query(spark: SparkSession, cluster: LocalCluster, out: Path) -> Any:
    options = {"servers": servers(cluster), "readChangeFeed": "true", "startingIndex": "earliest"}
    changes = spark.readStream.format("creek").options(**options, timeout=30).load()
    writer = changes.writeStream.format("parquet").option("path", str(out / "rows"))
    return writer.option("checkpointLocation", str(out / "checkpoint")).start()


def inject_failures(
    spark: SparkSession,
    master: StandaloneCluster,
    cluster: LocalCluster,
    out: Path,
    seconds: float,
) -> Any:
    """Return the last query."""
    query = start_query(spark, cluster, out)
    end = time.monotonic() + seconds
    for step in count():
        time.sleep(STEP_S)
        if query.exception() is not None:
            raise query.exception()
        if time.monotonic() > end and step >= 2 * REPLICAS:
            return query
        replica = step // 2 % REPLICAS
        if step % 2:
            click.echo(f"start replica {replica}")
            cluster.start(replica)
        elif step % 4:
            click.echo(f"kill replica {replica}, and restart the query")
            cluster.kill(replica)
            query.stop()
            query = start_query(spark, cluster, out)
        else:
            executors = master.executors()
            click.echo(f"kill replica {replica} and one of {len(executors)} executors")
            cluster.kill(replica)
            if executors:
                os.kill(executors[0], signal.SIGKILL)
    raise AssertionError


def expected_rows(cluster: LocalCluster) -> Counter[tuple[int, str, str | None]]:
    rows: Counter[tuple[int, str, str | None]] = Counter()
    with connect(servers(cluster)) as db:
        for change in db.changes("earliest", follow=False):
            for key, value in change.writes:
                rows[change.index, str(key), msgspec.json.encode(to_json(value)).decode()] += 1
            for key in change.deleted:
                rows[change.index, str(key), None] += 1
    return rows


def run(directory: Path, seconds: float, seed: int) -> None:
    (directory / "spark").mkdir()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with (
        live_cluster(directory / "cluster", replicas=REPLICAS) as cluster,
        standalone_cluster(directory / "spark", 2) as master,
        spark_session(master.url, "live source") as spark,
    ):
        writer = Writer(cluster, seed)
        writer.start()
        query = inject_failures(spark, master, cluster, directory, seconds)
        writer.stopped.set()
        writer.join()
        for replica in range(REPLICAS):
            if not cluster.is_running(replica):
                cluster.start(replica)
        time.sleep(STEP_S)  # the last weak calls commit
        query.processAllAvailable()
        query.stop()
        expected = expected_rows(cluster)
        frame = spark.read.parquet(str(directory / "rows"))
        rows = Counter((row._commit_index, row.key, row.value) for row in frame.collect())
    missing, superfluous = expected - rows, rows - expected
    click.echo(
        f"{writer.calls:,} calls, {expected.total():,} rows; "
        f"{missing.total():,} missing, {superfluous.total():,} superfluous"
    )
    if missing or superfluous:
        sys.exit(1)


@click.command()
@click.option("--seconds", default=40.0, show_default=True, help="Duration of the failures.")
@click.option("--seed", default=0, show_default=True, help="Seed of the calls.")
def main(seconds: float, seed: int) -> None:
    """Follow a live cluster on a standalone Spark cluster while replicas and executors fail."""
    with tempfile.TemporaryDirectory(prefix="creek-live-source-") as directory:
        run(Path(directory), seconds, seed)


if __name__ == "__main__":
    main(prog_name="python -m tests.pipeline.live_source")
