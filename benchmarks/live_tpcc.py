"""TPC-C on a live cluster: how fast weak transactions are answered at half of what it can do, and
what it still does when it is asked for twice as much."""

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.floor import paced
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creekdb import tpcc
from creekdb.execution.sequential import OperationRaised
from creekdb.load.connection import dial
from creekdb.load.generator import LoadPlan, generate_load
from creekdb.load.local_cluster import LocalCluster
from creekdb.load.measurement import STRONG_STABLE, WEAK_TENTATIVE, CpuClock, LoadMeter
from creekdb.load.workload import tpcc_workload
from creekdb.wire.event_loop import new_loop

DATATYPE = "tpcc-rows-5-0"
CLIENTS = 48
BAR_MS = 1.0
TOO_MUCH = 2.0
"""Times what it can do."""
FALL_BAR = 0.2


def measure(scale: Scale) -> Iterator[Result]:
    with (
        tempfile.TemporaryDirectory(prefix=".live-", dir=Path.cwd()) as folder,
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        cluster = LocalCluster(Path(folder), replicas=3, datatype=DATATYPE)
        cluster.start()
        try:
            runner.run(cluster.wait_until_ready())
            cpu = CpuClock(cluster.processes)
            driven = partial(_driven, cluster, scale, cpu)
            full = runner.run(driven(clients=CLIENTS))
            saturated = full.completed / full.duration_s
            cpu_us = _cpu_us(cpu, full)
            runner.run(cluster.wait_until_stable())
            half = runner.run(driven(load=max(1.0, saturated / 2)))
            yield _latency(saturated, cpu_us, half, _alone(saturated / 2, scale.live_s))
            runner.run(cluster.wait_until_stable())
            flooded = runner.run(driven(load=TOO_MUCH * saturated))
            yield _fall(saturated, _cpu_us(cpu, flooded), flooded)
        finally:
            cluster.stop()


async def _driven(
    cluster: LocalCluster, scale: Scale, cpu: CpuClock, *, clients: int = 0, load: float = 0.0
) -> LoadMeter:
    return await generate_load(
        LoadPlan(
            cluster.addresses,
            tpcc_workload(DATATYPE, len(cluster.addresses), None, 0),
            warm_up_s=scale.live_s,  # rows are computed when they are first read
            duration_s=scale.live_s,
            clients=clients,
            load=load,
            cpu=cpu,
            dial=partial(dial, brief=True),  # the answer that is measured, and no other
        )
    )


class Alone(NamedTuple):
    """The median time of a weak transaction that one process executes, and does nothing else."""

    at_once_ms: float
    paced_ms: float


def _alone(load: float, seconds: float) -> Alone:
    """One after the other, and at the pace of that load: in between, caches forget."""
    machine, stream = (
        tpcc.populated_datatype(DATATYPE).sequential(),
        tpcc_workload(DATATYPE, 1, None, 0),
    )
    count = max(1, int(load * seconds))

    def took(pause_s: float) -> float:
        weak = [each for _ in range(count) if not (each := stream(0)).strong]

        def execute(number: int) -> None:
            with suppress(OperationRaised):  # some are meant to fail
                machine.call(weak[number].operation, *weak[number].arguments)

        return median(paced(execute, len(weak), pause_s)) / 1e6

    took(0.0)  # rows are computed when they are first read
    return Alone(took(0.0), took(1 / load))


def _cpu_us(cpu: CpuClock, meter: LoadMeter) -> float:
    """Of a transaction, all processes."""
    return sum(cpu.used_s.values()) * 1e6 / max(1, meter.completed)


def _latency(saturated: float, cpu_us: float, half: LoadMeter, alone: Alone) -> Result:
    weak, stable = half.latency_of_kind(WEAK_TENTATIVE), half.latency_of_kind(STRONG_STABLE)
    return Result(
        what="TPC-C: median time of a weak transaction",
        explanation=(
            f"At half of {saturated:,.0f} transactions a second, which take {cpu_us:.0f} µs of CPU "
            f"each; 99 % within {weak.p99 if weak else 0:.1f} ms; "
            f"a Payment is stable after {stable.p50 if stable else 0:.1f} ms. To execute one "
            f"alone, without disk and network, takes {alone.at_once_ms:.2f} ms where one "
            f"follows the other, and {alone.paced_ms:.2f} ms at that pace."
        ),
        value=weak.p50 if weak else 0.0,
        unit="ms",
        bar=BAR_MS,
    )


def _fall(saturated: float, cpu_us: float, flooded: LoadMeter) -> Result:
    done = flooded.completed / flooded.duration_s
    refused = sum(flooded.errors.values()) / flooded.duration_s
    return Result(
        what="TPC-C: throughput lost when asked for twice as much",
        explanation=(
            f"{done:,.0f} transactions a second, {cpu_us:.0f} µs of CPU each; {refused:,.0f} more "
            "were refused."
        ),
        value=1 - done / max(1e-9, saturated),
        unit="of it",
        bar=FALL_BAR,
    )


BENCHMARK = Benchmark("live_tpcc", 2, measure)
