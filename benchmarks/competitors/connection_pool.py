"""Connections to a server that executes one statement per connection at a time, used as one."""

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import Final

from creekdb.load.connection import CallDone
from creekdb.load.measurement import STRONG_STABLE, LoadMeter
from creekdb.load.workload import WorkloadCall

TIMEOUT_S: Final = 60.0


class PooledConnection(asyncio.Protocol):
    """One connection. A subclass parses responses and calls `complete`."""

    def __init__(self, pool: "ConnectionPool") -> None:
        self._pool = pool
        self.call: tuple[int, int] | None = None
        """Send time and client of the call that the server executes."""
        self.transport: asyncio.Transport | None = None
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(exc or ConnectionError("the server closed the connection"))
        self._pool.on_closed(self)

    def write(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def complete(self, succeeded: bool, now_ns: int) -> None:
        """End the call of this connection."""
        self._pool.on_response(self, succeeded, now_ns)


class ConnectionPool:
    """Several connections to a server, used as one by a load."""

    def __init__(
        self, encode: Callable[[WorkloadCall], bytes], meter: LoadMeter, on_call_done: CallDone
    ) -> None:
        """`encode` returns the message that executes a call."""
        self._encode = encode
        self._meter = meter
        self._on_call_done = on_call_done
        self._connections: list[PooledConnection] = []
        self._idle: list[PooledConnection] = []
        self._waiting: deque[tuple[bytes, int, int]] = deque()
        """Messages, send time and client of calls without a free connection."""
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(
        self, connect: Callable[["ConnectionPool"], PooledConnection], address: str, size: int
    ) -> None:
        """Open `size` connections to a server."""
        loop = asyncio.get_running_loop()
        host, _, port = address.partition(":")
        for _ in range(size):
            _, connection = await loop.create_connection(lambda: connect(self), host, int(port))
            self._connections.append(connection)
            await asyncio.wait_for(connection.ready, TIMEOUT_S)
            self._idle.append(connection)

    @property
    def in_flight(self) -> int:
        return len(self._waiting) + len(self._connections) - len(self._idle)

    def call(self, call: WorkloadCall, client: int) -> None:
        message = self._encode(call)
        now_ns = perf_counter_ns()
        if self._idle:
            self._send(self._idle.pop(), message, now_ns, client)
        else:
            self._waiting.append((message, now_ns, client))

    def close(self) -> None:
        for connection in self._connections:
            if connection.transport is not None:
                connection.transport.close()

    def on_response(self, connection: PooledConnection, succeeded: bool, now_ns: int) -> None:
        assert connection.call is not None
        sent_ns, client = connection.call
        connection.call = None
        if succeeded:
            self._meter.record_response(STRONG_STABLE, sent_ns, now_ns)
        else:
            self._meter.record_failure("rejected", now_ns)
        if self._waiting:
            self._send(connection, *self._waiting.popleft())
        else:
            self._idle.append(connection)
        self._on_call_done(self, client)

    def on_closed(self, connection: PooledConnection) -> None:
        call, connection.call = connection.call, None
        if call is not None:
            self._meter.record_failure("connection lost", perf_counter_ns())
            self._on_call_done(self, call[1])
        if not self.closed.done():
            self.closed.set_result(None)

    def _send(
        self, connection: PooledConnection, message: bytes, sent_ns: int, client: int
    ) -> None:
        connection.call = sent_ns, client
        connection.write(message)
