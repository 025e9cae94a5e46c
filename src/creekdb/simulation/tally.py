"""The tally: what replicas counted about themselves, summed over all replicas and incarnations."""

from creekdb.protocol.probes import Probe
from creekdb.schemes.core.replica import Replica


class Tally:
    __slots__ = ("drift_us", "malformed", "probes", "refused")

    def __init__(self) -> None:
        self.probes: dict[Probe, int] = {}
        self.refused: dict[str, int] = {}
        self.drift_us: dict[int, int] = {}
        """How far ahead each replica's clock was seen by any other, at most."""
        self.malformed = 0
        """What never reached a replica: bytes that are no message."""

    def add(self, replica: Replica) -> None:
        """Take over an incarnation's counts, at its end."""
        for probe, count in replica.probes.counts.items():
            self.probes[probe] = self.probes.get(probe, 0) + count
        for reason, count in replica.refused.items():
            self.refused[reason] = self.refused.get(reason, 0) + count
        for other, ahead_us in replica.drift_us.items():
            self.drift_us[other] = max(self.drift_us.get(other, 0), ahead_us)
