"""A cluster in this process: real sockets, real journals, as many replicas as a test wants."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from creekdb.client import Database, connect
from creekdb.load.local_cluster import free_port
from creekdb.server.runtime.config import ServerConfig
from creekdb.server.runtime.server import Server

PATIENCE_S = 60.0
"""Much more than anything takes: machines may be slow."""


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def is_settled(statuses: list[dict[str, Any]]) -> bool:
    return len({each["committed"] for each in statuses}) == 1 and not any(
        each["tentative"] or each["backlog"] for each in statuses
    )


class House:
    def __init__(self, folder: Path, replicas: int = 3, **settings: Any) -> None:
        self._folder = folder
        self.settings = settings
        self._members = {each: f"127.0.0.1:{free_port()}" for each in range(replicas)}
        self._clients = {each: f"127.0.0.1:{free_port()}" for each in range(replicas)}
        self.servers: dict[int, Server] = {}

    def config(self, replica: int, **more: Any) -> ServerConfig:
        return ServerConfig(
            replica=replica,
            members=self._members,
            clients=self._clients[replica],
            data=str(self._folder / str(replica)),
            **{**self.settings, **more},
        )

    def moved_to(self, folder: Path, **settings: Any) -> "House":
        """Another one, at the same addresses."""
        other = House(folder, len(self._members), **{**self.settings, **settings})
        other._members, other._clients = self._members, self._clients
        return other

    async def start(self, *replicas: int, **more: Any) -> None:
        for replica in replicas or tuple(self._members):
            server = Server(self.config(replica, **more))
            await server.start()
            self.servers[replica] = server

    async def stop(self, *replicas: int) -> None:
        for replica in replicas or tuple(self.servers):
            await self.servers.pop(replica).stop()

    def addresses(self, *replicas: int) -> list[str]:
        return [self._clients[each] for each in replicas or tuple(self._clients)]

    def client(self, *replicas: int, **more: Any) -> Database:
        return connect(self.addresses(*replicas), **{"timeout": PATIENCE_S, **more})

    async def until_connected(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            for server in self.servers.values():
                while len(server.peers.connected_members()) < len(self.servers) - 1:
                    await asyncio.sleep(0.01)
            while any(
                server.dispatcher.startup_barrier is not None for server in self.servers.values()
            ):
                await asyncio.sleep(0.01)

    async def until_missed(self, replica: int) -> None:
        """Until all who run have noticed that it is gone."""
        async with asyncio.timeout(PATIENCE_S):
            while any(replica in each.peers.connected_members() for each in self.servers.values()):
                await asyncio.sleep(0.01)

    async def until_settled(self) -> None:
        """Until nothing is tentative anywhere, and everywhere is committed as much."""
        async with asyncio.timeout(PATIENCE_S):
            while not is_settled([server.status() for server in self.servers.values()]):
                await asyncio.sleep(0.01)


@asynccontextmanager
async def house(folder: Path, replicas: int = 3, **settings: Any) -> AsyncIterator[House]:
    built = House(folder, replicas, **settings)
    await built.start()
    await built.until_connected()
    try:
        yield built
    finally:
        await built.stop()
