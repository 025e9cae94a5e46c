"""Sessions and states over HTTP, with a replica that returns prepared responses."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import pytest

from creekdb.checkers.blackbox.observations import CallStatus
from creekdb.datatypes.kv import KV
from creekdb.errors import CreekError
from creekdb.http.operations import OperationCatalog
from creekdb.load.workload import WorkloadCall
from creekdb.torture.http_session import HttpSession, read_state

T = TypeVar("T")
PUT = WorkloadCall("put", ("k", (1, b"x")), False)


class PreparedReplica:
    """Server that returns one response after the other, and retains the requests."""

    def __init__(self, *responses: tuple[int, Any]) -> None:
        self._responses = list(responses)
        self.requests: list[str] = []

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
        status, body = self._responses.pop(0)
        encoded = msgspec.json.encode(body)
        head = f"HTTP/1.1 {status} text\r\nContent-Length: {len(encoded)}\r\n\r\n"
        writer.write(head.encode() + encoded)
        await writer.drain()
        writer.close()

    def use(self, client: Callable[[str], Awaitable[T]]) -> T:
        """Run the client with the address of this replica."""

        async def run() -> T:
            server = await asyncio.start_server(self.respond, "127.0.0.1", 0)
            async with server:
                host, port = server.sockets[0].getsockname()[:2]
                return await client(f"{host}:{port}")

        return asyncio.run(run())


def ok(call: str, value: Any) -> tuple[int, Any]:
    return 200, {"call": call, "value": value, "error": None}


def session_at(address: str) -> HttpSession:
    return HttpSession("round 0, http 1", [address], OperationCatalog(KV))


def test_a_call_names_the_latest_call_of_the_session_on_each_replica() -> None:
    replica = PreparedReplica(
        ok("0.7", None), ok("0.-3", 1), ok("1.4", 1), ok("0.5", 1), ok("0.8", None)
    )

    async def call_repeatedly(address: str) -> None:
        session = session_at(address)
        for _ in range(5):
            await session.call(PUT)

    replica.use(call_repeatedly)

    paths = [request.split()[1] for request in replica.requests]
    named = [path.partition("&after=")[2] for path in paths]
    assert named == ["", "0.7", "0.7", "0.7,1.4", "0.7,1.4"]


def test_a_rejected_call_is_retried_under_its_number() -> None:
    replica = PreparedReplica((503, {}), ok("0.1", [1, {"$bytes": "eA=="}]))

    outcome = replica.use(lambda address: session_at(address).call(PUT))

    assert (outcome.status, outcome.value) == (CallStatus.OK, (1, b"x"))
    assert len(replica.requests) == 2
    assert all("Creek-Call: 1\r\n" in each for each in replica.requests)
    assert all("Creek-Client: round-0-http-1\r\n" in each for each in replica.requests)


def test_a_request_that_no_replica_accepts_is_an_error_of_the_client() -> None:
    replica = PreparedReplica((400, {"title": "The request is malformed"}))

    with pytest.raises(CreekError, match="The request is malformed"):
        replica.use(lambda address: session_at(address).call(PUT))


def test_an_error_of_the_operation_is_its_response() -> None:
    problem = {"call": "0.1", "detail": "TypeError: no number"}
    replica = PreparedReplica((409, problem))

    outcome = replica.use(lambda address: session_at(address).call(PUT))

    assert (outcome.status, outcome.value) == (CallStatus.ERROR, "TypeError: no number")


def test_a_state_is_read_page_by_page() -> None:
    replica = PreparedReplica(
        (200, {"items": [{"key": ["a", 1], "value": [1]}], "next": '["a",1]'}),
        (200, {"items": [{"key": "b", "value": 2}], "next": None}),
    )

    assert replica.use(read_state) == {("a", 1): (1,), "b": 2}
    assert "after=%5B%22a%22%2C1%5D" in replica.requests[1]


def test_a_replica_that_does_not_show_its_state_is_reported() -> None:
    replica = PreparedReplica((503, {"title": "no disk"}))

    with pytest.raises(OSError, match="no disk"):
        replica.use(read_state)
