"""Status of a replica, and log events for its changes."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from creekdb.protocol.membership.configuration import Configuration
from creekdb.server.calls.admission_control import AdmissionControl
from creekdb.server.calls.capabilities import Capabilities
from creekdb.server.calls.dispatcher import CallDispatcher
from creekdb.server.changes.feed import ChangeFeed
from creekdb.server.membership.changes import MembershipView
from creekdb.server.observability.divergence import DivergenceDetector
from creekdb.server.observability.latency import Histogram
from creekdb.server.runtime.config import ServerConfig
from creekdb.server.runtime.driver import Driver
from creekdb.server.runtime.executors import Watchdog
from creekdb.server.storage.journal import Journal
from creekdb.server.transport.client_connection import ClientService
from creekdb.server.transport.peers import PeerNetwork
from creekdb.wire.counters import ServerCounter
from creekdb.wire.event_log import EventLog, EventName
from creekdb.wire.reject_reason import RejectReason


class ReplicaSources(NamedTuple):
    """Parts of a replica from which its status, its metrics and its page are read."""

    config: ServerConfig
    driver: Driver
    journal: Journal
    peers: PeerNetwork
    membership: MembershipView
    admission: AdmissionControl
    dispatcher: CallDispatcher
    clients: ClientService
    divergence: DivergenceDetector
    capabilities: Capabilities
    watchdog: Watchdog
    fsync_latency: Histogram
    rejections: Counter[str]
    """Rejected or dropped inputs of the server by reason, without those of the protocol."""
    changes: ChangeFeed | None
    """Change feed, or None if the replica keeps no changes."""
    certificate_expiry_s: Callable[[], float | None]
    """Expiry time of the certificate, in seconds since 1970. None without a certificate."""
    failure: Callable[[], Exception | None]
    """Error that stopped the replica."""
    conflicts: Callable[[], Mapping[int, str]] = dict
    """Peers whose state contradicts that of this replica, with an explanation."""

    def rejections_by_reason(self) -> dict[str, int]:
        """Return the number of rejected or dropped inputs by reason, of replica and server."""
        totals = self.rejections + Counter(self.driver.replica.view.rejected)
        return {str(reason): count for reason, count in sorted(totals.items())}

    def differing_operations(self) -> dict[str, list[str]]:
        """Return the operations whose code differs, by connected peer."""
        differing = self.capabilities.differing_by_peer
        connected = self.peers.connected_members()
        return {str(peer): list(differing[peer]) for peer in connected if peer in differing}

    def differing_builds(self) -> dict[str, str]:
        """Return the kind of build of each connected peer with another one than this replica."""
        own = self.capabilities.build_of(self.config.replica)
        builds = {each: self.capabilities.build_of(each) for each in self.peers.connected_members()}
        return {
            str(peer): build for peer, build in builds.items() if build is not None and build != own
        }

    def lag_instances(self) -> int:
        """Return how many instances this replica lags behind the most advanced one."""
        progress = self.driver.replica.view.stable_instances()
        return max(progress.values()) - progress[self.config.replica]

    def status(self) -> dict[str, Any]:
        replica, configuration = self.driver.replica.view, self.membership.configuration
        fault, failure = self.journal.fault, self.failure()
        silence_s = sorted(self.peers.silence_by_member_s().items())
        return {
            "cluster": self.config.cluster,
            "replica": self.config.replica,
            "process": os.getpid(),
            "members": list(configuration.replica_ids),
            "found_at": {str(each): address for each, address in configuration.members},
            "epoch": configuration.epoch,
            "is_member": self.membership.is_member,
            "datatype": self.dispatcher.datatype.name,
            "scheme": self.config.scheme,
            "leader": replica.leader(),
            "connected": self.peers.connected_members(),
            "silent_s": {str(each): round(seconds, 3) for each, seconds in silence_s},
            "addresses": {
                str(each): address for each, address in sorted(self.peers.client_addresses.items())
            },
            "committed": replica.committed_length(),
            "tentative": replica.tentative_length(),
            "backlog": self.driver.backlog,
            "under_way": self.dispatcher.in_flight,
            "undecided": len(self.admission.pending_strong),
            "clients": len(self.clients.connections),
            "executions": self.driver.executor.executions,
            "long_operations": self.watchdog.status(),
            "refused": self.rejections_by_reason(),
            "clocks_ahead_us": {str(peer): us for peer, us in sorted(replica.drift_us.items())},
            "disk": None if fault is None else str(fault),
            "waits_for": replica.awaited_members(),
            "why_closed": self.dispatcher.blocked_reason(),
            "digests": self.divergence.status(),
            "differing_operations": self.differing_operations(),
            "differing_builds": self.differing_builds(),
            "conflicts": {str(each): text for each, text in self.conflicts().items()},
            "failure": None if failure is None else str(failure),
        }


UNLOGGED_REASONS: Final = frozenset(
    (
        ServerCounter.NOT_STARTED,
        ServerCounter.PEER_NOT_CONNECTED,
        ServerCounter.PEER_UNREACHABLE,
        ServerCounter.NO_HELLO,
    )
)
"""Reasons that are counted but not logged, because other events report them."""
REJECTION_HINTS: Final[dict[str, str]] = {
    RejectReason.UNEXPECTED_TLS: "A connection used TLS, but this replica does not: remove the "
    "authority on the other side, or set certificates under [security] here",
    ServerCounter.TLS_MISSING: "A connection without TLS reached this replica, which requires it: "
    "clients need its authority, replicas certificates",
    RejectReason.UNEXPECTED_HTTP: "An HTTP request reached a port for clients or replicas: use "
    "the address that --http sets",
}
"""Remedies for some of the reasons."""
REJECTION_LOG_CHECKS: Final = 40
"""Number of checks between two events about rejections. It bounds the size of the log."""
NO_MAJORITY_LOG_CHECKS: Final = 20
"""Number of checks without a majority before the missing members are logged."""


class StateChangeLogger:
    """Logs changes of leader, connections, rejections and majority since the last check."""

    def __init__(self, event_log: EventLog, replica: int) -> None:
        self._event_log = event_log
        self._replica = replica
        self._leader: int | None = None
        self._connected: set[int] = set()
        self._rejections: Counter[str] = Counter()
        self._rejection_pause = 0
        self._checks_without_majority = 0
        self._differing: dict[str, list[str]] = {}
        self._builds: dict[str, str] = {}
        """Reported builds of peers that differ."""

    def check(
        self,
        leader: int | None,
        connected: Iterable[int],
        rejections: Mapping[str, int],
        configuration: Configuration,
        differing_operations: Mapping[str, list[str]] = MappingProxyType({}),
        differing_builds: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Log the changes since the last check. Call this at a fixed interval."""
        self._check_leader(leader)
        self._check_peers(set(connected))
        self._check_operations(differing_operations)
        self._check_builds(differing_builds)
        self._check_rejections(Counter(rejections))
        self._check_majority(configuration)
        self._event_log.flush_suppressed()

    def _check_leader(self, leader: int | None) -> None:
        if leader == self._leader:
            return
        self._leader = leader
        if leader is None:
            self._event_log.warning(EventName.LEADER_LOST, "no replica leads", leader=None)
        else:
            subject = "this replica leads" if leader == self._replica else f"replica {leader} leads"
            self._event_log.info(EventName.LEADER_CHANGED, f"{subject} now", leader=leader)

    def _check_peers(self, connected: set[int]) -> None:
        for peer in sorted(connected - self._connected):
            self._event_log.info(
                EventName.PEER_CONNECTED, f"connected to replica {peer}", peer=peer
            )
        for peer in sorted(self._connected - connected):
            self._event_log.warning(
                EventName.PEER_LOST, f"connection to replica {peer} lost", peer=peer
            )
        self._connected = connected

    def _check_operations(self, differing: Mapping[str, list[str]]) -> None:
        """Log the connected peers whose code of operations begins or ceases to differ."""
        for peer, names in differing.items():
            if self._differing.get(peer) != names:
                self._event_log.warning(
                    EventName.OPERATIONS_DIFFER,
                    f"replica {peer} has other code for {', '.join(names)}; the states may "
                    "diverge; restart one of them with the module of the other",
                    peer=int(peer),
                    operations=names,
                )
            self._differing[peer] = names
        for peer in [each for each in self._differing if each not in differing]:
            if int(peer) in self._connected:
                del self._differing[peer]
                self._event_log.info(
                    EventName.OPERATIONS_EQUAL,
                    f"replica {peer} has the same code for all operations again",
                    peer=int(peer),
                )

    def _check_builds(self, differing: Mapping[str, str]) -> None:
        """Log the connected peers that begin to run another kind of build."""
        for peer, build in differing.items():
            if peer not in self._builds:
                self._event_log.warning(
                    EventName.BUILDS_DIFFER,
                    f"replica {peer} runs {build}, unlike this replica; operations that recurse to "
                    "the limit may diverge; install the same kind of wheel on all replicas",
                    peer=int(peer),
                    build=build,
                )
        self._builds = dict(differing)

    def _check_rejections(self, rejections: Counter[str]) -> None:
        self._rejection_pause = max(0, self._rejection_pause - 1)
        new = {
            reason: count - self._rejections[reason]
            for reason, count in sorted(rejections.items())
            if reason not in UNLOGGED_REASONS and count > self._rejections[reason]
        }
        if new and not self._rejection_pause:
            total = sum(new.values())
            message = "1 input was rejected" if total == 1 else f"{total} inputs were rejected"
            hints = [REJECTION_HINTS[reason] for reason in new if reason in REJECTION_HINTS]
            self._event_log.warning(
                EventName.INPUT_REFUSED, ". ".join([message, *hints]), reasons=new
            )
            self._rejections, self._rejection_pause = rejections, REJECTION_LOG_CHECKS

    def _check_majority(self, configuration: Configuration) -> None:
        """Log the missing members. A removed replica needs a majority to hand over its requests."""
        members = configuration.replica_ids
        reachable = self._connected.union([self._replica]).intersection(members)
        is_removed = self._replica in configuration.former
        self._checks_without_majority = (
            self._checks_without_majority + 1
            if is_removed or 2 * len(reachable) <= len(members)
            else 0
        )
        if self._checks_without_majority != NO_MAJORITY_LOG_CHECKS:
            return
        missing_addresses = {
            member: address for member, address in configuration.members if member not in reachable
        }
        missing = (
            ", ".join(
                f"replica {member} at {address}" for member, address in missing_addresses.items()
            )
            or "them"
        )
        if is_removed:
            message = (
                "was removed from its cluster and stops after a majority holds the last "
                f"calls of its clients. It waits for {missing}. If these members are lost, stop "
                "this replica; the calls are then lost"
            )
        else:
            message = (
                f"no majority: strong calls wait for {missing}; start the missing members. If all "
                "of them were replaced while this replica was down, start a new one with --join "
                "and an empty data directory"
            )
        self._event_log.warning(
            EventName.MAJORITY_MISSING, message, missing=list(missing_addresses)
        )
