"""Identity of a cluster: a random name in the replicated state, chosen once.

A position in the feed of one cluster has no meaning in another one. The name of a cluster does not
distinguish them, since a cluster may be created again under its name. So the leader of a cluster
that keeps changes commits a random name. Only the first one takes effect. A restored cluster gets
another one (`creekdb.server.backup.restore`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from secrets import token_hex
from typing import Any, Final

from creekdb.execution.keys import IDENTITY_PREFIX, prefix_range
from creekdb.protocol.request import Operation
from creekdb.server.runtime.driver import Driver
from creekdb.wire.deduplication import IDENTIFY_CLUSTER

CHECK_S: Final = 0.1
"""Interval between two checks while the cluster has no identity, in seconds."""
IDENTITY_BYTES: Final = 8


class ClusterIdentity:
    """Identity of the cluster, as far as this replica has executed its choice."""

    def __init__(self, driver: Driver, cluster: str) -> None:
        self._driver = driver
        self._cluster = cluster
        self._known: str | None = None

    def read(self) -> str | None:
        """Return the name of the cluster with its identity, or None if there is none yet."""
        if self._known is None:
            replica = self._driver.replica.view
            with self._driver.executor.lock:
                newest = replica.readable_lengths()[-1]
                for _, value in replica.committed_items(newest, *prefix_range((IDENTITY_PREFIX,))):
                    self._known = f"{self._cluster}:{value}"
        return self._known

    async def choose(
        self, can_choose: Callable[[], bool], call: Callable[[Operation, bool], Awaitable[Any]]
    ) -> None:
        """Commit an identity if there is none, whenever `can_choose` returns True."""
        while self.read() is None:
            if can_choose():
                await call(Operation(IDENTIFY_CLUSTER, (token_hex(IDENTITY_BYTES),)), True)
            await asyncio.sleep(CHECK_S)
