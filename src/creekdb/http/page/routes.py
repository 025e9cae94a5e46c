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
from creekdb.http.page.feed import Feed
from creekdb.http.requests import Limits
from creekdb.http.responses import EVENTS, Problem, event
from creekdb.server.runtime.server import Server

WATCH: Final = "/watch"
ASSETS: Final = "/page/"
PAGES: Final = {"/": "index.html", "/docs": "docs.html"}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self' http: https:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
ALLOWED: Final = {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "authorization, content-type",
    "Access-Control-Max-Age": "600",
}
"""To pages of fellow replicas."""


class PagePaths:
    def __init__(self, server: Server, feed: Feed, limits: Limits) -> None:
        self._server = server
        self._feed = feed
        self._limits = limits
        folder = files("creekdb.http.page") / "assets"
        self._assets = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}

    def add_to(self, app: web.Application) -> None:
        for path in PAGES:
            app.router.add_get(path, self.page)
        app.router.add_get(ASSETS + "{name}", self.asset)
        app.router.add_get(WATCH, self.watch)

    # --- who may ask --------------------------------------------------------------------------

    def is_open(self, request: web.Request) -> bool:
        """May everybody ask for this, without a token?"""
        return request.path in PAGES or request.path.startswith(ASSETS)

    def is_visited(self, request: web.Request) -> bool:
        """Does a page ask that another replica has served, and may it ask for this?"""
        origin, trial = request.headers.get("Origin"), self._server.trial
        if origin is None or is_from(origin, request):
            return False
        if trial is not None and numeric(origin) in trial.pages.values():
            return True
        fellows = map(numeric, self._server.peers.http.values())
        return request.path == WATCH and numeric(origin) in fellows

    async def welcome(self, request: web.Request, response: web.StreamResponse) -> None:
        if self.is_visited(request):
            response.headers["Access-Control-Allow-Origin"] = request.headers["Origin"]
            response.headers["Vary"] = "Origin"

    # --- what they get ------------------------------------------------------------------------

    async def page(self, request: web.Request) -> web.StreamResponse:
        return self._file(PAGES[request.path])

    async def asset(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in self._assets:
            raise web.HTTPNotFound
        return self._file(name)

    def _file(self, name: str) -> web.Response:
        kind, _ = mimetypes.guess_type(name)
        headers = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
        return web.Response(
            body=self._assets[name], content_type=kind, charset="utf-8", headers=headers
        )

    async def watch(self, request: web.Request) -> web.StreamResponse:
        requests.no_query(request)
        most = self._limits.pages
        if self._feed.pages >= most:
            raise Problem("busy", f"{most} pages are open already: close one")
        stream = web.StreamResponse(headers={"Content-Type": EVENTS})
        await stream.prepare(request)
        token, desk = requests.token_of(request), self._server.desk
        async with aclosing(self._feed.follow()) as following:
            async for told in following:
                if not desk.tokens.allow(token):
                    break  # it was taken away meanwhile
                await stream.write(b": still there\n\n" if told is None else event(*told))
        return stream


def numeric(origin: str) -> str:
    """Of this machine, people know another name."""
    return origin.replace("//localhost:", "//127.0.0.1:")


def is_from(origin: str, request: web.Request) -> bool:
    return origin.partition("://")[2] == request.host
