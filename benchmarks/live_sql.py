"""INSERTs of single rows in SQL on live clusters, compared with PostgreSQL and rqlite.

Three servers each run on this machine, driven alternately by one process with the same load. A
weak INSERT of Creek is on the disk of one replica when it responds. A strong one is on the disks of
two, and so are a commit of PostgreSQL (`benchmarks.competitors.postgres`) and a write of rqlite
(`benchmarks.competitors.rqlite`). The last part puts a latency of 20 ms between the servers. Its
clients of Creek are beside the servers that they call, the others beside the primary or leader.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.comparison import Measurements, PutLoad, System
from benchmarks.competitors import postgres, rqlite
from benchmarks.delayed_links import DelayedLinks
from benchmarks.process_trees import cpu_seconds
from benchmarks.result import Benchmark, Result, not_measured
from benchmarks.scale import Scale
from creekdb.client import connect
from creekdb.load.connection import ReplicaDialer
from creekdb.load.local_cluster import LocalCluster
from creekdb.load.measurement import STRONG_STABLE, WEAK_TENTATIVE
from creekdb.load.workload import Workload, WorkloadCall
from creekdb.wire.event_loop import run_in_new_loop

CLIENTS = 96
VALUE_BYTES = 256
REPLICAS = 3
LIGHT_LOAD = 100
"""Calls per second that leave every server mostly idle."""
LATENCY_S = 0.020
"""Latency of the delayed links, one way."""
THROUGHPUT_BAR = 1.0
LATENCY_BAR = 1.0
DELAYED_BAR = 1 / 20
CREATE = "CREATE TABLE item(id INTEGER PRIMARY KEY, value BLOB NOT NULL) STRICT"
INSERT = "INSERT INTO item VALUES (?, ?)"
KINDS = ("weak", "strong")
"""Consistency of our INSERTs, and names of the measured systems."""


class Competitor(NamedTuple):
    """Database to compare with."""

    name: str
    missing: str
    """Explanation if it is not installed."""
    is_installed: Callable[[], bool]
    run: Callable[[Path, DelayedLinks | None], AbstractContextManager[System]]
    """Runs the servers in a new directory, with links between them if given."""

    @property
    def titles(self) -> tuple[str, ...]:
        """Titles of the results: throughput, latency, and latency with delayed links."""
        latency = "median latency of a {} INSERT, relative to {}'s"
        names = [(kind, self.name) for kind in KINDS]
        return (
            *(f"{self.name}'s INSERTs per {kind} INSERT" for kind in KINDS),
            *(latency.format(*each) for each in names),
            *(f"{latency.format(*each)}, with {LATENCY_S * 1e3:g} ms" for each in names),
        )


@contextmanager
def _running_postgres(directory: Path, links: DelayedLinks | None) -> Iterator[System]:
    programs = postgres.find_programs()
    assert programs is not None, "it is installed"
    with postgres.Postgres(programs, directory) as servers:
        servers.start()
        if links is not None:
            servers.delay_links(links)
        yield System(postgres.NAME, servers.addresses, servers.processes, postgres.dial, 1.0)


@contextmanager
def _running_rqlite(directory: Path, links: DelayedLinks | None) -> Iterator[System]:
    with rqlite.Rqlite(directory, None if links is None else links.open) as servers:
        servers.start()
        yield System(rqlite.NAME, servers.addresses, servers.processes, rqlite.dial, 1.0)


COMPETITORS = (
    Competitor(
        postgres.NAME,
        postgres.MISSING,
        lambda: postgres.find_programs() is not None,
        _running_postgres,
    ),
    Competitor(rqlite.NAME, rqlite.MISSING, rqlite.is_installed, _running_rqlite),
)


def report(what: str) -> None:
    print(f"live-sql: {what}", file=sys.stderr, flush=True)


_ids = count(1)


def insert_workload(strong: float, seed: int) -> Workload:
    """Return a workload of insertions, each with a new id. The call is that of data type `sql`."""
    source = Random(f"inserts {seed}")
    values = [source.randbytes(VALUE_BYTES) for _ in range(64)]

    def next_call(_: int) -> WorkloadCall:
        id = next(_ids)
        return WorkloadCall("sql", (INSERT, (id, values[id % 64])), source.random() < strong)

    return next_call


INSERTS = PutLoad(CLIENTS, insert_workload)


class Servers(NamedTuple):
    """Running servers: those of Creek, and those of each competitor."""

    cluster: LocalCluster
    others: list[System]

    @property
    def systems(self) -> list[System]:
        dial = ReplicaDialer(is_single_response=True)  # one response per INSERT
        addresses, processes = self.cluster.addresses, self.cluster.processes
        strong_shares = zip(KINDS, (0.0, 1.0), strict=True)
        ours = [System(kind, addresses, processes, dial, share) for kind, share in strong_shares]
        return [*ours, *self.others]


@contextmanager
def _running(
    directory: Path, competitors: list[Competitor], links: DelayedLinks | None
) -> Iterator[Servers]:
    """Run replicas with the table, and the servers of the competitors."""
    directory.mkdir()
    with ExitStack() as stack:
        others = []
        for each in competitors:
            report(f"starting {each.name}")
            others.append(stack.enter_context(each.run(directory / each.name, links)))
        replicas = directory / "creek"
        replicas.mkdir()
        cluster = stack.enter_context(LocalCluster(replicas, replicas=REPLICAS, datatype="sql"))
        if links is not None:
            cluster.set_link_addresses(links.open_between(cluster.members))
        cluster.start()
        run_in_new_loop(_create_table(cluster))
        yield Servers(cluster, others)


async def _create_table(cluster: LocalCluster) -> None:
    await cluster.wait_until_ready()
    async with connect(cluster.addresses[0]) as db:
        await db.strong.sql(CREATE)
    await cluster.wait_until_stable()


class Rounds(NamedTuple):
    """Measurements of one system, and the processor time of its servers."""

    measurements: Measurements
    server_cpu_s: list[float]

    @property
    def server_cpu_us(self) -> float:
        """Processor time of all servers per INSERT. The load warms up for a fifth of its time."""
        calls = sum(each.completed for each in self.measurements.meters) * 1.2
        return sum(self.server_cpu_s) * 1e6 / max(1.0, calls)


def _measure_rounds(servers: Servers, scale: Scale, load: float, what: str) -> dict[str, Rounds]:
    rounds = {system.name: Rounds(Measurements([], []), []) for system in servers.systems}
    for each in range(scale.live_rounds):
        for system in servers.systems:
            measurements, server_cpu_s = rounds[system.name]
            started_s = cpu_seconds(system.processes.values())
            meter = measurements.measure(system, scale.live_s, each, load, INSERTS)
            server_cpu_s.append(cpu_seconds(system.processes.values()) - started_s)
            latency = meter.latency_of_kind(system.kind)
            report(
                f"{what}, {system.name}, round {each + 1} of {scale.live_rounds}: "
                f"{meter.completed / meter.duration_s:,.0f} per second, "
                f"median {latency.p50 if latency else 0.0:.2f} ms"
            )
            run_in_new_loop(servers.cluster.wait_until_stable())
    return rounds


def measure(scale: Scale) -> Iterator[Result]:
    installed = [each for each in COMPETITORS if each.is_installed()]
    for competitor in COMPETITORS:
        if competitor not in installed:
            for title in competitor.titles:
                yield not_measured(title, f"{competitor.missing}.")
    if not installed:
        return
    with (
        tempfile.TemporaryDirectory(prefix=".live-", dir=Path.cwd()) as name,
        DelayedLinks(LATENCY_S) as links,
    ):
        directory = Path(name)
        directory.chmod(0o711)  # servers of another user work in a part of it
        with _running(directory / "local", installed, None) as servers:
            full = _measure_rounds(servers, scale, 0.0, "full load")
            light = _measure_rounds(servers, scale, LIGHT_LOAD, f"{LIGHT_LOAD} per second")
        report(f"restarting with {LATENCY_S * 1e3:g} ms between servers")
        with _running(directory / "delayed", installed, links) as servers:
            delayed = _measure_rounds(servers, scale, LIGHT_LOAD, "with latency")
    situation = f" with {LATENCY_S * 1e3:g} ms one way between servers"
    for competitor in installed:
        titles = competitor.titles
        yield from _throughputs(full, competitor.name, titles[:2])
        yield from _latencies(light, competitor.name, titles[2:4], LATENCY_BAR, "")
        yield from _latencies(delayed, competitor.name, titles[4:], DELAYED_BAR, situation)


def _throughputs(
    rounds: dict[str, Rounds], competitor: str, titles: tuple[str, ...]
) -> Iterator[Result]:
    theirs = rounds[competitor]
    bars = (1 / THROUGHPUT_BAR, None)
    for what, kind, bar in zip(titles, KINDS, bars, strict=True):
        ours = rounds[kind]
        per_second = ours.measurements.per_second
        yield Result(
            what=what,
            explanation=(
                f"{CLIENTS} clients: {per_second:,.0f} {kind} INSERTs per second, "
                f"{ours.server_cpu_us:.0f} µs of the servers' CPU each; {competitor}, synced on "
                f"two of three servers: {theirs.measurements.per_second:,.0f} per second, "
                f"{theirs.server_cpu_us:.0f} µs each."
            ),
            value=theirs.measurements.per_second / max(1e-9, per_second),
            bar=bar,
        )


def _latencies(
    rounds: dict[str, Rounds],
    competitor: str,
    titles: tuple[str, ...],
    bar: float,
    situation: str,
) -> Iterator[Result]:
    theirs = rounds[competitor].measurements.p50_ms(STRONG_STABLE)
    responses, bars = (WEAK_TENTATIVE, STRONG_STABLE), (bar, None)
    for what, kind, response, limit in zip(titles, KINDS, responses, bars, strict=True):
        ours = rounds[kind].measurements.p50_ms(response)
        yield Result(
            what=what,
            explanation=(
                f"At {LIGHT_LOAD} INSERTs per second{situation}: {kind} {ours:.2f} ms, "
                f"{competitor} {theirs:.2f} ms."
            ),
            value=ours / max(1e-9, theirs),
            bar=limit,
        )


BENCHMARK = Benchmark("live-sql", sum(len(each.titles) for each in COMPETITORS), measure)
