"""Endpoint of `creek up` through which pages of its development cluster inject and heal faults.

It listens on the loopback interface and accepts only pages that replicas of this cluster served.
The `Origin` must be one of those replicas, `Host` must be this endpoint, and the secret must match.
Only those pages receive the secret. Bodies are JSON, so that no HTML form of another site can send
one.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, Protocol

import msgspec
from aiohttp import web

from creekdb.errors import CreekError
from creekdb.http.connections import HttpConnections
from creekdb.http.page.routes import numeric_origin
from creekdb.http.requests import HttpLimits
from creekdb.http.responses import PROBLEM_CONTENT_TYPE
from creekdb.wire.dev_control import SECRET_HEADER as SECRET_HEADER

BODY_MAX: Final = 64 * 1024
HOST: Final = "127.0.0.1"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Link = tuple[int, int]


class FaultPort(Protocol):
    """Fault injection into a cluster. An invalid request raises an error and changes nothing."""

    def kill(self, replica: int) -> None:
        """Kill a replica; it stays down until `start`."""

    def start(self, replica: int) -> None:
        """Start a replica unless it runs."""

    def cut(self, links: Iterable[Link]) -> None: ...

    def heal(self, links: Iterable[Link]) -> None: ...


class _ReplicaBody(msgspec.Struct, forbid_unknown_fields=True):
    replica: int


class _LinksBody(msgspec.Struct, forbid_unknown_fields=True):
    links: list[Link]


class FaultControlServer:
    def __init__(self, cluster: FaultPort, pages: Iterable[str], secret: str) -> None:
        self._pages = frozenset(pages)
        self._secret = secret
        app = web.Application(middlewares=[self._guard], client_max_size=BODY_MAX)
        actions: tuple[tuple[str, type[msgspec.Struct], Callable[..., None]], ...] = (
            ("/kill", _ReplicaBody, cluster.kill),
            ("/start", _ReplicaBody, cluster.start),
            ("/cut", _LinksBody, cluster.cut),
            ("/heal", _LinksBody, cluster.heal),
        )
        for path, body, inject in actions:
            app.router.add_post(path, partial(_inject, body, inject))
        limits = HttpLimits(shutdown_timeout_s=0.2)
        self._connections = HttpConnections(app, limits, count=lambda _: None)
        self._listener: asyncio.Server | None = None
        self.address = ""

    async def start(self) -> None:
        await self._connections.start()
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._connections.accept, HOST, 0)
        self.address = f"http://{HOST}:{self._listener.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        await self._connections.stop()

    # --- every request ------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin", "")
        if numeric_origin(origin) not in self._pages or f"http://{request.host}" != self.address:
            return _error_response(
                403, "request rejected: only pages of this cluster may inject faults"
            )
        response = await self._respond(request, handler)
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Cache-Control"] = "no-store"
        return response

    async def _respond(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method == "OPTIONS":
            allowed = {
                "Access-Control-Allow-Methods": "POST",
                "Access-Control-Allow-Headers": f"content-type, {SECRET_HEADER.lower()}",
            }
            return web.Response(status=204, headers=allowed)
        secret = request.headers.get(SECRET_HEADER, "").encode()
        if not hmac.compare_digest(secret, self._secret.encode()):
            return _error_response(
                403, "request rejected: the page is of an earlier cluster; reload it"
            )
        if request.content_type != "application/json":
            return _error_response(415, "request rejected: the body must be JSON")
        try:
            return await handler(request)
        except msgspec.DecodeError as error:
            return _error_response(400, str(error))
        except CreekError as error:
            return _error_response(409, str(error))
        except web.HTTPException as error:
            return _error_response(error.status, error.reason)


async def _inject(
    body: type[msgspec.Struct], inject: Callable[..., None], request: web.Request
) -> web.Response:
    arguments = msgspec.json.decode(await request.read(), type=body)
    inject(*msgspec.structs.astuple(arguments))
    return web.Response(body=b'{"done":true}', content_type="application/json")


def _error_response(status: int, detail: str) -> web.Response:
    body = msgspec.json.encode({"status": status, "detail": detail})
    return web.Response(status=status, body=body, content_type=PROBLEM_CONTENT_TYPE)
