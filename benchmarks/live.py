"""A live cluster beside etcd and PySyncObj: three servers each, all on this machine's cores.

Creek and etcd are driven by the same load, from one process, in turns while both run; values are of
the same size, and whatever is answered is on disk before. That load costs etcd as little as it can:
the bars are held against it. What etcd's own generator gets out of the same servers, in turns of
its own, is reported beside it; and what the generator of its packages gets, with more clients and
larger values, beside Creek under a load of that kind. PySyncObj comes after them. Where one of them
cannot be found, the table says so. With the latencies it is told what the machine alone takes. What
is being done is told as it goes on.
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import floor
from benchmarks.beside import (
    CLIENTS,
    KEYS,
    SMALL_PUTS,
    VALUE_BYTES,
    Beside,
    Puts,
    Silent,
    System,
    Turns,
    beside_each_other,
)
from benchmarks.result import Benchmark, Result
from benchmarks.rivals import etcd, etcd_benchmark, etcd_check, pysyncobj
from benchmarks.scale import Scale
from creek.client import NotDone, connect
from creek.cluster.loop import run
from creek.load.local import LocalCluster
from creek.load.loops import Plan, drive
from creek.load.meter import STRONG_STABLE, WEAK_TENTATIVE, Meter
from creek.load.streams import kv_stream

MODEST = 200
"""Calls in a second that leave every server much time."""
STRONG_BAR = 0.7
WEAK_BAR = 2.0
LATENCY_BAR = 0.25
FALL_BAR = 0.2
ANSWER_S = 20.0
"""How long a replica may take to say how it is."""
LOOK_S = 0.25
"""Between two looks at how far it has come."""
CATCH_UP_S = 180.0
"""How long one may take to catch up."""


def tell(what: str) -> None:
    print(f"live: {what}", file=sys.stderr, flush=True)


def measure(scale: Scale) -> Iterator[Result]:
    with beside_each_other(tell) as both:
        systems = both.systems
        generator: etcd_benchmark.Generator | None = None
        if both.etcd is not None and (program := etcd_benchmark.found()) is not None:
            generator = etcd_benchmark.Generator(
                program, both.etcd.addresses, clients=CLIENTS, value_bytes=VALUE_BYTES
            )
        bare = floor.Floor(both.folder, VALUE_BYTES, MODEST)

        def at_full_load() -> None:
            if generator is not None:
                rate = generator.as_many_as_can_be(scale.live_s)
                tell(f"etcd under its own generator: {rate:,.0f} puts a second")

        def at_a_modest_load() -> None:
            if generator is not None:
                tell(f"etcd under its own generator, {MODEST} a second")
                generator.at_a_rate(MODEST, scale.live_s)
            tell("the disk and the loopback alone")
            bare.measure(scale.live_s / 2)

        full = _in_turns(systems, scale, at_full_load)
        yield from _throughputs(full)
        yield from _own_throughputs(full, generator)
        modest = _in_turns(systems, scale, at_a_modest_load, MODEST)
        yield _latencies(modest, bare)
        yield _own_latencies(modest, generator)
        yield run(_catching_up(both.cluster, scale))
        yield from _packaged_throughputs(both, scale)
    yield from _pysyncobj(scale, full["strong"].per_second)


def _in_turns(
    systems: list[System],
    scale: Scale,
    beside: Callable[[], None],
    load: float = 0.0,
    puts: Puts = SMALL_PUTS,
) -> dict[str, Turns]:
    """`beside` has the last turn of each round."""
    found = {system.name: Turns([], []) for system in systems}
    for each in range(scale.live_turns):
        for system in systems:
            meter = found[system.name].take(system, scale.live_s, each, load, puts)
            tell(
                f"{system.name}, turn {each + 1} of {scale.live_turns}"
                + (f", {load:g} a second" if load else "")
                + f": {meter.done / meter.seconds:,.0f} puts a second"
            )
        beside()
    return found


def _throughputs(found: dict[str, Turns]) -> Iterator[Result]:
    theirs = found.get("etcd")
    for name, bar in (("strong", STRONG_BAR), ("weak", WEAK_BAR)):
        ours = found[name]
        told = f"{ours.per_second:,.0f} {name} puts a second, {ours.cpu_us:.0f} µs of CPU each"
        if theirs is None:
            yield _missing(f"etcd's puts for one {name} put", f"{told}; {etcd.MISSING}.")
            continue
        yield Result(
            what=f"etcd's puts for one {name} put",
            explanation=(
                f"{told}; etcd driven by the same load: {theirs.per_second:,.0f} a second, "
                f"{theirs.cpu_us:.0f} µs each."
            ),
            value=theirs.per_second / max(1e-9, ours.per_second),
            bar=1 / bar,
        )


def _own_throughputs(
    found: dict[str, Turns], generator: etcd_benchmark.Generator | None
) -> Iterator[Result]:
    for name in ("strong", "weak"):
        what = f"etcd's puts for one {name} put, under its own generator"
        if generator is None:
            yield _missing(what, f"{etcd_benchmark.MISSING}.")
            continue
        yield Result(
            what=what,
            explanation=f"{_DRIVEN}: {generator.per_second:,.0f} a second.",
            value=generator.per_second / max(1e-9, found[name].per_second),
        )


def _packaged_throughputs(both: Beside, scale: Scale) -> Iterator[Result]:
    """Creek's turns stand on both sides of the minute that the generator takes."""
    names = ("strong", "weak")
    whats = [f"etcd's puts for one {name} put, under {etcd_check.WHAT}" for name in names]
    program, servers = etcd_check.found(), both.etcd
    if servers is None or program is None or not scale.live_minutes:
        why = "it takes a minute" if program else etcd_check.MISSING
        for what in whats:
            yield _missing(what, f"{etcd.MISSING if servers is None else why}.")
        return
    ours = [system for system in both.systems if system.name in names]
    puts = Puts(etcd_check.CLIENTS, etcd_check.stream)
    rates: list[int] = []

    def generated() -> None:
        if not rates:
            tell(f"etcd under {etcd_check.WHAT}, which takes a minute")
            rates.append(etcd_check.puts_per_second(program, servers.addresses))

    found = _in_turns(ours, scale, generated, puts=puts)
    for name, what in zip(names, whats, strict=True):
        yield Result(
            what=what,
            explanation=(
                f"{puts.clients:,} clients, each put a new key with {etcd_check.VALUE_BYTES:,} "
                f"bytes: {found[name].per_second:,.0f} {name} puts a second, etcd's generator "
                f"{rates[0]:,}."
            ),
            value=rates[0] / max(1e-9, found[name].per_second),
        )


