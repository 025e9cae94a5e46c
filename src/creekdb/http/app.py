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
from creekdb.http.backend import Asked, Behind
from creekdb.http.calls import LAST, Call, Calls, answer_body
from creekdb.http.operations import Described, Operations
from creekdb.http.page.routes import ALLOWED, PagePaths, is_from
from creekdb.http.requests import Invocation, Limits
from creekdb.http.responses import EVENTS, Problem, event
from creekdb.http.schema import to_json
from creekdb.server.observability import metrics
from creekdb.server.observability.metrics import Family, gauge, text_of
from creekdb.wire.addresses import is_loopback
from creekdb.wire.messages import Refused

BEAT_S: Final = 15.0
"""Between two signs of life to who follows a call."""
COUNTED_ELSEWHERE: Final = ("operation_raised", "untold")
"""What is no refusal, or one that the replica counts."""
OPEN: Final = ("/health", "/ready")
"""What one may ask for without a token."""
KINDS: Final = {
    "tentative": frozenset(("tentative", *LAST)),
    "stable": LAST,
    "final": LAST,
}
"""Which answers are what one waits for."""

_log = logging.getLogger("creekdb.http")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Paths:
    def __init__(
        self,
        behind: Behind,
        operations: Operations,
        page: PagePaths,
        version: str,
        limits: Limits,
    ) -> None:
        self._behind = behind
        self._limits = limits
        self._page = page
        self._operations = operations
        self._description = openapi.description(self._operations, version, limits)
        self.calls = Calls()
        self.requests = 0
        self.followed = 0
        self.answered: Counter[int] = Counter()

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._guard], client_max_size=self._limits.body_bytes)
        app.on_response_prepare.append(_prepare)
        app.on_response_prepare.append(self._page.welcome)
        self._page.add_to(app)
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
        self.requests += 1
        try:
            response = await self._answer(request, handler)
        finally:
            self.requests -= 1
        self.answered[response.status] += 1
        return response

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._admit(request)
            if request.method == "OPTIONS" and self._page.is_visited(request):
                return web.Response(status=204, headers=ALLOWED)
            return await handler(request)
        except Problem as problem:
            if problem.name not in COUNTED_ELSEWHERE:
                self._behind.count(problem.name)
            return _problem(problem)
        except web.HTTPMethodNotAllowed as error:
            allowed = ", ".join(sorted(error.allowed_methods))
            what = f"{request.method} cannot be done here, but {allowed}"
            return _problem(Problem("method", what), Allow=allowed)
        except web.HTTPNotFound:
            told = "/docs tells people which paths there are, and /openapi.json programs"
            return _problem(Problem("not_found", told))
        except ConnectionError:
            raise  # nobody is there any more
        except Exception:  # noqa: BLE001 - whatever it is, it is told, here and in the log
            _log.exception("%s %s failed", request.method, request.path)
            what = "something broke here that should not: its log tells more"
            return _problem(Problem("internal", what, certainly_not_done=False))

    def _admit(self, request: web.Request) -> None:
        most = self._limits.requests
        if self.requests > most:
            raise Problem("busy", f"{most} requests are under way: try again later")
        origin = request.headers.get("Origin")
        if origin is not None and not (is_from(origin, request) or self._page.is_visited(request)):
            raise Problem("origin", f"a page of {origin} asks, and this is {request.host}")
        if self._behind.trusts_this_machine() and not _is_this_machine(request):
            # A page of another site, whose name was made to lead here.
            raise Problem("origin", f"this machine is asked for as {request.host}: say localhost")
        if request.method == "OPTIONS" or request.path in OPEN or self._page.is_open(request):
            return
        if not self._behind.allows(requests.token_of(request)):
            raise Problem("token", "send 'Authorization: Bearer …' with a token of this cluster")

    # --- operations ---------------------------------------------------------------------------

    async def invoke(self, request: web.Request) -> web.StreamResponse:
        try:
            operation = self._operations.find(request.match_info["name"])
        except UnknownName as error:
            raise Problem("unknown_operation", str(error)) from error
        asked = requests.invocation(request, self._limits)
        one_answer = operation.readonly and not asked.strong
        if one_answer and asked.wait != "tentative":
            told = (
                "has one answer, and that is tentative: call it strongly to wait for a stable one"
            )
            raise Problem("bad_arguments", f"'{operation.name}' only reads; weakly, it {told}")
        try:
            arguments = operation.arguments(await requests.body_of(request, self._limits))
        except BadValue as error:
            raise Problem("bad_arguments", str(error)) from error
        call = Call(operation.name, asked.strong, one_answer)
        call.enough = self._behind.invoke(_asked(operation, arguments, asked), call.hear)
        await call.until_begun()
        if call.refused is not None:
            raise _refused(call.refused)
        self.calls.keep(call)
        if EVENTS in request.headers.get("Accept", ""):
            return await self._follow(request, call)
        return await self._wait(call, asked)

    async def _wait(self, call: Call, asked: Invocation) -> web.StreamResponse:
        where = {"Location": f"/calls/{call.id}"}
        try:
            async with asyncio.timeout(asked.timeout_s):
                answer = await call.first(KINDS[asked.wait])
        except TimeoutError:
            answer = None
        if answer is None:
            await self._until_kept(call)
            answer = call.found(KINDS[asked.wait])  # meanwhile, perhaps
        if answer is None and call.refused is not None:  # to ask later would not help
            raise _refused(call.refused, call.body())
        if answer is None:
            return _json(call.body(), 202, where)
        if call.has_one_answer:  # and that is told now
            self.calls.drop(call)
            where = {}
        body = {"call": call.id, "operation": call.operation, **answer_body(answer)}
        if answer.error is not None:
            is_last = answer.kind in LAST
            del body["error"]
            raise Problem("operation_raised", answer.error, certainly_not_done=is_last, more=body)
        return _json(body, 200, where)

    async def _until_kept(self, call: Call) -> None:
        """Who is told of a call, by its name, may rely on it: as with an answer, it is on disk
        before, where answers wait for that."""
        if call.has_one_answer:
            return  # nobody would miss it
        answered = asyncio.ensure_future(call.first(KINDS["tentative"]))
        kept = asyncio.ensure_future(self._behind.is_kept())
        try:
            await asyncio.wait((answered, kept), return_when=asyncio.FIRST_COMPLETED)
            if not call.answers and not await kept:
                told = "the call does not get to the disk of this replica, and may be lost with it"
                raise Problem("disk", told, certainly_not_done=False, more={"call": call.id})
        finally:
            answered.cancel()
            kept.cancel()

    async def call(self, request: web.Request) -> web.StreamResponse:
        requests.no_query(request)
        return _json(self._found(request).body())

    async def events(self, request: web.Request) -> web.StreamResponse:
        requests.no_query(request)
        return await self._follow(request, self._found(request))

    def _found(self, request: web.Request) -> Call:
        id = request.match_info["id"]
        call = self.calls.find(id)
        if call is None:
            told = "a replica knows the last calls that were made there over HTTP, until it stops"
            raise Problem("unknown_call", f"no call '{id}' is known here: {told}")
        return call

    async def _follow(self, request: web.Request, call: Call) -> web.StreamResponse:
        await self._until_kept(call)
        most = self._limits.followed
        if self.followed >= most:
            told = f"{most} calls are followed already: ask for /calls/{call.id} instead"
            raise Problem("busy", told, certainly_not_done=False, more={"call": call.id})
        stream = web.StreamResponse(
            headers={"Content-Type": EVENTS, "Location": f"/calls/{call.id}"}
        )
        self.followed += 1
        try:
            await stream.prepare(request)
            await stream.write(event("issued", {"call": call.id, "operation": call.operation}))
            async for answer in call.follow(BEAT_S):
                if answer is None:
                    await stream.write(b": still there\n\n")
                else:
                    await stream.write(event(answer.kind, answer_body(answer)))
            if call.refused is not None:
                await stream.write(event(call.refused.reason, _refused(call.refused).body()))
            await stream.write_eof()
        finally:
            self.followed -= 1
        return stream

    # --- looking ------------------------------------------------------------------------------

    async def state(self, request: web.Request) -> web.StreamResponse:
        asked = requests.reading(request, self._limits)
        lengths = self._behind.readable_lengths()
        held = {"oldest": lengths[0], "newest": lengths[-1]}
        at = lengths[-1] if asked.at is None else asked.at
        if at not in lengths:
            name = "state_gone" if at < lengths[0] else "state_to_come"
            told = f"the states after {lengths[0]} to {lengths[-1]} requests can be read here"
            raise Problem(name, f"{told}, not that after {at}", more=held)
        items: list[dict[str, Any]] = []
        size, more = 0, False
        with closing(self._behind.committed_items(at, asked.start, asked.stop)) as registers:
            for key, value in registers:
                more = len(items) == asked.limit or size > self._limits.state_bytes
                if more:
                    break
                items.append({"key": to_json(key), "value": to_json(value)})
                size += len(msgspec.json.encode(items[-1]))
        if not await self._behind.is_durable():
            raise Problem(
                "disk", "what was committed last does not get to the disk of this replica"
            )
        after = msgspec.json.encode(items[-1]["key"]).decode() if more else None
        return _json({"at": at, **held, "items": items, "next": after})

    async def status(self, request: web.Request) -> web.StreamResponse:
        requests.no_query(request)
        return _json(self._behind.status())

    async def health(self, request: web.Request) -> web.StreamResponse:
        requests.no_query(request)
        return _json({"alive": True})

    async def ready(self, request: web.Request) -> web.StreamResponse:
        requests.no_query(request)
        reasons = self._behind.unready()
        if reasons:
            raise Problem("not_ready", "; ".join(reasons), more={"reasons": reasons})
        return _json({"ready": True})

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        requests.no_query(request)
        text = self._behind.metrics() + text_of(self._families())
        return web.Response(body=text.encode(), headers={"Content-Type": metrics.CONTENT_TYPE})

    async def openapi(self, request: web.Request) -> web.StreamResponse:
        requests.no_query(request)
        return _json(self._description)

    def _families(self) -> list[Family]:
        answers = [({"status": str(status)}, n) for status, n in sorted(self.answered.items())]
        return [
            Family("creek_http_answers_total", "counter", "Answers over HTTP.", answers),
            gauge("creek_http_requests", "Requests over HTTP that are under way.", self.requests),
            gauge("creek_http_followed", "Calls that somebody follows.", self.followed),
        ]


def _asked(operation: Described, arguments: tuple[Any, ...], asked: Invocation) -> Asked:
    return Asked(
        operation.name,
        arguments,
        asked.strong,
        asked.client,
        asked.number,
        asked.after,
        max(1, int(asked.timeout_s * 1000)),
    )


def _refused(refused: Refused, more: dict[str, Any] | None = None) -> Problem:
    certain = refused.certain
    return Problem(refused.reason, refused.message, certainly_not_done=certain, more=more)


def _is_this_machine(request: web.Request) -> bool:
    """As far as it says whom it asks."""
    try:
        host = urlsplit(f"//{request.headers.get('Host', 'localhost')}").hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)


def _json(
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


def _problem(problem: Problem, **headers: str) -> web.Response:
    headers |= problem.headers()
    return _json(problem.body(), problem.kind.status, headers, responses.CONTENT_TYPE)


async def _prepare(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "creek"
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
