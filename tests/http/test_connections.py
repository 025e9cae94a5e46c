"""Limits of HTTP connections: slow, silent and malformed clients do not affect others."""

import asyncio
import random
import re
import zlib
from collections import Counter
from contextlib import AsyncExitStack
from http import HTTPStatus
from pathlib import Path

import pytest

from creekdb.http.requests import HttpLimits
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import TIMEOUT_S
from tests.http.http_cluster import http_cluster, raw_connection

HOST = b"Host: 127.0.0.1\r\n"
HALF_HEADER = b"GET /health HTTP/1.1\r\nHost: 127.0."
HEALTH = b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n"
HALF_BODY = b"POST /operations/total HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n\r\n{"
UNREAD_COUNT = 1000
UNREAD_REQUESTS = (b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n") * UNREAD_COUNT
"""Requests whose responses exceed the buffers of the system."""
RESPONSE_HEAD = re.compile(rb"HTTP/\d\.\d (\d{3}) (.*?)\r\n\r\n", re.DOTALL)
HEADER_LINE_MAX, HEADERS_MAX = HttpLimits().header_line_bytes_max, HttpLimits().headers_max

MALFORMED = RejectReason.MALFORMED
HEADER_TOO_LARGE = RejectReason.HEADER_TOO_LARGE
MALFORMED_REQUESTS: dict[str, tuple[bytes, RejectReason]] = {
    "binary": (b"\x00\x01\x02\r\n\r\n", MALFORMED),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00", MALFORMED),
    "http2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", MALFORMED),
    "method": (b"BREW /health HTTP/1.1\r\n" + HOST + b"\r\n", MALFORMED),
    "version": (b"GET /health HTTP/3.7\r\n" + HOST + b"\r\n", MALFORMED),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", MALFORMED),
    "two hosts": (b"GET /health HTTP/1.1\r\n" + HOST * 2 + b"\r\n", MALFORMED),
    "url": (b"GET http://[/health HTTP/1.1\r\n" + HOST + b"\r\n", MALFORMED),
    "header": (b"GET /health HTTP/1.1\r\n" + HOST + b"No Colon\r\n\r\n", MALFORMED),
    "null byte": (b"GET /health HTTP/1.1\r\n" + HOST + b"X: a\x00\r\n\r\n", MALFORMED),
    "folded": (b"GET /health HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n", MALFORMED),
    "bare newlines": (b"GET /health HTTP/1.1\nHost: 127.0.0.1\n\n", MALFORMED),
    "length": (b"GET /health HTTP/1.1\r\n" + HOST + b"Content-Length: -2\r\n\r\n", MALFORMED),
    "two lengths": (
        b"POST /operations/total HTTP/1.1\r\n"
        + HOST
        + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        MALFORMED,
    ),
    "chunk": (
        b"POST /operations/total HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        MALFORMED,
    ),
    "expectation": (b"GET /health HTTP/1.1\r\n" + HOST + b"Expect: tea\r\n\r\n", MALFORMED),
    "expectation of no path": (
        b"GET /nothing HTTP/1.1\r\n" + HOST + b"Expect: tea\r\n\r\n",
        MALFORMED,
    ),
    "client not UTF-8": (
        b"POST /operations/total HTTP/1.1\r\n" + HOST + b"Creek-Client: \xff\r\n\r\n",
        MALFORMED,
    ),
    "origin not UTF-8": (
        b"GET /health HTTP/1.1\r\n" + HOST + b"Origin: \xff\r\n\r\n",
        RejectReason.FOREIGN_ORIGIN,
    ),
    "host not UTF-8": (
        b"GET /health HTTP/1.1\r\nHost: \xff\r\n\r\n",
        RejectReason.FOREIGN_ORIGIN,
    ),
    "long path": (b"GET /" + b"a" * HEADER_LINE_MAX + b" HTTP/1.1\r\n", HEADER_TOO_LARGE),
    "long header": (
        b"GET /health HTTP/1.1\r\n" + HOST + b"X: " + b"a" * (HEADER_LINE_MAX + 1) + b"\r\n\r\n",
        HEADER_TOO_LARGE,
    ),
    "many headers": (
        b"GET /health HTTP/1.1\r\n" + HOST + b"X: 1\r\n" * HEADERS_MAX + b"\r\n",
        HEADER_TOO_LARGE,
    ),
    "many trailers": (
        b"POST /operations/total HTTP/1.1\r\n"
        + HOST
        + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
        + b"X: 1\r\n" * HEADERS_MAX
        + b"\r\n",
        HEADER_TOO_LARGE,
    ),
    "no path": (b"CONNECT 127.0.0.1:80 HTTP/1.1\r\n" + HOST + b"\r\n", RejectReason.UNKNOWN_PATH),
    "asterisk": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", RejectReason.UNKNOWN_PATH),
    "trace": (b"TRACE / HTTP/1.1\r\n" + HOST + b"\r\n", RejectReason.UNSUPPORTED_METHOD),
}


