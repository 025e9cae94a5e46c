"""Extensions beyond the paper on a live cluster: the same TPC-C load without them and with all.

Both clusters run in turns, so that a slow period of the machine affects both. The throughput is
that of closed-loop clients. A round starts a new cluster, whose replicas compute rows on their
first read.
"""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from benchmarks.live_tpcc import CLIENTS, DATATYPE, apply_load, cpu_us_per_call
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creekdb.load.local_cluster import LocalCluster
from creekdb.load.measurement import STRONG_STABLE, WEAK_TENTATIVE, CpuClock, LatencySummary
from creekdb.protocol.extensions import ALL, NONE
from creekdb.wire.event_loop import new_loop

REPLICAS: Final = 3
GAIN: Final = 1.15
"""Throughput with all extensions, relative to that without, that they should reach."""


class Round(NamedTuple):
    throughput_tps: float
    cpu_us: float
    weak: LatencySummary | None
    stable: LatencySummary | None


def measure(scale: Scale) -> Iterator[Result]:
    rounds: dict[str, list[Round]] = {NONE: [], ALL: []}
    for _ in range(scale.live_rounds):
        for extensions, measured in rounds.items():
            measured.append(_measure_round(extensions, scale))
    paper, extended = (median(each.throughput_tps for each in rounds[name]) for name in rounds)
    yield Result(
        what="TPC-C, live: throughput without extensions, relative to all extensions",
        explanation=f"{_describe(rounds[NONE])} Extended: {_describe(rounds[ALL])}",
        value=paper / max(1e-9, extended),
        bar=1 / GAIN,
    )


def _measure_round(extensions: str, scale: Scale) -> Round:
    with (
        tempfile.TemporaryDirectory(prefix=".live-", dir=Path.cwd()) as directory,
        asyncio.Runner(loop_factory=new_loop) as runner,
        LocalCluster(
            Path(directory),
            replicas=REPLICAS,
            datatype=DATATYPE,
            options=("--extensions", extensions),
        ) as cluster,
    ):
        cluster.start()
        runner.run(cluster.wait_until_ready())
        cpu = CpuClock(cluster.processes)
        meter = runner.run(apply_load(cluster, scale, cpu, clients=CLIENTS))
        return Round(
            meter.completed / meter.duration_s,
            cpu_us_per_call(cpu, meter),
            meter.latency_of_kind(WEAK_TENTATIVE),
            meter.latency_of_kind(STRONG_STABLE),
        )


def _describe(rounds: list[Round]) -> str:
    """Return the medians over the rounds."""
    throughput = median(each.throughput_tps for each in rounds)
    cpu = median(each.cpu_us for each in rounds)
    weak = median(each.weak.p50 if each.weak else 0.0 for each in rounds)
    stable = median(each.stable.p50 if each.stable else 0.0 for each in rounds)
    return (
        f"{throughput:,.0f} transactions per second, {cpu:.0f} µs of CPU each; weak response after "
        f"{weak:.1f} ms, Payment stable after {stable:.1f} ms."
    )


BENCHMARK = Benchmark("live_extensions", 1, measure)
