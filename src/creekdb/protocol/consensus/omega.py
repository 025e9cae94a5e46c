"""Ω, the leader oracle (Section 3.4): eventually every correct replica trusts one and the same.

Replicas send heartbeats and suspect who is silent for too long; a suspicion that proves wrong makes
the next one slower. Time is counted in ticks, never read off a clock.

Whoever owns the greatest ballot keeps the lead as long as it is *able*: it hears a majority that
hears it. Otherwise the least of those that are able takes over. A heartbeat tells whom its
sender hears, so everybody can tell who is able; and whom it trusts, so a replica that lost its link
to the leader alone follows the majority instead of challenging it.
"""

from creekdb.protocol.effects import Send
from creekdb.protocol.messages import Ballot, Heartbeat
from creekdb.protocol.outbox import Outbox
from creekdb.protocol.probes import Probe, Probes
from creekdb.protocol.settings import Settings

NO_BALLOT = Ballot(0, 0)
TIMELY_HEARTBEATS = 100
"""Heartbeats in time, after which a replica is trusted a tick less."""


class Omega:
    def __init__(self, index: int, settings: Settings, outbox: Outbox, probes: Probes) -> None:
        self._index = index
        self._peers = settings.peers(index)
        self._settings = settings
        self._outbox = outbox
        self._probes = probes

        self.is_silent = False
        """Does nobody hear us, so that nobody trusts us?"""
        self.leader: int | None = None
        self.max_ballot = NO_BALLOT
        self._ticks = 0
        self._last_heartbeats: dict[int, Heartbeat] = {}
        self._received_at_ticks: dict[int, int] = {}
        self._timely_count = dict.fromkeys(self._peers, 0)
        self._timeout_ticks = dict.fromkeys(self._peers, settings.suspect_ticks)

    def reconfigure(self, settings: Settings) -> None:
        """There are other members from now on."""
        self._settings = settings
        self._peers = settings.peers(self._index)
        for known in (
            self._last_heartbeats,
            self._received_at_ticks,
            self._timely_count,
            self._timeout_ticks,
        ):
            for gone in [each for each in known if each not in self._peers]:
                del known[gone]
        for peer in self._peers:
            self._timely_count.setdefault(peer, 0)
            self._timeout_ticks.setdefault(peer, settings.suspect_ticks)
        self._elect()

    def tick(self, ticks: int) -> None:
        self._ticks = ticks
        self._elect()
        if self._peers and not self.is_silent and ticks % self._settings.heartbeat_ticks == 0:
            heartbeat = Heartbeat(self.max_ballot, self._trusted_leader(), self._reachable())
            self._outbox.sends.append(Send(self._peers, heartbeat))

    def on_heartbeat(self, message: Heartbeat, sender: int) -> None:
        self._adapt_timeout(sender)
        self._received_at_ticks[sender] = self._ticks
        self._last_heartbeats[sender] = message
        self.observe(message.ballot)

    def observe(self, ballot: Ballot) -> None:
        """Take note of a ballot, wherever it was seen."""
        if ballot > self.max_ballot:
            self.max_ballot = ballot
            self._elect()

    def _elect(self) -> None:
        owner = self.max_ballot.replica if self.max_ballot != NO_BALLOT else None
        if owner is not None and self._can_lead(owner):
            self.leader = owner
        elif owner is not None and self._is_trusted_by_majority(owner):
            if self.leader != owner:
                self._probes.hit(Probe.LEADER_FOLLOWED_UNHEARD)
            self.leader = owner
        else:
            able = (each for each in self._settings.voters if self._can_lead(each))
            self.leader = next(able, None)

    def _trusted_leader(self) -> int | None:
        """The leader, if we trust it for what we hear ourselves."""
        return self.leader if self.leader is not None and self._can_lead(self.leader) else None

    def _adapt_timeout(self, peer: int) -> None:
        """More of it with each suspicion that was wrong; less, slowly, while there are none."""
        if peer in self._received_at_ticks and not self._is_reachable(peer):
            self._probes.hit(Probe.SUSPECTED_WRONGLY)
            patience = self._timeout_ticks[peer] * 3 // 2
            self._timeout_ticks[peer] = min(patience, self._settings.suspect_ticks_max)
            self._timely_count[peer] = 0
            return
        self._timely_count[peer] += 1
        if self._timely_count[peer] == TIMELY_HEARTBEATS:
            self._timely_count[peer] = 0
            self._timeout_ticks[peer] = max(
                self._timeout_ticks[peer] - 1, self._settings.suspect_ticks
            )

    def _is_reachable(self, replica: int) -> bool:
        if replica == self._index:
            return True
        heard_at = self._received_at_ticks.get(replica)
        return heard_at is not None and self._ticks - heard_at <= self._timeout_ticks[replica]

    def _reachable(self) -> tuple[int, ...]:
        return tuple(each for each in self._settings.members if self._is_reachable(each))

    def _can_lead(self, replica: int) -> bool:
        """Is it heard here, and does it hear a majority that hears it? Who hears some, and is heard
        by others, gets no promise."""
        voters = self._settings.voters
        if replica not in voters or not self._is_reachable(replica):
            return False
        hears = self._reachable_from(replica)
        mutual = sum(
            each in hears and replica in self._reachable_from(each)
            for each in self._reachable()
            if each in voters
        )
        return mutual >= self._settings.majority

    def _reachable_from(self, replica: int) -> tuple[int, ...]:
        """Whom it hears, by its own last word."""
        return (
            self._reachable()
            if replica == self._index
            else self._last_heartbeats[replica].reachable
        )

    def _is_trusted_by_majority(self, owner: int) -> bool:
        voters = self._settings.voters
        if owner == self._index or owner not in voters:
            return False
        trusting = 1 + sum(
            self._is_reachable(peer) and self._last_heartbeats[peer].leader == owner
            for peer in self._peers
            if peer != owner and peer in voters
        )
        return trusting >= self._settings.majority
