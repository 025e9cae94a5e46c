"""Rate of a bulk load, relative to single weak puts: `python -m benchmarks.bulk_load`.

Three replicas run as processes. In each round, many clients put single values, and then one process
loads rows of the same size from Parquet files, like `creek load`. The rounds alternate, so that a
busy machine affects both.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import click
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.comparison import VALUE_BYTES, Measurements, System
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creekdb.client import connect
from creekdb.execution.python_runtime import build_kind
from creekdb.load.connection import ReplicaDialer
from creekdb.load.local_cluster import LocalCluster
from creekdb.pipeline.stages.load import find_files, load_files
from creekdb.wire.event_loop import run_in_new_loop

LOAD_BAR: Final = 10.0
ROWS_PER_SECOND: Final = 20_000
"""Rows of a file, for each second of a round of single puts."""


class Rates(NamedTuple):
    """Rows and puts per second."""

    rows: float
    puts: float


def write_file(path: Path, round_: int, count: int) -> None:
    random = Random(round_)
    values = [random.randbytes(VALUE_BYTES) for _ in range(64)]
    keys = [f"load{round_}-{number:08}" for number in range(count)]
    table = pa.table({"key": keys, "value": [values[number % 64] for number in range(count)]})
    pq.write_table(table, path)


async def load_once(addresses: list[str], path: Path) -> float:
    """Load a file and return the rows per second."""
    async with connect(addresses) as db:
        begin_s = time.perf_counter()
        rows = await load_files(db, find_files(str(path)), None, (), lambda count: None)
        return rows / (time.perf_counter() - begin_s)


def measure_rates(seconds: float, rounds: int) -> Rates:
    with tempfile.TemporaryDirectory(prefix=".load-", dir=Path.cwd()) as name:
        directory = Path(name)
        cluster = LocalCluster(directory, replicas=3)
        cluster.start()
        try:
            run_in_new_loop(cluster.wait_until_ready())
            dial = ReplicaDialer(is_single_response=True)
            system = System("weak", cluster.addresses, cluster.processes, dial, 0.0)
            puts, rates = Measurements([], []), []
            for each in range(rounds):
                meter = puts.measure(system, seconds, each)
                rate = meter.completed / meter.duration_s
                write_file(directory / "rows.parquet", each, int(seconds * ROWS_PER_SECOND))
                loaded = load_once(cluster.addresses, directory / "rows.parquet")
                rates.append(run_in_new_loop(loaded))
                text = f"{rate:,.0f} puts/s, {rates[-1]:,.0f} rows/s"
                print(f"bulk load, round {each + 1}: {text}", file=sys.stderr, flush=True)
            return Rates(sum(rates) / len(rates), puts.per_second)
        finally:
            cluster.stop()


def measure(scale: Scale) -> Iterator[Result]:
    rates = measure_rates(scale.live_s, scale.live_rounds)
    yield Result(
        what="single weak puts per loaded row",
        explanation=f"A bulk load of Parquet: {rates.rows:,.0f} rows per second; single weak puts "
        f"of the same size by many clients: {rates.puts:,.0f} per second.",
        value=rates.puts / rates.rows,
        bar=1 / LOAD_BAR,
    )


BENCHMARK = Benchmark("bulk-load", 1, measure)


@click.command()
@click.option("--seconds", default=3.0, show_default=True, help="Duration of a round of puts.")
@click.option("--rounds", default=2, show_default=True)
def main(seconds: float, rounds: int) -> None:
    """Measure the rate of a bulk load, relative to single weak puts."""
    rates = measure_rates(seconds, rounds)
    click.echo(
        f"{rates.rows:,.0f} rows/s, {rates.puts:,.0f} puts/s: {rates.rows / rates.puts:.1f} × "
        f"(bar {LOAD_BAR:g} ×, {build_kind()})"
    )


if __name__ == "__main__":
    main()