async def test_every_malformed_request_is_a_problem_and_writes_no_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with http_cluster(tmp_path) as http:
        for name, (data, reason) in MALFORMED_REQUESTS.items():
            async with raw_connection(http, data) as connection:
                response = await connection.response()
                assert (response.status, response.problem) == (reason.rule.http_status, reason), (
                    name
                )
                assert response.headers["Cache-Control"] == "no-store"
        refused = http.cluster.servers[0].status()["refused"]
        responses = http.http_servers[0].api.responses_by_status
        for reason in (MALFORMED, HEADER_TOO_LARGE):
            expected = sum(each is reason for _, each in MALFORMED_REQUESTS.values())
            assert refused[reason] == responses[reason.rule.http_status or 0] == expected
    assert not [each for each in caplog.records if each.exc_info or each.levelname == "ERROR"]


async def test_an_internal_error_outside_a_route_is_logged_and_is_a_problem(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with http_cluster(tmp_path) as http:
        monkeypatch.setattr(http.http_servers[0].api, "_respond", None)
        response = await http.get("/health")
        assert (response.status, response.problem) == (500, RejectReason.INTERNAL_ERROR)
    assert [each.message for each in caplog.records if each.exc_info] == ["GET /health failed"]


async def test_a_closed_page_writes_no_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with http_cluster(tmp_path) as http:
        feed = http.http_servers[0].feed
        async with raw_connection(http, b"GET /watch HTTP/1.1\r\n" + HOST + b"\r\n") as connection:
            assert (await connection.response()).status == 200
            assert feed.open_pages == 1
        await http.post("/operations/open", {"name": "ann"})  # the feed has an event to send
        async with asyncio.timeout(TIMEOUT_S):
            while feed.open_pages:
                await asyncio.sleep(0.01)
    assert not [each for each in caplog.records if each.exc_info]


async def test_a_client_that_disconnects_within_a_body_writes_no_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with http_cluster(tmp_path) as http:
        api = http.http_servers[0].api
        async with raw_connection(http, HALF_BODY):
            while not api.active_requests:
                await asyncio.sleep(0.01)
        async with asyncio.timeout(TIMEOUT_S):
            while http.http_servers[0].connections or api.active_requests:
                await asyncio.sleep(0.01)
    assert not [each for each in caplog.records if each.exc_info]


VALID_REQUESTS = (
    b"GET /state?limit=3&prefix=%5B%22account%22%5D HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /calls/0.1 HTTP/1.1\r\n" + HOST + b"Origin: http://127.0.0.1\r\n\r\n",
    b"POST /operations/open?wait=final&timeout=0.1&after=0.1 HTTP/1.1\r\n"
    + HOST
    + b"Creek-Client: till\r\nCreek-Call: 7\r\nAuthorization: Bearer x\r\n"
    + b'Content-Type: application/json\r\nContent-Length: 15\r\n\r\n{"name": "ann"}',
    b"POST /operations/deposit HTTP/1.1\r\n"
    + HOST
    + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b'10\r\n{"name": "ann", \r\nd\r\n"amount": 1.0}\r\n0\r\n\r\n',
)
TOKENS = (b"\r\n", b"\x00", b"\xff", b":", b"%", b"[", b'"', b"9" * 30, b" HTTP/1.0", b"\r\n\r\n")


def mutate(rng: random.Random, request: bytes) -> bytes:
    """Delete, repeat, replace and insert bytes at a few random positions."""
    for _ in range(rng.randint(1, 3)):
        start = rng.randrange(len(request))
        stop = min(len(request), start + rng.randint(0, 8))
        middle = rng.choice((b"", request[start:stop] * 2, rng.choice(TOKENS), rng.randbytes(2)))
        request = request[:start] + middle + request[stop:]
    return request


async def test_mutated_requests_cause_no_internal_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    short = HttpLimits(body_timeout_s=0.05, idle_timeout_s=0.05, linger_timeout_s=0.05)
    rng = random.Random(21)
    async with http_cluster(tmp_path, limits=short) as http:

        async def exchange(request: bytes) -> bytes:
            async with raw_connection(http, request) as connection:
                return await connection.rest()

        statuses: Counter[bytes] = Counter()
        for _ in range(20):
            requests = [mutate(rng, rng.choice(VALID_REQUESTS)) for _ in range(25)]
            for received in await asyncio.gather(*map(exchange, requests)):
                for status, headers in re.findall(RESPONSE_HEAD, received):
                    statuses[status] += 1
                    assert status < b"400" or b"application/problem+json" in headers
        assert {b"200", b"400", b"404"} <= {*statuses}
        assert b"500" not in statuses
    assert not [each for each in caplog.records if each.exc_info]


# --- slow and silent clients ------------------------------------------------------------------


@pytest.mark.parametrize("received", [b"", HALF_HEADER, HEALTH, HEALTH + HALF_HEADER])
async def test_a_connection_without_a_complete_header_is_closed(
    tmp_path: Path, received: bytes
) -> None:
    async with (
        http_cluster(tmp_path, limits=HttpLimits(idle_timeout_s=0.1)) as http,
        raw_connection(http, received) as connection,
    ):
        assert (await connection.rest()).count(b" 200 OK") == received.count(HEALTH)


async def test_further_header_bytes_do_not_extend_the_timeout(tmp_path: Path) -> None:
    async with (
        http_cluster(tmp_path, limits=HttpLimits(idle_timeout_s=0.1)) as http,
        raw_connection(http, HALF_HEADER) as connection,
    ):
        closed = asyncio.ensure_future(connection.rest())
        while not closed.done():
            connection.send(b"0")
            await asyncio.sleep(0.01)
        assert await closed == b""


async def test_silent_clients_do_not_exclude_others(tmp_path: Path) -> None:
    limits = HttpLimits(connections_max=4)
    async with http_cluster(tmp_path, limits=limits) as http, AsyncExitStack() as stack:
        for data in (b"", HALF_HEADER, HEALTH, HEALTH + HALF_HEADER, b"", HALF_HEADER):
            await stack.enter_async_context(raw_connection(http, data))
        assert (await http.get("/health")).status == 200
        assert http.http_servers[0].connections == limits.connections_max


async def test_a_request_in_progress_keeps_its_connection(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, limits=HttpLimits(connections_max=1)) as http:
        async with raw_connection(http, HALF_BODY) as connection:
            while not http.http_servers[0].api.active_requests:
                await asyncio.sleep(0.01)
            async with raw_connection(http) as second:
                response = await second.response()
                assert (response.status, response.problem) == (503, RejectReason.BUSY)
                assert response.headers["Retry-After"] == "1"
                assert await second.rest() == b""
            connection.send(b"}")
            assert (await connection.response()).problem == RejectReason.MEDIA_TYPE
        assert http.cluster.servers[0].status()["refused"][RejectReason.BUSY] == 1


async def test_a_client_that_does_not_read_is_disconnected(tmp_path: Path) -> None:
    async with http_cluster(tmp_path, limits=HttpLimits(write_timeout_s=0.1)) as http:
        async with raw_connection(http, UNREAD_REQUESTS, receive_buffer=4096):
            while not http.http_servers[0].connections:
                await asyncio.sleep(0.01)
            while http.http_servers[0].connections:
                await asyncio.sleep(0.01)
        assert http.http_servers[0].api.responses_by_status[HTTPStatus.OK] < UNREAD_COUNT


async def test_a_client_that_does_not_read_does_not_exclude_others(tmp_path: Path) -> None:
    async with (
        http_cluster(tmp_path, limits=HttpLimits(connections_max=1)) as http,
        raw_connection(http, UNREAD_REQUESTS, receive_buffer=4096) as connection,
    ):
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
        served, responses = -1, http.http_servers[0].api.responses_by_status
        while served != responses[HTTPStatus.OK] or not served:  # until the buffers are full
            served = responses[HTTPStatus.OK]
            await asyncio.sleep(0.1)
        while (await http.get("/health")).status != 200:  # a request was still in progress
            await asyncio.sleep(0.1)


# --- other properties of HTTP -----------------------------------------------------------------


async def test_a_compressed_body_is_rejected_and_not_expanded(tmp_path: Path) -> None:
    async with http_cluster(tmp_path) as http:
        for body in (zlib.compress(b" " * 1_000_000, wbits=31), b"not gzip"):
            request = (
                b"POST /operations/total HTTP/1.1\r\n"
                + HOST
                + b"Content-Encoding: gzip\r\nContent-Type: application/json\r\n"
                + f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            async with raw_connection(http, request + HEALTH) as connection:
                response = await connection.response()
                assert (response.status, response.problem) == (415, RejectReason.MEDIA_TYPE)
                assert "gzip" in response.body["detail"]
                # An error of the decompressor would have closed the connection.
                assert (await connection.response()).status == 200


async def test_pipelined_requests_are_all_served(tmp_path: Path) -> None:
    async with (
        http_cluster(tmp_path) as http,
        raw_connection(http, HEALTH * 200) as connection,
    ):
        for _ in range(200):
            assert (await connection.response()).body == {"alive": True}


async def test_a_body_may_arrive_in_chunks_after_100_continue(tmp_path: Path) -> None:
    header = (
        b"POST /operations/open HTTP/1.1\r\n"
        + HOST
        + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
        + b"Expect: 100-continue\r\n\r\n"
    )
    async with (
        http_cluster(tmp_path) as http,
        raw_connection(http, header) as connection,
    ):
        assert (await connection.response()).status == HTTPStatus.CONTINUE
        for byte in b'{"name": "ann"}':
            connection.send(b"1\r\n" + bytes([byte]) + b"\r\n")
        connection.send(b"0\r\n\r\n")
        assert (await connection.response()).status == 200


async def test_http_1_0_is_served(tmp_path: Path) -> None:
    async with (
        http_cluster(tmp_path) as http,
        raw_connection(http, b"GET /health HTTP/1.0\r\n\r\n") as connection,
    ):
        assert (await connection.response()).body == {"alive": True}
        assert await connection.rest() == b""


async def test_head_has_no_body_and_opens_no_stream(tmp_path: Path) -> None:
    async with http_cluster(tmp_path) as http:
        call = (await http.post("/operations/open", {"name": "ann"})).body["call"]
        cases = {"/health": 200, "/nothing": 404, "/watch": 405, f"/calls/{call}/events": 405}
        for path, status in cases.items():
            request = f"HEAD {path} HTTP/1.1\r\n".encode() + HOST + b"\r\n" + HEALTH
            async with raw_connection(http, request) as connection:
                response = await connection.response(has_body=False)
                assert response.status == status, path
                assert (await connection.response()).body == {"alive": True}
        assert http.http_servers[0].feed.open_pages == 0
        assert http.http_servers[0].api.open_event_streams == 0
