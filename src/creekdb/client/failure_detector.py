"""When a replica that says nothing is left, while somebody waits for it.

Mostly it has nothing to say, or it carries out a long operation; then it is well, and its pulse
(`creekdb.server.transport.keepalive`) tells so. One without a pulse, that does not say how it is
either, is frozen, or cannot be reached: it is left after a few seconds. Of one whose pulse was
never heard, since nothing but TCP gets there, that cannot be known: it has all the patience that a
client has. So has one whose pulse is heard, and no word.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any, Final

from creekdb.client.replica_connection import ReplicaConnection
from creekdb.wire.liveness import PROBE_BYTES, PROBE_PREFIX, PROBE_RESPONSE_PREFIX

PROBE_TIMEOUT_S: Final = 1.0
"""Without a word, until its pulse is asked for; the same without a pulse, until it is asked how it
is; and the same again, until it is left."""
PROBE_ATTEMPTS: Final = 4
"""Questions for a pulse in that time: some get lost."""


class LivenessProbe:
    """Of the replica at the other end of a line. A plain socket, since that is closed at once:
    uvloop, closed while a datagram endpoint still ends, waits for ever."""

    def __init__(self, asked: socket.socket) -> None:
        self.is_reachable = False
        """Was it ever heard, and never missed since?"""
        self._reply_received = asyncio.Event()
        self._nonce = 0
        self._socket = asked
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(asked, self._on_datagram)
        self.send()

    def send(self) -> None:
        with suppress(OSError):  # nobody answers there, as far as the system knows
            self._socket.send(PROBE_PREFIX + self._nonce_bytes())

    async def is_answered_within(self, within_s: float) -> bool:
        self._nonce += 1
        self._reply_received.clear()
        for _ in range(PROBE_ATTEMPTS):
            self.send()
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s / PROBE_ATTEMPTS):
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
    """Of one replica. `is_waited_for()`: does anybody want to hear something of it? `number()`: for
    a question how it is. `others`: is there any other replica?"""

    def __init__(
        self,
        line: ReplicaConnection,
        patience: float,
        is_waited_for: Callable[[], bool],
        number: Callable[[], int],
        others: bool,
    ) -> None:
        self._connection = line
        self._timeout_s = patience
        self._has_open_calls = is_waited_for
        self._next_number = number
        self._has_other_replicas = others
        self._probe_timeout_s = min(PROBE_TIMEOUT_S, patience / 4)

    async def wait_until_lost(self) -> None:
        """Until the line is closed, by the replica or because it was silent for long."""
        heartbeat = _open_probe(self._connection) if self._has_other_replicas else None
        try:
            while not self._connection.closed.done():
                if await self._is_failed(heartbeat):
                    self._connection.abort()
                    await self._connection.closed
        finally:
            if heartbeat is not None:
                heartbeat.close()

    async def _is_failed(self, heartbeat: LivenessProbe | None) -> bool:
        """Follow one silence: until there is a word, or nobody waits for one; or it is over."""
        line, loop = self._connection, asyncio.get_running_loop()
        pieces, begun = line.chunks_received, loop.time()
        pause = self._timeout_s / 2 if heartbeat is None else self._probe_timeout_s
        while True:
            await asyncio.wait([line.closed], timeout=pause)
            if line.chunks_received != pieces or line.closed.done() or not self._has_open_calls():
                return False
            if (
                heartbeat is not None
                and heartbeat.is_reachable
                and not await self._is_probe_answered(heartbeat)
            ):
                if not await self._is_status_answered(pieces, self._probe_timeout_s):
                    return True
                heartbeat.is_reachable = False  # it does not get here any more
                return False
            if loop.time() >= begun + self._timeout_s / 2:
                if heartbeat is not None:
                    heartbeat.send()  # perhaps it does
                return not await self._is_status_answered(pieces, self._timeout_s / 2)

    async def _is_probe_answered(self, heartbeat: LivenessProbe) -> bool:
        """While the line is there."""
        asked = asyncio.ensure_future(heartbeat.is_answered_within(self._probe_timeout_s))
        try:
            first: list[asyncio.Future[Any]] = [asked, self._connection.closed]
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            return not asked.done() or asked.result()
        finally:
            asked.cancel()

    async def _is_status_answered(self, pieces: int, within_s: float) -> bool:
        """Or anything else, since the line had so many pieces."""
        line = self._connection
        asked = line.request_status(self._next_number())
        try:
            await asyncio.wait([asked], timeout=within_s)
            return line.chunks_received != pieces or line.closed.done()
        finally:
            if not asked.cancel() and not asked.cancelled():
                asked.exception()  # is told by the line's end


def _open_probe(line: ReplicaConnection) -> LivenessProbe | None:
    """None where the system or the loop cannot, or the line is closed again."""
    peer = line.peer_address
    if peer is None:
        return None
    family = socket.AF_INET if len(peer) == len(("host", "port")) else socket.AF_INET6
    with suppress(OSError, NotImplementedError), ExitStack() as unless_heard:
        asked = unless_heard.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        asked.setblocking(False)
        asked.connect(peer)
        heartbeat = LivenessProbe(asked)
        unless_heard.pop_all()
        return heartbeat
    return None
