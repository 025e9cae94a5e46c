"""Fault control of `creek up`, which only pages of its own cluster may use."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from creekdb.errors import UsageError
from creekdb.http.page.fault_control import FaultControlServer
from tests.cluster.in_process_cluster import TIMEOUT_S

PAGE = "http://127.0.0.1:7300"
PAGE_HEADERS = {"Origin": PAGE, "Creek-Trial": "s3cret"}


class RecordingFaults:
    """Fault injector that records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def kill(self, replica: int) -> None:
        if replica > 2:
            raise UsageError(f"there is no replica {replica}")
        self.calls.append(("kill", replica))

    def start(self, replica: int) -> None:
        self.calls.append(("start", replica))

    def cut(self, links: Iterable[tuple[int, int]]) -> None:
        self.calls.append(("cut", list(links)))

    def heal(self, links: Iterable[tuple[int, int]]) -> None:
        self.calls.append(("heal", list(links)))


@asynccontextmanager
async def control_session(faults: RecordingFaults) -> AsyncIterator[aiohttp.ClientSession]:
    control = FaultControlServer(faults, [PAGE], "s3cret")
    await control.start()
    try:
        async with aiohttp.ClientSession(control.address) as session:
            yield session
    finally:
        await control.stop()


async def test_a_page_of_the_cluster_injects_and_heals_faults() -> None:
    faults = RecordingFaults()
    async with control_session(faults) as session:
        for path, body in (
            ("/cut", {"links": [[0, 1], [0, 2]]}),
            ("/kill", {"replica": 2}),
            ("/start", {"replica": 2}),
            ("/heal", {"links": [[0, 1]]}),
        ):
            async with session.post(path, json=body, headers=PAGE_HEADERS) as response:
                assert response.status == 200
                assert response.headers["Access-Control-Allow-Origin"] == PAGE
    assert faults.calls == [
        ("cut", [(0, 1), (0, 2)]),
        ("kill", 2),
        ("start", 2),
        ("heal", [(0, 1)]),
    ]


async def test_malformed_requests_are_problems_and_write_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with control_session(RecordingFaults()) as session:
        address = str(session._base_url).removeprefix("http://").rstrip("/")
        reader, writer = await asyncio.open_connection(*address.split(":"))
        writer.write(b"GET /kill HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(TIMEOUT_S):
            response = await reader.read()
        writer.close()
    assert b" 400 " in response
    assert b"application/problem+json" in response
    assert not caplog.records


async def test_foreign_and_invalid_requests_are_rejected() -> None:
    faults = RecordingFaults()
    request: dict[str, Any] = {"json": {"replica": 1}}
    async with control_session(faults) as session:
        for status, path, sent in (
            (403, "/kill", request),
            (403, "/kill", {**request, "headers": {"Origin": PAGE}}),
            (403, "/kill", {**request, "headers": {**PAGE_HEADERS, "Creek-Trial": "guess"}}),
            (
                403,
                "/kill",
                {**request, "headers": {**PAGE_HEADERS, "Origin": "http://evil.example"}},
            ),
            (403, "/kill", {**request, "headers": {**PAGE_HEADERS, "Host": "evil.example"}}),
            (415, "/kill", {"data": {"replica": "1"}, "headers": PAGE_HEADERS}),
            (400, "/kill", {"json": {"replica": "1"}, "headers": PAGE_HEADERS}),
            (400, "/kill", {"json": {"replica": 1, "hard": True}, "headers": PAGE_HEADERS}),
            (400, "/cut", {"json": {"links": [[0]]}, "headers": PAGE_HEADERS}),
            (409, "/kill", {"json": {"replica": 9}, "headers": PAGE_HEADERS}),
            (404, "/burn", {**request, "headers": PAGE_HEADERS}),
        ):
            async with session.post(path, **sent) as response:
                assert response.status == status, (path, sent)
                assert response.content_type == "application/problem+json"
                assert (await response.json(content_type=None))["detail"]
    assert faults.calls == []
