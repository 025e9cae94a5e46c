"""The socket on which a replica speaks HTTP."""

from importlib.metadata import version
from typing import Final

from aiohttp import web

from creek.cluster.server import Server
from creek.cluster.wire import address_of
from creek.gateway.app import Paths
from creek.gateway.limits import Limits
from creek.gateway.replica import LiveReplica

STOP_S: Final = 1.0
"""How long requests under way may take when it is stopped."""


class Gateway:
    """To be started when its server has, and stopped before it is."""

    def __init__(self, server: Server, limits: Limits | None = None) -> None:
        self._server = server
        self.paths = Paths(LiveReplica(server), version("creek"), limits or Limits())
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self) -> None:
        host, port = address_of(self._server.config.http)
        secured = self._server.answering(mutual=False)
        runner = web.AppRunner(self.paths.application(), access_log=None, shutdown_timeout=STOP_S)
        await runner.setup()
        self._runner = runner
        await web.TCPSite(runner, host, port, ssl_context=secured).start()
        self.port = runner.addresses[0][1]
        where = f"{'https' if secured else 'http'}://{host}:{self.port}"
        self._server.events.info("http.started", f"speaks HTTP at {where}", http=where)

    async def stop(self) -> None:
        self.paths.calls.end()
        if self._runner is not None:
            await self._runner.cleanup()
