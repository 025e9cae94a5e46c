"""Limits of the HTTP interface, and the parsing of queries, headers and bodies.

A problem names the parameter or header that caused it.
"""

import asyncio
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec
from aiohttp import web

from creekdb.errors import BadValue
from creekdb.execution.keys import (
    FIRST_COLLATION_KEY,
    LAST_COLLATION_KEY,
    CollationKey,
    check_key,
    collation_key,
    prefix_range,
)
from creekdb.http.responses import HttpProblem
from creekdb.http.schema import Schema
from creekdb.protocol.effects import ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.values import Key, freeze
from creekdb.server.calls.admission_control import DEPENDENCIES_MAX
from creekdb.server.transport.client_connection import CLIENT_ID_LENGTH_MAX
from creekdb.wire.changes import parse_start
from creekdb.wire.deduplication import CALLS_PER_CLIENT_MAX
from creekdb.wire.messages import CLIENT_FRAME_BYTES_MAX
from creekdb.wire.reject_reason import RejectReason
from creekdb.wire.tentative import TENTATIVE_VIEW


class HttpLimits(NamedTuple):
    body_bytes_max: int = CLIENT_FRAME_BYTES_MAX
    body_timeout_s: float = 30.0
    """Upper bound for the time in which a body must arrive, in seconds."""
    header_line_bytes_max: int = 8190
    """Upper bound for the request line and for each header, in bytes."""
    headers_max: int = 128
    """Upper bound for the headers of a request."""
    idle_timeout_s: float = 75.0
    """Upper bound for the time until the next request header is complete, in seconds."""
    write_timeout_s: float = 60.0
    """Upper bound for the time in which a client must read a response, in seconds."""
    linger_timeout_s: float = 5.0
    """Time for which the rest of a rejected body is read and ignored, in seconds."""
    shutdown_timeout_s: float = 1.0
    """Upper bound for the time that open requests get to finish at a stop, in seconds."""
    connections_max: int = 2048
    requests_max: int = 1024
    """Upper bound for concurrent requests, including open event streams."""
    event_streams_max: int = 256
    pages_max: int = 16
    """Upper bound for concurrently open pages."""
    page_idle_timeout_s: float = 300.0
    """Time for which updates of the page continue without an open page, in seconds."""
    calls_max: int = 16_384
    """Upper bound for the retained calls."""
    response_bytes_max: int = 64 * 1024 * 1024
    """Upper bound for the retained responses, in bytes."""
    timeout_s_default: float = 30.0
    """Default time that a request waits for the response, in seconds."""
    timeout_s_max: float = 300.0
    items_default: int = 100
    """Default number of registers in one response."""
    items_max: int = 1000
    heartbeat_s: float = 10.0
    """Interval between comments on a change feed without changes, in seconds."""
    state_bytes_max: int = 4 * 1024 * 1024
    """Size at which a response with registers is cut off, in bytes."""


CLIENT_HEADER: Final = "Creek-Client"
CALL_NUMBER_HEADER: Final = "Creek-Call"

_DIGITS: Final = re.compile(r"[0-9]{1,18}")
_SECONDS: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")


class RequestParameter(NamedTuple):
    """Parameter of a query or header, as OpenAPI describes it. Requests are validated with it."""

    name: str
    schema: Schema
    description: str
    location: str = "query"
    valid: str = ""
    """Texts that match the pattern of the schema."""

    def parse(self, text: str) -> Any:
        match self.schema:
            case {"enum": choices} if text not in choices:
                valid = f"one of {', '.join(choices)}"
            case {"pattern": pattern} if not re.fullmatch(pattern, text):
                valid = self.valid
            case {"type": "integer", "minimum": minimum, "maximum": maximum}:
                if _DIGITS.fullmatch(text) and minimum <= int(text) <= maximum:
                    return int(text)
                valid = f"an integer from {minimum} to {maximum}"
            case {"type": "number", "maximum": maximum}:
                if _SECONDS.fullmatch(text) and float(text) <= maximum:
                    return float(text)
                valid = f"a number of seconds, up to {maximum:g}"
            case _:
                return text
        raise _malformed(f"{self.name} is '{text}': it must be {valid}")


