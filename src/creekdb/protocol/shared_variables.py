"""Variables that the protocol parts of one replica share."""

from typing import Any

from creekdb.protocol.membership.configuration import Configuration
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probes
from creekdb.protocol.settings import Settings


class SharedVariables:
    def __init__(self, index: int, settings: Settings) -> None:
        self.index = index
        self.settings = settings
        self.peers = settings.peers(index)
        """Other members, according to the settings."""
        self.outbox = Outbox()
        self.probes = Probes()
        self.ticks = 0
        """Number of ticks since the start of this replica."""
        self.now = 0
        """Local wall clock at the last input that had one, in microseconds."""
        self.is_abstaining = False
        """True while this replica neither promises, votes nor leads, and sends no heartbeats."""
        self.rejected: dict[str, int] = {}
        """Number of malformed or foreign inputs by reason. None of them changed other state."""

    def reconfigure(self, configuration: Configuration) -> None:
        """Adopt new members."""
        self.settings = self.settings.with_configuration(configuration)
        self.peers = self.settings.peers(self.index)

    def drop_removed_peers(self, *tables: dict[int, Any]) -> None:
        """Drop the items of replicas that are not peers from tables that replicas index."""
        for table in tables:
            for removed in [each for each in table if each not in self.peers]:
                del table[removed]

    def count_rejection(self, reason: str) -> None:
        key = str(reason)
        self.rejected[key] = self.rejected.get(key, 0) + 1
