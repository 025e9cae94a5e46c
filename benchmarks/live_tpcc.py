"""TPC-C on a live cluster: how fast weak transactions are answered at half of what it can do."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creek.cluster.loop import run
from creek.load.local import CpuClock, LocalCluster
from creek.load.loops import Plan, drive
from creek.load.meter import STRONG_STABLE, WEAK_TENTATIVE, Meter
from creek.load.streams import tpcc_stream

DATATYPE = "tpcc-rows-5-0"
CLIENTS = 48
BAR_MS = 1.0


def measure(scale: Scale) -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix=".live-", dir=Path.cwd()) as folder:
        cluster = LocalCluster(Path(folder), replicas=3, datatype=DATATYPE)
        cluster.start()
        try:
            yield run(_measured(cluster, scale))
        finally:
            cluster.stop()


async def _measured(cluster: LocalCluster, scale: Scale) -> Result:
    await cluster.until_ready()
    cpu = CpuClock(cluster.processes)

    async def driven(clients: int, load: float) -> Meter:
        return await drive(
            Plan(
                cluster.addresses,
                tpcc_stream(DATATYPE, len(cluster.addresses), None, 0),
                warm_up_s=scale.live_s,  # rows are computed when they are first read
                duration_s=scale.live_s,
                clients=clients,
                load=load,
                cpu=cpu,
            )
        )

    full = await driven(CLIENTS, 0.0)
    saturated = full.done / full.seconds
    cpu_us = sum(cpu.used_s.values()) * 1e6 / max(1, full.done)
    await cluster.until_settled()
    half = await driven(0, max(1.0, saturated / 2))
    weak, stable = half.latency(WEAK_TENTATIVE), half.latency(STRONG_STABLE)
    return Result(
        what="TPC-C: median time of a weak transaction",
        explanation=(
            f"At half of {saturated:,.0f} transactions a second, which take {cpu_us:.0f} µs of CPU "
            f"each; 99 % within {weak.p99 if weak else 0:.1f} ms; "
            f"a Payment is stable after {stable.p50 if stable else 0:.1f} ms."
        ),
        value=weak.p50 if weak else 0.0,
        unit="ms",
        bar=BAR_MS,
    )


BENCHMARK = Benchmark("live_tpcc", 1, measure)
