"""Creek and etcd beside each other: three servers each, driven with puts by one process, in turns.

The load is the same for both: as many keys, values of the same size, and one answer to each put.
Whatever is answered is on disk before. Where etcd is not installed, Creek is alone.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click

from benchmarks.rivals import etcd
from creekdb.load.connection import DialFunction, dial
from creekdb.load.generator import LoadPlan, generate_load
from creekdb.load.local_cluster import LocalCluster
from creekdb.load.measurement import (
    STRONG_STABLE,
    WEAK_TENTATIVE,
    CpuClock,
    LatencySummary,
    LoadMeter,
    latency_summary,
)
from creekdb.load.workload import Workload, kv_workload
from creekdb.wire.event_loop import run_in_new_loop

CLIENTS = 192
KEYS = 10_000
VALUE_BYTES = 256


class Puts(NamedTuple):
    """What is asked for."""

    clients: int
    stream: Callable[[float, int], Workload]
    """For a share of strong ones, and a seed."""


def _small_puts(strong: float, seed: int) -> Workload:
    return kv_workload(keys=KEYS, value_bytes=VALUE_BYTES, reads=0.0, strong=strong, seed=seed)


SMALL_PUTS = Puts(CLIENTS, _small_puts)


class Silent(click.ClickException):
    """What was to be measured does not answer."""


class System(NamedTuple):
    name: str
    addresses: list[str]
    processes: dict[str, int]
    dial: DialFunction
    strong: float

    @property
    def kind(self) -> int:
        """Of the answer that its clients wait for."""
        return STRONG_STABLE if self.strong else WEAK_TENTATIVE


class Turns(NamedTuple):
    """What one system did in all of its turns, under one load."""

    meters: list[LoadMeter]
    cpu: list[CpuClock]

    def take(
        self, system: System, seconds: float, seed: int, load: float = 0.0, puts: Puts = SMALL_PUTS
    ) -> LoadMeter:
        """One more: with so many calls in a second, or with all clients asking again and again."""
        cpu = CpuClock(system.processes)
        plan = LoadPlan(
            system.addresses,
            puts.stream(system.strong, seed),
            warm_up_s=seconds / 5,
            duration_s=seconds,
            clients=0 if load else puts.clients,
            load=load,
            seed=seed,
            cpu=cpu,
            dial=system.dial,
        )
        meter = run_in_new_loop(generate_load(plan))
        if not meter.completed:
            raise Silent(f"not one put of {system.name} was answered: {dict(meter.errors)}")
        self.meters.append(meter)
        self.cpu.append(cpu)
        return meter

    @property
    def per_second(self) -> float:
        return sum(each.completed for each in self.meters) / sum(
            each.duration_s for each in self.meters
        )

    @property
    def cpu_us(self) -> float:
        used = sum(sum(each.used_s.values()) for each in self.cpu)
        return used * 1e6 / max(1, sum(each.completed for each in self.meters))

    def latency(self, kind: int) -> LatencySummary | None:
        return latency_summary([each for meter in self.meters for each in meter.latencies_ns[kind]])

    def p50_ms(self, kind: int) -> float:
        found = self.latency(kind)
        return found.p50 if found is not None else 0.0


class Beside(NamedTuple):
    """Those that run; their files are in the folder."""

    folder: Path
    cluster: LocalCluster
    etcd: etcd.Etcd | None
    systems: list[System]


@contextmanager
def beside_each_other(tell: Callable[[str], None]) -> Iterator[Beside]:
    """Until the end of the block; `tell` hears what is being done."""
    with (
        tempfile.TemporaryDirectory(prefix=".live-", dir=Path.cwd()) as text,
        ExitStack() as stack,
    ):
        folder = Path(text)
        cluster = LocalCluster(folder, replicas=3)
        stack.callback(cluster.stop)
        tell("three replicas are started")
        cluster.start()
        run_in_new_loop(cluster.wait_until_ready())
        briefly = partial(dial, brief=True)  # one answer to each put, as from etcd
        systems = [
            System("weak", cluster.addresses, cluster.processes, briefly, 0.0),
            System("strong", cluster.addresses, cluster.processes, briefly, 1.0),
        ]
        servers: etcd.Etcd | None = None
        if etcd.is_there():
            (folder / "etcd").mkdir()
            servers = etcd.Etcd(folder / "etcd")
            stack.callback(servers.stop)
            tell("three servers of etcd are started")
            servers.start()
            systems.append(System("etcd", servers.addresses, servers.processes, etcd.dial, 1.0))
        yield Beside(folder, cluster, servers, systems)
