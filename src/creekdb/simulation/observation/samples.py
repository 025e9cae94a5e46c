"""Samples of replica counters during a run, and totals over the measurement window.

Sampling is read-only: a sample is an event of the heap that changes neither a run nor its trace.

The measurement window begins after the warm-up and ends when clients stop. The warm-up and the time
until the cluster is quiescent do not represent a system under load.
"""

from collections.abc import Iterable, Sequence

import msgspec

from creekdb.simulation.kernel.node import Node
from creekdb.simulation.models.cpu import Cpu
from creekdb.simulation.models.network import Network


class ReplicaSample(msgspec.Struct, frozen=True):
    """Counters of one replica at one instant. A replica that is down is not sampled."""

    replica: int
    at_us: int
    committed: int
    tentative: int
    executions: int
    """Executions since the start of the run, over all incarnations; likewise the fields below."""
    busy_us: int
    bytes: int
    """Number of bytes sent."""


def sample_replicas(now_us: int, nodes: Iterable[Node], network: Network) -> list[ReplicaSample]:
    return [
        ReplicaSample(
            replica=node.index,
            at_us=now_us,
            committed=node.replica.view.committed_length(),
            tentative=len(node.replica.view.tentative_ids()),
            executions=node.cpu.executions,
            busy_us=node.cpu.busy_us,
            bytes=network.sent_bytes[node.index],
        )
        for node in nodes
        if node.replica is not None
    ]


class CounterTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Totals over all replicas since the start of the run."""

    at_us: int = 0
    busy_us: int = 0
    """Busy time of the cores. An execution counts in full when it begins."""
    executions: int = 0
    rollbacks: int = 0
    messages: dict[str, int] = {}
    bytes: dict[str, int] = {}


class MeasurementWindow(CounterTotals, frozen=True, kw_only=True):
    """Differences of the totals between `begin_us` and the end of the window."""

    begin_us: int

    @property
    def end_us(self) -> int:
        return self.at_us

    @property
    def duration_us(self) -> int:
        return self.at_us - self.begin_us


def read_totals(now_us: int, cpus: Sequence[Cpu], network: Network) -> CounterTotals:
    network_statistics = network.statistics()
    return CounterTotals(
        at_us=now_us,
        busy_us=sum(cpu.busy_us for cpu in cpus),
        executions=sum(cpu.executions for cpu in cpus),
        rollbacks=sum(cpu.rollbacks for cpu in cpus),
        messages=network_statistics.messages,
        bytes=network_statistics.bytes,
    )


def window_between(begin: CounterTotals, end: CounterTotals) -> MeasurementWindow:
    return MeasurementWindow(
        begin_us=begin.at_us,
        at_us=end.at_us,
        busy_us=end.busy_us - begin.busy_us,
        executions=end.executions - begin.executions,
        rollbacks=end.rollbacks - begin.rollbacks,
        messages=_difference(begin.messages, end.messages),
        bytes=_difference(begin.bytes, end.bytes),
    )


def _difference(begin: dict[str, int], end: dict[str, int]) -> dict[str, int]:
    return {kind: total - begin.get(kind, 0) for kind, total in end.items()}
