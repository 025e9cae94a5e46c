"""Kills a streaming query of Spark at random moments, and checks that each row is written once.

    python -m tests.pipeline.sink_kills --times 20 [--seed 1] [--plain]

Three replicas and the query are real processes. The query reads one Parquet file per batch, and
adds its rows to counters by `increment`, which a repetition would change. SIGKILL ends the driver
of Spark with all its processes, some time after a batch is complete. The query then starts again
from its checkpoint. At the end, every counter must have exactly the sum of its rows.

With `--plain`, the writer runs in a process without Spark, which starts in a second.
"""

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from creekdb.client import connect
from tests.pipeline import killed_writer
from tests.pipeline.killed_writer import ROWS_PER_TASK, TASKS, expected_sums
from tests.pipeline.live_clusters import live_cluster, servers

ROWS_PER_FILE = 3_000
KEYS = 61
FILES_PER_KILL = 5
KILL_AFTER_S_MAX = 4.0
"""Upper bound for the time between the first complete batch and the kill, in seconds."""
PLAIN_KILL_AFTER_S_MAX = 2.0
"""Upper bound for the time between the start of a writer without Spark and the kill, in seconds."""


def write_files(directory: Path, count: int, generator: random.Random) -> Counter[str]:
    """Write the files of the query. Return the sum of each key."""
    directory.mkdir()
    sums: Counter[str] = Counter()
    for number in range(count):
        keys = [f"k{generator.randrange(KEYS)}" for _ in range(ROWS_PER_FILE)]
        amounts = [generator.randrange(1, 5) for _ in keys]
        for key, amount in zip(keys, amounts, strict=True):
            sums[key] += amount
        table = pa.table({"key": keys, "amount": pa.array(amounts, pa.int64())})
        pq.write_table(table, directory / f"{number:04}.parquet")
    return sums


def run_query(directory: Path, addresses: str) -> None:
    """Run the query until it has written all files. Print a line per complete batch."""
    from creekdb.pipeline.spark.session import spark_session  # noqa: PLC0415 - slow import

    with spark_session("local[2]", "sink kills") as spark:
        files = (
            spark.readStream.schema("key STRING, amount BIGINT")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(directory / "files"))
        )

        query = (
            files.repartition(2)
            .writeStream.format("creek")
            .options(servers=addresses, operation="increment", sink="kills", timeout=60)
            .option("checkpointLocation", str(directory / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        last = None
        while query.isActive:
            progress = query.lastProgress
            if progress is not None and progress.batchId != last:
                last = progress.batchId
                print(f"batch {last}", flush=True)
            time.sleep(0.05)
        query.awaitTermination()


def kill_repeatedly(
    command: list[str], times: int, delay_s_max: float, generator: random.Random
) -> int:
    """Run the query, kill it `times` times, and let it end. Return the number of kills."""
    kills = 0
    while True:
        with subprocess.Popen(
            [sys.executable, *command], stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            assert process.stdout is not None
            batch = process.stdout.readline().strip()
            if batch and kills < times:
                delay_s = generator.uniform(0, delay_s_max)
                time.sleep(delay_s)
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    kills += 1
                    print(f"kill {kills}: {delay_s:.2f} s after {batch}", flush=True)
            for _ in process.stdout:
                pass
        if process.returncode == 0:
            return kills
        if process.returncode != -signal.SIGKILL:
            raise SystemExit(f"the query failed with exit code {process.returncode}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a writing query of Spark at random moments.")
    parser.add_argument("--times", type=int, default=20, help="number of kills")
    parser.add_argument("--seed", type=int, default=1, help="seed of the moments")
    parser.add_argument("--plain", action="store_true", help="run the writer without Spark")
    parser.add_argument("--query", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.query:
        run_query(Path(arguments.query[0]), arguments.query[1])
        return 0
    generator = random.Random(arguments.seed)
    begin_s = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="creek-kills-") as name,
        live_cluster(Path(name) / "cluster") as cluster,
    ):
        directory = Path(name)
        count = FILES_PER_KILL * (arguments.times + 1)
        if arguments.plain:
            expected, rows = expected_sums(count), count * TASKS * ROWS_PER_TASK
            progress = str(directory / "progress")
            command = ["-m", killed_writer.__name__, servers(cluster), progress, str(count)]
        else:
            expected = write_files(directory / "files", count, generator)
            rows = count * ROWS_PER_FILE
            command = ["-m", __spec__.name, "--query", str(directory), servers(cluster)]
        delay_s_max = PLAIN_KILL_AFTER_S_MAX if arguments.plain else KILL_AFTER_S_MAX
        kills = kill_repeatedly(command, arguments.times, delay_s_max, generator)
        sums = dict(asyncio.run(read_sums(servers(cluster))))
    if kills < arguments.times:
        print(f"only {kills} of {arguments.times} kills: the query ended too early")
        return 1
    wrong = {key: (sums.get(key), sum_) for key, sum_ in expected.items() if sums.get(key) != sum_}
    if wrong or sums.keys() != expected.keys():
        print(f"WRONG after {kills} kills: {wrong} (found, expected)")
        return 1
    seconds = time.monotonic() - begin_s
    print(f"exactly once: {rows} rows in {count} batches, {kills} kills, {seconds:.0f} s")
    return 0


async def read_sums(addresses: str) -> list[tuple[str, int]]:
    async with connect(addresses) as db:
        return list(await db.strong.scan("k"))


if __name__ == "__main__":
    sys.exit(main())
