"""Where pages of a trial ask `creek up` to break things, and to mend them.

It listens on this machine only, and hears nobody but pages that replicas of this trial have served:
the `Origin` must be one of theirs, `Host` this machine, and the secret is one that only those pages
were told. Bodies are JSON, so that no plain form of another site can send one.
"""

import hmac
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol

import msgspec
from aiohttp import web

from creekdb.errors import CreekError
from creekdb.http.page.routes import numeric_origin

SECRET_HEADER: Final = "Creek-Trial"
BODY_MAX: Final = 64 * 1024
HOST: Final = "127.0.0.1"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Link = tuple[int, int]


class FaultPort(Protocol):
    """A cluster that can be broken. What makes no sense raises an error, and changes nothing."""

    def kill(self, replica: int) -> None:
        """It stays dead until it is started."""

    def start(self, replica: int) -> None:
        """If it does not run."""

    def cut(self, links: Iterable[Link]) -> None: ...

    def heal(self, links: Iterable[Link]) -> None: ...


class _ReplicaBody(msgspec.Struct, forbid_unknown_fields=True):
    replica: int


class _LinksBody(msgspec.Struct, forbid_unknown_fields=True):
    links: list[Link]


class FaultControlServer:
    def __init__(self, cluster: FaultPort, pages: Iterable[str], secret: str) -> None:
        self._cluster = cluster
        self._pages = frozenset(pages)
        self._secret = secret
        app = web.Application(middlewares=[self._guard], client_max_size=BODY_MAX)
        for path, work in (
            ("/kill", self._kill),
            ("/start", self._start),
            ("/cut", self._cut),
            ("/heal", self._heal),
        ):
            app.router.add_post(path, work)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        self.address = ""

    async def start(self) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, 0).start()
        self.address = f"http://{HOST}:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        await self._runner.cleanup()

    # --- every request ------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin", "")
        if numeric_origin(origin) not in self._pages or f"http://{request.host}" != self.address:
            return _error_response(403, "only pages of this trial may ask")
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
        given = request.headers.get(SECRET_HEADER, "").encode()
        if not hmac.compare_digest(given, self._secret.encode()):
            return _error_response(403, "the page is of an earlier trial: load it again")
        if request.content_type != "application/json":
            return _error_response(415, "the body must be JSON")
        try:
            return await handler(request)
        except msgspec.DecodeError as error:
            return _error_response(400, str(error))
        except CreekError as error:
            return _error_response(409, str(error))
        except web.HTTPException as error:
            return _error_response(error.status, error.reason)

    # --- what can be asked --------------------------------------------------------------------

    async def _kill(self, request: web.Request) -> web.Response:
        self._cluster.kill(msgspec.json.decode(await request.read(), type=_ReplicaBody).replica)
        return _done_response()

    async def _start(self, request: web.Request) -> web.Response:
        self._cluster.start(msgspec.json.decode(await request.read(), type=_ReplicaBody).replica)
        return _done_response()

    async def _cut(self, request: web.Request) -> web.Response:
        self._cluster.cut(msgspec.json.decode(await request.read(), type=_LinksBody).links)
        return _done_response()

    async def _heal(self, request: web.Request) -> web.Response:
        self._cluster.heal(msgspec.json.decode(await request.read(), type=_LinksBody).links)
        return _done_response()


def _done_response() -> web.Response:
    return _json_response(200, {"done": True})


def _error_response(status: int, why: str) -> web.Response:
    return _json_response(status, {"status": status, "detail": why})


def _json_response(status: int, body: Any) -> web.Response:
    headers = {"Content-Type": "application/json"}
    return web.Response(status=status, body=msgspec.json.encode(body), headers=headers)
