"""TPC-C on a live cluster: the latency of weak transactions at a fixed load, and the throughput
under twice the maximum load."""

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.hardware_floor import timed_calls
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creekdb import tpcc
from creekdb.execution.sequential import OperationRaised
from creekdb.load.connection import ReplicaDialer
from creekdb.load.generator import LoadPlan, generate_load
from creekdb.load.local_cluster import LocalCluster
from creekdb.load.measurement import STRONG_STABLE, WEAK_TENTATIVE, CpuClock, LoadMeter
from creekdb.load.workload import tpcc_workload
from creekdb.wire.event_loop import new_loop

DATATYPE = "tpcc-rows-5-0"
CLIENTS = 48
LOAD = 750
"""Transactions per second at which the latency is measured."""
BAR_MS = 1.0
"""Upper bound for the median latency of a weak transaction at that load, in milliseconds."""
OVERLOAD_FACTOR = 2.0
"""Overload factor, relative to the maximum throughput."""
LOSS_BAR = 0.2


def measure(scale: Scale) -> Iterator[Result]:
    with (
        tempfile.TemporaryDirectory(prefix=".live-", dir=Path.cwd()) as directory,
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        cluster = LocalCluster(Path(directory), replicas=3, datatype=DATATYPE)
        cluster.start()
        try:
            runner.run(cluster.wait_until_ready())
            cpu = CpuClock(cluster.processes)
            generate = partial(apply_load, cluster, scale, cpu)
            full = runner.run(generate(clients=CLIENTS))
            maximum_tps = full.completed / full.duration_s
            cpu_us = cpu_us_per_call(cpu, full)
            runner.run(cluster.wait_until_stable())
            loaded = runner.run(generate(load=LOAD))
            execution_times = _execution_times(LOAD, scale.live_s)
            yield _latency(maximum_tps, cpu_us, loaded, execution_times)
            runner.run(cluster.wait_until_stable())
            overloaded = runner.run(generate(load=OVERLOAD_FACTOR * maximum_tps))
            yield _overload(maximum_tps, cpu_us_per_call(cpu, overloaded), overloaded)
        finally:
            cluster.stop()


async def apply_load(
    cluster: LocalCluster, scale: Scale, cpu: CpuClock, *, clients: int = 0, load: float = 0.0
) -> LoadMeter:
    return await generate_load(
        LoadPlan(
            cluster.addresses,
            tpcc_workload(DATATYPE, len(cluster.addresses), None, 0),
            warm_up_s=scale.live_s,  # rows are computed on their first read
            duration_s=scale.live_s,
            clients=clients,
            calls_per_s=load,
            cpu_clock=cpu,
            dial=ReplicaDialer(is_single_response=True),  # only the measured response
        )
    )


class ExecutionTimes(NamedTuple):
    """Median duration of a weak transaction in an otherwise idle process, in milliseconds."""

    back_to_back_ms: float
    paced_ms: float


def _execution_times(load: float, seconds: float) -> ExecutionTimes:
    """Measure back to back, and at the rate of `load`, which lets caches go cold."""
    sequential, workload = (
        tpcc.populated_datatype(DATATYPE).sequential(),
        tpcc_workload(DATATYPE, 1, None, 0),
    )
    count = max(1, int(load * seconds))

    def median_ms(pause_s: float) -> float:
        weak = [each for _ in range(count) if not (each := workload(0)).strong]

        def execute(number: int) -> None:
            with suppress(OperationRaised):  # some transactions fail by design
                sequential.call(weak[number].operation, *weak[number].arguments)

        return median(timed_calls(execute, len(weak), pause_s)) / 1e6

    median_ms(0.0)  # rows are computed on their first read
    return ExecutionTimes(median_ms(0.0), median_ms(1 / load))


def cpu_us_per_call(cpu: CpuClock, meter: LoadMeter) -> float:
    """Return the processor time of all processes per transaction, in microseconds."""
    return sum(cpu.used_s.values()) * 1e6 / max(1, meter.completed)


def _latency(
    maximum_tps: float, cpu_us: float, loaded: LoadMeter, execution_times: ExecutionTimes
) -> Result:
    weak, stable = loaded.latency_of_kind(WEAK_TENTATIVE), loaded.latency_of_kind(STRONG_STABLE)
    return Result(
        what=f"TPC-C: median latency of a weak transaction at {LOAD} transactions per second",
        explanation=(
            f"Of the transactions, {loaded.completed / loaded.duration_s:,.0f} per second were "
            f"completed; 99 % of the weak ones within {weak.p99 if weak else 0:.1f} ms; "
            f"a Payment is stable after {stable.p50 if stable else 0:.1f} ms. The execution "
            f"alone, without disk and network, takes {execution_times.back_to_back_ms:.2f} ms "
            f"back to back, and {execution_times.paced_ms:.2f} ms at that rate. The maximum is "
            f"{maximum_tps:,.0f} transactions per second, which take {cpu_us:.0f} µs of CPU each."
        ),
        value=weak.p50 if weak else None,
        unit="ms",
        bar=BAR_MS,
    )


def _overload(maximum_tps: float, cpu_us: float, overloaded: LoadMeter) -> Result:
    throughput = overloaded.completed / overloaded.duration_s
    rejected = sum(overloaded.errors.values()) / overloaded.duration_s
    return Result(
        what="TPC-C: throughput lost under twice the maximum load",
        explanation=(
            f"{throughput:,.0f} transactions per second, {cpu_us:.0f} µs of CPU each; "
            f"{rejected:,.0f} more were rejected."
        ),
        value=1 - throughput / max(1e-9, maximum_tps),
        unit="lost",
        bar=LOSS_BAR,
    )


BENCHMARK = Benchmark("live_tpcc", 2, measure)
