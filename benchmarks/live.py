"""A live cluster compared with etcd and PySyncObj: three servers each, on this machine's cores.

One process drives Creek and etcd with the same load, alternately while both run. Values have the
same size, and both systems write to disk before they respond. This load generator costs etcd as
little as possible; the bars refer to it. Two more loads are reported. etcd's own generator drives
the same servers in rounds of its own. The generator in etcd's packages uses more clients and larger
values, and is compared with Creek under a load of that kind. PySyncObj is measured last. Without a
program, the table shows the comparisons with it as not measured. The latency of a weak put is also
compared with that of the machine alone. Before any load, the processor time of idle replicas is
measured. Progress messages go to standard error.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import catch_up, hardware_floor, idle
from benchmarks.comparison import (
    CLIENTS,
    SMALL_PUTS,
    VALUE_BYTES,
    Measurements,
    PutLoad,
    RunningSystems,
    System,
    running_systems,
)
from benchmarks.competitors import etcd, etcd_benchmark, etcd_check, pysyncobj
from benchmarks.result import Benchmark, Result, not_measured
from benchmarks.scale import Scale
from creekdb.load.measurement import STRONG_STABLE, WEAK_TENTATIVE
from creekdb.wire.event_loop import run_in_new_loop

LIGHT_LOAD = 200
"""Calls per second that leave every server mostly idle."""
STRONG_BAR = 1.0
"""Lower bound for the throughput of strong puts, relative to etcd's."""
WEAK_BAR = 1.5
"""Lower bound for the throughput of weak puts, relative to etcd's."""
FLOOR_BAR = 2.0
"""Upper bound for the median of a weak put, relative to one synced write and one echo."""

_OWN_GENERATOR = "etcd driven by its own 'benchmark put'"


def report(what: str) -> None:
    print(f"live: {what}", file=sys.stderr, flush=True)


def measure(scale: Scale) -> Iterator[Result]:
    with running_systems(report) as running:
        systems = running.systems
        generator: etcd_benchmark.Generator | None = None
        if running.etcd is not None and (program := etcd_benchmark.find_program()) is not None:
            generator = etcd_benchmark.Generator(
                program, running.etcd.addresses, clients=CLIENTS, value_bytes=VALUE_BYTES
            )
        floor = hardware_floor.HardwareFloor(running.directory, VALUE_BYTES, LIGHT_LOAD)

        report("idle replicas")
        yield idle.measure_idle(running.cluster.processes, scale.live_rounds * scale.live_s)

        def after_full_round() -> None:
            if generator is not None:
                rate = generator.run_closed_loop(scale.live_s)
                report(f"etcd under its own generator: {rate:,.0f} puts per second")

        def after_light_round() -> None:
            if generator is not None:
                report(f"etcd under its own generator, {LIGHT_LOAD} per second")
                generator.run_at_rate(LIGHT_LOAD, scale.live_s)
            report("disk and loopback alone")
            floor.measure(scale.live_s / 2)

        full = _measure_rounds(systems, scale, after_full_round)
        yield from _throughputs(full)
        yield from _own_throughputs(full, generator)
        light = _measure_rounds(systems, scale, after_light_round, LIGHT_LOAD)
        yield from _latencies(light, floor)
        yield _own_latencies(light, generator)
        yield run_in_new_loop(catch_up.measure_catch_up(running.cluster, scale, report))
        yield from _packaged_throughputs(running, scale)
    yield from _pysyncobj(scale, full["strong"].per_second)


def _measure_rounds(
    systems: list[System],
    scale: Scale,
    after_round: Callable[[], None],
    load: float = 0.0,
    put_load: PutLoad = SMALL_PUTS,
) -> dict[str, Measurements]:
    """Measure all systems in each round, and call `after_round` at its end."""
    measurements = {system.name: Measurements([], []) for system in systems}
    for each in range(scale.live_rounds):
        for system in systems:
            meter = measurements[system.name].measure(system, scale.live_s, each, load, put_load)
            report(
                f"{system.name}, round {each + 1} of {scale.live_rounds}"
                + (f", {load:g} per second" if load else "")
                + f": {meter.completed / meter.duration_s:,.0f} puts per second"
            )
        after_round()
    return measurements


def _throughputs(measurements: dict[str, Measurements]) -> Iterator[Result]:
    theirs = measurements.get("etcd")
    for name, bar in (("strong", STRONG_BAR), ("weak", WEAK_BAR)):
        ours = measurements[name]
        own_text = (
            f"{ours.per_second:,.0f} {name} puts per second, {ours.cpu_us:.0f} µs of CPU each"
        )
        if theirs is None:
            what, explanation = f"etcd's puts per {name} put", f"{own_text}; {etcd.MISSING}."
            yield not_measured(what, explanation, 1 / bar)
            continue
        yield Result(
            what=f"etcd's puts per {name} put",
            explanation=(
                f"{own_text}; etcd driven by the same load: {theirs.per_second:,.0f} per second, "
                f"{theirs.cpu_us:.0f} µs each."
            ),
            value=theirs.per_second / max(1e-9, ours.per_second),
            bar=1 / bar,
        )


