"""Evidence that simulated replicas exchange when they connect, as live ones do in their hellos.

Two replicas connect anew after either has restarted: when the restarted replica starts, or with
their first message. Evidence and verdicts are those of
`creekdb.protocol.membership.rollback_detection`. The evidence of a replica is on its disk, so an
older copy of the disk contains older evidence.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from creekdb.protocol.membership.rollback_detection import (
    DirectoryHistory,
    PeerVerdict,
    RollbackDetector,
    Sighting,
    add_start,
)
from creekdb.simulation.kernel.node import Node

NONCE_STRIDE = 1_000
"""Distance between the nonces of two incarnations of a replica."""


class StoredEvidence(NamedTuple):
    """Evidence on the disk of one replica."""

    history: DirectoryHistory | None = None
    sightings: tuple[Sighting, ...] = ()


class HelloExchange:
    """Connections between the replicas of a simulation."""

    def __init__(self, nodes: Sequence[Node], stop: Callable[[int, str], None]) -> None:
        """Create the exchange. `stop` stops a replica that has lost data, with the reason."""
        self._nodes = nodes
        self._stop = stop
        self._stored = [StoredEvidence() for _ in nodes]
        self._detectors: dict[int, RollbackDetector] = {}
        self._connections: dict[tuple[int, int], tuple[int, int, bool]] = {}
        """Incarnations of each connected pair, and True if neither rejected the other."""
        self.conflicts: dict[tuple[int, int], PeerVerdict] = {}
        """Pairs of replicas whose states contradict each other."""

    def replica_started(self, replica: int, reachable: Sequence[int]) -> None:
        """Connect a replica that has just started to the reachable ones, until it stops."""
        node, stored = self._nodes[replica], self._stored[replica]
        assert node.replica is not None
        view = node.replica.view
        history = add_start(
            stored.history,
            (node.incarnation + 1) * NONCE_STRIDE + replica,
            view.awaited_members() is not None,
            view.own_state(),
        )
        self._stored[replica] = StoredEvidence(history, stored.sightings)
        self._detectors[replica] = RollbackDetector(replica, history, stored.sightings, view)
        for each in reachable:
            self.connect(replica, each)

    def stored_evidence(self, replica: int) -> StoredEvidence:
        """Return the evidence that a copy of the disk contains."""
        if self._nodes[replica].replica is not None:
            self._store(replica)
        return self._stored[replica]

    def replica_stopping(self, replica: int) -> None:
        self._store(replica)

    def replace_evidence(self, replica: int, evidence: StoredEvidence) -> None:
        """Replace the evidence of a replica that is down together with its disk."""
        self._stored[replica] = evidence

    def connect(self, first: int, second: int) -> bool:
        """Return True if the two replicas exchange messages.

        A forged message may name a sender that does not exist. The receiver itself rejects it.
        """
        first, second = sorted((first, second))
        if first < 0 or first == second or second >= len(self._nodes):
            return True
        nodes = self._nodes[first], self._nodes[second]
        if nodes[0].replica is None or nodes[1].replica is None:
            return False
        incarnations = nodes[0].incarnation, nodes[1].incarnation
        connection = self._connections.get((first, second))
        if connection is None or connection[:2] != incarnations:
            accepted = self._exchange(first, second)
            self._connections[first, second] = connection = *incarnations, accepted
        return connection[2]

    def _exchange(self, first: int, second: int) -> bool:
        detectors = self._detectors[first], self._detectors[second]
        shown = detectors[0].evidence(), detectors[1].evidence()
        verdicts = detectors[0].judge(second, shown[1]), detectors[1].judge(first, shown[0])
        for replica, verdict in zip((first, second), verdicts, strict=True):
            if verdict.own_loss is not None:
                self._stop(replica, verdict.own_loss)
        if verdicts == (PeerVerdict(), PeerVerdict()):
            detectors[0].record(second, shown[1])
            detectors[1].record(first, shown[0])
            return True
        if all(each.own_loss is None and each.peer_loss is None for each in verdicts):
            self.conflicts[first, second] = verdicts[0]
        return False

    def _store(self, replica: int) -> None:
        detector = self._detectors[replica]
        self._stored[replica] = StoredEvidence(detector.history, detector.sightings())
