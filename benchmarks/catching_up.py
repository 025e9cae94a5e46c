"""What a replica that catches up costs the others.

Clients call two of three replicas. The third is killed, misses much, and comes back: throughput
while it catches up is held against throughput before and after it, for the machine's own pace may
change meanwhile.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from benchmarks.beside import SMALL_PUTS, Silent
from benchmarks.result import Result
from benchmarks.scale import Scale
from creekdb.client import NotDone, connect
from creekdb.load.generator import LoadPlan, generate_load
from creekdb.load.local_cluster import LocalCluster
from creekdb.load.measurement import LoadMeter

FALL_BAR = 0.2
ANSWER_S = 20.0
"""How long a replica may take to say how it is."""
LOOK_S = 0.25
"""Between two looks at how far it has come."""
CATCH_UP_S = 180.0
"""How long one may take to catch up."""

Tell: TypeAlias = Callable[[str], None]
"""Hears what is being done."""


async def measured(cluster: LocalCluster, scale: Scale, tell: Tell) -> Result:
    marks: dict[str, tuple[float, int]] = {}

    async def break_and_mend(meter: LoadMeter) -> None:
        loop = asyncio.get_running_loop()

        def mark(name: str) -> None:
            marks[name] = loop.time(), meter.completed

        mark("before")
        await asyncio.sleep(scale.live_s)
        mark("killed")
        tell("replica 2 is killed, while the others go on")
        had = (await _statuses(cluster))[2]["committed"]
        cluster.kill(2)
        await asyncio.sleep(scale.live_s)
        mark("back")
        cluster.start(2)
        tell(f"replica 2 missed {(await _statuses(cluster))[0]['committed'] - had:,} requests")
        await _until_in_step(cluster, tell)
        mark("caught up")
        await asyncio.sleep(scale.live_s)
        mark("after")
        meter.end_ns = 0

    plan = LoadPlan(
        cluster.addresses[:2],
        SMALL_PUTS.stream(0.5, 9),
        warm_up_s=scale.live_s / 5,
        duration_s=10_000.0,
        clients=SMALL_PUTS.clients,
        during=break_and_mend,
    )
    await generate_load(plan)
    before = _rate(marks["before"], marks["killed"])
    while_behind = _rate(marks["back"], marks["caught up"])
    after = _rate(marks["caught up"], marks["after"])
    took = marks["caught up"][0] - marks["back"][0]
    return Result(
        what="throughput lost while a replica catches up",
        explanation=(
            f"{before:,.0f} puts a second with all three, {while_behind:,.0f} in the {took:.1f} s "
            "from the start of one that was killed until it was in step again, and then "
            f"{after:,.0f}. Before and after are of the same length, and count alike."
        ),
        value=1 - while_behind / max(1e-9, (before + after) / 2),
        unit="of it",
        bar=FALL_BAR,
    )


async def _until_in_step(cluster: LocalCluster, tell: Tell) -> None:
    """Until the last one has what the first had a moment ago. They are asked on one connection
    each: what is measured should not be how they are asked."""
    loop = asyncio.get_running_loop()
    begun = told = loop.time()
    there, here = cluster.addresses[0], cluster.addresses[2]
    async with connect(there, patience=ANSWER_S) as first, connect(here, patience=ANSWER_S) as last:
        while True:
            wanted = (await first.status())["committed"]
            await asyncio.sleep(LOOK_S)
            found = await last.status()
            if found["replica"] != 2:
                raise Silent(f"replica 2 ended: {cluster.last_output_line(2)}")
            if found["committed"] >= wanted:
                return
            how_far = f"replica 2 has {found['committed']:,} of {wanted:,} requests"
            now = loop.time()
            if now > begun + CATCH_UP_S:
                raise Silent(f"after {CATCH_UP_S:.0f} s {how_far}")
            if now > told + 2:
                told = now
                tell(how_far)


async def _statuses(cluster: LocalCluster) -> list[dict[str, Any]]:
    for replica, code in cluster.reap_exited().items():
        raise Silent(f"replica {replica} ended with {code}: {cluster.last_output_line(replica)}")
    try:
        async with asyncio.timeout(ANSWER_S):
            return await cluster.statuses()
    except (TimeoutError, NotDone) as error:
        last = "; ".join(f"{each}: {cluster.last_output_line(each)}" for each in range(3))
        raise Silent(
            f"a replica does not answer in {ANSWER_S:.0f} s ({error}). Their last words: {last}"
        ) from error


def _rate(begin: tuple[float, int], end: tuple[float, int]) -> float:
    return (end[1] - begin[1]) / max(1e-9, end[0] - begin[0])
