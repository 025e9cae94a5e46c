"""Routes of the live page, its event stream, and the page that documents the operations.

The files contain no data of the replica, so they require no token. The event stream requires one if
the cluster has tokens. Pages served by other replicas of the cluster may follow the stream too.
"""

import mimetypes
from collections.abc import Callable, Mapping
from contextlib import aclosing
from importlib.resources import files
from typing import Final

from aiohttp import web

from creekdb.http import requests
from creekdb.http.page.feed import PageFeed
from creekdb.http.requests import HttpLimits
from creekdb.http.responses import EVENT_STREAM, HttpProblem, sse_event
from creekdb.server.security.authentication import AccessTokens
from creekdb.wire.dev_control import DevControl
from creekdb.wire.reject_reason import RejectReason

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
"""CORS headers for pages that other replicas served."""


class PageRoutes:
    def __init__(
        self,
        feed: PageFeed,
        tokens: AccessTokens,
        peer_urls: Mapping[int, str],
        dev_control: Callable[[], DevControl | None],
        limits: HttpLimits,
    ) -> None:
        """`peer_urls`: base URLs of the HTTP interfaces of all replicas, kept up to date."""
        self._feed = feed
        self._tokens = tokens
        self._peer_urls = peer_urls
        self._dev_control = dev_control
        self._limits = limits
        asset_directory = files("creekdb.http.page") / "assets"
        self._assets = {
            each.name: each.read_bytes() for each in asset_directory.iterdir() if each.is_file()
        }

    def add_routes(self, app: web.Application) -> None:
        for path in PAGE_FILES:
            app.router.add_get(path, self.page)
        app.router.add_get(ASSETS_PATH + "{name}", self.asset)
        app.router.add_get(WATCH_PATH, self.watch, allow_head=False)

    # --- authorisation ------------------------------------------------------------------------

    def is_public(self, request: web.Request) -> bool:
        """True if the path requires no token."""
        return request.path in PAGE_FILES or request.path.startswith(ASSETS_PATH)

    def is_from_foreign_page(self, request: web.Request) -> bool:
        """True if a page of another site sent the request, which must then be rejected.

        Browsers send `Origin` unless a page embeds the response, like an image, or cannot read it.
        `Sec-Fetch-Site` distinguishes these requests. A link to a page of Creek is allowed.
        """
        origin = request.headers.get("Origin")
        if origin is not None:
            return not (is_same_origin(origin, request) or self.is_from_peer_page(request))
        is_own = request.headers.get("Sec-Fetch-Site", "none") in ("same-origin", "none")
        return not (is_own or self.is_public(request))

    def is_from_peer_page(self, request: web.Request) -> bool:
        """True if a page of another replica sent the request and may request this path."""
        origin, dev_control = request.headers.get("Origin"), self._dev_control()
        if origin is None or is_same_origin(origin, request):
            return False
        if dev_control is not None and numeric_origin(origin) in dev_control.pages.values():
            return True
        peer_origins = map(numeric_origin, self._peer_urls.values())
        return request.path == WATCH_PATH and numeric_origin(origin) in peer_origins

    async def add_cors_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        if self.is_from_peer_page(request):
            response.headers["Access-Control-Allow-Origin"] = request.headers["Origin"]
            response.headers["Vary"] = "Origin"

    # --- handlers -----------------------------------------------------------------------------

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
        pages_max = self._limits.pages_max
        if self._feed.open_pages >= pages_max:
            raise HttpProblem(RejectReason.BUSY, f"{pages_max} pages are open; close one")
        stream = web.StreamResponse(headers={"Content-Type": EVENT_STREAM})
        await stream.prepare(request)
        token = requests.bearer_token(request)
        async with aclosing(self._feed.follow()) as events:
            async for event in events:
                if not self._tokens.can_call(token):
                    break  # the token was revoked
                await stream.write(b": keepalive\n\n" if event is None else sse_event(*event))
        return stream


def numeric_origin(origin: str) -> str:
    """Return the origin with `localhost` replaced by its IPv4 address."""
    return origin.replace("//localhost:", "//127.0.0.1:")


def is_same_origin(origin: str, request: web.Request) -> bool:
    return origin.partition("://")[2] == request.host
