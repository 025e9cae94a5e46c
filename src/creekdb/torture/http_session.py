"""Client of the HTTP API that continues its session at any replica, and reader of states."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final
from urllib.parse import quote

import msgspec

from creekdb.checkers.blackbox.observations import CallStatus
from creekdb.errors import CreekError
from creekdb.http.operations import OperationCatalog
from creekdb.load.workload import WorkloadCall
from creekdb.torture.clients import CALL_TIMEOUT_S, CallOutcome
from creekdb.wire.addresses import parse_address
from creekdb.wire.json_values import from_json, to_json

RETRY_S: Final = 0.1
"""Pause before a client uses the next replica, in seconds."""
REPLICA_TIMEOUT_S: Final = 3.0
"""Time after which a replica ends its wait for a response, in seconds."""
MOVE_FRACTION: Final = 0.5
"""Fraction of the calls before which the client chooses a replica at random."""
INVALID_STATUSES: Final = (400, 401, 403, 404, 405, 413, 415, 422)
"""Statuses of requests that no replica accepts."""
PAGE_REGISTERS: Final = 1000


class HttpSession:
    """Session that retries a call at the next replica, under the same number.

    It often changes the replica, as behind a load balancer. Each call names the latest call of the
    session on each replica, so that it sees their effects.
    """

    def __init__(self, name: str, addresses: Sequence[str], operations: OperationCatalog) -> None:
        self._name = name.replace(" ", "-").replace(",", "")
        self._addresses = list(addresses)
        self._operations = operations
        self._random = Random(f"{name} moves")
        self._number = 0
        self._latest: dict[int, int] = {}
        """Number of the latest call with a response, by replica."""

    async def call(self, call: WorkloadCall) -> CallOutcome:
        self._number += 1
        if self._random.random() < MOVE_FRACTION:
            self._random.shuffle(self._addresses)
        request = self._request(call)
        with suppress(TimeoutError):
            async with asyncio.timeout(CALL_TIMEOUT_S):
                while True:
                    with suppress(OSError, asyncio.IncompleteReadError, ValueError):
                        status, body = await exchange(self._addresses[0], request)
                        if status in (200, 409):
                            return self._outcome(status, msgspec.json.decode(body))
                        if status in INVALID_STATUSES:
                            raise CreekError(f"the HTTP client sent a bad request: {body!r}")
                    self._addresses.append(self._addresses.pop(0))
                    await asyncio.sleep(RETRY_S)
        return CallOutcome(CallStatus.UNKNOWN, "no response in time")

    def _outcome(self, status: int, body: dict[str, Any]) -> CallOutcome:
        replica, event = map(int, body["call"].split("."))
        if event > self._latest.get(replica, 0):  # the numbers of weak reads are negative
            self._latest[replica] = event
        if status == 409:
            return CallOutcome(CallStatus.ERROR, body["detail"])
        return CallOutcome(CallStatus.OK, from_json(body["value"]))

    def _request(self, call: WorkloadCall) -> bytes:
        body = msgspec.json.encode(self._named_arguments(call))
        consistency = "strong" if call.strong else "weak"
        path = f"/operations/{call.operation}?consistency={consistency}"
        path += f"&timeout={REPLICA_TIMEOUT_S:g}"
        if self._latest:
            path += "&after=" + ",".join(f"{each}.{event}" for each, event in self._latest.items())
        head = (
            f"POST {path} HTTP/1.1\r\n"
            "Host: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
            f"Creek-Client: {self._name}\r\nCreek-Call: {self._number}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def _named_arguments(self, call: WorkloadCall) -> dict[str, Any]:
        named: dict[str, Any] = {}
        remaining = list(call.arguments)
        for parameter in self._operations.find(call.operation).parameters:
            if not remaining:
                break
            if parameter.is_variadic:
                named[parameter.name] = to_json(tuple(remaining))
                break
            named[parameter.name] = to_json(remaining.pop(0))
        return named


async def read_state(address: str) -> dict[Any, Any]:
    """Return all registers of the data type that the replica shows to clients."""
    state: dict[Any, Any] = {}
    after = ""
    while True:
        path = f"/state?limit={PAGE_REGISTERS}{after}"
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        status, body = await exchange(address, head.encode())
        page = msgspec.json.decode(body)
        if status != 200:
            raise OSError(f"{address} does not show its state: {page}")
        for item in page["items"]:
            state[from_json(item["key"])] = from_json(item["value"])
        if page["next"] is None:
            return state
        after = f"&after={quote(page['next'])}"


async def exchange(address: str, request: bytes) -> tuple[int, bytes]:
    """Send one request, and return the status and the body of its response."""
    reader, writer = await asyncio.open_connection(*parse_address(address))
    try:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        status = int(lines[0].split()[1])
        lengths = [line for line in lines if line.lower().startswith("content-length:")]
        body = await reader.readexactly(int(lengths[0].partition(":")[2])) if lengths else b""
        return status, body
    finally:
        writer.transport.abort()
