"""Timed faults in a live cluster under load.

The syntax is that of simulations (`creekdb.simulation.faults.language`), restricted to faults that
can happen to processes on one machine:

    crash 2 at 3s             kill -9
    restart 2 at 5s           restart with the data on disk
    partition 0|1,2 at 8s     no messages between the two groups
    heal at 11s

After the last fault, all replicas are restarted and all partitions healed, because the convergence
check needs a connected cluster.
"""

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter_ns

import msgspec

from creekdb.errors import BadValue
from creekdb.load.local_cluster import LinkPartitions, LocalCluster
from creekdb.simulation.faults.fault_types import (
    Crash,
    Fault,
    Heal,
    Partition,
    Restart,
    check_faults,
)
from creekdb.simulation.faults.fields import format_duration
from creekdb.simulation.faults.language import format_fault, parse_faults


def parse_fault_schedule(text: str, replicas: int, duration_us: int) -> tuple[Fault, ...]:
    """Return the faults of `text`, sorted by time. Raises `BadValue` if one is not possible."""
    faults = tuple(sorted(parse_faults(text), key=lambda fault: fault.at_us))
    check_faults(faults, replicas)
    down: set[int] = set()
    for fault in faults:
        label = f"fault '{format_fault(fault)}'"
        if fault.at_us >= duration_us:
            raise BadValue(f"{label}: the run ends after {format_duration(duration_us)}")
        match fault:
            case Crash(replica=replica, writing=False):
                if replica in down:
                    raise BadValue(f"{label}: replica {replica} is already down")
                down.add(replica)
            case Restart(replica=replica):
                if replica not in down:
                    raise BadValue(f"{label}: replica {replica} is not down")
                down.remove(replica)
            case Partition() | Heal():
                pass
            case _:
                raise BadValue(
                    f"{label}: a live cluster supports crash, restart, partition and heal"
                )
    return faults


class LiveFaultInjector:
    """Injects faults into a live cluster at their times.

    `on_fault` is called after each fault, with the actual time in the fault.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        links: LinkPartitions,
        on_fault: Callable[[Fault], None] = lambda fault: None,
    ) -> None:
        self._cluster = cluster
        self._links = links
        self._on_fault = on_fault
        self._down: set[int] = set()
        self._is_partitioned = False
        self._begin_ns = 0
        self.applied_faults: list[Fault] = []

    async def run(self, faults: Sequence[Fault], begin_ns: int) -> None:
        """Inject the faults. Their times count from `begin_ns`, on `perf_counter_ns`."""
        self._begin_ns = begin_ns
        for fault in faults:
            remaining_s = (begin_ns + fault.at_us * 1000 - perf_counter_ns()) / 1e9
            await asyncio.sleep(max(0.0, remaining_s))
            self._apply(fault)
        for replica in sorted(self._down):
            self._apply(Restart(0, replica))
        if self._is_partitioned:
            self._apply(Heal(0))

    def _apply(self, fault: Fault) -> None:
        applied = msgspec.structs.replace(
            fault, at_us=(perf_counter_ns() - self._begin_ns) // 1_000_000 * 1000
        )
        match fault:
            case Crash(replica=replica):
                self._cluster.kill(replica)
                self._down.add(replica)
            case Restart(replica=replica):
                self._cluster.start(replica)
                self._down.remove(replica)
            case Partition(groups=groups):
                self._links.partition(groups)
                self._is_partitioned = True
            case Heal():
                self._links.heal()
                self._is_partitioned = False
            case _:
                raise AssertionError(fault)
        self.applied_faults.append(applied)
        self._on_fault(applied)