@cache
def invoke_parameters(limits: HttpLimits) -> tuple[RequestParameter, ...]:
    dot = r"[0-9]{1,9}\.[1-9][0-9]{0,17}"
    timeout = {"maximum": limits.timeout_s_max, "default": limits.timeout_s_default}
    return (
        RequestParameter(
            "consistency",
            {"type": "string", "enum": ["weak", "strong"], "default": "weak"},
            "Consistency of the call.",
        ),
        RequestParameter(
            "wait",
            {"type": "string", "enum": [*ResponseKind]},
            "Response to wait for: `tentative` is any response; `stable` and `final` are the last "
            "response of a strong and of a weak call. Default: the first response of a weak call, "
            "the stable response of a strong call.",
        ),
        RequestParameter(
            "timeout",
            {"type": "number", "minimum": 0, **timeout},
            "Upper bound for the wait for the response, in seconds.",
        ),
        RequestParameter(
            "after",
            {"type": "string", "pattern": f"^{dot}(,{dot}){{0,{DEPENDENCIES_MAX - 1}}}$"},
            "Calls of other replicas that must be executed before this one: '0.17,2.4'.",
            valid=f"1 to {DEPENDENCIES_MAX} calls such as 0.17, separated by commas",
        ),
        RequestParameter(
            CLIENT_HEADER,
            {"type": "string", "pattern": f"^[!-~]{{1,{CLIENT_ID_LENGTH_MAX}}}$"},
            "Client name, chosen by the client. A retry with the same name and number, at this or "
            "another replica, is not executed again.",
            "header",
            f"a name of 1 to {CLIENT_ID_LENGTH_MAX} printable ASCII characters without spaces",
        ),
        RequestParameter(
            CALL_NUMBER_HEADER,
            {"type": "string", "pattern": f"^{_DIGITS.pattern}$"},
            "Number of the call; must increase with every call of the client.",
            "header",
            "an integer that increases with every call; a retry repeats one of the last "
            f"{CALLS_PER_CLIENT_MAX}",
        ),
    )


_TAGGED: Final = "tagged"


@cache
def sql_parameters(limits: HttpLimits) -> tuple[RequestParameter, ...]:
    return (
        *invoke_parameters(limits),
        RequestParameter(
            "integers",
            {"type": "string", "enum": ["number", _TAGGED], "default": "number"},
            'Form of the integers beyond 53 bits in responses: numbers, or `{"$integer": "…"}` '
            "for clients that round such numbers, such as JavaScript.",
        ),
    )


@cache
def state_parameters(limits: HttpLimits) -> tuple[RequestParameter, ...]:
    limit = {"maximum": limits.items_max, "default": limits.items_default}
    return (
        RequestParameter(
            "prefix",
            {"type": "string"},
            'Key prefix: text for string keys (`ap`), a JSON array for tuple keys (`["account"]`).',
        ),
        RequestParameter(
            "limit",
            {"type": "integer", "minimum": 1, **limit},
            "Upper bound for the number of registers.",
        ),
        RequestParameter(
            "at",
            {"type": "integer", "minimum": 0, "maximum": 10**18 - 1},
            "Number of requests that the state includes. Default: all stable requests.",
        ),
        RequestParameter(
            "after", {"type": "string"}, "Key after which to continue: `next` of the last page."
        ),
    )


