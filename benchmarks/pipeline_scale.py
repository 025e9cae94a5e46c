"""Measuring and verifying more and more operations on a standalone Spark cluster.

Tables of made-up runs grow from the smallest to the largest size, as one long run and as runs of
1,000 operations. The cluster has one master and two workers with one core each, on this machine.
The stages are those of `creek pipeline`; `generate` writes the tables with Spark.

The costs of a stage are the processor time and the sampled peak memory of all processes: driver,
master, workers, executors and Python. Memory is the proportional set size, which counts shared
pages once. Before the first measurement, all stages run on tables of the smallest size, so that the
virtual machines have started and compiled the code. This start-up is not part of any
figure; the fixed costs of each job are.

    python -m benchmarks.pipeline_scale [SIZE]...   the table of the documentation, as Markdown
"""

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from time import monotonic
from typing import Final, NamedTuple, Self

from pyspark.sql import SparkSession

from benchmarks.pipeline_tables import make_tables
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creekdb.pipeline.spark.configuration import SparkOptions
from creekdb.pipeline.spark.session import spark_session
from creekdb.pipeline.stages.results import measure_runs, verify_runs
from tests.pipeline.standalone_cluster import standalone_cluster

GROWTH_BAR: Final = 1.3
WORKERS: Final = 2
HEAP_MIB: Final = 1024
OPERATIONS_PER_SHORT_RUN: Final = 1_000
MILLION: Final = 1_000_000
SAMPLE_INTERVAL_S: Final = 0.5
DEFAULT_SIZES: Final = (1_000_000, 5_000_000, 20_000_000)
STAGES: Final = ("generate", "measure", "verify")
SHAPES: Final = ("one long run", "short runs")


class Cost(NamedTuple):
    shape: str
    operations: int
    stage: str
    cpu_s: float
    wall_s: float
    peak_mib: float

    @property
    def cpu_s_per_million(self) -> float:
        return self.cpu_s * MILLION / self.operations


def options(master: str) -> SparkOptions:
    """Return the options of a session whose executors use the interpreter of this process."""
    return SparkOptions(master=master, conf={"spark.pyspark.python": sys.executable})


def measure_sizes(sizes: Sequence[int]) -> Iterator[Cost]:
    """Run all stages with each number of operations and each shape."""
    with tempfile.TemporaryDirectory(prefix="creek-benchmark-") as name:
        directory = Path(name)
        with (
            standalone_cluster(directory, WORKERS) as cluster,
            spark_session(options(cluster.url), "creek benchmark", HEAP_MIB) as spark,
        ):
            for shape in SHAPES:
                list(_measure_size(spark, shape, sizes[0], directory / "out"))
            for shape in SHAPES:
                for operations in sizes:
                    yield from _measure_size(spark, shape, operations, directory / "out")


def _measure_size(spark: SparkSession, shape: str, operations: int, out: Path) -> Iterator[Cost]:
    runs = 1 if shape == SHAPES[0] else max(1, operations // OPERATIONS_PER_SHORT_RUN)
    stages: dict[str, Callable[[], object]] = {
        "generate": lambda: make_tables(spark, operations, out, runs),
        "measure": lambda: measure_runs(spark, out),
        "verify": lambda: _verify(spark, out),
    }
    for stage in STAGES:
        with ProcessCosts() as costs:
            stages[stage]()
        yield Cost(shape, operations, stage, costs.cpu_s, costs.wall_s, costs.peak_mib)
    rmtree(out)


def _verify(spark: SparkSession, out: Path) -> None:
    verified = verify_runs(spark, out)
    assert not verified.illegal, verified.counterexamples


# --- costs of all processes --------------------------------------------------------------------


class ProcessCosts:
    """Costs of this process and its descendants while the context lasts."""

    def __init__(self) -> None:
        self.cpu_s = self.wall_s = self.peak_mib = 0.0
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample)

    def __enter__(self) -> Self:
        self.cpu_s, self.wall_s = -_cpu_s(), -monotonic()
        self._sampler.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.cpu_s += _cpu_s()
        self.wall_s += monotonic()
        self._ended.set()
        self._sampler.join()

    def _sample(self) -> None:
        while not self._ended.is_set():
            self.peak_mib = max(self.peak_mib, sum(map(_resident_mib, _process_tree())))
            self._ended.wait(SAMPLE_INTERVAL_S)


def _process_tree() -> list[int]:
    """Return this process and its descendants."""
    children: dict[int, list[int]] = {}
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        with suppress(OSError):
            children.setdefault(int(_stat(pid)[1]), []).append(pid)
    tree = [os.getpid()]
    for pid in tree:
        tree += children.get(pid, [])
    return tree


def _cpu_s() -> float:
    """Return the processor time of the process tree, including processes that ended."""
    ticks = 0
    for pid in _process_tree():
        with suppress(OSError):
            ticks += sum(map(int, _stat(pid)[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """Return the fields of a process from its state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _resident_mib(pid: int) -> float:
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))
    return 0.0


# --- results -----------------------------------------------------------------------------------


def measure(scale: Scale) -> Iterator[Result]:
    sizes = (scale.rows // 5, scale.rows, scale.rows * 4)
    costs = list(measure_sizes(sizes))
    print(*markdown(costs), sep="\n", file=sys.stderr)
    for shape in SHAPES:
        for stage in STAGES:
            small, *_, large = (
                each for each in costs if (each.shape, each.stage) == (shape, stage)
            )
            yield Result(
                what=f"pipeline-scale: {stage}, {shape}",
                explanation=f"Processor time per operation with {large.operations:,} operations, "
                f"relative to {small.operations:,}; {large.cpu_s_per_million:.1f} s per million.",
                value=large.cpu_s_per_million / small.cpu_s_per_million,
                bar=GROWTH_BAR,
            )
    yield Result(
        what="pipeline-scale: memory",
        explanation=f"Peak memory of all processes with {sizes[-1]:,} operations.",
        value=max(each.peak_mib for each in costs),
        unit="MiB",
    )


def markdown(costs: Iterable[Cost]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield "| operations | shape | stage | CPU s | CPU s / million | wall s / million | peak MiB |"
    yield "|---:|---|---|---:|---:|---:|---:|"
    for each in costs:
        wall_s = each.wall_s * MILLION / each.operations
        yield (
            f"| {each.operations:,} | {each.shape} | {each.stage} | {each.cpu_s:.1f} "
            f"| {each.cpu_s_per_million:.1f} | {wall_s:.1f} | {each.peak_mib:,.0f} |"
        )


BENCHMARK = Benchmark("pipeline-scale", len(SHAPES) * len(STAGES) + 1, measure)


if __name__ == "__main__":
    for line in markdown(measure_sizes([*map(int, sys.argv[1:])] or DEFAULT_SIZES)):
        print(line, flush=True)
