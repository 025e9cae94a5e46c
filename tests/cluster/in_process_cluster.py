"""Cluster of any size in the process of the test, with real sockets and real journals."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from creekdb.client import Database, connect
from creekdb.load.local_cluster import free_port
from creekdb.server.calls.dispatcher import CallLimits
from creekdb.server.runtime.config import ServerConfig
from creekdb.server.runtime.server import DEFAULT_LIMITS, Server, ServerLimits
from creekdb.torture.processes import is_quiescent

TIMEOUT_S = 60.0
"""Upper bound for every wait of a test, in seconds. No step takes that long on a slow machine."""

SHORT_WAITS: Final = ServerLimits(calls=CallLimits(queue_time_s_max=0.2))
"""Limits of replicas that soon reject a call whose dependencies are missing. The rejection then
does not race the timeout of the client, which may be long."""


class InProcessCluster:
    """Replicas that share the event loop of the test. `settings` apply to all of them."""

    def __init__(
        self,
        directory: Path,
        replicas: int = 3,
        limits: ServerLimits = DEFAULT_LIMITS,
        **settings: Any,
    ) -> None:
        self._directory = directory
        self._limits = limits
        self.settings = settings
        self._members = {each: f"127.0.0.1:{free_port()}" for each in range(replicas)}
        self._clients = {each: f"127.0.0.1:{free_port()}" for each in range(replicas)}
        self.servers: dict[int, Server] = {}

    def config(self, replica: int, **more: Any) -> ServerConfig:
        data = str(self._directory / str(replica))
        return ServerConfig(
            replica=replica,
            members=self._members,
            clients=self._clients[replica],
            **{"data": data, **self.settings, **more},
        )

    def at_same_addresses(self, directory: Path, **settings: Any) -> "InProcessCluster":
        """Return a cluster with other data directories at the addresses of this one."""
        settings = {**self.settings, **settings}
        other = InProcessCluster(directory, len(self._members), self._limits, **settings)
        other._members, other._clients = self._members, self._clients
        return other

    async def start(self, *replicas: int, limits: ServerLimits | None = None, **more: Any) -> None:
        for replica in replicas or tuple(self._members):
            server = Server(self.config(replica, **more), limits or self._limits)
            await server.start()
            self.servers[replica] = server

    async def stop(self, *replicas: int) -> None:
        for replica in replicas or tuple(self.servers):
            await self.servers.pop(replica).stop()

    def addresses(self, *replicas: int) -> list[str]:
        return [self._clients[each] for each in replicas or tuple(self._clients)]

    def client(self, *replicas: int, **more: Any) -> Database:
        return connect(self.addresses(*replicas), **{"timeout": TIMEOUT_S, **more})

    def drop_messages(self, sender: int, receiver: int) -> Callable[[], None]:
        """Drop the messages from one replica to another. Return a function that ends this."""
        peers = self.servers[receiver].peers
        receive = peers.receive

        def receive_from_others(message: Any, from_replica: int) -> None:
            if from_replica != sender:
                receive(message, from_replica)

        def restore() -> None:
            peers.receive = receive

        peers.receive = receive_from_others
        return restore

    async def until_moved(self, db: Database, from_replica: int) -> None:
        """Wait until the client is connected to another replica."""
        async with asyncio.timeout(TIMEOUT_S):
            while db.replica in (None, from_replica):
                await asyncio.sleep(0.01)

    async def until_connected(self) -> None:
        """Wait until all running replicas are connected to each other and admit calls."""
        async with asyncio.timeout(TIMEOUT_S):
            for server in self.servers.values():
                while len(server.peers.connected_members()) < len(self.servers) - 1:
                    await asyncio.sleep(0.01)
            while any(not server.membership.accepts_calls for server in self.servers.values()):
                await asyncio.sleep(0.01)

    async def until_disconnected(self, replica: int) -> None:
        """Wait until no running replica is connected to this one."""
        async with asyncio.timeout(TIMEOUT_S):
            while any(replica in each.peers.connected_members() for each in self.servers.values()):
                await asyncio.sleep(0.01)

    async def until_quiescent(self) -> None:
        """Wait until all replicas have committed the same length and nothing is tentative.

        A cluster that keeps changes has committed its identity then.
        """
        async with asyncio.timeout(TIMEOUT_S):
            while not self._is_quiescent():
                await asyncio.sleep(0.01)

    def _is_quiescent(self) -> bool:
        servers = self.servers.values()
        return is_quiescent([server.status() for server in servers]) and all(
            server.changes is None or server.cluster_identity() for server in servers
        )


@asynccontextmanager
async def running_cluster(
    directory: Path, replicas: int = 3, limits: ServerLimits = DEFAULT_LIMITS, **settings: Any
) -> AsyncIterator[InProcessCluster]:
    cluster = InProcessCluster(directory, replicas, limits, **settings)
    await cluster.start()
    await cluster.until_connected()
    try:
        yield cluster
    finally:
        await cluster.stop()
