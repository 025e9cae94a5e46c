"""What measuring and verifying many operations takes: memory, and time per row.

Spark makes the rows itself, with expressions, and writes them as Parquet first. All happens in a
process of its own, `python -m benchmarks.pipeline_tables ROWS`, whose driver starts afresh. What is
counted is the processor time of that driver, which on one machine does all the work, once it has
warmed up on a small size; and the most memory it ever held, of which its heap is a part.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from pyspark.sql import DataFrame, SparkSession

from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creekdb.pipeline.schemas import OPERATIONS, ORDERS, RUNS
from creekdb.pipeline.spark.frames import conform_to_schema
from creekdb.pipeline.spark.session import spark_session
from creekdb.pipeline.stages.measure import latencies, measures
from creekdb.pipeline.stages.relational_checks import find_violations

HEAP_MIB: Final = 1024
MEMORY_MIB_MAX: Final = 2048
GROWTH: Final = 5
"""How many times as many rows the large size has."""
GROWTH_BAR: Final = 1.5
RUNS_MADE: Final = 8
REPLICAS: Final = 3
WARM_UP_SHARE: Final = 20


class Costs(NamedTuple):
    measuring_ns: int
    measuring_peak_mib: float
    verifying_ns: int
    verifying_few_ns: int


class Made(NamedTuple):
    runs: DataFrame
    operations: DataFrame
    orders: DataFrame


def make(spark: SparkSession, rows: int, folder: Path) -> Made:
    """Runs in which operations come 100 µs after one another and are committed in that order."""
    numbers = spark.range(rows).selectExpr(
        "id", f"concat('run-', id % {RUNS_MADE}) as run", f"id div {RUNS_MADE} as place"
    )
    asked = numbers.selectExpr(
        "run",
        f"place % {REPLICAS} as replica",
        "0 as incarnation",
        f"place div {REPLICAS} + 1 as event",
        f"place % {REPLICAS} as session",
        "element_at(array('new_order', 'payment', 'delivery'), cast(pmod(hash(id), 3) + 1 as int)) "
        "as kind",
        "pmod(hash(id), 3) = 1 as strong",
        "place * 100 as invoked_us",
        "place * 100 + 200 + pmod(hash(id, 1), 2000) as tentative_us",
        "place as commit_index",
        "place * 100 + 3000 + pmod(hash(id, 2), 40000) as certain_us",
    )
    answered = asked.selectExpr(
        "*",
        "case when strong then certain_us end as stable_us",
        "case when not strong then certain_us end as final_us",
        "cast(null as bigint) as speculated_us",
        "false as failed",
        "case when not strong then certain_us % 10 != 0 end as accurate",
        "case when not strong then certain_us % 8 != 0 end as exact",
    )
    ordered = asked.selectExpr(
        "run",
        f"explode(sequence(0, {REPLICAS - 1})) as replica",
        "commit_index as index",
        "replica as origin",
        "event",
    )
    names = [f"run-{number}" for number in range(RUNS_MADE)]
    length_us = rows // RUNS_MADE * 100
    runs = spark.createDataFrame([(name,) for name in names], "run string").selectExpr(
        *(_constant(name, length_us) for name in RUNS.names)
    )
    tables = {
        "operations": (answered, OPERATIONS),
        "orders": (ordered, ORDERS),
        "runs": (runs, RUNS),
    }
    for name, (frame, schema) in tables.items():
        conform_to_schema(frame, schema).write.mode("overwrite").parquet(str(folder / name))
    return Made(*(spark.read.parquet(str(folder / name)) for name in Made._fields))


def _constant(column: str, length_us: int) -> str:
    match column:
        case "run":
            return column
        case "duration_us" | "end_us":
            return f"{length_us} as {column}"
        case "load_tps":
            return f"10000.0D as {column}"
        case "scheme":
            return f"'creek' as {column}"
        case "unsettled" | "strong_share":
            return f"null as {column}"
        case _:
            return f"{'false' if column == 'local_reads' else 0} as {column}"


def measured(made: Made, folder: Path) -> None:
    for name, compute in (("measures", measures), ("latencies", latencies)):
        frame = compute(made.runs, made.operations)
        frame.write.mode("overwrite").parquet(str(folder / name))


def verified(made: Made, folder: Path) -> None:
    frame = find_violations(made.runs, made.operations, made.orders)
    frame.write.mode("overwrite").parquet(str(folder / "verdicts"))
    assert made.runs.sparkSession.read.parquet(str(folder / "verdicts")).isEmpty()


def costs(rows: int) -> Costs:
    """In this process. Where a session is running already, its memory says nothing."""
    with (
        tempfile.TemporaryDirectory(prefix="creek-benchmark-") as name,
        spark_session("local[2]", "creek benchmark", HEAP_MIB) as spark,
    ):
        sizes = {"tiny": rows // WARM_UP_SHARE, "few": rows // GROWTH, "many": rows}
        folders = {size: Path(name, size) for size in sizes}
        made = {size: make(spark, sizes[size], folders[size]) for size in sizes}

        def spent_ns(run: Callable[[Made, Path], None], size: str) -> int:
            before = _cpu_ns(spark)
            run(made[size], folders[size])
            return _cpu_ns(spark) - before

        spent_ns(measured, "tiny")
        measuring_ns = spent_ns(measured, "many")
        peak_mib = _peak_mib(spark)
        spent_ns(verified, "tiny")
        few_ns, many_ns = (spent_ns(verified, size) for size in ("few", "many"))
        return Costs(measuring_ns, peak_mib, many_ns, few_ns)


def _driver(spark: SparkSession) -> Path:
    """What Linux tells of the Java process."""
    gateway: Any = spark.sparkContext._gateway
    return Path(f"/proc/{gateway.proc.pid}")


def _cpu_ns(spark: SparkSession) -> int:
    fields = (_driver(spark) / "stat").read_text().rpartition(")")[2].split()
    user, system = fields[11:13]
    return (int(user) + int(system)) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def _peak_mib(spark: SparkSession) -> float:
    """The largest resident set so far."""
    lines = (_driver(spark) / "status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _apart(rows: int) -> Costs:
    """The same, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.pipeline_tables", str(rows)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    if told.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{told.stderr}")
    return Costs(*msgspec.json.decode(told.stdout))


def measure(scale: Scale) -> Iterator[Result]:
    many, few = scale.rows, scale.rows // GROWTH
    found = _apart(many) if SparkSession.getActiveSession() is None else costs(many)
    yield Result(
        what="pipeline: memory to measure",
        explanation=f"The most memory that the driver held while it measured {many:,} operations.",
        value=found.measuring_peak_mib,
        unit="MiB",
        bar=MEMORY_MIB_MAX,
    )
    yield Result(
        what="pipeline: measuring an operation",
        explanation="Processor time for all measures and percentiles, per operation.",
        value=found.measuring_ns / many / 1000,
        unit="µs",
    )
    yield Result(
        what="pipeline: verifying more",
        explanation=f"What one of {many:,} operations costs the relational checkers, beside one of "
        f"{few:,}.",
        value=found.verifying_ns / many / (found.verifying_few_ns / few),
        bar=GROWTH_BAR,
    )
    yield Result(
        what="pipeline: verifying an operation",
        explanation="Processor time for all relational checkers, per operation.",
        value=found.verifying_ns / many / 1000,
        unit="µs",
    )


BENCHMARK = Benchmark("pipeline-tables", 4, measure)


if __name__ == "__main__":
    print(msgspec.json.encode(costs(int(sys.argv[1]))).decode())
