"""The page itself, and its stream; and a page of the operations and how to call them.

The pages hold nothing of the replica: everybody may have them. The stream asks for a token where
others do. Pages that another replica of the same cluster has served may follow it, too.
"""

import mimetypes
from contextlib import aclosing
from importlib.resources import files
from typing import Final

from aiohttp import web

from creekdb.http import requests
from creekdb.http.page.feed import PageFeed
from creekdb.http.requests import HttpLimits
from creekdb.http.responses import EVENT_STREAM, HttpProblem, sse_event
from creekdb.server.runtime.server import Server

WATCH_PATH: Final = "/watch"
ASSETS_PATH: Final = "/page/"
PAGE_FILES: Final = {"/": "index.html", "/docs": "docs.html"}
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self' http: https:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
CORS_HEADERS: Final = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "authorization, content-type",
    "Access-Control-Max-Age": "600",
}
"""To pages of fellow replicas."""


class PageRoutes:
    def __init__(self, server: Server, feed: PageFeed, limits: HttpLimits) -> None:
        self._server = server
        self._feed = feed
        self._limits = limits
        folder = files("creekdb.http.page") / "assets"
        self._assets = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}

    def add_routes(self, app: web.Application) -> None:
        for path in PAGE_FILES:
            app.router.add_get(path, self.page)
        app.router.add_get(ASSETS_PATH + "{name}", self.asset)
        app.router.add_get(WATCH_PATH, self.watch)

    # --- who may ask --------------------------------------------------------------------------

    def is_public(self, request: web.Request) -> bool:
        """May everybody ask for this, without a token?"""
        return request.path in PAGE_FILES or request.path.startswith(ASSETS_PATH)

    def is_from_peer_page(self, request: web.Request) -> bool:
        """Does a page ask that another replica has served, and may it ask for this?"""
        origin, trial = request.headers.get("Origin"), self._server.dev_control
        if origin is None or is_same_origin(origin, request):
            return False
        if trial is not None and numeric_origin(origin) in trial.pages.values():
            return True
        fellows = map(numeric_origin, self._server.peers.http_urls.values())
        return request.path == WATCH_PATH and numeric_origin(origin) in fellows

    async def add_cors_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        if self.is_from_peer_page(request):
            response.headers["Access-Control-Allow-Origin"] = request.headers["Origin"]
            response.headers["Vary"] = "Origin"

    # --- what they get ------------------------------------------------------------------------

    async def page(self, request: web.Request) -> web.StreamResponse:
        return self._file_response(PAGE_FILES[request.path])

    async def asset(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in self._assets:
            raise web.HTTPNotFound
        return self._file_response(name)

    def _file_response(self, name: str) -> web.Response:
        kind, _ = mimetypes.guess_type(name)
        headers = {
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
            "Referrer-Policy": "no-referrer",
        }
        return web.Response(
            body=self._assets[name], content_type=kind, charset="utf-8", headers=headers
        )

    async def watch(self, request: web.Request) -> web.StreamResponse:
        requests.reject_query_parameters(request)
        most = self._limits.pages_max
        if self._feed.open_pages >= most:
            raise HttpProblem("busy", f"{most} pages are open already: close one")
        stream = web.StreamResponse(headers={"Content-Type": EVENT_STREAM})
        await stream.prepare(request)
        token, desk = requests.bearer_token(request), self._server.dispatcher
        async with aclosing(self._feed.follow()) as following:
            async for told in following:
                if not desk.tokens.can_call(token):
                    break  # it was taken away meanwhile
                await stream.write(b": still there\n\n" if told is None else sse_event(*told))
        return stream


def numeric_origin(origin: str) -> str:
    """Of this machine, people know another name."""
    return origin.replace("//localhost:", "//127.0.0.1:")


def is_same_origin(origin: str, request: web.Request) -> bool:
    return origin.partition("://")[2] == request.host
