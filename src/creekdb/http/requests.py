"""How much of everything there may be.

What a request asks for: its query, its headers, its body. A mistake is told with its name.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

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
from creekdb.execution.serializable import INT_MAX
from creekdb.http.responses import HttpProblem
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.values import Key, freeze
from creekdb.server.calls.dispatcher import DEPENDENCIES_MAX
from creekdb.server.transport.client_connection import CLIENT_ID_LENGTH_MAX
from creekdb.wire.deduplication import CALLS_PER_CLIENT_MAX
from creekdb.wire.messages import CLIENT_FRAME_BYTES_MAX


class HttpLimits(NamedTuple):
    body_bytes_max: int = CLIENT_FRAME_BYTES_MAX
    body_timeout_s: float = 30.0
    """How long it may take to arrive."""
    connections_max: int = 2048
    requests_max: int = 1024
    """Under way at once, those that follow a call included."""
    event_streams_max: int = 256
    pages_max: int = 16
    """That are open at once."""
    timeout_s_default: float = 30.0
    """How long a call waits for its answer, if it does not say."""
    timeout_s_max: float = 300.0
    items_default: int = 100
    """Registers in one answer, if it is not said how many."""
    items_max: int = 1000
    state_bytes_max: int = 4 * 1024 * 1024
    """After so many, an answer with registers has an end."""


CLIENT_HEADER: Final = "Creek-Client"
CALL_NUMBER_HEADER: Final = "Creek-Call"

_DIGITS: Final = re.compile(r"[0-9]{1,18}")
_SECONDS: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")
_DOT: Final = re.compile(r"([0-9]{1,9})\.([1-9][0-9]{0,17})")
_CLIENT_NAME: Final = re.compile(rf"[!-~]{{1,{CLIENT_ID_LENGTH_MAX}}}")


class InvokeRequest(NamedTuple):
    strong: bool
    wait: str
    timeout_s: float
    client: str
    number: int
    after: tuple[Dot, ...]


class StateRequest(NamedTuple):
    start: CollationKey
    stop: CollationKey
    limit: int
    at: int | None


def bearer_token(request: web.Request) -> str:
    """Empty where there is none."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.isascii() else ""


async def read_json_body(request: web.Request, limits: HttpLimits) -> Any:
    """What the JSON of a body says; nothing at all stands for an empty object."""
    try:
        async with asyncio.timeout(limits.body_timeout_s):
            content = await request.read()
    except TimeoutError as error:
        raise HttpProblem("slow", f"it must be there within {limits.body_timeout_s:g} s") from error
    except web.HTTPRequestEntityTooLarge as error:
        raise HttpProblem("too_large", f"at most {limits.body_bytes_max} bytes are read") from error
    if not content:
        return {}
    if request.content_type != "application/json":
        told = f"'{request.content_type}'"
        raise HttpProblem("media_type", f"Content-Type must be application/json, not {told}")
    return _decode_json(content, "the body")


def parse_invoke_request(request: web.Request, limits: HttpLimits) -> InvokeRequest:
    query = _parse_query(request, "consistency", "wait", "timeout", "after")
    consistency = _parse_choice(query, "consistency", ("weak", "strong"), "weak")
    strong = consistency == "strong"
    usual = "stable" if strong else "tentative"
    wait = _parse_choice(query, "wait", ("tentative", "stable", "final"), usual)
    client, number = _parse_client_identity(request.headers)
    return InvokeRequest(
        strong, wait, _parse_timeout(query, limits), client, number, _parse_dependencies(query)
    )


def parse_state_request(request: web.Request, limits: HttpLimits) -> StateRequest:
    query = _parse_query(request, "prefix", "limit", "at", "after")
    start, stop = FIRST_COLLATION_KEY, LAST_COLLATION_KEY
    if "prefix" in query:
        start, stop = prefix_range(_parse_prefix(query["prefix"]))
    if "after" in query:
        # Right behind the key, before any other.
        start = max(start, (*collation_key(_parse_key(query["after"], "after")), -1))
    limit = limits.items_default
    if "limit" in query:
        limit = _parse_integer(query, "limit", 1, limits.items_max)
    at = _parse_integer(query, "at", 0, INT_MAX) if "at" in query else None
    return StateRequest(start, stop, limit, at)


