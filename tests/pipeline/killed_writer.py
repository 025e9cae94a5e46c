"""Process that writes batches like a streaming query of Spark, and may be killed at any moment.

    python -m tests.pipeline.killed_writer SERVERS PROGRESS BATCHES

The number of completed batches is in the file PROGRESS, as in the checkpoint of a query. A batch
that is not in it is written again. Each task runs twice in some batches, as with speculation.
"""

import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import LongType, StringType, StructField, StructType

from creekdb.atomic_write import atomic_write
from creekdb.pipeline.source.writer import stream_writer

TASKS = 2
ROWS_PER_TASK = 2_500
KEYS = 97
SCHEMA = StructType([StructField("key", StringType()), StructField("amount", LongType())])


def task_keys(batch: int, task: int) -> list[str]:
    return [f"k{(batch * 31 + task * 7 + row) % KEYS}" for row in range(ROWS_PER_TASK)]


def expected_sums(batches: int) -> Counter[str]:
    keys = (task_keys(batch, task) for batch in range(batches) for task in range(TASKS))
    return Counter(key for each in keys for key in each)


def main(servers: str, progress: Path, batches: int) -> None:
    options = {"servers": servers, "operation": "increment", "sink": "kills", "timeout": "60"}
    first = int(progress.read_text()) if progress.exists() else 0
    print("ready", flush=True)
    for batch in range(first, batches):
        writer = stream_writer(options, SCHEMA, False)
        messages: list[WriterCommitMessage | None] = []
        for task in range(TASKS):
            rows = pa.record_batch(
                [task_keys(batch, task), [1] * ROWS_PER_TASK], names=["key", "amount"]
            )
            for _ in range(1 + (batch + task) % 2):
                message = writer.write(iter([rows]))
            messages.append(message)
        writer.commit(messages, batch)
        with atomic_write(progress) as partial:
            partial.write_text(str(batch + 1))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
