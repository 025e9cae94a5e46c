"""Failure detector: decides when a client with open calls abandons a silent replica.

A silent replica usually has nothing to send, or executes a long operation. Such a replica is alive,
and a thread of it answers liveness probes by UDP (`creekdb.server.transport.keepalive`). A replica
that answers neither a probe nor a status request is frozen or unreachable. The client abandons it
after a few seconds.

If a replica never answered a probe, UDP may be blocked on the way, and the silence proves nothing.
The client then waits for its whole timeout. It does the same if the replica answers probes but
sends no messages.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any, Final, NamedTuple

from creekdb.client.replica_connection import ReplicaConnection
from creekdb.wire.liveness import PROBE_BYTES, PROBE_PREFIX, PROBE_RESPONSE_PREFIX


class ProbeLimits(NamedTuple):
    """Limits of liveness probes."""

    timeout_s: float = 1.0
    """Duration of each of three phases: silence until the first probe, then without an answer until
    the status request, then until the client abandons the replica."""
    attempts: int = 4
    """Probes sent within one timeout, because datagrams may be lost."""


PROBE_LIMITS: Final = ProbeLimits()


class LivenessProbe:
    """UDP probe of the replica at the other end of a connection.

    The probe uses a plain socket, which closes immediately. A uvloop that is closed while a
    datagram endpoint is still closing never returns.
    """

    def __init__(self, probe_socket: socket.socket) -> None:
        self.is_reachable = False
        """True if the replica has answered a probe, and all later ones."""
        self._reply_received = asyncio.Event()
        self._nonce = 0
        self._socket = probe_socket
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(probe_socket, self._on_datagram)
        self.send()

    def send(self) -> None:
        """Send one probe."""
        with suppress(OSError):  # the system reported that the port is closed
            self._socket.send(PROBE_PREFIX + self._nonce_bytes())

    async def is_answered_within(self, timeout_s: float, attempts: int) -> bool:
        """Send probes until one is answered. Return False if the timeout passes first."""
        self._nonce += 1
        self._reply_received.clear()
        for _ in range(attempts):
            self.send()
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s / attempts):
                    await self._reply_received.wait()
                return True
        return False

    def close(self) -> None:
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _on_datagram(self) -> None:
        with suppress(OSError):
            if self._socket.recv(PROBE_BYTES + 1) == PROBE_RESPONSE_PREFIX + self._nonce_bytes():
                self.is_reachable = True
                self._reply_received.set()

    def _nonce_bytes(self) -> bytes:
        return self._nonce.to_bytes(PROBE_BYTES - len(PROBE_PREFIX), "big")


class ReplicaFailureDetector:
    """Failure detector for one replica.

    `has_open_calls()` is True while a message from the replica is expected. `next_number()` returns
    the number of a status request. Without other replicas, no probes are sent.
    """

    def __init__(
        self,
        connection: ReplicaConnection,
        timeout_s: float,
        has_open_calls: Callable[[], bool],
        next_number: Callable[[], int],
        has_other_replicas: bool,
        probe_limits: ProbeLimits = PROBE_LIMITS,
    ) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._has_open_calls = has_open_calls
        self._next_number = next_number
        self._has_other_replicas = has_other_replicas
        self._probe_timeout_s = min(probe_limits.timeout_s, timeout_s / 4)
        self._probe_attempts = probe_limits.attempts

    async def wait_until_lost(self) -> None:
        """Wait until the connection is closed, by the replica or after too long a silence."""
        probe = _open_probe(self._connection) if self._has_other_replicas else None
        try:
            while not self._connection.closed.done():
                if await self._is_failed(probe):
                    self._connection.abort()
                    await self._connection.closed
        finally:
            if probe is not None:
                probe.close()

    async def _is_failed(self, probe: LivenessProbe | None) -> bool:
        """Observe one period of silence, and return True if the replica is to be abandoned.

        Returns False if data arrives, the connection closes, or no call is open.
        """
        connection, loop = self._connection, asyncio.get_running_loop()
        chunks, start = connection.chunks_received, loop.time()
        pause_s = self._timeout_s / 2 if probe is None else self._probe_timeout_s
        while True:
            await asyncio.wait([connection.closed], timeout=pause_s)
            if (
                connection.chunks_received != chunks
                or connection.closed.done()
                or not self._has_open_calls()
            ):
                return False
            if (
                probe is not None
                and probe.is_reachable
                and not await self._is_probe_answered(probe)
            ):
                if not await self._is_status_answered(chunks, self._probe_timeout_s):
                    return True
                probe.is_reachable = False  # the replica is alive, so UDP fails on the way
                return False
            if loop.time() >= start + self._timeout_s / 2:
                if probe is not None:
                    probe.send()  # UDP may work again
                return not await self._is_status_answered(chunks, self._timeout_s / 2)

    async def _is_probe_answered(self, probe: LivenessProbe) -> bool:
        """Return False if the replica does not answer a probe while the connection is open."""
        answer = asyncio.ensure_future(
            probe.is_answered_within(self._probe_timeout_s, self._probe_attempts)
        )
        try:
            futures: list[asyncio.Future[Any]] = [answer, self._connection.closed]
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            return not answer.done() or answer.result()
        finally:
            answer.cancel()

    async def _is_status_answered(self, chunks: int, timeout_s: float) -> bool:
        """Request the status. Return True if anything arrives after the first `chunks` chunks."""
        connection = self._connection
        status = connection.request_status(self._next_number())
        try:
            await asyncio.wait([status], timeout=timeout_s)
            return connection.chunks_received != chunks or connection.closed.done()
        finally:
            if not status.cancel() and not status.cancelled():
                status.exception()  # mark as retrieved; the closed connection reports the cause


def _open_probe(connection: ReplicaConnection) -> LivenessProbe | None:
    """Return a probe, or None if the system or loop does not support it or the peer is unknown."""
    peer = connection.peer_address
    if peer is None:
        return None
    family = socket.AF_INET if len(peer) == len(("host", "port")) else socket.AF_INET6
    with suppress(OSError, NotImplementedError), ExitStack() as close_on_error:
        probe_socket = close_on_error.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        probe_socket.setblocking(False)
        probe_socket.connect(peer)
        probe = LivenessProbe(probe_socket)
        close_on_error.pop_all()
        return probe
    return None
