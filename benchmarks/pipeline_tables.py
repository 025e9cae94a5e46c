"""Measuring and verifying many operations: memory, and time per row.

Spark generates the rows with expressions and writes them as Parquet first. All of this happens in a
process of its own, `python -m benchmarks.pipeline_tables ROWS FILE`, with a new driver. The
measure is the processor time of the driver, which does all the work on one machine, after a warm-up
on a small size. The memory is the peak of the driver, of which the heap is a part.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from pyspark.sql import SparkSession

from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creekdb.history import LIVE_SOURCE
from creekdb.pipeline.checks.relational import find_violations
from creekdb.pipeline.checks.shared_frames import SharedFrames
from creekdb.pipeline.schemas import RUN_SCHEMAS, RUNS
from creekdb.pipeline.spark.frames import conform_to_schema
from creekdb.pipeline.spark.session import spark_session
from creekdb.pipeline.stages.measure import latencies, measures
from creekdb.pipeline.stages.results import RunTables, read_run_tables
from creekdb.pipeline.stages.run_tables import SIMULATED

HEAP_MIB: Final = 1024
MEMORY_MIB_MAX: Final = 2048
SIZE_RATIO: Final = 5
"""Ratio between the rows of the large and the small size."""
GROWTH_BAR: Final = 1.5
RUN_COUNT: Final = 8
ROWS_PER_FILE: Final = 500_000
REPLICAS: Final = 3
WARM_UP_SHARE: Final = 20


class Costs(NamedTuple):
    measuring_ns: int
    measuring_peak_mib: float
    verifying_ns: int
    verifying_small_ns: int


def make_tables(
    spark: SparkSession, rows: int, directory: Path, run_count: int = RUN_COUNT
) -> RunTables:
    """Create runs in which operations arrive every 100 µs and are committed in that order."""
    per_run = rows // run_count
    numbers = spark.range(0, rows, 1, 2 + rows // ROWS_PER_FILE).selectExpr(
        "id", f"concat('run-', id div {per_run}) as run", f"id % {per_run} as position"
    )
    invoked = numbers.selectExpr(
        "run",
        f"position % {REPLICAS} as replica",
        "0 as incarnation",
        f"position div {REPLICAS} + 1 as event",
        f"position % {REPLICAS} as session",
        "element_at(array('new_order', 'payment', 'delivery'), cast(pmod(hash(id), 3) + 1 as int)) "
        "as kind",
        "pmod(hash(id), 3) = 1 as strong",
        "concat('[', id % 1000, ']') as arguments",
        "position * 100 as invoked_us",
        "position * 100 + 200 + pmod(hash(id, 1), 2000) as tentative_us",
        "position as commit_index",
        "position * 100 + 3000 + pmod(hash(id, 2), 40000) as certain_us",
    )
    operations = invoked.selectExpr(
        "*",
        "case when strong then certain_us end as stable_us",
        "case when not strong then certain_us end as final_us",
        "cast(null as bigint) as speculated_us",
        "cast(event % 100 as string) as first_response",
        "cast(event % 100 as string) as last_response",
        "false as failed",
        "case when not strong then certain_us % 10 != 0 end as accurate",
        "case when not strong then certain_us % 8 != 0 end as exact",
    )
    ordered = invoked.selectExpr(
        "run",
        f"explode(sequence(0, {REPLICAS - 1})) as replica",
        "commit_index as index",
        "replica as origin",
        "event",
    )
    # A division may leave a remainder, which is the last run.
    names = spark.range(-(-rows // per_run)).selectExpr("concat('run-', id) as run")
    members = names.selectExpr(
        "run",
        f"explode(sequence(0, {REPLICAS - 1})) as replica",
        "0 as first",
        f"{per_run} as committed",
        "0 as tentative",
        "'order' as order_digest",
        "'state' as state_digest",
    )
    judged = names.selectExpr(
        "run", "'events' as checker", "'unknown' as verdict", "'not recorded' as detail",
        "'' as command",
    )  # fmt: skip
    frames = {
        "operations": operations,
        "orders": ordered,
        "final_states": members,
        "run_verdicts": judged,
        "runs": names.selectExpr(
            *(_constant(name, per_run * 100, run_count == 1) for name in RUNS.names)
        ),
    }
    for name, frame in frames.items():
        table = conform_to_schema(frame, RUN_SCHEMAS[name])
        table.write.mode("overwrite").parquet(str(directory / name))
    return read_run_tables(spark, directory)


def _constant(column: str, length_us: int, is_live: bool) -> str:
    match column:
        case "run":
            return column
        case "duration_us" | "end_us":
            return f"{length_us} as {column}"
        case "load_tps":
            return f"10000.0D as {column}"
        case "scheme":
            return f"'creek' as {column}"
        case "source":
            # Only live runs have steps over time.
            return f"'{LIVE_SOURCE if is_live else SIMULATED}' as {column}"
        case "extensions" | "faults" | "violated" | "command":
            return f"'' as {column}"
        case "unsettled" | "strong_share" | "layout":
            return f"null as {column}"
        case "local_reads" | "decided_only":
            return f"false as {column}"
        case _:
            return f"0 as {column}"


def run_measures(tables: RunTables, directory: Path) -> None:
    for name, compute in (("measures", measures), ("latencies", latencies)):
        frame = compute(tables.runs, tables.operations)
        frame.write.mode("overwrite").parquet(str(directory / name))


def run_checks(tables: RunTables, directory: Path) -> None:
    file = str(directory / "violations")
    with SharedFrames() as shared:
        frame = find_violations(*tables[:-1], shared)
        frame.write.mode("overwrite").parquet(file)
    assert tables.runs.sparkSession.read.parquet(file).isEmpty()


def measure_costs(rows: int) -> Costs:
    """Measure in this process. If a session already runs, the memory is meaningless."""
    with (
        tempfile.TemporaryDirectory(prefix="creek-benchmark-") as name,
        spark_session("local[2]", "creek benchmark", HEAP_MIB) as spark,
    ):
        sizes = {"tiny": rows // WARM_UP_SHARE, "few": rows // SIZE_RATIO, "many": rows}
        directories = {size: Path(name, size) for size in sizes}
        tables = {size: make_tables(spark, sizes[size], directories[size]) for size in sizes}

        def elapsed_ns(run: Callable[[RunTables, Path], None], size: str) -> int:
            before = _cpu_ns(spark)
            run(tables[size], directories[size])
            return _cpu_ns(spark) - before

        elapsed_ns(run_measures, "tiny")
        measuring_ns = elapsed_ns(run_measures, "many")
        peak_mib = _peak_mib(spark)
        elapsed_ns(run_checks, "tiny")
        small_ns, large_ns = (elapsed_ns(run_checks, size) for size in ("few", "many"))
        return Costs(measuring_ns, peak_mib, large_ns, small_ns)


def _driver(spark: SparkSession) -> Path:
    """Return the /proc directory of the Java process."""
    gateway: Any = spark.sparkContext._gateway
    return Path(f"/proc/{gateway.proc.pid}")


def _cpu_ns(spark: SparkSession) -> int:
    fields = (_driver(spark) / "stat").read_text().rpartition(")")[2].split()
    user, system = fields[11:13]
    return (int(user) + int(system)) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def _peak_mib(spark: SparkSession) -> float:
    """Return the peak of the resident set."""
    lines = (_driver(spark) / "status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _costs_in_subprocess(rows: int) -> Costs:
    """Measure in a process of its own. The result is a file, since Java may log to the output."""
    with tempfile.TemporaryDirectory(prefix="creek-benchmark-") as directory:
        file = Path(directory, "costs.json")
        command = [sys.executable, "-m", "benchmarks.pipeline_tables", str(rows), str(file)]
        completed = subprocess.run(command, capture_output=True, text=True, check=False)
        if completed.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{completed.stderr}")
        return Costs(*msgspec.json.decode(file.read_bytes()))


def measure(scale: Scale) -> Iterator[Result]:
    large, small = scale.rows, scale.rows // SIZE_RATIO
    costs = (
        _costs_in_subprocess(large)
        if SparkSession.getActiveSession() is None
        else measure_costs(large)
    )
    yield Result(
        what="pipeline: memory to measure",
        explanation=f"Peak memory of the driver while it measured {large:,} operations.",
        value=costs.measuring_peak_mib,
        unit="MiB",
        bar=MEMORY_MIB_MAX,
    )
    yield Result(
        what="pipeline: measuring per operation",
        explanation="Processor time for all measures and percentiles, per operation.",
        value=costs.measuring_ns / large / 1000,
        unit="µs",
    )
    yield Result(
        what="pipeline: growth of verification",
        explanation=f"Cost per operation of the relational checkers with {large:,} operations, "
        f"relative to {small:,}.",
        value=costs.verifying_ns / large / (costs.verifying_small_ns / small),
        bar=GROWTH_BAR,
    )
    yield Result(
        what="pipeline: verification per operation",
        explanation="Processor time for all relational checkers, per operation.",
        value=costs.verifying_ns / large / 1000,
        unit="µs",
    )


BENCHMARK = Benchmark("pipeline-tables", 4, measure)


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(msgspec.json.encode(measure_costs(int(sys.argv[1]))))
