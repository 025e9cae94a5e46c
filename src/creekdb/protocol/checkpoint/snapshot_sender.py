"""Snapshots for replicas that are too far behind or lost their disk.

A snapshot may be large and its link slow. None is repeated before the previous one has arrived or a
timeout has passed. The timeout doubles up to a bound, because a bad link may recover.
"""

from typing import Final, NamedTuple

from creekdb.protocol.application import CheckpointSource
from creekdb.protocol.checkpoint.stream import StreamedSnapshot
from creekdb.protocol.consensus.learner import Learner
from creekdb.protocol.messages import Snapshot
from creekdb.protocol.probes import Probe
from creekdb.protocol.shared_variables import SharedVariables

BACKOFF_FACTOR_MAX: Final = 256
"""Longest timeout, as a multiple of the first one. A driver drops a snapshot while it is still
transmitting another one."""


class _SentSnapshot(NamedTuple):
    instance: int
    sent_at_ticks: int
    wait_ticks: int


class SnapshotSender:
    def __init__(self, shared: SharedVariables, source: CheckpointSource) -> None:
        self._shared = shared
        self._source = source
        self._sent: dict[int, _SentSnapshot] = {}
        """Last snapshot sent to each peer."""
        self.recovering: dict[int, int] = {}
        """Recovering members, each with the stable instance here at the time of its query."""

    def reconfigure(self) -> None:
        self._shared.drop_removed_peers(self._sent, self.recovering)

    def on_recovery_query(self, peer: int, delivered: int, learner: Learner) -> None:
        """Send a snapshot if the peer lacks instances from `delivered` on that are stable here."""
        stable_instance = self._source.instance
        if stable_instance > delivered:
            self.recovering[peer] = stable_instance
            self.send_snapshot(peer, learner)

    def on_pull(self, peer: int, learner: Learner) -> None:
        """Repeat the snapshot if a recovering peer still misses requests, since it may be lost."""
        if learner.progress_of(peer) >= self.recovering[peer]:
            del self.recovering[peer]
        else:
            self.send_snapshot(peer, learner)

    def send_snapshot(self, peer: int, learner: Learner) -> None:
        """Send the peer a snapshot, unless one is in transit."""
        last = self._sent.get(peer)
        ticks, wait = self._shared.ticks, self._shared.settings.retry_ticks
        if last is not None and learner.progress_of(peer) < last.instance:
            if ticks - last.sent_at_ticks < last.wait_ticks:
                return
            wait = min(last.wait_ticks * 2, wait * BACKOFF_FACTOR_MAX)
        source = self._source
        stable_instance = source.instance
        if stable_instance < learner.reconfigured_below:
            return  # its members are outdated; a later snapshot will follow
        self._sent[peer] = _SentSnapshot(stable_instance, ticks, wait)
        self._shared.probes.hit(Probe.SNAPSHOT_SENT)
        if self._shared.settings.drafts:
            checkpoint, registers = source.lazy_checkpoint()
            streamed = StreamedSnapshot(peer, Snapshot(checkpoint), registers)
            self._shared.outbox.snapshots.append(streamed)
        else:
            self._shared.outbox.send((peer,), Snapshot(source.checkpoint()))
