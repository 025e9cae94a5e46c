"""How a replica is, for whoever asks.

Tells what has changed about a replica since the last look, as events of its log.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from creekdb.protocol.membership.configuration import Configuration
from creekdb.server.security.authentication import PLAIN
from creekdb.wire.event_log import EventLog
from creekdb.wire.framing import NO_HTTP, NO_TLS

if TYPE_CHECKING:
    from creekdb.server.runtime.server import Server


def status_of(server: "Server") -> dict[str, Any]:
    replica = server.driver.replica
    failed = server.journal.failed
    return {
        "cluster": server.config.cluster,
        "replica": server.config.replica,
        "process": os.getpid(),
        "members": list(server.company.configuration.numbers),
        "found_at": {str(each): at for each, at in server.company.configuration.members},
        "epoch": server.company.configuration.epoch,
        "is_member": server.company.is_member,
        "datatype": server.desk.datatype.name,
        "scheme": server.config.scheme,
        "leader": replica.leader(),
        "connected": server.peers.connected(),
        "silent_s": {str(each): round(s, 3) for each, s in sorted(server.peers.silent_s().items())},
        "addresses": {str(each): at for each, at in sorted(server.peers.clients.items())},
        "committed": replica.committed_length(),
        "tentative": replica.tentative_length(),
        "backlog": server.driver.backlog,
        "under_way": server.desk.under_way,
        "undecided": len(server.undecided),
        "clients": len(server.desk.connections),
        "executions": server.driver.executions,
        "long_operations": server.watchdog.status(),
        "refused": server.refused_by_reason(),
        "clocks_ahead_us": {str(peer): us for peer, us in sorted(replica.drift_us.items())},
        "disk": None if failed is None else str(failed),
        "waits_for": replica.waits_for(),
        "why_closed": server.desk.why_closed(),
        "digests": server.digests.status(),
        "failure": None if server.failure is None else str(server.failure),
    }


QUIET: Final = frozenset(("sent to a peer that is away", "could not reach a peer", "no hello"))
"""Counted, but known from elsewhere."""
HINTS: Final = {
    NO_TLS: "Somebody encrypts, and this replica does not: leave out the authority there, or give "
    "this one certificates, under [security]",
    PLAIN: "Somebody does not encrypt, and this replica does: clients need its authority, replicas "
    "certificates",
    NO_HTTP: "Somebody speaks HTTP at a port for clients or replicas: it has one of its own, which "
    "--http names",
}
"""What to do about some of them."""
PAUSE_LOOKS: Final = 40
"""Looks between two events about refusals: however many there are, they fill no disk."""
ALONE_LOOKS: Final = 20
"""Looks without a majority until it is told who is missed."""


class Watch:
    def __init__(self, log: EventLog, replica: int) -> None:
        self._log = log
        self._replica = replica
        self._leader: int | None = None
        self._connected: set[int] = set()
        self._refused: Counter[str] = Counter()
        self._pause = 0
        self._alone = 0

    def look(
        self,
        leader: int | None,
        connected: Iterable[int],
        refused: Mapping[str, int],
        configuration: Configuration,
    ) -> None:
        """To be called at a steady beat."""
        self._look_for_leader(leader)
        self._look_for_peers(set(connected))
        self._look_for_refusals(Counter(refused))
        self._look_for_majority(configuration)
        self._log.tell_held()

    def _look_for_leader(self, leader: int | None) -> None:
        if leader == self._leader:
            return
        self._leader = leader
        if leader is None:
            self._log.warning("leader.lost", "nobody leads", leader=None)
        else:
            who = "this replica leads" if leader == self._replica else f"replica {leader} leads"
            self._log.info("leader.changed", f"{who} now", leader=leader)

    def _look_for_peers(self, connected: set[int]) -> None:
        for peer in sorted(connected - self._connected):
            self._log.info("peer.connected", f"there is a connection to replica {peer}", peer=peer)
        for peer in sorted(self._connected - connected):
            self._log.warning("peer.lost", f"no connection to replica {peer}", peer=peer)
        self._connected = connected

    def _look_for_refusals(self, refused: Counter[str]) -> None:
        self._pause = max(0, self._pause - 1)
        more = {
            reason: count - self._refused[reason]
            for reason, count in sorted(refused.items())
            if reason not in QUIET and count > self._refused[reason]
        }
        if more and not self._pause:
            number = sum(more.values())
            what = "1 input was refused" if number == 1 else f"{number} inputs were refused"
            hints = [HINTS[reason] for reason in more if reason in HINTS]
            self._log.warning("input.refused", ". ".join([what, *hints]), reasons=more)
            self._refused, self._pause = refused, PAUSE_LOOKS

    def _look_for_majority(self, configuration: Configuration) -> None:
        """Also one that was removed needs them, to hand over what it has."""
        members = configuration.numbers
        reached = self._connected.union([self._replica]).intersection(members)
        is_removed = self._replica in configuration.former
        self._alone = self._alone + 1 if is_removed or 2 * len(reached) <= len(members) else 0
        if self._alone != ALONE_LOOKS:
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
        self._log.warning("majority.missing", what, missing=list(away))
