"""Creek and etcd under the same load: three servers each, driven alternately by one process.

Both receive puts to the same number of keys with values of the same size, and send one response to
each put. Both write to disk before they respond. Without an installed etcd, only Creek is measured.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import click

from benchmarks.competitors import etcd
from creekdb.load.connection import DialFunction, ReplicaDialer
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


class PutLoad(NamedTuple):
    """Kind of load: its clients and its calls."""

    clients: int
    make_workload: Callable[[float, int], Workload]
    """Factory of the calls, from the share of strong calls and a seed."""


def _small_workload(strong: float, seed: int) -> Workload:
    return kv_workload(keys=KEYS, value_bytes=VALUE_BYTES, reads=0.0, strong=strong, seed=seed)


SMALL_PUTS = PutLoad(CLIENTS, _small_workload)


class NoResponse(click.ClickException):
    """A measured system does not respond."""


class System(NamedTuple):
    name: str
    addresses: list[str]
    processes: dict[str, int]
    dial: DialFunction
    strong: float

    @property
    def kind(self) -> int:
        """Kind of the response that clients wait for."""
        return STRONG_STABLE if self.strong else WEAK_TENTATIVE


class Measurements(NamedTuple):
    """Measurements of one system under one load, one per round."""

    meters: list[LoadMeter]
    cpu: list[CpuClock]

    def measure(
        self,
        system: System,
        seconds: float,
        seed: int,
        load: float = 0.0,
        put_load: PutLoad = SMALL_PUTS,
    ) -> LoadMeter:
        """Measure one more round, with an offered load in calls per second or closed-loop."""
        cpu = CpuClock(system.processes)
        plan = LoadPlan(
            system.addresses,
            put_load.make_workload(system.strong, seed),
            warm_up_s=seconds / 5,
            duration_s=seconds,
            clients=0 if load else put_load.clients,
            calls_per_s=load,
            seed=seed,
            cpu_clock=cpu,
            dial=system.dial,
        )
        meter = run_in_new_loop(generate_load(plan))
        if not meter.completed:
            raise NoResponse(f"{system.name}: no put was answered: {dict(meter.errors)}")
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
        used_s = sum(sum(each.used_s.values()) for each in self.cpu)
        return used_s * 1e6 / max(1, sum(each.completed for each in self.meters))

    def latency(self, kind: int) -> LatencySummary | None:
        return latency_summary([each for meter in self.meters for each in meter.latencies_ns[kind]])

    def p50_ms(self, kind: int) -> float:
        summary = self.latency(kind)
        return summary.p50 if summary is not None else 0.0


class RunningSystems(NamedTuple):
    """The running systems, with their files in `directory`."""

    directory: Path
    cluster: LocalCluster
    etcd: etcd.Etcd | None
    systems: list[System]


@contextmanager
def running_systems(report: Callable[[str], None]) -> Iterator[RunningSystems]:
    """Run the systems until the end of the block; `report` receives progress messages."""
    with (
        tempfile.TemporaryDirectory(prefix=".live-", dir=Path.cwd()) as directory_name,
        ExitStack() as stack,
    ):
        directory = Path(directory_name)
        cluster = LocalCluster(directory, replicas=3)
        stack.callback(cluster.stop)
        report("starting three replicas")
        cluster.start()
        run_in_new_loop(cluster.wait_until_ready())
        # One response per put, as from etcd.
        single_response_dial = ReplicaDialer(is_single_response=True)
        systems = [
            System("weak", cluster.addresses, cluster.processes, single_response_dial, 0.0),
            System("strong", cluster.addresses, cluster.processes, single_response_dial, 1.0),
        ]
        servers: etcd.Etcd | None = None
        if etcd.is_installed():
            (directory / "etcd").mkdir()
            servers = etcd.Etcd(directory / "etcd")
            stack.callback(servers.stop)
            report("starting three servers of etcd")
            servers.start()
            systems.append(System("etcd", servers.addresses, servers.processes, etcd.dial, 1.0))
        yield RunningSystems(directory, cluster, servers, systems)
