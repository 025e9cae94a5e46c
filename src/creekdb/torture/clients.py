"""Closed-loop clients over TCP and HTTP that record every call and its outcome."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from random import Random
from typing import Any, Final, Protocol

import msgspec

from creekdb.client import Database, NotDone, OperationFailed, Unknown
from creekdb.http.operations import OperationCatalog
from creekdb.load.workload import WorkloadCall
from creekdb.torture.workload import CallSource
from creekdb.wire.addresses import parse_address
from creekdb.wire.json_values import to_json

CALL_TIMEOUT_S: Final = 10.0
"""Upper bound for one call and its retries, in seconds."""
THINK_TIME_MAX_S: Final = 0.1
"""Upper bound for the pause of a client between two calls, in seconds."""
RETRY_S: Final = 0.1
"""Pause before an HTTP client uses the next replica, in seconds."""


class CallStatus(StrEnum):
    OK = "ok"
    ERROR = "error"
    """The operation raised an error, which is its response."""
    REJECTED = "rejected"
    """The call was certainly not executed."""
    UNKNOWN = "unknown"


class CallRecord(msgspec.Struct, frozen=True):
    """One call as its client observed it. Times are in seconds from the start of the torture."""

    client: str
    operation: str
    arguments: tuple[Any, ...]
    strong: bool
    sent_s: float
    duration_s: float
    status: CallStatus
    value: Any

    @property
    def has_response(self) -> bool:
        return self.status in (CallStatus.OK, CallStatus.ERROR)


class Session(Protocol):
    """Connection of a client."""

    async def call(self, call: WorkloadCall) -> tuple[CallStatus, Any]: ...


class TcpSession:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def call(self, call: WorkloadCall) -> tuple[CallStatus, Any]:
        proxy = self._database.strong if call.strong else self._database.weak
        try:
            return CallStatus.OK, await getattr(proxy, call.operation)(*call.arguments)
        except OperationFailed as error:
            return CallStatus.ERROR, str(error)
        except NotDone as error:
            return CallStatus.REJECTED, error.reason
        except Unknown as error:
            return CallStatus.UNKNOWN, str(error)


class HttpSession:
    """Client of the HTTP API that retries a call at the next replica, under the same number."""

    def __init__(self, name: str, addresses: Sequence[str], operations: OperationCatalog) -> None:
        self._name = name
        self._addresses = list(addresses)
        self._operations = operations
        self._number = 0

    async def call(self, call: WorkloadCall) -> tuple[CallStatus, Any]:
        self._number += 1
        request = self._request(call)
        with suppress(TimeoutError):
            async with asyncio.timeout(CALL_TIMEOUT_S):
                while True:
                    with suppress(OSError, asyncio.IncompleteReadError, ValueError):
                        status, body = await _exchange(self._addresses[0], request)
                        if status == 200:
                            outcome = msgspec.json.decode(body)
                            failed = outcome["error"] is not None
                            value = outcome["error"] if failed else outcome["value"]
                            return CallStatus.ERROR if failed else CallStatus.OK, value
                    self._addresses.append(self._addresses.pop(0))
                    await asyncio.sleep(RETRY_S)
        return CallStatus.UNKNOWN, "no response in time"

    def _request(self, call: WorkloadCall) -> bytes:
        body = msgspec.json.encode(self._named_arguments(call))
        consistency = "strong" if call.strong else "weak"
        head = (
            f"POST /operations/{call.operation}?consistency={consistency} HTTP/1.1\r\n"
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


async def _exchange(address: str, request: bytes) -> tuple[int, bytes]:
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


class ClientPool:
    """Clients that call until `stop`. `now` returns the time of the torture, in seconds."""

    def __init__(
        self,
        source: CallSource,
        now: Callable[[], float],
        on_call: Callable[[CallRecord], None] = lambda record: None,
    ) -> None:
        self._source = source
        self._now = now
        self._on_call = on_call
        self._tasks: list[asyncio.Task[None]] = []
        self._is_stopping = asyncio.Event()
        self.records: list[CallRecord] = []
        """All calls with an outcome, in the order of their outcomes."""

    def start(self, name: str, session: Session) -> None:
        self._tasks.append(asyncio.create_task(self._run(name, session)))

    async def stop(self) -> None:
        """Wait for the calls in progress, and raise the error of a client that failed."""
        self._is_stopping.set()
        await asyncio.gather(*self._tasks)

    async def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, name: str, session: Session) -> None:
        random = Random(name)
        while not self._is_stopping.is_set():
            call = self._source(random, name)
            sent_s, started_s = self._now(), time.perf_counter()
            status, value = await session.call(call)
            record = CallRecord(
                client=name,
                operation=call.operation,
                arguments=call.arguments,
                strong=call.strong,
                sent_s=sent_s,
                duration_s=time.perf_counter() - started_s,
                status=status,
                value=value,
            )
            self.records.append(record)
            self._on_call(record)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(random.random() * THINK_TIME_MAX_S):
                    await self._is_stopping.wait()