def reject_query_parameters(request: web.Request) -> None:
    _parse_query(request)


def _parse_query(request: web.Request, *known: str) -> dict[str, str]:
    query: dict[str, str] = {}
    for name, value in request.query.items():
        if name not in known:
            told = f"known are {', '.join(known)}" if known else "there are none here"
            raise HttpProblem("malformed", f"unknown query parameter '{name}': {told}")
        if name in query:
            raise HttpProblem("malformed", f"query parameter '{name}' stands there twice")
        query[name] = value
    return query


def _parse_choice(query: Mapping[str, str], name: str, known: tuple[str, ...], usual: str) -> str:
    value = query.get(name, usual)
    if value not in known:
        raise HttpProblem("malformed", f"{name} is '{value}': it must be one of {', '.join(known)}")
    return value


def _parse_integer(query: Mapping[str, str], name: str, least: int, most: int) -> int:
    text = query[name]
    if not _DIGITS.fullmatch(text) or not least <= int(text) <= most:
        raise HttpProblem(
            "malformed", f"{name} is '{text}': it must be a number, {least} to {most}"
        )
    return int(text)


def _parse_timeout(query: Mapping[str, str], limits: HttpLimits) -> float:
    text = query.get("timeout", str(limits.timeout_s_default))
    if not _SECONDS.fullmatch(text) or float(text) > limits.timeout_s_max:
        told = f"it must be a number of seconds, up to {limits.timeout_s_max:g}"
        raise HttpProblem("malformed", f"timeout is '{text}': {told}")
    return float(text)


def _parse_dependencies(query: Mapping[str, str]) -> tuple[Dot, ...]:
    if "after" not in query:
        return ()
    dots: list[Dot] = []
    for text in query["after"].split(","):
        match = _DOT.fullmatch(text)
        if match is None:
            raise HttpProblem("malformed", f"after holds '{text}', which is no call such as 0.17")
        dots.append(Dot(int(match[1]), int(match[2])))
    if len(dots) > DEPENDENCIES_MAX:
        raise HttpProblem(
            "malformed", f"after holds {len(dots)} calls: at most {DEPENDENCIES_MAX} are taken"
        )
    return tuple(dots)


def _parse_client_identity(headers: Mapping[str, str]) -> tuple[str, int]:
    if CLIENT_HEADER not in headers and CALL_NUMBER_HEADER not in headers:
        return "", 0
    client, number = headers.get(CLIENT_HEADER, ""), headers.get(CALL_NUMBER_HEADER, "")
    if not _CLIENT_NAME.fullmatch(client):
        told = f"up to {CLIENT_ID_LENGTH_MAX} printable ASCII characters without spaces"
        raise HttpProblem("malformed", f"{CLIENT_HEADER} must be a name of your own, {told}")
    if not _DIGITS.fullmatch(number):
        told = f"the next for each call, and the same again within the last {CALLS_PER_CLIENT_MAX}"
        raise HttpProblem(
            "malformed", f"{CALL_NUMBER_HEADER} must be a number, {told}, to ask again"
        )
    return client, int(number)


def _parse_prefix(text: str) -> str | tuple[str | int, ...]:
    """The beginning of a string; of a tuple, as a JSON array; of a string that looks like one of
    these, as a JSON string."""
    if text[:1] not in ("[", '"'):
        checked: str = _checked_key(text, "prefix")
        return checked
    key = _parse_key(text, "prefix")
    assert not isinstance(key, int)
    return key


def _parse_key(text: str, name: str) -> Key:
    key: Key = _checked_key(_decode_json(text.encode(errors="surrogatepass"), name), name)
    return key


def _checked_key(value: Any, name: str) -> Any:
    key = freeze(value)
    try:
        check_key(key)
    except BadValue as error:
        raise HttpProblem("malformed", f"{name}: {error}") from error
    return key


def _decode_json(text: bytes, what: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise HttpProblem("malformed", f"{what} is no JSON: {error}") from error
