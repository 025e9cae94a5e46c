"""Connections of an HTTP listener, and the limits that each client must keep.

Rule 1: a request header arrives within `idle_timeout_s` of the connection or of the last response.
Rule 2: a client reads each response within `write_timeout_s`.
Rule 3: above `connections_max`, a new connection replaces the one that has waited longest for its
client, to send a request header or to read a response. If none waits, the new one receives 503.
Rule 4: every error is a problem document, also the response to bytes that are not HTTP. Internal
errors are logged. All others are only counted, since any client can cause them.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from creekdb.http.requests import HttpLimits
from creekdb.http.responses import HttpProblem, encode_problem, problem_response
from creekdb.wire.reject_reason import RejectReason

_log = logging.getLogger("creekdb.http")

BUSY_RESPONSE = encode_problem(
    HttpProblem(RejectReason.BUSY, "all connections are in use; retry later")
)
"""Response to a connection above the limit."""


class HttpConnections:
    """Open connections of one listener. `count` counts the problems that no route has reported."""

    def __init__(
        self, app: web.Application, limits: HttpLimits, count: Callable[[HttpProblem], None]
    ) -> None:
        self.limits = limits
        self.count = count
        self._runner = web.AppRunner(app, shutdown_timeout=limits.shutdown_timeout_s)
        self._server: web.Server | None = None
        self._open: set[web.RequestHandler] = set()
        self._waiting: dict[web.RequestHandler, None] = {}
        """Connections that wait for their client, in the order in which they began to wait."""

    def __len__(self) -> int:
        return len(self._open)

    async def start(self) -> None:
        await self._runner.setup()
        self._server = self._runner.server
        assert self._server is not None
        self._server.request_factory = partial(self._begin_request, self._server.request_factory)

    async def stop(self) -> None:
        await self._runner.cleanup()

    def accept(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        assert self._server is not None, "connections are accepted after the start"
        return HttpConnection(self._server, self)

    def admit(self, connection: "HttpConnection") -> bool:
        """Return False if the connection is above the limit and replaces no other one."""
        if len(self._open) >= self.limits.connections_max:
            self.count(HttpProblem(RejectReason.BUSY, "too many connections"))
            if not self._waiting:
                return False
            longest_waiting = cast(HttpConnection, next(iter(self._waiting)))
            self.remove(longest_waiting)
            longest_waiting.abort()
        self._open.add(connection)
        self.mark_waiting(connection)
        return True

    def remove(self, connection: web.RequestHandler) -> None:
        self._open.discard(connection)
        self._waiting.pop(connection, None)

    def mark_waiting(self, connection: web.RequestHandler) -> None:
        if connection in self._open:
            self._waiting[connection] = None

    def mark_serving(self, connection: web.RequestHandler) -> None:
        self._waiting.pop(connection, None)

    def _begin_request(
        self, make_request: Callable[..., web.BaseRequest], *arguments: Any
    ) -> web.BaseRequest:
        request = make_request(*arguments)
        self.mark_serving(request.protocol)
        return request


class HttpConnection(web.RequestHandler):
    """Connection of one client."""

    def __init__(self, server: web.Server, connections: HttpConnections) -> None:
        limits = connections.limits
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # None disables the log
            logger=_log,
            keepalive_timeout=limits.idle_timeout_s,
            lingering_time=limits.linger_timeout_s,
            max_line_size=limits.header_line_bytes_max,
            max_field_size=limits.header_line_bytes_max,
            max_headers=limits.headers_max,
            auto_decompress=False,  # a small body could expand to gigabytes
        )
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        if not self._connections.admit(self):
            self.force_close()  # received bytes are ignored
            self._transport.write(BUSY_RESPONSE)
            self._transport.close()
            return
        # Writing is paused whenever the client has not read everything.
        self._transport.set_write_buffer_limits(high=1, low=0)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.remove(self)
        self._cancel_write_timer()
        super().connection_lost(exc)

    def abort(self) -> None:
        """Close the connection without sending the rest of a response."""
        if self._transport is not None:
            self._transport.abort()

    # --- responses ----------------------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self._connections.mark_waiting(self)
        timeout_s = self._connections.limits.write_timeout_s
        self._write_timer = asyncio.get_running_loop().call_later(timeout_s, self.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._connections.mark_serving(self)
        self._cancel_write_timer()

    def _cancel_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        if isinstance(resp, web.HTTPException):  # raised before the middleware
            resp = self._report(HttpProblem(RejectReason.MALFORMED, resp.text or resp.reason))
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self._connections.mark_waiting(self)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if isinstance(exc, ConnectionError):
            raise exc  # the client has disconnected
        if isinstance(exc, HttpProcessingError):
            response = self._report(_parser_problem(exc))
        else:
            _log.error("%s %s failed", request.method, request.path, exc_info=exc)
            if request.writer.output_size > 0:
                raise ConnectionError("the response has already begun")
            detail = "unexpected error; see the log of this replica"
            response = self._report(HttpProblem(RejectReason.INTERNAL_ERROR, detail))
        response.force_close()
        return response

    def _report(self, problem: HttpProblem) -> web.Response:
        self._connections.count(problem)
        return problem_response(problem)


def _parser_problem(error: HttpProcessingError) -> HttpProblem:
    if isinstance(error, LineTooLong) or error.message == "Too many headers received":
        return HttpProblem(RejectReason.HEADER_TOO_LARGE, error.message)
    return HttpProblem(RejectReason.MALFORMED, f"the request is not valid HTTP: {error.message}")