def _own_latencies(found: dict[str, Turns], generator: etcd_benchmark.Generator | None) -> Result:
    what = "median latency of a weak put, to that of etcd's under its own generator"
    if generator is None:
        return _missing(what, f"{etcd_benchmark.MISSING}.")
    return Result(
        what=what,
        explanation=f"{_DRIVEN}, at {MODEST} puts a second: {generator.p50_ms:.2f} ms.",
        value=found["weak"].p50_ms(WEAK_TENTATIVE) / max(1e-9, generator.p50_ms),
    )


def _latencies(found: dict[str, Turns], bare: floor.Floor) -> Result:
    ours = found["weak"].p50_ms(WEAK_TENTATIVE)
    stable = found["strong"].p50_ms(STRONG_STABLE)
    told = f"At {MODEST} puts a second: weak {ours:.2f} ms, strong {stable:.2f} ms"
    what = "median latency of a weak put, to that of etcd's"
    theirs = found.get("etcd")
    if theirs is None:
        return _missing(what, f"{told}; {etcd.MISSING}. {bare.told()}.")
    etcd_ms = theirs.p50_ms(STRONG_STABLE)
    return Result(
        what=what,
        explanation=f"{told}, etcd driven by the same load {etcd_ms:.2f} ms. {bare.told()}.",
        value=ours / max(1e-9, etcd_ms),
        bar=LATENCY_BAR,
    )


async def _catching_up(cluster: LocalCluster, scale: Scale) -> Result:
    """Clients at two replicas; the third is killed, misses much, and comes back."""
    marks: dict[str, tuple[float, int]] = {}

    async def break_and_mend(meter: Meter) -> None:
        loop = asyncio.get_running_loop()

        def mark(name: str) -> None:
            marks[name] = loop.time(), meter.done

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
        await _until_in_step(cluster)
        mark("caught up")
        meter.end_ns = 0

    stream = kv_stream(keys=KEYS, value_bytes=VALUE_BYTES, reads=0.0, strong=0.5, seed=9)
    plan = Plan(
        cluster.addresses[:2],
        stream,
        warm_up_s=scale.live_s / 5,
        duration_s=10_000.0,
        clients=CLIENTS,
        during=break_and_mend,
    )
    await drive(plan)
    before = _rate(marks["before"], marks["killed"])
    while_behind = _rate(marks["back"], marks["caught up"])
    took = marks["caught up"][0] - marks["back"][0]
    return Result(
        what="throughput lost while a replica catches up",
        explanation=(
            f"{before:,.0f} puts a second with all three, {while_behind:,.0f} in the {took:.1f} s "
            "from the start of one that was killed until it was in step again."
        ),
        value=1 - while_behind / max(1e-9, before),
        unit="of it",
        bar=FALL_BAR,
    )


async def _until_in_step(cluster: LocalCluster) -> None:
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
                raise Silent(f"replica 2 ended: {cluster.last_words(2)}")
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
    for replica, code in cluster.ended().items():
        raise Silent(f"replica {replica} ended with {code}: {cluster.last_words(replica)}")
    try:
        async with asyncio.timeout(ANSWER_S):
            return await cluster.statuses()
    except (TimeoutError, NotDone) as error:
        last = "; ".join(f"{each}: {cluster.last_words(each)}" for each in range(3))
        raise Silent(
            f"a replica does not answer in {ANSWER_S:.0f} s ({error}). Their last words: {last}"
        ) from error


def _rate(begin: tuple[float, int], end: tuple[float, int]) -> float:
    return (end[1] - begin[1]) / max(1e-9, end[0] - begin[0])


def _pysyncobj(scale: Scale, strong: float) -> Iterator[Result]:
    what = "PySyncObj's puts for one strong put"
    if not pysyncobj.is_there():
        yield _missing(what, "PySyncObj is not installed: 'make bench' adds it.")
        return
    with tempfile.TemporaryDirectory(prefix=".live-", dir=Path.cwd()) as folder:
        theirs = pysyncobj.puts_per_second(Path(folder), scale.live_s, VALUE_BYTES, CLIENTS // 3)
    yield Result(
        what=what,
        explanation=f"PySyncObj, which does not sync: {theirs:,.0f} a second.",
        value=theirs / max(1e-9, strong),
    )


_DRIVEN = "etcd driven by its own 'benchmark put'"


def _missing(what: str, explanation: str) -> Result:
    return Result(what=what, explanation=explanation, value=0.0, unit="")


BENCHMARK = Benchmark("live", 10, measure)
