"""Streams of a live cluster on a standalone Spark cluster, under failures.

    python -m tests.pipeline.live_source --seconds 40

A master and two workers run two streams while clients write to three replicas. One stream reads the
change feed. The other one writes Parquet files to the cluster, by `increment`, which a repetition
would change. Meanwhile an executor is killed, each replica in turn is killed and started again, and
the queries are stopped and started again from their checkpoints. In the end, the rows of the first
stream must be those of the change feed: none missing, none twice. Each counter must have the sum of
its rows.
"""

import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import click
import msgspec
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from creekdb.client import CallFailed, connect
from creekdb.load.local_cluster import LocalCluster
from creekdb.pipeline.source.feed_copy import CopiedWrite, FeedCopy, check_failure
from creekdb.pipeline.spark.session import spark_session
from creekdb.wire.json_values import to_json
from tests.pipeline.live_clusters import live_cluster, servers
from tests.pipeline.sink_kills import ROWS_PER_FILE, write_files
from tests.pipeline.standalone_cluster import StandaloneCluster, standalone_cluster

REPLICAS = 3
FILES = 40
"""Files that the second stream writes to the cluster."""
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
                key = f"w{random.randrange(200)}"
                try:
                    if random.random() < 0.1:
                        level.delete(key)
                    else:
                        level.put(key, number)
                    self.calls += 1
                except CallFailed:
                    pass
                time.sleep(0.005)


class SinkQuery:
    """Stream that writes the rows of Parquet files to the cluster, a file per micro-batch."""

    def __init__(self, spark: SparkSession, addresses: str, directory: Path, seed: int) -> None:
        self._spark = spark
        self._addresses = addresses
        self._directory = directory
        self.sums = write_files(directory / "files", FILES, Random(seed))
        self._query: Any = None

    def start(self) -> None:
        files = self._spark.readStream.schema("key STRING, amount BIGINT")
        rows = files.option("maxFilesPerTrigger", 1).parquet(str(self._directory / "files"))
        writer = rows.repartition(2).writeStream.format("creek")
        options = {"operation": "increment", "sink": "sums", "timeout": "60"}
        self._query = (
            writer.options(servers=self._addresses, **options)
            .option("checkpointLocation", str(self._directory / "sink checkpoint"))
            .trigger(processingTime="1 second")
            .start()
        )

    def check(self) -> None:
        if (error := self._query.exception()) is not None:
            check_failure(error)
            self.start()

    def stop(self) -> None:
        self._query.stop()

    def finish(self) -> None:
        while True:
            try:
                self.check()
                self._query.processAllAvailable()
                break
            except StreamingQueryException as error:
                check_failure(error)
        self.stop()


def inject_failures(
    queries: Sequence[FeedCopy | SinkQuery],
    master: StandaloneCluster,
    cluster: LocalCluster,
    seconds: float,
) -> None:
    end = time.monotonic() + seconds
    for step in count():
        time.sleep(STEP_S)
        for query in queries:
            query.check()
        if time.monotonic() > end and step >= 2 * REPLICAS:
            return
        replica = step // 2 % REPLICAS
        if step % 2:
            click.echo(f"start replica {replica}")
            cluster.start(replica)
        elif step % 4:
            click.echo(f"kill replica {replica}, and restart the queries")
            cluster.kill(replica)
            for query in queries:
                query.stop()
                query.start()
        else:
            executors = master.executors()
            click.echo(f"kill replica {replica} and one of {len(executors)} executors")
            cluster.kill(replica)
            if executors:
                os.kill(executors[0], signal.SIGKILL)


def expected_rows(cluster: LocalCluster) -> Counter[CopiedWrite]:
    rows: Counter[CopiedWrite] = Counter()
    with connect(servers(cluster)) as db:
        for change in db.changes("earliest", follow=False):
            for key, value in change.writes:
                rows[CopiedWrite(change.index, json_text(key), json_text(value))] += 1
            for key in change.deleted:
                rows[CopiedWrite(change.index, json_text(key), None)] += 1
    return rows


def json_text(value: Any) -> str:
    return msgspec.json.encode(to_json(value)).decode()


def run(directory: Path, seconds: float, seed: int) -> bool:
    """Return True if both streams have exactly the rows that they should have."""
    (directory / "spark").mkdir()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with (
        live_cluster(directory / "cluster", replicas=REPLICAS) as cluster,
        standalone_cluster(directory / "spark", 2) as master,
        spark_session(master.url, "live source") as spark,
    ):
        writer = Writer(cluster, seed)
        writer.start()
        copy = FeedCopy(spark, servers(cluster), directory)
        sink = SinkQuery(spark, servers(cluster), directory, seed)
        for query in (copy, sink):
            query.start()
        inject_failures((copy, sink), master, cluster, seconds)
        writer.stopped.set()
        writer.join()
        for replica in range(REPLICAS):
            if not cluster.is_running(replica):
                cluster.start(replica)
        sink.finish()
        time.sleep(STEP_S)  # the last weak calls commit
        rows = Counter(copy.finish())
        expected = expected_rows(cluster)
        with connect(servers(cluster)) as db:
            sums = dict(db.strong.scan("k"))
    missing, superfluous = expected - rows, rows - expected
    wrong = {key for key in sink.sums if sums.get(key) != sink.sums[key]}
    click.echo(
        f"{writer.calls:,} calls, {expected.total():,} rows; {missing.total():,} missing, "
        f"{superfluous.total():,} superfluous; {FILES * ROWS_PER_FILE:,} rows written, "
        f"{len(wrong)} of {len(sink.sums)} sums wrong"
    )
    return not (missing or superfluous or wrong)


@click.command()
@click.option("--seconds", default=40.0, show_default=True, help="Duration of the failures.")
@click.option("--seed", default=0, show_default=True, help="Seed of the calls.")
def main(seconds: float, seed: int) -> None:
    """Follow a live cluster on a standalone Spark cluster while replicas and executors fail."""
    with tempfile.TemporaryDirectory(prefix="creek-live-source-") as directory:
        sys.exit(not run(Path(directory), seconds, seed))


if __name__ == "__main__":
    main(prog_name="python -m tests.pipeline.live_source")
