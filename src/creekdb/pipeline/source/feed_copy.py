"""Copy of the writes of a cluster: a stream from its change feed to Parquet files.

The stream can be stopped at any moment and started again, and continues at its checkpoint. Then
the files hold every write of the cluster once. A failure of Spark itself, such as a worker that
starts too slowly on a busy machine, is such a stop.
"""

from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from creekdb.errors import HelperEnded
from creekdb.pipeline.source.options import FORMAT

ROWS_DIR: Final = "rows"
CHECKPOINT_DIR: Final = "checkpoint"
TIMEOUT_S: Final = 60.0
"""Time within which a replica must be reachable, in seconds."""
ATTEMPTS_MAX: Final = 5
"""Number of failures of Spark at which the end of the feed is given up."""
INTERVAL_MS: Final = 500
"""Interval between micro-batches, in milliseconds."""


class CopiedWrite(NamedTuple):
    """Register that a committed request wrote. Key and value are JSON."""

    commit_index: int
    key: str
    value: str | None
    """None if the request deleted the register."""


class FeedCopy:
    """Stream that copies all writes from the first change on."""

    def __init__(self, spark: SparkSession, servers: str, directory: Path) -> None:
        """`servers` are client addresses of replicas, separated by commas."""
        self._spark = spark
        self._options = {
            "servers": servers,
            "readChangeFeed": "true",
            "startingIndex": "1",
            "keyType": "json",
            "timeout": str(TIMEOUT_S),
        }
        self._directory = directory
        self._query: Any = None

    def start(self) -> None:
        """Start the stream, or continue it at its checkpoint."""
        changes = self._spark.readStream.format(FORMAT).options(**self._options).load()
        self._query = (
            changes.writeStream.format("parquet")
            .option("path", str(self._directory / ROWS_DIR))
            .option("checkpointLocation", str(self._directory / CHECKPOINT_DIR))
            .trigger(processingTime=f"{INTERVAL_MS} milliseconds")
            .start()
        )

    def check(self) -> None:
        """Continue a stream that Spark has ended. Raise `HelperEnded` for an error of Creek."""
        error = None if self._query is None else self._query.exception()
        if error is not None:
            check_failure(error)
            self.start()

    def stop(self) -> None:
        """Stop the stream, wherever it is."""
        if self._query is not None:
            self._query.stop()

    def finish(self) -> list[CopiedWrite]:
        """Wait until the stream has read all changes, stop it, and return the rows.

        Raise `HelperEnded` if the stream has failed.
        """
        for attempts_left in reversed(range(ATTEMPTS_MAX)):
            try:
                self.check()
                self._query.processAllAvailable()
                break
            except StreamingQueryException as error:
                check_failure(error)
                if not attempts_left:
                    raise
        self.stop()
        rows = self._spark.read.parquet(str(self._directory / ROWS_DIR))
        selected = rows.select("_commit_index", "key", "value").collect()
        return [CopiedWrite(*row) for row in selected]


def check_failure(error: Exception) -> None:
    """Raise `HelperEnded` if an error of Creek ended a stream."""
    causes = [line for line in str(error).splitlines() if line.startswith("creekdb.")]
    if causes:
        raise HelperEnded(
            f"the stream of Spark failed: {causes[-1]}; correct the cause, and start it again"
        ) from error
