"""Streaming query over the feeds of a cluster, and the directory that it resumes from.

The directory holds the checkpoint of Spark and `MANIFEST`, which names the cluster. A batch is
handled in the process of the driver, so this needs a session with a driver, not a Connect server.
"""

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from creekdb.errors import (
    ChangesUnavailable,
    ForeignPosition,
    HelperEnded,
    StorageFault,
    UsageError,
)
from creekdb.pipeline.storage import Location
from creekdb.pipeline.watch import feeds
from creekdb.pipeline.watch.feeds import FeedEnd
from creekdb.pipeline.watch.source import (
    SOURCE_NAME,
    FeedOptions,
    ReplicaFeedsSource,
    source_options,
)

CHECKPOINT_DIR: Final = "checkpoint"
MANIFEST: Final = "watch.json"
POLL_S: Final = 0.2
CATCH_UP_S_MAX: Final = 600.0
"""Upper bound for the time in which the last batches reach the end of the feeds, in seconds."""

_CREEK_ERROR: Final = re.compile(r"creekdb\.[\w.]*?(\w+): (.+)")


class FollowSettings(NamedTuple):
    options: FeedOptions
    out: Location
    kind: str
    """Command that the directory belongs to."""
    interval_s: float = 5.0
    token_file: Path | None = None


class Manifest(msgspec.Struct, frozen=True):
    """Cluster and command that a directory belongs to."""

    kind: str
    cluster: str
    servers: tuple[str, ...]


class Batch(NamedTuple):
    """Rows of FEED that one batch of the stream has."""

    number: int
    rows: DataFrame
    ends: dict[int, int]
    """Index up to which each replica contributed everything, by replica."""


OnBatch: TypeAlias = Callable[[Batch], object]


def open_directory(settings: FollowSettings) -> Manifest:
    """Check the servers and the directory, and write the manifest. Raise one clear error."""
    ends = asyncio.run(feeds.ready_ends(settings.options.access))
    cluster = next(iter(ends.values())).cluster
    manifest = Manifest(settings.kind, cluster, settings.options.access.servers)
    file, out = settings.out / MANIFEST, settings.out
    if file.is_file():
        earlier = read_manifest(out)
        if earlier.kind != settings.kind:
            raise UsageError(
                f"{out} belongs to 'creek pipeline {earlier.kind}'; name another directory"
            )
        if earlier.cluster != cluster:
            raise ForeignPosition(
                f"{out} follows cluster {earlier.cluster}, and the servers belong to {cluster}; "
                "name another directory"
            )
    elif out.names():
        raise UsageError(f"{out} exists already and holds other files; name another directory")
    try:
        file.write_bytes(msgspec.json.encode(manifest))
    except OSError as error:
        raise StorageFault(f"cannot write to {out}: {error.strerror or error}") from error
    return manifest


def read_manifest(out: Location) -> Manifest:
    try:
        return msgspec.json.decode((out / MANIFEST).read_bytes(), type=Manifest)
    except msgspec.MsgspecError as error:
        raise StorageFault(f"{out / MANIFEST} is damaged: {error}; remove {out}") from error


def follow(
    spark: SparkSession,
    settings: FollowSettings,
    on_batch: OnBatch,
    must_stop: Callable[[], bool],
) -> None:
    """Run the query until `must_stop` returns True, and then up to the end of the feeds."""
    query = _Query(spark, settings, on_batch)
    try:
        while not must_stop():
            query.wait(POLL_S)
        query.catch_up()
    finally:
        query.stop()


class _Query:
    def __init__(self, spark: SparkSession, settings: FollowSettings, on_batch: OnBatch) -> None:
        self._settings = settings
        self._on_batch = on_batch
        self._ends: dict[int, int] = {}
        self._error: BaseException | None = None
        spark.dataSource.register(ReplicaFeedsSource)
        reader = spark.readStream.format(SOURCE_NAME).options(
            **source_options(settings.options, settings.token_file)
        )
        self._query = (
            reader.load()
            .writeStream.foreachBatch(self._handle)
            .option("checkpointLocation", (settings.out / CHECKPOINT_DIR).uri)
            .trigger(processingTime=f"{round(settings.interval_s * 1000)} milliseconds")
            .start()
        )

    def _handle(self, rows: DataFrame, number: int) -> None:
        rows.persist()
        try:
            ended = rows.where("operation is null").groupBy("replica").agg(F.max("index"))
            ends = {row[0]: row[1] for row in ended.collect()}
            self._on_batch(Batch(number, rows, ends))
            self._ends |= ends
        except BaseException as error:
            self._error = error
            raise
        finally:
            rows.unpersist()

    def wait(self, seconds: float) -> None:
        """Wait, and raise the error of a query that has failed."""
        time.sleep(seconds)
        if self._query.isActive:
            return
        if self._error is not None:
            raise self._error
        try:
            self._query.awaitTermination()
        except StreamingQueryException as error:
            raise creek_error_of(str(error)) or ended_query_error(error) from error

    def catch_up(self) -> None:
        """Wait until the query has read what the replicas have now."""
        ends = asyncio.run(feeds.feed_ends(self._settings.options.access))
        targets = {end.replica: end.end for end in ends.values() if isinstance(end, FeedEnd)}
        deadline = time.monotonic() + CATCH_UP_S_MAX
        while time.monotonic() < deadline and any(
            self._ends.get(replica, 0) < end for replica, end in targets.items()
        ):
            progress = self._query.lastProgress
            if progress is not None and not self._ends and _has_reached(progress, targets):
                return  # nothing was committed since the last run
            self.wait(POLL_S)
        if any(self._ends.get(replica, 0) < end for replica, end in targets.items()):
            raise HelperEnded(
                f"the query did not reach the end of the feeds within {CATCH_UP_S_MAX:g} s; "
                "run the same command again to continue"
            )

    def stop(self) -> None:
        self._query.stop()


def _has_reached(progress: object, targets: dict[int, int]) -> bool:
    """Return True if the query began at the end of all feeds."""
    try:
        offset = progress["sources"][0]["endOffset"]  # type: ignore[index]
        parsed = msgspec.json.decode(offset) if isinstance(offset, str) else offset
        numbers, following = parsed["replicas"], parsed["next"]
        reached = {
            numbers[server]: index for server, index in following.items() if server in numbers
        }
    except (KeyError, IndexError, TypeError, msgspec.MsgspecError):
        return False
    return all(reached.get(replica, 0) >= end for replica, end in targets.items())


def ended_query_error(error: Exception) -> HelperEnded:
    """Return the report of a query that Spark ended."""
    cause = str(error).splitlines()[0]
    return HelperEnded(f"Spark ended the query: {cause}; run the same command again to continue")


def creek_error_of(text: str) -> UsageError | ChangesUnavailable | None:
    """Return the error that a task or the source raised, found in a report of Spark."""
    found = _CREEK_ERROR.findall(text)
    if not found:
        return None
    name, message = found[-1]
    kind = UsageError if name == "UsageError" else ChangesUnavailable
    return kind(message.strip())
