"""Cost of a catching-up replica for the others.

Clients call two of three replicas. The third is killed, misses many requests, and restarts. Its
throughput during the catch-up is compared with the throughput before and after it, because the
machine's own speed may change meanwhile.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from benchmarks.comparison import SMALL_PUTS, NoResponse
from benchmarks.result import Result
from benchmarks.scale import Scale
from creekdb.client import NotDone, connect
from creekdb.load.generator import LoadPlan, generate_load
from creekdb.load.local_cluster import LocalCluster
from creekdb.load.measurement import LoadMeter

LOSS_BAR = 0.2
STATUS_TIMEOUT_S = 20.0
"""Timeout of a status call, in seconds."""
POLL_S = 0.25
"""Interval between two status calls, in seconds."""
CATCH_UP_TIMEOUT_S = 180.0
"""Timeout of the catch-up, in seconds."""

Report: TypeAlias = Callable[[str], None]
"""Receives progress messages."""


async def measure_catch_up(cluster: LocalCluster, scale: Scale, report: Report) -> Result:
    marks: dict[str, tuple[float, int]] = {}

    async def kill_and_restart(meter: LoadMeter) -> None:
        loop = asyncio.get_running_loop()

        def mark(name: str) -> None:
            marks[name] = loop.time(), meter.completed

        mark("before")
        await asyncio.sleep(scale.live_s)
        mark("killed")
        report("replica 2 killed; the others continue")
        committed_before = (await _statuses(cluster))[2]["committed"]
        cluster.kill(2)
        await asyncio.sleep(scale.live_s)
        mark("back")
        cluster.start(2)
        missed = (await _statuses(cluster))[0]["committed"] - committed_before
        report(f"replica 2 missed {missed:,} requests")
        await _wait_until_caught_up(cluster, report)
        mark("caught up")
        await asyncio.sleep(scale.live_s)
        mark("after")
        meter.end_ns = 0

    plan = LoadPlan(
        cluster.addresses[:2],
        SMALL_PUTS.make_workload(0.5, 9),
        warm_up_s=scale.live_s / 5,
        duration_s=10_000.0,
        clients=SMALL_PUTS.clients,
        background=kill_and_restart,
    )
    await generate_load(plan)
    before = _rate(marks["before"], marks["killed"])
    during = _rate(marks["back"], marks["caught up"])
    after = _rate(marks["caught up"], marks["after"])
    duration_s = marks["caught up"][0] - marks["back"][0]
    return Result(
        what="throughput lost while a replica catches up",
        explanation=(
            f"{before:,.0f} puts per second with all three replicas, {during:,.0f} in the "
            f"{duration_s:.1f} s from the restart of a killed one until it had caught up, and then "
            f"{after:,.0f}. The intervals before and after are equally long and count alike."
        ),
        value=1 - during / max(1e-9, (before + after) / 2),
        unit="lost",
        bar=LOSS_BAR,
    )


async def _wait_until_caught_up(cluster: LocalCluster, report: Report) -> None:
    """Wait until the restarted replica has all requests that the first had a moment ago.

    The status calls use one connection per replica, to keep them out of the measurement.
    """
    loop = asyncio.get_running_loop()
    started = reported = loop.time()
    first_address, last_address = cluster.addresses[0], cluster.addresses[2]
    async with (
        connect(first_address, patience=STATUS_TIMEOUT_S) as first,
        connect(last_address, patience=STATUS_TIMEOUT_S) as last,
    ):
        while True:
            target = (await first.status())["committed"]
            await asyncio.sleep(POLL_S)
            status = await last.status()
            if status["replica"] != 2:
                raise NoResponse(f"replica 2 exited: {cluster.last_output_line(2)}")
            if status["committed"] >= target:
                return
            progress = f"replica 2 has {status['committed']:,} of {target:,} requests"
            now = loop.time()
            if now > started + CATCH_UP_TIMEOUT_S:
                raise NoResponse(f"after {CATCH_UP_TIMEOUT_S:.0f} s {progress}")
            if now > reported + 2:
                reported = now
                report(progress)


async def _statuses(cluster: LocalCluster) -> list[dict[str, Any]]:
    for replica, code in cluster.reap_exited().items():
        raise NoResponse(
            f"replica {replica} exited with {code}: {cluster.last_output_line(replica)}"
        )
    try:
        async with asyncio.timeout(STATUS_TIMEOUT_S):
            return await cluster.statuses()
    except (TimeoutError, NotDone) as error:
        last = "; ".join(f"{each}: {cluster.last_output_line(each)}" for each in range(3))
        raise NoResponse(
            f"status call timed out after {STATUS_TIMEOUT_S:.0f} s ({error}). Last output: {last}"
        ) from error


def _rate(begin: tuple[float, int], end: tuple[float, int]) -> float:
    return (end[1] - begin[1]) / max(1e-9, end[0] - begin[0])
