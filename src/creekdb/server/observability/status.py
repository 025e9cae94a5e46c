"""How a replica is, for whoever asks.

Tells what has changed about a replica since the last look, as events of its log.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from creekdb.protocol.membership.configuration import Configuration
from creekdb.server.security.authentication import NO_TLS_FROM_PEER
from creekdb.wire.event_log import EventLog
from creekdb.wire.framing import UNEXPECTED_HTTP, UNEXPECTED_TLS

if TYPE_CHECKING:
    from creekdb.server.runtime.server import Server


def replica_status(server: "Server") -> dict[str, Any]:
    replica = server.driver.replica
    failed = server.journal.fault
    return {
        "cluster": server.config.cluster,
        "replica": server.config.replica,
        "process": os.getpid(),
        "members": list(server.membership.configuration.replica_ids),
        "found_at": {str(each): at for each, at in server.membership.configuration.members},
        "epoch": server.membership.configuration.epoch,
        "is_member": server.membership.is_member,
        "datatype": server.dispatcher.datatype.name,
        "scheme": server.config.scheme,
        "leader": replica.leader(),
        "connected": server.peers.connected_members(),
        "silent_s": {
            str(each): round(s, 3) for each, s in sorted(server.peers.silence_by_member_s().items())
        },
        "addresses": {str(each): at for each, at in sorted(server.peers.client_addresses.items())},
        "committed": replica.committed_length(),
        "tentative": replica.tentative_length(),
        "backlog": server.driver.backlog,
        "under_way": server.dispatcher.in_flight,
        "undecided": len(server.pending_strong_calls),
        "clients": len(server.dispatcher.connections),
        "executions": server.driver.executions,
        "long_operations": server.watchdog.status(),
        "refused": server.rejections_by_reason(),
        "clocks_ahead_us": {str(peer): us for peer, us in sorted(replica.drift_us.items())},
        "disk": None if failed is None else str(failed),
        "waits_for": replica.awaited_members(),
        "why_closed": server.dispatcher.blocked_reason(),
        "digests": server.divergence.status(),
        "failure": None if server.failure is None else str(server.failure),
    }


UNLOGGED_REASONS: Final = frozenset(
    ("sent to a peer that is away", "could not reach a peer", "no hello")
)
"""Counted, but known from elsewhere."""
REJECTION_HINTS: Final = {
    UNEXPECTED_TLS: "Somebody encrypts, and this replica does not: leave out the authority "
    "there, or give this one certificates, under [security]",
    NO_TLS_FROM_PEER: "Somebody does not encrypt, and this replica does: clients need its "
    "authority, replicas certificates",
    UNEXPECTED_HTTP: "Somebody speaks HTTP at a port for clients or replicas: it has one of "
    "its own, which --http names",
}
"""What to do about some of them."""
REJECTION_LOG_CHECKS: Final = 40
"""Looks between two events about refusals: however many there are, they fill no disk."""
NO_MAJORITY_LOG_CHECKS: Final = 20
"""Looks without a majority until it is told who is missed."""


class StateChangeLogger:
    def __init__(self, log: EventLog, replica: int) -> None:
        self._event_log = log
        self._replica = replica
        self._leader: int | None = None
        self._connected: set[int] = set()
        self._rejections: Counter[str] = Counter()
        self._rejection_pause = 0
        self._checks_without_majority = 0

    def check(
        self,
        leader: int | None,
        connected: Iterable[int],
        refused: Mapping[str, int],
        configuration: Configuration,
    ) -> None:
        """To be called at a steady beat."""
        self._check_leader(leader)
        self._check_peers(set(connected))
        self._check_rejections(Counter(refused))
        self._check_majority(configuration)
        self._event_log.flush_suppressed()

    def _check_leader(self, leader: int | None) -> None:
        if leader == self._leader:
            return
        self._leader = leader
        if leader is None:
            self._event_log.warning("leader.lost", "nobody leads", leader=None)
        else:
            who = "this replica leads" if leader == self._replica else f"replica {leader} leads"
            self._event_log.info("leader.changed", f"{who} now", leader=leader)

    def _check_peers(self, connected: set[int]) -> None:
        for peer in sorted(connected - self._connected):
            self._event_log.info(
                "peer.connected", f"there is a connection to replica {peer}", peer=peer
            )
        for peer in sorted(self._connected - connected):
            self._event_log.warning("peer.lost", f"no connection to replica {peer}", peer=peer)
        self._connected = connected

    def _check_rejections(self, refused: Counter[str]) -> None:
        self._rejection_pause = max(0, self._rejection_pause - 1)
        more = {
            reason: count - self._rejections[reason]
            for reason, count in sorted(refused.items())
            if reason not in UNLOGGED_REASONS and count > self._rejections[reason]
        }
        if more and not self._rejection_pause:
            number = sum(more.values())
            what = "1 input was refused" if number == 1 else f"{number} inputs were refused"
            hints = [REJECTION_HINTS[reason] for reason in more if reason in REJECTION_HINTS]
            self._event_log.warning("input.refused", ". ".join([what, *hints]), reasons=more)
            self._rejections, self._rejection_pause = refused, REJECTION_LOG_CHECKS

    def _check_majority(self, configuration: Configuration) -> None:
        """Also one that was removed needs them, to hand over what it has."""
        members = configuration.replica_ids
        reached = self._connected.union([self._replica]).intersection(members)
        is_removed = self._replica in configuration.former
        self._checks_without_majority = (
            self._checks_without_majority + 1
            if is_removed or 2 * len(reached) <= len(members)
            else 0
        )
        if self._checks_without_majority != NO_MAJORITY_LOG_CHECKS:
            return
        away = {each: at for each, at in configuration.members if each not in reached}
        missing = ", ".join(f"replica {each} at {at}" for each, at in away.items()) or "them"
        if is_removed:
            what = (
                f"was removed from its cluster, and stops once most of the members have what its "
                f"clients called last; it waits for {missing}. If they are gone for good, stop it: "
                "such calls are lost then"
            )
        else:
            what = (
                f"reaches no majority of the members, and strong calls wait: is there {missing}? "
                "If this one was away while all others were replaced, it cannot find them: start "
                "a new one, with --join and an empty folder"
            )
        self._event_log.warning("majority.missing", what, missing=list(away))
