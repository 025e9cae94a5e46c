"""Faults of a live cluster, each at its time, while something else drives it.

They are written as those of a simulation are (`creekdb.simulation.faults.language`), as far as they
can be done to processes of one machine:

    crash 2 at 3s             kill -9
    restart 2 at 5s           started again, on what its disk kept
    partition 0|1,2 at 8s     between two groups, nothing comes through
    heal at 11s

Whatever still is broken when the last one is over is mended then: who is to be checked for
convergence has to be given a chance.
"""

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Protocol

import msgspec

from creekdb.errors import BadValue
from creekdb.simulation.faults.fault_types import (
    Crash,
    Fault,
    Heal,
    Partition,
    Restart,
    check_faults,
)
from creekdb.simulation.faults.language import format_duration, format_fault, parse_faults


class ProcessControl(Protocol):
    """Replicas as processes."""

    def kill(self, replica: int) -> None: ...

    def start(self, *replicas: int) -> None: ...


class PartitionControl(Protocol):
    """The links between them."""

    def partition(self, groups: Sequence[Sequence[int]]) -> None: ...

    def heal(self) -> None: ...


def parse_fault_schedule(text: str, replicas: int, duration_us: int) -> tuple[Fault, ...]:
    """What is written, by time; `BadValue` where it cannot be done."""
    faults = tuple(sorted(parse_faults(text), key=lambda each: each.at_us))
    check_faults(faults, replicas)
    down: set[int] = set()
    for each in faults:
        told = format_fault(each)
        if each.at_us >= duration_us:
            raise BadValue(f"fault '{told}': it is all over after {format_duration(duration_us)}")
        match each:
            case Crash(replica=replica, writing=False):
                if replica in down:
                    raise BadValue(f"fault '{told}': replica {replica} is down already")
                down.add(replica)
            case Restart(replica=replica):
                if replica not in down:
                    raise BadValue(f"fault '{told}': replica {replica} is not down")
                down.remove(replica)
            case Partition() | Heal():
                pass
            case _:
                raise BadValue(
                    f"fault '{told}': to a live cluster happen crash, restart, partition and heal"
                )
    return faults


class LiveFaultInjector:
    """Does it. `tell` hears of each fault when it has happened, with the time at which it was."""

    def __init__(
        self,
        cluster: ProcessControl,
        links: PartitionControl,
        tell: Callable[[Fault], None] = lambda fault: None,
    ) -> None:
        self._cluster = cluster
        self._links = links
        self._on_fault = tell
        self._down: set[int] = set()
        self._is_partitioned = False
        self._begin_ns = 0
        self.applied_faults: list[Fault] = []

    async def run(self, faults: Sequence[Fault], begin_ns: int) -> None:
        """`begin_ns`: from when times count, on the clock of `perf_counter_ns`."""
        self._begin_ns = begin_ns
        for each in faults:
            left_s = (begin_ns + each.at_us * 1000 - perf_counter_ns()) / 1e9
            await asyncio.sleep(max(0.0, left_s))
            self._apply(each)
        self._heal_all()

    def _apply(self, fault: Fault) -> None:
        happened = msgspec.structs.replace(
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
        self.applied_faults.append(happened)
        self._on_fault(happened)

    def _heal_all(self) -> None:
        for replica in sorted(self._down):
            self._apply(Restart(0, replica))
        if self._is_partitioned:
            self._apply(Heal(0))
