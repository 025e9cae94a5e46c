"""Ω, the leader oracle (Section 3.4): eventually all correct replicas trust the same leader.

Replicas send heartbeats and suspect a peer after a timeout. A wrong suspicion increases the
timeout. Time is counted in ticks, never taken from a clock.

The owner of the greatest ballot stays the leader while it is *able*: it has mutual contact with a
majority. Otherwise the able replica with the lowest number takes over. A heartbeat lists the
members that its sender receives, so every replica can determine which ones are able. It also names
the trusted leader. So a replica that lost only its link to the leader follows the majority instead
of challenging it.
"""

from creekdb.protocol.messages import Ballot, Heartbeat
from creekdb.protocol.probes import Probe
from creekdb.protocol.shared_variables import SharedVariables

NO_BALLOT = Ballot(0, 0)
TIMELY_HEARTBEATS = 100
"""Number of timely heartbeats after which the timeout shrinks by one tick."""


class Omega:
    def __init__(self, shared: SharedVariables) -> None:
        self._shared = shared
        self._probes = shared.probes
        self.leader: int | None = None
        self.max_ballot = NO_BALLOT
        self._last_heartbeats: dict[int, Heartbeat] = {}
        self._received_at_ticks: dict[int, int] = {}
        self._timely_count = dict.fromkeys(shared.peers, 0)
        self._timeout_ticks = dict.fromkeys(shared.peers, shared.settings.suspect_ticks)

    def reconfigure(self) -> None:
        """Adopt new members."""
        self._shared.drop_removed_peers(
            self._last_heartbeats, self._received_at_ticks, self._timely_count, self._timeout_ticks
        )
        for peer in self._shared.peers:
            self._timely_count.setdefault(peer, 0)
            self._timeout_ticks.setdefault(peer, self._shared.settings.suspect_ticks)
        self._elect()

    def tick(self) -> None:
        shared = self._shared
        self._elect()
        if not shared.is_abstaining and shared.ticks % shared.settings.heartbeat_ticks == 0:
            heartbeat = Heartbeat(self.max_ballot, self._trusted_leader(), self.reachable())
            shared.outbox.send(shared.peers, heartbeat)

    def on_heartbeat(self, message: Heartbeat, sender: int) -> None:
        self._adapt_timeout(sender)
        self._received_at_ticks[sender] = self._shared.ticks
        self._last_heartbeats[sender] = message
        self.observe(message.ballot)

    def observe(self, ballot: Ballot) -> None:
        """Record a ballot seen in any message."""
        if ballot > self.max_ballot:
            self.max_ballot = ballot
            self._elect()

    def _elect(self) -> None:
        owner = self.max_ballot.replica if self.max_ballot != NO_BALLOT else None
        if owner is not None and self._can_lead(owner):
            self.leader = owner
        elif owner is not None and self._is_trusted_by_majority(owner):
            if self.leader != owner:
                self._probes.hit(Probe.LEADER_TRUSTED_INDIRECTLY)
            self.leader = owner
        else:
            able = (each for each in self._shared.settings.voters if self._can_lead(each))
            self.leader = next(able, None)

    def _trusted_leader(self) -> int | None:
        """Return the leader if direct heartbeats confirm it, or None."""
        return self.leader if self.leader is not None and self._can_lead(self.leader) else None

    def _adapt_timeout(self, peer: int) -> None:
        """Increase the timeout after a wrong suspicion, and decrease it slowly otherwise."""
        if peer in self._received_at_ticks and not self._is_reachable(peer):
            self._probes.hit(Probe.SUSPECTED_WRONGLY)
            timeout = self._timeout_ticks[peer] * 3 // 2
            self._timeout_ticks[peer] = min(timeout, self._shared.settings.suspect_ticks_max)
            self._timely_count[peer] = 0
            return
        self._timely_count[peer] += 1
        if self._timely_count[peer] == TIMELY_HEARTBEATS:
            self._timely_count[peer] = 0
            self._timeout_ticks[peer] = max(
                self._timeout_ticks[peer] - 1, self._shared.settings.suspect_ticks
            )

    def _is_reachable(self, replica: int) -> bool:
        if replica == self._shared.index:
            return True
        received_at = self._received_at_ticks.get(replica)
        return (
            received_at is not None
            and self._shared.ticks - received_at <= self._timeout_ticks[replica]
        )

    def reachable(self) -> tuple[int, ...]:
        """Return the members that this replica can reach, itself included."""
        return tuple(each for each in self._shared.settings.members if self._is_reachable(each))

    def _can_lead(self, replica: int) -> bool:
        """True if the replica is reachable and in mutual contact with a majority. With one-way
        links only, it would receive no promises."""
        voters = self._shared.settings.voters
        if replica not in voters or not self._is_reachable(replica):
            return False
        reachable = self._reachable_from(replica)
        mutual = sum(
            each in reachable and replica in self._reachable_from(each)
            for each in self.reachable()
            if each in voters
        )
        return mutual >= self._shared.settings.majority

    def _reachable_from(self, replica: int) -> tuple[int, ...]:
        """Return the members that the replica last reported as reachable."""
        if replica == self._shared.index:
            return self.reachable()
        return self._last_heartbeats[replica].reachable

    def _is_trusted_by_majority(self, owner: int) -> bool:
        voters = self._shared.settings.voters
        if owner == self._shared.index or owner not in voters:
            return False
        trusting = 1 + sum(
            self._is_reachable(peer) and self._last_heartbeats[peer].leader == owner
            for peer in self._shared.peers
            if peer != owner and peer in voters
        )
        return trusting >= self._shared.settings.majority