LAST_EVENT_HEADER: Final = "Last-Event-ID"
CHANGES_PARAMETERS: Final = (
    RequestParameter(
        "start",
        {"type": "string", "pattern": "^(earliest|latest|[1-9][0-9]{0,17})$"},
        "Index of the first change, `earliest` or `latest`. Default: after `Last-Event-ID`, "
        "otherwise `latest` if `follow` is true and `earliest` if not.",
        valid="earliest, latest, or an index of at least 1",
    ),
    RequestParameter(
        "prefix",
        {"type": "string"},
        'Key prefix: text for string keys (`ap`), a JSON array for tuple keys (`["account"]`).',
    ),
    RequestParameter(
        "table",
        {"type": "string"},
        "SQL table whose changes are sent, with the columns of its rows.",
    ),
    RequestParameter(
        "view",
        {"type": "string", "enum": [TENTATIVE_VIEW]},
        "`tentative` also sends the changes that are not final, with their stages as events.",
    ),
    RequestParameter(
        "cluster",
        {"type": "string"},
        "Identity of the cluster that `start` belongs to, from the header `Creek-Cluster`.",
    ),
    RequestParameter(
        "follow",
        {"type": "string", "enum": ["true", "false"], "default": "true"},
        "Whether the stream waits for further changes, or ends after the last one.",
    ),
    RequestParameter(
        LAST_EVENT_HEADER,
        {"type": "string", "pattern": f"^([!-~]+:)?{_DIGITS.pattern}$"},
        "`id` of the last received event. Browsers send it when they reconnect. It takes "
        "precedence over `start` and `cluster`. An index without a cluster fits any cluster.",
        "header",
        "the id of an event",
    ),
)


class ChangesStart(NamedTuple):
    """Changes that a request selects."""

    start: int
    cluster: str
    prefix: str | tuple[str | int, ...] | None
    table: str
    view: str
    follow: bool


class InvokeRequest(NamedTuple):
    strong: bool
    wait: ResponseKind
    timeout_s: float
    client: str
    number: int
    after: tuple[Dot, ...]
    has_tagged_integers: bool


class StateRequest(NamedTuple):
    start: CollationKey
    stop: CollationKey
    limit: int
    at: int | None


