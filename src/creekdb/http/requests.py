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
    FIRST_PLACE,
    LAST_PLACE,
    Place,
    check_key,
    place,
    prefix_range,
)
from creekdb.execution.serializable import INT_MAX
from creekdb.http.responses import Problem
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.values import Key, frozen
from creekdb.server.calls.dispatcher import AFTER_MAX
from creekdb.server.transport.client_connection import CLIENT_LENGTH_MAX
from creekdb.wire.deduplication import CALLS_KEPT
from creekdb.wire.messages import CLIENT_FRAME_MAX


class Limits(NamedTuple):
    body_bytes: int = CLIENT_FRAME_MAX
    body_s: float = 30.0
    """How long it may take to arrive."""
    connections: int = 2048
    requests: int = 1024
    """Under way at once, those that follow a call included."""
    followed: int = 256
    pages: int = 16
    """That are open at once."""
    timeout_s: float = 30.0
    """How long a call waits for its answer, if it does not say."""
    timeout_s_max: float = 300.0
    items: int = 100
    """Registers in one answer, if it is not said how many."""
    items_max: int = 1000
    state_bytes: int = 4 * 1024 * 1024
    """After so many, an answer with registers has an end."""


CLIENT: Final = "Creek-Client"
NUMBER: Final = "Creek-Call"

_DIGITS: Final = re.compile(r"[0-9]{1,18}")
_SECONDS: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")
_DOT: Final = re.compile(r"([0-9]{1,9})\.([1-9][0-9]{0,17})")
_CLIENT: Final = re.compile(rf"[!-~]{{1,{CLIENT_LENGTH_MAX}}}")


class Invocation(NamedTuple):
    strong: bool
    wait: str
    timeout_s: float
    client: str
    number: int
    after: tuple[Dot, ...]


class Reading(NamedTuple):
    start: Place
    stop: Place
    limit: int
    at: int | None


def token_of(request: web.Request) -> str:
    """Empty where there is none."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.isascii() else ""


async def body_of(request: web.Request, limits: Limits) -> Any:
    """What the JSON of a body says; nothing at all stands for an empty object."""
    try:
        async with asyncio.timeout(limits.body_s):
            content = await request.read()
    except TimeoutError as error:
        raise Problem("slow", f"it must be there within {limits.body_s:g} s") from error
    except web.HTTPRequestEntityTooLarge as error:
        raise Problem("too_large", f"at most {limits.body_bytes} bytes are read") from error
    if not content:
        return {}
    if request.content_type != "application/json":
        told = f"'{request.content_type}'"
        raise Problem("media_type", f"Content-Type must be application/json, not {told}")
    return _decoded(content, "the body")


def invocation(request: web.Request, limits: Limits) -> Invocation:
    query = _query(request, "consistency", "wait", "timeout", "after")
    consistency = _one_of(query, "consistency", ("weak", "strong"), "weak")
    strong = consistency == "strong"
    usual = "stable" if strong else "tentative"
    wait = _one_of(query, "wait", ("tentative", "stable", "final"), usual)
    client, number = _identity(request.headers)
    return Invocation(strong, wait, _timeout(query, limits), client, number, _after(query))


def reading(request: web.Request, limits: Limits) -> Reading:
    query = _query(request, "prefix", "limit", "at", "after")
    start, stop = FIRST_PLACE, LAST_PLACE
    if "prefix" in query:
        start, stop = prefix_range(_prefix(query["prefix"]))
    if "after" in query:
        # Right behind the key, before any other.
        start = max(start, (*place(_key(query["after"], "after")), -1))
    limit = limits.items
    if "limit" in query:
        limit = _integer(query, "limit", 1, limits.items_max)
    at = _integer(query, "at", 0, INT_MAX) if "at" in query else None
    return Reading(start, stop, limit, at)


def no_query(request: web.Request) -> None:
    _query(request)


def _query(request: web.Request, *known: str) -> dict[str, str]:
    query: dict[str, str] = {}
    for name, value in request.query.items():
        if name not in known:
            told = f"known are {', '.join(known)}" if known else "there are none here"
            raise Problem("malformed", f"unknown query parameter '{name}': {told}")
        if name in query:
            raise Problem("malformed", f"query parameter '{name}' stands there twice")
        query[name] = value
    return query


def _one_of(query: Mapping[str, str], name: str, known: tuple[str, ...], usual: str) -> str:
    value = query.get(name, usual)
    if value not in known:
        raise Problem("malformed", f"{name} is '{value}': it must be one of {', '.join(known)}")
    return value


def _integer(query: Mapping[str, str], name: str, least: int, most: int) -> int:
    text = query[name]
    if not _DIGITS.fullmatch(text) or not least <= int(text) <= most:
        raise Problem("malformed", f"{name} is '{text}': it must be a number, {least} to {most}")
    return int(text)


def _timeout(query: Mapping[str, str], limits: Limits) -> float:
    text = query.get("timeout", str(limits.timeout_s))
    if not _SECONDS.fullmatch(text) or float(text) > limits.timeout_s_max:
        told = f"it must be a number of seconds, up to {limits.timeout_s_max:g}"
        raise Problem("malformed", f"timeout is '{text}': {told}")
    return float(text)


def _after(query: Mapping[str, str]) -> tuple[Dot, ...]:
    if "after" not in query:
        return ()
    dots: list[Dot] = []
    for text in query["after"].split(","):
        match = _DOT.fullmatch(text)
        if match is None:
            raise Problem("malformed", f"after holds '{text}', which is no call such as 0.17")
        dots.append(Dot(int(match[1]), int(match[2])))
    if len(dots) > AFTER_MAX:
        raise Problem("malformed", f"after holds {len(dots)} calls: at most {AFTER_MAX} are taken")
    return tuple(dots)


def _identity(headers: Mapping[str, str]) -> tuple[str, int]:
    if CLIENT not in headers and NUMBER not in headers:
        return "", 0
    client, number = headers.get(CLIENT, ""), headers.get(NUMBER, "")
    if not _CLIENT.fullmatch(client):
        told = f"up to {CLIENT_LENGTH_MAX} printable ASCII characters without spaces"
        raise Problem("malformed", f"{CLIENT} must be a name of your own, {told}")
    if not _DIGITS.fullmatch(number):
        told = f"the next for each call, and the same again within the last {CALLS_KEPT}"
        raise Problem("malformed", f"{NUMBER} must be a number, {told}, to ask again")
    return client, int(number)


def _prefix(text: str) -> str | tuple[str | int, ...]:
    """The beginning of a string; of a tuple, as a JSON array; of a string that looks like one of
    these, as a JSON string."""
    if text[:1] not in ("[", '"'):
        checked: str = _checked(text, "prefix")
        return checked
    key = _key(text, "prefix")
    assert not isinstance(key, int)
    return key


def _key(text: str, name: str) -> Key:
    key: Key = _checked(_decoded(text.encode(errors="surrogatepass"), name), name)
    return key


def _checked(value: Any, name: str) -> Any:
    key = frozen(value)
    try:
        check_key(key)
    except BadValue as error:
        raise Problem("malformed", f"{name}: {error}") from error
    return key


def _decoded(text: bytes, what: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise Problem("malformed", f"{what} is no JSON: {error}") from error
