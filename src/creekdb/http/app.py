"""Paths of the HTTP interface: authorisation, calls, event streams, state, status and metrics."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from creekdb.errors import BadValue, UnknownName
from creekdb.execution.operation_errors import split_error_text
from creekdb.http import openapi, requests, sql
from creekdb.http.backend import ReplicaBackend
from creekdb.http.calls import LAST_KINDS, CallRegistry, HttpCall
from creekdb.http.changes import CHANGES_PATH, ChangeEvents, retry_response
from creekdb.http.operations import OperationCatalog, OperationSpec
from creekdb.http.page.routes import CORS_HEADERS, PageRoutes
from creekdb.http.requests import HttpLimits, InvokeRequest
from creekdb.http.responses import (
    COMMON_HEADERS,
    EVENT_STREAM,
    HttpProblem,
    RejectedCall,
    json_response,
    problem_response,
    sse_event,
)
from creekdb.protocol.effects import ResponseKind
from creekdb.server.observability import metrics
from creekdb.wire.addresses import is_loopback
from creekdb.wire.json_values import to_json
from creekdb.wire.messages import CallRequest
from creekdb.wire.reject_reason import RejectReason

KEEPALIVE_S: Final = 15.0
"""Interval between keepalive comments on an idle event stream, in seconds."""
PUBLIC_PATHS: Final = ("/health", "/ready")
"""Paths that require no token."""
KINDS_BY_WAIT: Final = {
    ResponseKind.TENTATIVE: frozenset(ResponseKind),
    ResponseKind.STABLE: LAST_KINDS,
    ResponseKind.FINAL: LAST_KINDS,
}
"""Response kinds that satisfy each value of the query parameter `wait`."""

_log = logging.getLogger("creekdb.http")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpApi:
    def __init__(
        self,
        backend: ReplicaBackend,
        operations: OperationCatalog,
        page: PageRoutes,
        version: str,
        limits: HttpLimits,
    ) -> None:
        self._backend = backend
        self._limits = limits
        self._page = page
        self._operations = operations
        self._openapi_document = openapi.openapi_document(self._operations, version, limits)
        self.calls = CallRegistry(limits.calls_max, limits.response_bytes_max)
        self._changes = ChangeEvents(backend.sources.clients.changes, limits)
        self.active_requests = 0
        self.open_event_streams = 0
        self.responses_by_status: Counter[int] = Counter()

    def application(self) -> web.Application:
        app = web.Application(
            middlewares=[self._guard], client_max_size=self._limits.body_bytes_max
        )
        app.on_response_prepare.append(_add_common_headers)
        app.on_response_prepare.append(self._page.add_cors_headers)
        self._page.add_routes(app)
        app.router.add_post("/operations/{name}", self.invoke)
        if sql.is_supported(self._operations):
            app.router.add_post(sql.PATH, self.execute_sql)
        app.router.add_get("/calls/{id}/events", self.events, allow_head=False)
        app.router.add_get(CHANGES_PATH, self._changes.stream, allow_head=False)
        app.router.add_get("/state", self.state)
        app.router.add_get("/metrics", self.metrics)
        documents: dict[str, Callable[[web.Request], Any]] = {
            "/calls/{id}": lambda request: self._find_call(request).body(),
            "/status": lambda _: self._backend.sources.status(),
            "/health": lambda _: {"alive": True},
            "/ready": lambda _: self._readiness(),
            "/openapi.json": lambda _: self._openapi_document,
        }
        for path, document in documents.items():
            app.router.add_get(path, partial(_serve_document, document))
        return app

    # --- every request ------------------------------------------------------------------------

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.active_requests += 1
        try:
            response = await self._respond(request, handler)
        finally:
            self.active_requests -= 1
        self.responses_by_status[response.status] += 1
        return response

    def count_problem(self, problem: HttpProblem) -> None:
        """Count a problem that was reported before a route was found."""
        self.responses_by_status[problem.status] += 1
        self._backend.sources.dispatcher.count(problem.reason)

    async def _respond(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._authorize(request)
            if request.method == "OPTIONS" and self._page.is_from_peer_page(request):
                return web.Response(status=204, headers=CORS_HEADERS)
            return await handler(request)
        except HttpProblem as problem:
            if problem.is_counted:
                self._backend.sources.dispatcher.count(problem.reason)
            return retry_response(request, problem) or problem_response(problem)
        except web.HTTPMethodNotAllowed as error:
            allowed = ", ".join(sorted(error.allowed_methods))
            detail = f"{request.method} is not supported; use {allowed}"
            unsupported = HttpProblem(RejectReason.UNSUPPORTED_METHOD, detail)
            return problem_response(unsupported, Allow=allowed)
        except web.HTTPNotFound:
            detail = "see /docs for the paths, or /openapi.json for their description"
            return problem_response(HttpProblem(RejectReason.UNKNOWN_PATH, detail))
        except ConnectionError:
            raise  # the client has disconnected
        except Exception:  # noqa: BLE001 - every error is reported to the client and logged
            _log.exception("%s %s failed", request.method, request.path)
            detail = "unexpected error; see the log of this replica"
            return problem_response(HttpProblem(RejectReason.INTERNAL_ERROR, detail))

    def _authorize(self, request: web.Request) -> None:
        requests_max, is_probe = self._limits.requests_max, request.path in PUBLIC_PATHS
        if self.active_requests > requests_max and not is_probe:
            raise HttpProblem(
                RejectReason.BUSY, f"{requests_max} requests are in progress; retry later"
            )
        if self._page.is_from_foreign_page(request):
            origin = request.headers.get("Origin", "another site")
            detail = f"the origin is {origin}, but the host is {request.host}"
            raise HttpProblem(RejectReason.FOREIGN_ORIGIN, detail)
        if self._backend.is_loopback_only() and not _has_loopback_host(request):
            # DNS rebinding: a page of another site whose host name resolves to this machine.
            detail = f"the host is {request.host}, but only localhost is served; use localhost"
            raise HttpProblem(RejectReason.FOREIGN_ORIGIN, detail)
        if request.method == "OPTIONS" or is_probe or self._page.is_public(request):
            return
        if not self._backend.tokens.can_call(requests.bearer_token(request)):
            raise HttpProblem(
                RejectReason.TOKEN, "send 'Authorization: Bearer …' with a token of this cluster"
            )

    # --- operations ---------------------------------------------------------------------------

    async def invoke(self, request: web.Request) -> web.StreamResponse:
        try:
            operation = self._operations.find(request.match_info["name"])
        except UnknownName as error:
            raise HttpProblem(RejectReason.UNKNOWN_OPERATION, str(error)) from error
        invocation = requests.parse_invoke_request(request, self._limits)
        return await self._call(
            request, invocation, lambda body: (operation, operation.arguments(body))
        )

    async def execute_sql(self, request: web.Request) -> web.StreamResponse:
        """Execute the SQL statements of the body as one transaction."""
        invocation = requests.parse_sql_request(request, self._limits)
        return await self._call(
            request, invocation, partial(sql.parse_statements, self._operations)
        )

    async def _call(
        self,
        request: web.Request,
        invocation: InvokeRequest,
        parse: Callable[[Any], tuple[OperationSpec, tuple[Any, ...]]],
    ) -> web.StreamResponse:
        """Call the operation that `parse` finds in the body of the request."""
        body = await requests.read_json_body(request, self._limits)
        try:
            operation, arguments = parse(body)
        except BadValue as error:
            raise HttpProblem(RejectReason.BAD_ARGUMENTS, str(error)) from error
        has_single_response = operation.is_readonly and not invocation.strong
        if has_single_response and invocation.wait is not ResponseKind.TENTATIVE:
            detail = "has only a tentative response; use consistency=strong for a stable one"
            detail = f"'{operation.name}' is read-only: a weak call of it {detail}"
            raise HttpProblem(RejectReason.BAD_ARGUMENTS, detail)
        message = CallRequest(
            invocation.number,
            operation.name,
            arguments,
            invocation.strong,
            after=invocation.after,
            wait_ms=max(1, int(invocation.timeout_s * 1000)),
        )
        call = HttpCall(
            invocation.client, message, has_single_response, invocation.has_tagged_integers
        )
        call.start(self._backend.sources.dispatcher)
        await call.wait_issued()
        if call.rejection is not None:
            raise RejectedCall(call.rejection)
        self.calls.add(call)
        if EVENT_STREAM in request.headers.get("Accept", ""):
            return await self._stream_events(request, call)
        return await self._wait_response(call, invocation)

    async def _wait_response(self, call: HttpCall, invocation: InvokeRequest) -> web.StreamResponse:
        headers, kinds = {"Location": f"/calls/{call.id}"}, KINDS_BY_WAIT[invocation.wait]
        with suppress(TimeoutError):
            async with asyncio.timeout(invocation.timeout_s):
                await call.wait_first_response(kinds)
        if call.first_response(kinds) is None:
            await self._wait_durable(call)
        response = call.first_response(kinds)  # may have just arrived
        if response is None and call.rejection is not None:  # waiting longer would not help
            raise RejectedCall(call.rejection, call.body())
        if response is None:
            return json_response(call.body(), 202, headers)
        if call.has_single_response:  # no further response can be requested
            self.calls.remove(call)
            headers = {}
        body = {
            "call": call.id,
            "operation": call.request.operation,
            **call.response_body(response),
        }
        if response.outcome.error is not None:
            text = response.outcome.error
            raise HttpProblem(
                RejectReason.OPERATION_RAISED,
                text,
                certainly_not_done=response.kind in LAST_KINDS,
                extra={**body, **split_error_text(text)._asdict()},
            )
        return json_response(body, 200, headers)

    async def _wait_durable(self, call: HttpCall) -> None:
        """Wait until the call is durable; return at once if durability is 'memory'.

        A client may rely on a call whose identifier it has received.
        """
        if call.has_single_response:
            return  # a weak read-only call changes no state
        response_future = asyncio.ensure_future(
            call.wait_first_response(KINDS_BY_WAIT[ResponseKind.TENTATIVE])
        )
        durable_future = asyncio.ensure_future(self._backend.wait_call_durable())
        try:
            await asyncio.wait(
                (response_future, durable_future), return_when=asyncio.FIRST_COMPLETED
            )
            if not call.responses and not await durable_future:
                detail = "the call is not on the disk of this replica and may be lost with it"
                raise HttpProblem(
                    RejectReason.DISK, detail, certainly_not_done=False, extra={"call": call.id}
                )
        finally:
            response_future.cancel()
            durable_future.cancel()

    async def events(self, request: web.Request) -> web.StreamResponse:
        requests.reject_query_parameters(request)
        return await self._stream_events(request, self._find_call(request))

    def _find_call(self, request: web.Request) -> HttpCall:
        id = request.match_info["id"]
        call = self.calls.get(id)
        if call is None:
            detail = "a replica retains only the latest calls made there over HTTP, until it stops"
            raise HttpProblem(RejectReason.UNKNOWN_CALL, f"no call '{id}' is retained: {detail}")
        return call

    async def _stream_events(self, request: web.Request, call: HttpCall) -> web.StreamResponse:
        await self._wait_durable(call)
        streams_max = self._limits.event_streams_max
        if self.open_event_streams >= streams_max:
            detail = f"{streams_max} event streams are open; request /calls/{call.id} instead"
            raise HttpProblem(
                RejectReason.BUSY, detail, certainly_not_done=False, extra={"call": call.id}
            )
        stream = web.StreamResponse(
            headers={"Content-Type": EVENT_STREAM, "Location": f"/calls/{call.id}"}
        )
        self.open_event_streams += 1
        try:
            await stream.prepare(request)
            issued = {"call": call.id, "operation": call.request.operation}
            await stream.write(sse_event("issued", issued))
            async for response in call.follow(KEEPALIVE_S):
                if response is None:
                    await stream.write(b": keepalive\n\n")
                else:
                    await stream.write(sse_event(response.kind, call.response_body(response)))
            if call.rejection is not None:
                await stream.write(
                    sse_event(call.rejection.reason, RejectedCall(call.rejection).body())
                )
            await stream.write_eof()
        finally:
            self.open_event_streams -= 1
        return stream

    # --- reading ------------------------------------------------------------------------------

    async def state(self, request: web.Request) -> web.StreamResponse:
        query = requests.parse_state_request(request, self._limits)
        lengths = self._backend.sources.driver.replica.view.readable_lengths()
        bounds = {"oldest": lengths[0], "newest": lengths[-1]}
        at = lengths[-1] if query.at is None else query.at
        if at not in lengths:
            is_expired = at < lengths[0]
            reason = RejectReason.STATE_EXPIRED if is_expired else RejectReason.STATE_NOT_COMMITTED
            detail = f"the states after {lengths[0]} to {lengths[-1]} requests are readable"
            raise HttpProblem(reason, f"{detail}, not the state after {at}", extra=bounds)
        items: list[dict[str, Any]] = []
        size, has_more = 0, False
        with closing(self._backend.committed_items(at, query.start, query.stop)) as registers:
            for key, value in registers:
                has_more = len(items) == query.limit or size > self._limits.state_bytes_max
                if has_more:
                    break
                items.append({"key": to_json(key), "value": to_json(value)})
                size += len(msgspec.json.encode(items[-1]))
        if not await self._backend.wait_durable():
            detail = "the latest committed requests are not on the disk of this replica"
            raise HttpProblem(RejectReason.DISK, detail)
        after = msgspec.json.encode(items[-1]["key"]).decode() if has_more else None
        return json_response({"at": at, **bounds, "items": items, "next": after})

    def _readiness(self) -> dict[str, bool]:
        reasons = self._backend.readiness_problems()
        if reasons:
            raise HttpProblem(
                RejectReason.NOT_READY, "; ".join(reasons), extra={"reasons": reasons}
            )
        return {"ready": True}

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        requests.reject_query_parameters(request)
        statuses = sorted(self.responses_by_status.items())
        samples = [({"status": str(status)}, count) for status, count in statuses]
        followed = "Open event streams of calls."
        families = [
            *metrics.metric_families(self._backend.sources),
            metrics.MetricFamily(
                "creek_http_responses_total", "counter", "HTTP responses.", samples
            ),
            metrics.gauge(
                "creek_http_requests", "HTTP requests in progress.", self.active_requests
            ),
            metrics.gauge("creek_http_followed", followed, self.open_event_streams),
        ]
        body = metrics.render_metrics(families).encode()
        return web.Response(body=body, headers={"Content-Type": metrics.CONTENT_TYPE})


def _has_loopback_host(request: web.Request) -> bool:
    """True if the request has no `Host` header, or one that names a loopback address."""
    try:
        host = urlsplit(f"//{request.headers.get('Host', 'localhost')}").hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)


async def _serve_document(
    document: Callable[[web.Request], Any], request: web.Request
) -> web.StreamResponse:
    requests.reject_query_parameters(request)
    return json_response(document(request))


async def _add_common_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(COMMON_HEADERS)
