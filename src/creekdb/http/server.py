"""HTTP listening socket of a replica."""

import asyncio
from importlib.metadata import version

from creekdb.http.app import HttpApi
from creekdb.http.backend import ReplicaBackend
from creekdb.http.connections import BUSY_RESPONSE, HttpConnections
from creekdb.http.operations import OperationCatalog
from creekdb.http.page.feed import PageFeed
from creekdb.http.page.routes import PageRoutes
from creekdb.http.requests import HttpLimits
from creekdb.server.runtime.server import Server
from creekdb.wire.addresses import format_address
from creekdb.wire.dev_control import DevControl
from creekdb.wire.event_log import EventName


class HttpServer:
    """HTTP interface of a server. Start it after the server, and stop it before the server."""

    def __init__(self, server: Server, limits: HttpLimits | None = None) -> None:
        self._server = server
        sources, tokens, limits = server.sources, server.tokens, limits or HttpLimits()
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
        self._connections = HttpConnections(self.api.application(), limits, self.api.count_problem)
        self._listener: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        config = self._server.config
        self._server.on_dev_control = self._observe_dev_cluster
        self._observe_dev_cluster()
        await self._connections.start()
        self._listener = await self._server.listeners.open(
            *(self._connections.accept, config.http),
            mutual=False,
            rejection_frame=BUSY_RESPONSE,
        )
        host, self.port, *_ = self._listener.sockets[0].getsockname()
        address = format_address(host, self.port)
        url = f"{'https' if config.is_secured else 'http'}://{address}"
        self._server.event_log.info(EventName.HTTP_STARTED, f"serves HTTP at {url}", http=url)

    def _observe_dev_cluster(self) -> None:
        """Observe all calls if `creek up` runs this replica."""
        if self._server.dev_control is not None:
            self.feed.observe_calls()

    def _dev_control(self) -> DevControl | None:
        return self._server.dev_control

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self.api.calls.close_all()
        await self.feed.stop()
        await self._connections.stop()

    @property
    def connections(self) -> int:
        return len(self._connections)
