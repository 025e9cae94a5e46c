"""Counters of a run: of the models, of the replicas, and samples and totals of both.

The measurement window begins after the warm-up and ends when clients stop. The warm-up and the time
until the cluster is quiescent do not represent a system under load.
"""

from collections import Counter

import msgspec

from creekdb.protocol.probes import Probe
from creekdb.schemes.core.view import ReplicaView


class NetworkStatistics(msgspec.Struct, frozen=True, kw_only=True):
    messages: dict[str, int]
    """Number of messages sent, by type; a message to three replicas counts three times."""
    bytes: dict[str, int]
    lost: int
    forged: int


class CpuStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counters by replica, over all incarnations."""

    busy_us: tuple[int, ...]
    executions: tuple[int, ...]
    rollbacks: tuple[int, ...]


class ReplicaCounters:
    """Sums over all replicas and incarnations."""

    def __init__(self) -> None:
        self.probes: Counter[Probe] = Counter()
        self.rejected: Counter[str] = Counter()
        self.drift_us: dict[int, int] = {}
        """By replica: the largest clock lead that any other replica observed, in microseconds."""
        self.malformed = 0
        """Number of byte strings that did not decode to a message; no replica received them."""

    def add(self, replica: ReplicaView) -> None:
        """Add the counts of an incarnation that ends."""
        self.probes.update(replica.probes.counts)
        self.rejected.update(replica.rejected)
        for other, ahead_us in replica.drift_us.items():
            self.drift_us[other] = max(self.drift_us.get(other, 0), ahead_us)


class ReplicaSample(msgspec.Struct, frozen=True, kw_only=True):
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


class CounterTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Totals over all replicas since the start of the run."""

    at_us: int = 0
    busy_us: int = 0
    """Busy time of the cores. An execution counts in full when it begins."""
    executions: int = 0
    rollbacks: int = 0
    messages: dict[str, int] = {}
    bytes: dict[str, int] = {}

    def since(self, begin: "CounterTotals") -> "MeasurementWindow":
        return MeasurementWindow(
            begin_us=begin.at_us,
            at_us=self.at_us,
            busy_us=self.busy_us - begin.busy_us,
            executions=self.executions - begin.executions,
            rollbacks=self.rollbacks - begin.rollbacks,
            messages={kind: n - begin.messages.get(kind, 0) for kind, n in self.messages.items()},
            bytes={kind: n - begin.bytes.get(kind, 0) for kind, n in self.bytes.items()},
        )


class MeasurementWindow(CounterTotals, frozen=True, kw_only=True):
    """Differences of the totals between `begin_us` and the end of the window."""

    begin_us: int

    @property
    def end_us(self) -> int:
        return self.at_us

    @property
    def duration_us(self) -> int:
        return self.at_us - self.begin_us
