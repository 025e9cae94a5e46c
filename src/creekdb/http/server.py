"""The socket on which a replica speaks HTTP."""

import asyncio
from importlib.metadata import version
from typing import Final, cast

from aiohttp import web

from creekdb.http.app import Paths
from creekdb.http.backend import LiveReplica
from creekdb.http.operations import Operations
from creekdb.http.page.feed import Feed
from creekdb.http.page.routes import PagePaths
from creekdb.http.requests import Limits
from creekdb.server.runtime.server import Server
from creekdb.wire.addresses import address_text

STOP_S: Final = 1.0
"""How long requests under way may take when it is stopped."""


class Gateway:
    """To be started when its server has, and stopped before it is."""

    def __init__(self, server: Server, limits: Limits | None = None) -> None:
        self._server = server
        self._limits = limits or Limits()
        operations, release = Operations(server.desk.datatype), version("creekdb")
        self.feed = Feed(server, operations, release)
        page = PagePaths(server, self.feed, self._limits)
        self.paths = Paths(LiveReplica(server), operations, page, release, self._limits)
        self._runner = web.AppRunner(
            self.paths.application(), access_log=None, shutdown_timeout=STOP_S
        )
        self._listening: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        config = self._server.config
        await self._runner.setup()
        self._listening = await self._server.doors.open(self._accept, config.http, mutual=False)
        host, self.port, *_ = self._listening.sockets[0].getsockname()
        at = address_text(host, self.port)
        where = f"{'https' if config.is_secured else 'http'}://{at}"
        self._server.events.info("http.started", f"speaks HTTP at {where}", http=where)

    async def stop(self) -> None:
        if self._listening is not None:
            self._listening.close()
        self.paths.calls.end()
        await self.feed.stop()
        await self._runner.cleanup()

    @property
    def connections(self) -> int:
        server = self._runner.server
        return 0 if server is None else len(server.connections)

    def _accept(self) -> asyncio.Protocol:
        server = self._runner.server
        if server is None or self.connections >= self._limits.connections:
            self._server.desk.count("busy")
            return _Refusing()
        return server()


class _Refusing(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()  # uvloop's is no subclass
