"""Counters of a run: statistics of the models, and sums over all replicas and incarnations."""

from collections import Counter

import msgspec

from creekdb.protocol.probes import Probe
from creekdb.schemes.core.replica import ReplicaView


class NetworkStatistics(msgspec.Struct, frozen=True, kw_only=True):
    messages: dict[str, int]
    """Number of messages sent, by type; a message to three replicas counts three times."""
    bytes: dict[str, int]
    lost: int
    duplicated: int
    reordered: int
    forged: int


class CpuStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counters by replica, over all incarnations."""

    busy_us: tuple[int, ...]
    executions: tuple[int, ...]
    rollbacks: tuple[int, ...]


class DiskStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counters over all replicas. `lost` and `torn` count records that were lost in crashes."""

    records: int
    bytes: int
    fsyncs: int
    lost: int
    torn: int


class ReplicaCounters:
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
