"""HTTP listening socket of a replica."""

import asyncio
from importlib.metadata import version
from typing import Final

from aiohttp import web

from creekdb.http.app import HttpApi
from creekdb.http.backend import ReplicaBackend
from creekdb.http.operations import OperationCatalog
from creekdb.http.page.feed import PageFeed
from creekdb.http.page.routes import PageRoutes
from creekdb.http.requests import HttpLimits
from creekdb.server.runtime.server import Server
from creekdb.server.transport.listeners import RejectedConnection
from creekdb.wire.addresses import format_address
from creekdb.wire.dev_control import DevControl
from creekdb.wire.event_log import EventName
from creekdb.wire.reject_reason import RejectReason

SHUTDOWN_TIMEOUT_S: Final = 1.0
"""Upper bound for the time that open requests get to finish at a stop, in seconds."""


class HttpServer:
    """HTTP interface of a server. Start it after the server, and stop it before the server."""

    def __init__(self, server: Server, limits: HttpLimits | None = None) -> None:
        self._server = server
        self._limits = limits or HttpLimits()
        sources, tokens, limits = server.sources, server.tokens, self._limits
        operations, release = OperationCatalog(server.dispatcher.datatype), version("creekdb")
        self.feed = PageFeed(
            sources,
            operations,
            release,
            server.task_supervisor.spawn,
            self._dev_control,
            limits.page_idle_timeout_s,
        )
        page = PageRoutes(self.feed, tokens, sources.peers.http_urls, self._dev_control, limits)
        backend = ReplicaBackend(sources, tokens, server.limits.backup.durable_timeout_s)
        self.api = HttpApi(backend, operations, page, release, limits)
        self._runner = web.AppRunner(
            self.api.application(), access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT_S
        )
        self._listener: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        config = self._server.config
        await self._runner.setup()
        self._listener = await self._server.listeners.open(self._accept, config.http, mutual=False)
        host, self.port, *_ = self._listener.sockets[0].getsockname()
        address = format_address(host, self.port)
        url = f"{'https' if config.is_secured else 'http'}://{address}"
        self._server.event_log.info(EventName.HTTP_STARTED, f"serves HTTP at {url}", http=url)

    def _dev_control(self) -> DevControl | None:
        return self._server.dev_control

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self.api.calls.close_all()
        await self.feed.stop()
        await self._runner.cleanup()

    @property
    def connections(self) -> int:
        server = self._runner.server
        return 0 if server is None else len(server.connections)

    def _accept(self) -> asyncio.Protocol:
        server = self._runner.server
        if server is None or self.connections >= self._limits.connections_max:
            self._server.dispatcher.count(RejectReason.BUSY)
            return RejectedConnection()
        return server()