def _own_throughputs(
    measurements: dict[str, Measurements], generator: etcd_benchmark.Generator | None
) -> Iterator[Result]:
    for name in ("strong", "weak"):
        what = f"etcd's puts per {name} put, under its own generator"
        if generator is None:
            yield not_measured(what, f"{etcd_benchmark.MISSING}.")
            continue
        yield Result(
            what=what,
            explanation=f"{_OWN_GENERATOR}: {generator.per_second:,.0f} per second.",
            value=generator.per_second / max(1e-9, measurements[name].per_second),
        )


def _packaged_throughputs(running: RunningSystems, scale: Scale) -> Iterator[Result]:
    """Measure Creek in rounds before and after the minute that the generator takes."""
    names = ("strong", "weak")
    titles = [f"etcd's puts per {name} put, under {etcd_check.WHAT}" for name in names]
    program, servers = etcd_check.find_program(), running.etcd
    if servers is None or program is None or not scale.includes_minute_runs:
        reason = "skipped: it takes a minute" if program else etcd_check.MISSING
        for what in titles:
            yield not_measured(what, f"{etcd.MISSING if servers is None else reason}.")
        return
    ours = [system for system in running.systems if system.name in names]
    put_load = PutLoad(etcd_check.CLIENTS, etcd_check.make_workload)
    rates: list[int] = []

    def run_generator() -> None:
        if not rates:
            report(f"etcd under {etcd_check.WHAT}, which takes a minute")
            rates.append(etcd_check.puts_per_second(program, servers.addresses))

    measurements = _measure_rounds(ours, scale, run_generator, put_load=put_load)
    for name, what in zip(names, titles, strict=True):
        yield Result(
            what=what,
            explanation=(
                f"{put_load.clients:,} clients, each put a new key with {etcd_check.VALUE_BYTES:,} "
                f"bytes: {measurements[name].per_second:,.0f} {name} puts per second, "
                f"etcd's generator {rates[0]:,}."
            ),
            value=rates[0] / max(1e-9, measurements[name].per_second),
        )


def _own_latencies(
    measurements: dict[str, Measurements], generator: etcd_benchmark.Generator | None
) -> Result:
    what = "median latency of a weak put, relative to etcd's under its own generator"
    if generator is None:
        return not_measured(what, f"{etcd_benchmark.MISSING}.")
    return Result(
        what=what,
        explanation=f"{_OWN_GENERATOR}, {LIGHT_LOAD} puts per second: {generator.p50_ms:.2f} ms.",
        value=measurements["weak"].p50_ms(WEAK_TENTATIVE) / max(1e-9, generator.p50_ms),
    )


def _latencies(
    measurements: dict[str, Measurements], floor: hardware_floor.HardwareFloor
) -> Iterator[Result]:
    ours = measurements["weak"].p50_ms(WEAK_TENTATIVE)
    stable = measurements["strong"].p50_ms(STRONG_STABLE)
    own_text = f"At {LIGHT_LOAD} puts per second: weak {ours:.2f} ms, strong {stable:.2f} ms"
    yield Result(
        what="median latency of a weak put, relative to one synced write and one echo",
        explanation=f"{own_text}. {floor.describe()}.",
        value=ours / max(1e-9, floor.write_and_echo.p50),
        bar=FLOOR_BAR,
    )
    what = "median latency of a weak put, relative to etcd's"
    theirs = measurements.get("etcd")
    if theirs is None:
        yield not_measured(what, f"{own_text}; {etcd.MISSING}.")
        return
    etcd_ms = theirs.p50_ms(STRONG_STABLE)
    yield Result(
        what=what,
        explanation=f"{own_text}, etcd under the same load {etcd_ms:.2f} ms.",
        value=ours / max(1e-9, etcd_ms),
    )


def _pysyncobj(scale: Scale, strong: float) -> Iterator[Result]:
    what = "PySyncObj's puts per strong put"
    if not pysyncobj.is_installed():
        yield not_measured(what, "PySyncObj is not installed; 'make bench' installs it.")
        return
    with tempfile.TemporaryDirectory(prefix=".live-", dir=Path.cwd()) as directory:
        theirs = pysyncobj.puts_per_second(Path(directory), scale.live_s, VALUE_BYTES, CLIENTS // 3)
    yield Result(
        what=what,
        explanation=f"PySyncObj, which does not sync: {theirs:,.0f} per second.",
        value=theirs / max(1e-9, strong),
    )


BENCHMARK = Benchmark("live", 12, measure)
