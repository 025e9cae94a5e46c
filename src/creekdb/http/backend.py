"""Access of the HTTP interface to its replica."""

from collections.abc import Generator
from typing import Any, Final

from creekdb.execution.keys import LAST_COLLATION_KEY, CollationKey
from creekdb.protocol.values import Key
from creekdb.server.backup.capture import wait_until_durable
from creekdb.server.observability.status import ReplicaSources
from creekdb.server.security.authentication import AccessTokens
from creekdb.wire.addresses import is_loopback, parse_address

READY_LAG_MAX: Final = 64
"""Upper bound for the lag of a ready replica, in decided instances."""


class ReplicaBackend:
    """Replica behind the HTTP interface."""

    def __init__(
        self, sources: ReplicaSources, tokens: AccessTokens, durable_timeout_s: float
    ) -> None:
        self.sources = sources
        self.tokens = tokens
        self._durable_timeout_s = durable_timeout_s

    def is_loopback_only(self) -> bool:
        """True if the replica requires no token and listens on a loopback address only."""
        host, _ = parse_address(self.sources.config.http)
        return not self.tokens.is_required and is_loopback(host)

    def readiness_problems(self) -> list[str]:
        """Return the reasons why clients should avoid this replica, or an empty list."""
        sources = self.sources
        rejection = sources.admission.rejection(False, False)
        problems = [] if rejection is None else [rejection[1]]
        if not sources.membership.accepts_calls:
            reason = sources.dispatcher.blocked_reason() or "it has just started"
            problems.append(f"this replica does not accept calls yet: {reason}")
        leader = sources.driver.replica.view.leader()
        if leader is None:
            problems.append("no leader is elected")
        elif leader not in (sources.config.replica, *sources.peers.connected_members()):
            problems.append(f"the leader, replica {leader}, is not connected")
        lag = sources.lag_instances()
        if lag > READY_LAG_MAX:
            problems.append(f"the replica lags by {lag} decided instances")
        problems.extend(sources.conflicts().values())
        return problems

    def committed_items(
        self, length: int, start: CollationKey, stop: CollationKey
    ) -> Generator[tuple[Key, Any], None, None]:
        """Iterate over the registers of the data type, like `ReplicaView.committed_items`.

        The caller must close the iterator; the replica executes nothing while it is open.
        """
        driver = self.sources.driver
        stop = min(stop, LAST_COLLATION_KEY)
        if start < stop:
            with driver.executor.lock:
                yield from driver.replica.view.committed_items(length, start, stop)

    async def wait_durable(self) -> bool:
        """Wait briefly until everything committed so far is on disk; return False on failure."""
        self.sources.driver.apply_effects()  # appends all their causes to the journal
        return await wait_until_durable(self.sources.journal, self._durable_timeout_s)

    async def wait_call_durable(self) -> bool:
        """Wait like `wait_durable`, unless responses do not wait for the disk either."""
        return self.sources.config.durability == "memory" or await self.wait_durable()
