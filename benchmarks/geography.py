"""Latency between distant sites: `python -m benchmarks.geography`.

Three replicas of Creek and three servers of etcd run on this machine, twice. The servers of the
first set are connected directly. Between those of the second set is a latency of 40 ms, one way.
At each of three sites, a client puts values at the server of its site, at a low rate. A weak put of
Creek waits for no other site. A strong put, and a put of etcd, wait for a majority: one round trip
beside the leader, and two elsewhere.

Rounds of both situations alternate. The clients of all sites run at the same time.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click
import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import geography_picture
from benchmarks.comparison import SMALL_PUTS, VALUE_BYTES, System
from benchmarks.competitors import etcd
from benchmarks.delayed_links import DelayedLinks
from benchmarks.geography_figures import NAMES, Figures, SiteLatencies, summarise
from benchmarks.scale import FULL, QUICK, Scale
from creekdb.execution.python_runtime import build_kind
from creekdb.load.connection import ReplicaDialer
from creekdb.load.generator import LoadPlan, generate_load
from creekdb.load.local_cluster import LocalCluster
from creekdb.wire.event_loop import run_in_new_loop

SITES: Final = 3
LATENCY_MS: Final = 40.0
"""Latency between two sites, one way, in milliseconds."""
LOAD: Final = 30
"""Puts per second at each site."""
WEAK_BAR: Final = 1.2
"""Upper bound for the median of weak puts, relative to that without latency."""
FIGURES: Final = "geography.json"
PICTURE: Final = "geography.svg"


def report(what: str) -> None:
    print(f"geography: {what}", file=sys.stderr, flush=True)


def _start(directory: Path, links: DelayedLinks | None, stack: ExitStack) -> list[System]:
    """Start all servers, and stop them with the stack."""
    directory.mkdir()
    cluster = stack.enter_context(LocalCluster(directory, replicas=SITES))
    if links is not None:
        cluster.set_link_addresses(links.open_between(cluster.members))
    cluster.start()
    run_in_new_loop(cluster.wait_until_ready())
    dial = ReplicaDialer(is_single_response=True)
    systems = [
        System("weak", cluster.addresses, cluster.processes, dial, 0.0),
        System("strong", cluster.addresses, cluster.processes, dial, 1.0),
    ]
    if etcd.is_installed():
        (directory / "etcd").mkdir()
        servers = etcd.Etcd(directory / "etcd", links.open if links is not None else None)
        stack.callback(servers.stop)
        servers.start()
        systems.append(System("etcd", servers.addresses, servers.processes, etcd.dial, 1.0))
    return systems


async def _measure_sites(system: System, seconds: float, seed: int) -> list[list[int]]:
    """Return the latencies at each site, in nanoseconds."""
    plans = [
        LoadPlan(
            [address],
            SMALL_PUTS.make_workload(system.strong, seed * SITES + site),
            warm_up_s=seconds / 5,
            duration_s=seconds,
            calls_per_s=LOAD,
            seed=seed * SITES + site,
            dial=system.dial,
        )
        for site, address in enumerate(system.addresses)
    ]
    meters = await asyncio.gather(*map(generate_load, plans))
    for meter in meters:
        if not meter.completed:
            raise click.ClickException(f"{system.name}: no put was answered: {dict(meter.errors)}")
    return [list(meter.latencies_ns[system.kind]) for meter in meters]


def measure(scale: Scale) -> Figures:
    """Return the latencies of all systems, with and without latency between the sites."""
    found: dict[tuple[str, bool], list[list[int]]] = {}
    with (
        tempfile.TemporaryDirectory(prefix=".live-", dir=Path.cwd()) as name,
        DelayedLinks(LATENCY_MS / 1000) as links,
        ExitStack() as stack,
    ):
        report("starting three servers of each system, twice")
        situations = {
            False: _start(Path(name) / "local", None, stack),
            True: _start(Path(name) / "distant", links, stack),
        }
        for number in range(scale.live_rounds):
            for is_distant, systems in situations.items():
                for system in systems:
                    report(
                        f"{NAMES[system.name]}, {'distant' if is_distant else 'local'}, round "
                        f"{number + 1} of {scale.live_rounds}"
                    )
                    latencies = run_in_new_loop(_measure_sites(system, scale.live_s, number))
                    at_sites = found.setdefault((system.name, is_distant), [[] for _ in latencies])
                    for site, values in zip(at_sites, latencies, strict=True):
                        site += values
    return Figures(
        how_it_ran=build_kind(),
        cores=os.cpu_count() or 1,
        latency_ms=LATENCY_MS,
        load_per_site=LOAD,
        value_bytes=VALUE_BYTES,
        rounds=scale.live_rounds,
        round_s=scale.live_s,
        systems=[
            SiteLatencies(
                system=name,
                local=summarise(found[name, False]),
                distant=summarise(found[name, True]),
            )
            for name in NAMES
            if (name, False) in found
        ],
    )


def table(figures: Figures) -> Table:
    rich_table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    rich_table.add_column("median of a put, ms")
    for heading in (
        "local",
        f"{figures.latency_ms:g} ms apart\nall sites",
        "fastest\nsite",
        "slowest\nsite",
        "relative\nto local",
    ):
        rich_table.add_column(heading, justify="right", no_wrap=True)
    for row in _rows(figures):
        rich_table.add_row(*row)
    return rich_table


def markdown(figures: Figures) -> str:
    """Return the table for the documentation."""
    apart = f"{figures.latency_ms:g} ms apart"
    lines = [
        f"| median of a put, ms | local | {apart}, all sites | fastest site | slowest site "
        "| relative to local |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in _rows(figures))])


def _rows(figures: Figures) -> Iterator[list[str]]:
    for each in figures.systems:
        distant = each.distant
        yield [
            NAMES[each.system],
            *(f"{value:.2f}" for value in (each.local.p50_ms, distant.p50_ms)),
            *(f"{value:.2f}" for value in (min(distant.sites_ms), max(distant.sites_ms))),
            f"{each.ratio:.2f} ×",
        ]


def read(path: Path) -> Figures:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Figures)
    except (OSError, msgspec.DecodeError) as error:
        raise click.ClickException(f"cannot read figures from {path}: {error}") from error


def print_figures(figures: Figures) -> None:
    Console().print(table(figures))
    click.echo(
        f"Three servers each on {figures.cores} shared cores, {figures.load_per_site} puts of "
        f"{figures.value_bytes} bytes per second at each site, {figures.rounds} rounds of "
        f"{figures.round_s:g} s. Creek ran {figures.how_it_ran}."
    )
    if "etcd" not in [each.system for each in figures.systems]:
        click.echo(f"etcd was not measured: {etcd.MISSING}.")


@click.command()
@click.option("--quick", is_flag=True, help="Measure fewer and shorter rounds: half a minute.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/geography"),
    show_default=True,
    help="Directory for the figures, the table and the picture.",
)
@click.option(
    "--from",
    "earlier",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Measure nothing; draw the figures of an earlier run from its JSON file.",
)
def main(quick: bool, out: Path, earlier: Path | None) -> None:
    """Measure puts of Creek and of etcd between sites that are 40 ms apart, in two minutes.

    Prints a table, and writes the figures as JSON, the table as Markdown and a picture as SVG.

    \b
    Examples:
      python -m benchmarks.geography --quick
      python -m benchmarks.geography --out runs/geography
      python -m benchmarks.geography --from runs/geography/geography.json
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        raise click.ClickException(
            f"cannot write to {out}: {error.strerror or error}; choose another directory with --out"
        ) from error
    figures = read(earlier) if earlier is not None else measure(QUICK if quick else FULL)
    encoded = msgspec.json.format(msgspec.json.encode(figures))
    (out / FIGURES).write_bytes(encoded + b"\n")
    (out / "geography.md").write_text(markdown(figures) + "\n", encoding="utf-8")
    (out / PICTURE).write_text(geography_picture.svg(figures), encoding="utf-8")
    print_figures(figures)
    click.echo(f"Picture: {out / PICTURE}")
    weak = figures.systems[0]
    if weak.ratio > WEAK_BAR:
        raise click.ClickException(
            f"missed: weak puts take {weak.ratio:.2f} × their local median; the bar is {WEAK_BAR}"
        )


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.geography")
