"""What the models of a run counted, from its beginning to its end.

The tally: what replicas counted about themselves, summed over all replicas and incarnations.
"""

import msgspec

from creekdb.protocol.probes import Probe
from creekdb.schemes.core.replica import Replica


class NetworkStatistics(msgspec.Struct, frozen=True, kw_only=True):
    messages: dict[str, int]
    """Sent, by type; a message to three replicas counts three times."""
    bytes: dict[str, int]
    lost: int
    duplicated: int
    reordered: int
    forged: int


class CpuStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """By replica, over all incarnations."""

    busy_us: tuple[int, ...]
    executions: tuple[int, ...]
    rollbacks: tuple[int, ...]


class DiskStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Over all replicas. `lost` and `torn` count records that crashes cost."""

    records: int
    bytes: int
    fsyncs: int
    lost: int
    torn: int


class ReplicaCounters:
    __slots__ = ("drift_us", "malformed", "probes", "rejected")

    def __init__(self) -> None:
        self.probes: dict[Probe, int] = {}
        self.rejected: dict[str, int] = {}
        self.drift_us: dict[int, int] = {}
        """How far ahead each replica's clock was seen by any other, at most."""
        self.malformed = 0
        """What never reached a replica: bytes that are no message."""

    def add(self, replica: Replica) -> None:
        """Take over an incarnation's counts, at its end."""
        for probe, count in replica.probes.counts.items():
            self.probes[probe] = self.probes.get(probe, 0) + count
        for reason, count in replica.rejected.items():
            self.rejected[reason] = self.rejected.get(reason, 0) + count
        for other, ahead_us in replica.drift_us.items():
            self.drift_us[other] = max(self.drift_us.get(other, 0), ahead_us)