def bearer_token(request: web.Request) -> str:
    """Return the bearer token of the request, or an empty string."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.isascii() else ""


async def read_json_body(request: web.Request, limits: HttpLimits) -> Any:
    """Return the decoded JSON body; an empty body stands for an empty object."""
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise HttpProblem(
            RejectReason.MEDIA_TYPE,
            f"Content-Encoding '{encoding}' is not supported; send the body uncompressed",
        )
    try:
        async with asyncio.timeout(limits.body_timeout_s):
            body = await request.read()
    except TimeoutError as error:
        raise HttpProblem(
            RejectReason.BODY_TIMEOUT, f"the body did not arrive within {limits.body_timeout_s:g} s"
        ) from error
    except web.RequestPayloadError as error:
        raise _malformed(f"the body is not valid HTTP: {error}") from error
    except web.HTTPRequestEntityTooLarge as error:
        raise HttpProblem(
            RejectReason.TOO_LARGE, f"the body exceeds {limits.body_bytes_max} bytes"
        ) from error
    if not body:
        return {}
    if request.content_type != "application/json":
        received = f"'{request.content_type}'"
        raise HttpProblem(
            RejectReason.MEDIA_TYPE, f"Content-Type must be application/json, not {received}"
        )
    return _decode_json(body, "the body")


def parse_invoke_request(request: web.Request, limits: HttpLimits) -> InvokeRequest:
    return _invoke_request(_parse_query(request, invoke_parameters(limits)))


def parse_sql_request(request: web.Request, limits: HttpLimits) -> InvokeRequest:
    return _invoke_request(_parse_query(request, sql_parameters(limits)))


def _invoke_request(query: dict[str, Any]) -> InvokeRequest:
    strong = query["consistency"] == "strong"
    default_wait = ResponseKind.STABLE if strong else ResponseKind.TENTATIVE
    wait = ResponseKind(query.get("wait", default_wait))
    client, number = query.get(CLIENT_HEADER, ""), int(query.get(CALL_NUMBER_HEADER, 0))
    dots = query["after"].split(",") if "after" in query else ()
    after = tuple(Dot(*map(int, dot.split("."))) for dot in dots)
    is_tagged = query.get("integers") == _TAGGED
    return InvokeRequest(strong, wait, query["timeout"], client, number, after, is_tagged)


def parse_state_request(request: web.Request, limits: HttpLimits) -> StateRequest:
    query = _parse_query(request, state_parameters(limits))
    start, stop = FIRST_COLLATION_KEY, LAST_COLLATION_KEY
    if "prefix" in query:
        start, stop = prefix_range(_parse_prefix(query["prefix"]))
    if "after" in query:
        # The position directly after the key, before any other key.
        start = max(start, (*collation_key(_parse_key(query["after"], "after")), -1))
    return StateRequest(start, stop, query["limit"], query.get("at"))


def parse_changes_request(request: web.Request) -> ChangesStart:
    query = _parse_query(request, CHANGES_PARAMETERS)
    follow = query["follow"] == "true"
    cluster = query.get("cluster", "")
    if LAST_EVENT_HEADER in query:
        identity, _, index = query[LAST_EVENT_HEADER].rpartition(":")
        start, cluster = int(index) + 1, unquote(identity) or cluster
    else:
        parsed = parse_start(query.get("start", "latest" if follow else "earliest"))
        assert parsed is not None, "the pattern of the parameter permits no other text"
        start = parsed
    prefix = _parse_prefix(query["prefix"]) if "prefix" in query else None
    table = query.get("table", "")
    if table and prefix is not None:
        raise _malformed("prefix and table exclude each other; omit one of them")
    view = query.get("view", "")
    if view and not follow:
        raise _malformed("a tentative view has no end; omit follow=false")
    return ChangesStart(start, cluster, prefix, table, view, follow)


def reject_query_parameters(request: web.Request) -> None:
    _parse_query(request, ())


def _parse_query(request: web.Request, parameters: Sequence[RequestParameter]) -> dict[str, Any]:
    """Return the values of query and headers, and the defaults of the other parameters.

    A request has all headers among the parameters, or none of them.
    """
    known = {each.name: each for each in parameters if each.location == "query"}
    headers = [each for each in parameters if each.location == "header"]
    query: dict[str, Any] = {}
    for name, text in request.query.items():
        if name not in known:
            valid = f"use {', '.join(known)}" if known else "the path takes none"
            raise _malformed(f"unknown query parameter '{name}': {valid}")
        if name in query:
            raise _malformed(f"query parameter '{name}' is repeated; send it once")
        query[name] = known[name].parse(text)
    for each in headers:
        if len(request.headers.getall(each.name, ())) > 1:
            raise _malformed(f"header '{each.name}' is repeated; send it once")
    if any(each.name in request.headers for each in headers):
        query |= {each.name: each.parse(request.headers.get(each.name, "")) for each in headers}
    defaults = {
        each.name: each.schema["default"] for each in parameters if "default" in each.schema
    }
    return defaults | query


def _parse_prefix(text: str) -> str | tuple[str | int, ...]:
    """Parse the prefix of a string key, or of a tuple key as a JSON array.

    A string prefix that begins with `[` or `"` must be written as a JSON string.
    """
    key = _parse_key(text, "prefix", is_json=text[:1] in ("[", '"'))
    assert not isinstance(key, int)
    return key


def _parse_key(text: str, name: str, is_json: bool = True) -> Key:
    value = _decode_json(text.encode(errors="surrogatepass"), name) if is_json else text
    key: Key = freeze(value)
    try:
        check_key(key)
    except BadValue as error:
        raise _malformed(f"{name}: {error}") from error
    return key


def _decode_json(text: bytes, subject: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise _malformed(f"{subject} is not valid JSON: {error}") from error


def _malformed(detail: str) -> HttpProblem:
    return HttpProblem(RejectReason.MALFORMED, detail)
