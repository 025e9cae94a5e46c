"""A live cluster beside etcd and PySyncObj: three servers each, all on this machine's cores.

Creek and etcd are driven by the same load, from one process, in turns while both run; values are of
the same size, and whatever is answered is on disk before. That load costs etcd as little as it can:
the bars are held against it. What etcd's own generator gets out of the same servers, in turns of
its own, is reported beside it; and what the generator of its packages gets, with more clients and
larger values, beside Creek under a load of that kind. PySyncObj comes after them. Where one of them
cannot be found, the table says so. With the latencies it is told what the machine alone takes. What
is being done is told as it goes on.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import catching_up, floor
from benchmarks.beside import (
    CLIENTS,
    SMALL_PUTS,
    VALUE_BYTES,
    Beside,
    Puts,
    System,
    Turns,
    beside_each_other,
)
from benchmarks.result import Benchmark, Result
from benchmarks.rivals import etcd, etcd_benchmark, etcd_check, pysyncobj
from benchmarks.scale import Scale
from creekdb.load.measurement import STRONG_STABLE, WEAK_TENTATIVE
from creekdb.wire.event_loop import run_in_new_loop

MODEST = 200
"""Calls in a second that leave every server much time."""
STRONG_BAR = 0.7
WEAK_BAR = 2.0
LATENCY_BAR = 0.25

_DRIVEN = "etcd driven by its own 'benchmark put'"


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
        yield run_in_new_loop(catching_up.measured(both.cluster, scale, tell))
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
                + f": {meter.completed / meter.duration_s:,.0f} puts a second"
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


def _missing(what: str, explanation: str) -> Result:
    return Result(what=what, explanation=explanation, value=0.0, unit="")


BENCHMARK = Benchmark("live", 10, measure)
