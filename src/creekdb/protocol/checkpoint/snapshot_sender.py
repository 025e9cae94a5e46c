"""Replicas that are too far behind, or began with nothing: a snapshot carries them over.

It may be large and its link slow: none is sent again before it arrived, or after waiting for longer
each time, up to a bound, for links may also be bad for a while and then good.
"""

from typing import Final, NamedTuple

from creekdb.protocol.application import Application
from creekdb.protocol.checkpoint.stream import StreamedSnapshot
from creekdb.protocol.consensus.learner import Learner
from creekdb.protocol.effects import Send
from creekdb.protocol.messages import Snapshot
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probe, Probes
from creekdb.protocol.settings import Settings

BACKOFF_FACTOR_MAX: Final = 256
"""The longest waiting, in first ones. A driver drops one that comes while another is on its way."""


class _SentSnapshot(NamedTuple):
    instance: int
    sent_at_ticks: int
    wait_ticks: int


class SnapshotSender:
    __slots__ = (
        "_application",
        "_outbox",
        "_probes",
        "_sent",
        "_settings",
        "_ticks",
        "recovering",
    )

    def __init__(
        self, settings: Settings, outbox: Outbox, probes: Probes, application: Application
    ) -> None:
        self._settings = settings
        self._outbox = outbox
        self._probes = probes
        self._application = application
        self._ticks = 0
        self._sent: dict[int, _SentSnapshot] = {}
        """The last one sent to each peer."""
        self.recovering: dict[int, int] = {}
        """Members that began with nothing, and which instances were settled here by then."""

    def tick(self, ticks: int) -> None:
        self._ticks = ticks

    def reconfigure(self, settings: Settings) -> None:
        self._settings = settings
        for gone in [peer for peer in self._sent if peer not in settings.members]:
            del self._sent[gone]
            self.recovering.pop(gone, None)

    def on_recovery_query(self, peer: int, delivered: int, learner: Learner) -> None:
        """It knows nothing but what a checkpoint of the instances below `delivered` held."""
        settled = self._application.stable_instance()
        if settled > delivered:
            self.recovering[peer] = settled
            self.send_snapshot(peer, learner)

    def on_pull(self, newcomer: int, learner: Learner) -> None:
        """It misses requests that may be kept nowhere, and its snapshot may have got lost."""
        if learner.progress_of(newcomer) >= self.recovering[newcomer]:
            del self.recovering[newcomer]
        else:
            self.send_snapshot(newcomer, learner)

    def send_snapshot(self, peer: int, learner: Learner) -> None:
        """Send it a snapshot, unless one is on its way."""
        last = self._sent.get(peer)
        wait = self._settings.retry_ticks
        if last is not None and learner.progress_of(peer) < last.instance:
            if self._ticks - last.sent_at_ticks < last.wait_ticks:
                return
            wait = min(last.wait_ticks * 2, wait * BACKOFF_FACTOR_MAX)
        application = self._application
        settled = application.stable_instance()
        if settled < learner.reconfigured_below:
            return  # what it holds of the members is outdated: there will be a later one
        self._sent[peer] = _SentSnapshot(settled, self._ticks, wait)
        self._probes.hit(Probe.SNAPSHOT_SENT)
        if self._settings.drafts:
            checkpoint, registers = application.lazy_checkpoint()
            self._outbox.snapshots.append(StreamedSnapshot(peer, Snapshot(checkpoint), registers))
        else:
            self._outbox.sends.append(Send((peer,), Snapshot(application.checkpoint())))
