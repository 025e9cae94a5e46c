"""The paths: what is asked of the replica, and how its answers look in HTTP."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from creekdb.errors import BadValue, UnknownName
from creekdb.http import openapi, requests, responses
from creekdb.http.backend import Backend, BackendCall
from creekdb.http.calls import LAST_KINDS, CallRegistry, HttpCall, response_body
from creekdb.http.operations import OperationCatalog, OperationSpec
from creekdb.http.page.routes import CORS_HEADERS, PageRoutes, is_same_origin
from creekdb.http.requests import HttpLimits, InvokeRequest
from creekdb.http.responses import EVENT_STREAM, HttpProblem, sse_event
from creekdb.http.schema import to_json
from creekdb.server.observability import metrics
from creekdb.server.observability.metrics import MetricFamily, gauge, render_metrics
from creekdb.wire.addresses import is_loopback
from creekdb.wire.messages import Rejected

KEEPALIVE_S: Final = 15.0
"""Between two signs of life to who follows a call."""
UNCOUNTED_PROBLEMS: Final = ("operation_raised", "untold")
"""What is no refusal, or one that the replica counts."""
PUBLIC_PATHS: Final = ("/health", "/ready")
"""What one may ask for without a token."""
KINDS_BY_WAIT: Final = {
    "tentative": frozenset(("tentative", *LAST_KINDS)),
    "stable": LAST_KINDS,
    "final": LAST_KINDS,
}
"""Which answers are what one waits for."""

_log = logging.getLogger("creekdb.http")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpApi:
    def __init__(
        self,
        behind: Backend,
        operations: OperationCatalog,
        page: PageRoutes,
        version: str,
        limits: HttpLimits,
    ) -> None:
        self._backend = behind
        self._limits = limits
        self._page = page
        self._operations = operations
        self._openapi_document = openapi.openapi_document(self._operations, version, limits)
        self.calls = CallRegistry()
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
        app.router.add_get("/calls/{id}", self.call)
        app.router.add_get("/calls/{id}/events", self.events)
        app.router.add_get("/state", self.state)
        app.router.add_get("/status", self.status)
        app.router.add_get("/health", self.health)
        app.router.add_get("/ready", self.ready)
        app.router.add_get("/metrics", self.metrics)
        app.router.add_get("/openapi.json", self.openapi)
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

    async def _respond(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._authorize(request)
            if request.method == "OPTIONS" and self._page.is_from_peer_page(request):
                return web.Response(status=204, headers=CORS_HEADERS)
            return await handler(request)
        except HttpProblem as problem:
            if problem.name not in UNCOUNTED_PROBLEMS:
                self._backend.count_rejection(problem.name)
            return _problem_response(problem)
        except web.HTTPMethodNotAllowed as error:
            allowed = ", ".join(sorted(error.allowed_methods))
            what = f"{request.method} cannot be done here, but {allowed}"
            return _problem_response(HttpProblem("method", what), Allow=allowed)
        except web.HTTPNotFound:
            told = "/docs tells people which paths there are, and /openapi.json programs"
            return _problem_response(HttpProblem("not_found", told))
        except ConnectionError:
            raise  # nobody is there any more
        except Exception:  # noqa: BLE001 - whatever it is, it is told, here and in the log
            _log.exception("%s %s failed", request.method, request.path)
            what = "something broke here that should not: its log tells more"
            return _problem_response(HttpProblem("internal", what, certainly_not_done=False))

    def _authorize(self, request: web.Request) -> None:
        most = self._limits.requests_max
        if self.active_requests > most:
            raise HttpProblem("busy", f"{most} requests are under way: try again later")
        origin = request.headers.get("Origin")
        if origin is not None and not (
            is_same_origin(origin, request) or self._page.is_from_peer_page(request)
        ):
            raise HttpProblem("origin", f"a page of {origin} asks, and this is {request.host}")
        if self._backend.is_loopback_only() and not _has_loopback_host(request):
            # A page of another site, whose name was made to lead here.
            raise HttpProblem(
                "origin", f"this machine is asked for as {request.host}: say localhost"
            )
        if (
            request.method == "OPTIONS"
            or request.path in PUBLIC_PATHS
            or self._page.is_public(request)
        ):
            return
        if not self._backend.allows(requests.bearer_token(request)):
            raise HttpProblem(
                "token", "send 'Authorization: Bearer …' with a token of this cluster"
            )

    # --- operations ---------------------------------------------------------------------------

    async def invoke(self, request: web.Request) -> web.StreamResponse:
        try:
            operation = self._operations.find(request.match_info["name"])
        except UnknownName as error:
            raise HttpProblem("unknown_operation", str(error)) from error
        asked = requests.parse_invoke_request(request, self._limits)
        one_answer = operation.is_readonly and not asked.strong
        if one_answer and asked.wait != "tentative":
            told = (
                "has one answer, and that is tentative: call it strongly to wait for a stable one"
            )
            raise HttpProblem("bad_arguments", f"'{operation.name}' only reads; weakly, it {told}")
        try:
            arguments = operation.arguments(await requests.read_json_body(request, self._limits))
        except BadValue as error:
            raise HttpProblem("bad_arguments", str(error)) from error
        call = HttpCall(operation.name, asked.strong, one_answer)
        call.unsubscribe = self._backend.invoke(
            _backend_call(operation, arguments, asked), call.receive
        )
        await call.wait_issued()
        if call.rejection is not None:
            raise _rejection_problem(call.rejection)
        self.calls.add(call)
        if EVENT_STREAM in request.headers.get("Accept", ""):
            return await self._stream_events(request, call)
        return await self._wait_response(call, asked)

    async def _wait_response(self, call: HttpCall, asked: InvokeRequest) -> web.StreamResponse:
        where = {"Location": f"/calls/{call.id}"}
        try:
            async with asyncio.timeout(asked.timeout_s):
                answer = await call.wait_first_response(KINDS_BY_WAIT[asked.wait])
        except TimeoutError:
            answer = None
        if answer is None:
            await self._wait_durable(call)
            answer = call.first_response(KINDS_BY_WAIT[asked.wait])  # meanwhile, perhaps
        if answer is None and call.rejection is not None:  # to ask later would not help
            raise _rejection_problem(call.rejection, call.body())
        if answer is None:
            return _json_response(call.body(), 202, where)
        if call.has_single_response:  # and that is told now
            self.calls.remove(call)
            where = {}
        body = {"call": call.id, "operation": call.operation, **response_body(answer)}
        if answer.error is not None:
            is_last = answer.kind in LAST_KINDS
            del body["error"]
            raise HttpProblem(
                "operation_raised", answer.error, certainly_not_done=is_last, more=body
            )
        return _json_response(body, 200, where)

    async def _wait_durable(self, call: HttpCall) -> None:
        """Who is told of a call, by its name, may rely on it: as with an answer, it is on disk
        before, where answers wait for that."""
        if call.has_single_response:
            return  # nobody would miss it
        answered = asyncio.ensure_future(call.wait_first_response(KINDS_BY_WAIT["tentative"]))
        kept = asyncio.ensure_future(self._backend.wait_call_durable())
        try:
            await asyncio.wait((answered, kept), return_when=asyncio.FIRST_COMPLETED)
            if not call.responses and not await kept:
                told = "the call does not get to the disk of this replica, and may be lost with it"
                raise HttpProblem("disk", told, certainly_not_done=False, more={"call": call.id})
        finally:
            answered.cancel()
            kept.cancel()

    async def call(self, request: web.Request) -> web.StreamResponse:
        requests.reject_query_parameters(request)
        return _json_response(self._find_call(request).body())

    async def events(self, request: web.Request) -> web.StreamResponse:
        requests.reject_query_parameters(request)
        return await self._stream_events(request, self._find_call(request))

    def _find_call(self, request: web.Request) -> HttpCall:
        id = request.match_info["id"]
        call = self.calls.get(id)
        if call is None:
            told = "a replica knows the last calls that were made there over HTTP, until it stops"
            raise HttpProblem("unknown_call", f"no call '{id}' is known here: {told}")
        return call

    async def _stream_events(self, request: web.Request, call: HttpCall) -> web.StreamResponse:
        await self._wait_durable(call)
        most = self._limits.event_streams_max
        if self.open_event_streams >= most:
            told = f"{most} calls are followed already: ask for /calls/{call.id} instead"
            raise HttpProblem("busy", told, certainly_not_done=False, more={"call": call.id})
        stream = web.StreamResponse(
            headers={"Content-Type": EVENT_STREAM, "Location": f"/calls/{call.id}"}
        )
        self.open_event_streams += 1
        try:
            await stream.prepare(request)
            await stream.write(sse_event("issued", {"call": call.id, "operation": call.operation}))
            async for answer in call.follow(KEEPALIVE_S):
                if answer is None:
                    await stream.write(b": still there\n\n")
                else:
                    await stream.write(sse_event(answer.kind, response_body(answer)))
            if call.rejection is not None:
                await stream.write(
                    sse_event(call.rejection.reason, _rejection_problem(call.rejection).body())
                )
            await stream.write_eof()
        finally:
            self.open_event_streams -= 1
        return stream

    # --- looking ------------------------------------------------------------------------------

    async def state(self, request: web.Request) -> web.StreamResponse:
        asked = requests.parse_state_request(request, self._limits)
        lengths = self._backend.readable_lengths()
        held = {"oldest": lengths[0], "newest": lengths[-1]}
        at = lengths[-1] if asked.at is None else asked.at
        if at not in lengths:
            name = "state_gone" if at < lengths[0] else "state_to_come"
            told = f"the states after {lengths[0]} to {lengths[-1]} requests can be read here"
            raise HttpProblem(name, f"{told}, not that after {at}", more=held)
        items: list[dict[str, Any]] = []
        size, more = 0, False
        with closing(self._backend.committed_items(at, asked.start, asked.stop)) as registers:
            for key, value in registers:
                more = len(items) == asked.limit or size > self._limits.state_bytes_max
                if more:
                    break
                items.append({"key": to_json(key), "value": to_json(value)})
                size += len(msgspec.json.encode(items[-1]))
        if not await self._backend.wait_durable():
            raise HttpProblem(
                "disk", "what was committed last does not get to the disk of this replica"
            )
        after = msgspec.json.encode(items[-1]["key"]).decode() if more else None
        return _json_response({"at": at, **held, "items": items, "next": after})

    async def status(self, request: web.Request) -> web.StreamResponse:
        requests.reject_query_parameters(request)
        return _json_response(self._backend.status())

    async def health(self, request: web.Request) -> web.StreamResponse:
        requests.reject_query_parameters(request)
        return _json_response({"alive": True})

    async def ready(self, request: web.Request) -> web.StreamResponse:
        requests.reject_query_parameters(request)
        reasons = self._backend.readiness_problems()
        if reasons:
            raise HttpProblem("not_ready", "; ".join(reasons), more={"reasons": reasons})
        return _json_response({"ready": True})

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        requests.reject_query_parameters(request)
        text = self._backend.metrics() + render_metrics(self._metric_families())
        return web.Response(body=text.encode(), headers={"Content-Type": metrics.CONTENT_TYPE})

    async def openapi(self, request: web.Request) -> web.StreamResponse:
        requests.reject_query_parameters(request)
        return _json_response(self._openapi_document)

    def _metric_families(self) -> list[MetricFamily]:
        answers = [
            ({"status": str(status)}, n) for status, n in sorted(self.responses_by_status.items())
        ]
        return [
            MetricFamily("creek_http_answers_total", "counter", "Answers over HTTP.", answers),
            gauge(
                "creek_http_requests",
                "Requests over HTTP that are under way.",
                self.active_requests,
            ),
            gauge("creek_http_followed", "Calls that somebody follows.", self.open_event_streams),
        ]


def _backend_call(
    operation: OperationSpec, arguments: tuple[Any, ...], asked: InvokeRequest
) -> BackendCall:
    return BackendCall(
        operation.name,
        arguments,
        asked.strong,
        asked.client,
        asked.number,
        asked.after,
        max(1, int(asked.timeout_s * 1000)),
    )


def _rejection_problem(refused: Rejected, more: dict[str, Any] | None = None) -> HttpProblem:
    certain = refused.is_certain
    return HttpProblem(refused.reason, refused.message, certainly_not_done=certain, more=more)


def _has_loopback_host(request: web.Request) -> bool:
    """As far as it says whom it asks."""
    try:
        host = urlsplit(f"//{request.headers.get('Host', 'localhost')}").hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)


def _json_response(
    body: Any,
    status: int = 200,
    headers: dict[str, str] | None = None,
    content_type: str = "application/json",
) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body) + b"\n",
        status=status,
        headers={**(headers or {}), "Content-Type": content_type},
    )


def _problem_response(problem: HttpProblem, **headers: str) -> web.Response:
    headers |= problem.headers()
    return _json_response(
        problem.body(), problem.kind.status, headers, responses.PROBLEM_CONTENT_TYPE
    )


async def _add_common_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "creek"
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
