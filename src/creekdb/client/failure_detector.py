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

from creekdb.client.replica_connection import Line
from creekdb.wire.liveness import ANSWER, LENGTH, QUESTION

HUSH_S: Final = 1.0
"""Without a word, until its pulse is asked for; the same without a pulse, until it is asked how it
is; and the same again, until it is left."""
TRIES: Final = 4
"""Questions for a pulse in that time: some get lost."""


class Heartbeat:
    """Of the replica at the other end of a line. A plain socket, since that is closed at once:
    uvloop, closed while a datagram endpoint still ends, waits for ever."""

    def __init__(self, asked: socket.socket) -> None:
        self.is_known = False
        """Was it ever heard, and never missed since?"""
        self._heard = asyncio.Event()
        self._number = 0
        self._socket = asked
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(asked, self._hear)
        self.ask()

    def ask(self) -> None:
        with suppress(OSError):  # nobody answers there, as far as the system knows
            self._socket.send(QUESTION + self._asked())

    async def beats(self, within_s: float) -> bool:
        self._number += 1
        self._heard.clear()
        for _ in range(TRIES):
            self.ask()
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s / TRIES):
                    await self._heard.wait()
                return True
        return False

    def close(self) -> None:
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _hear(self) -> None:
        with suppress(OSError):
            if self._socket.recv(LENGTH + 1) == ANSWER + self._asked():
                self.is_known = True
                self._heard.set()

    def _asked(self) -> bytes:
        return self._number.to_bytes(LENGTH - len(QUESTION), "big")


class Silence:
    """Of one replica. `is_waited_for()`: does anybody want to hear something of it? `number()`: for
    a question how it is. `others`: is there any other replica?"""

    def __init__(
        self,
        line: Line,
        patience: float,
        is_waited_for: Callable[[], bool],
        number: Callable[[], int],
        others: bool,
    ) -> None:
        self._line = line
        self._patience = patience
        self._is_waited_for = is_waited_for
        self._number = number
        self._others = others
        self._hush_s = min(HUSH_S, patience / 4)

    async def until_gone(self) -> None:
        """Until the line is closed, by the replica or because it was silent for long."""
        heartbeat = _listened_to(self._line) if self._others else None
        try:
            while not self._line.closed.done():
                if await self._is_over(heartbeat):
                    self._line.abort()
                    await self._line.closed
        finally:
            if heartbeat is not None:
                heartbeat.close()

    async def _is_over(self, heartbeat: Heartbeat | None) -> bool:
        """Follow one silence: until there is a word, or nobody waits for one; or it is over."""
        line, loop = self._line, asyncio.get_running_loop()
        pieces, begun = line.pieces, loop.time()
        pause = self._patience / 2 if heartbeat is None else self._hush_s
        while True:
            await asyncio.wait([line.closed], timeout=pause)
            if line.pieces != pieces or line.closed.done() or not self._is_waited_for():
                return False
            if heartbeat is not None and heartbeat.is_known and not await self._beats(heartbeat):
                if not await self._says_how_it_is(pieces, self._hush_s):
                    return True
                heartbeat.is_known = False  # it does not get here any more
                return False
            if loop.time() >= begun + self._patience / 2:
                if heartbeat is not None:
                    heartbeat.ask()  # perhaps it does
                return not await self._says_how_it_is(pieces, self._patience / 2)

    async def _beats(self, heartbeat: Heartbeat) -> bool:
        """While the line is there."""
        asked = asyncio.ensure_future(heartbeat.beats(self._hush_s))
        try:
            first: list[asyncio.Future[Any]] = [asked, self._line.closed]
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            return not asked.done() or asked.result()
        finally:
            asked.cancel()

    async def _says_how_it_is(self, pieces: int, within_s: float) -> bool:
        """Or anything else, since the line had so many pieces."""
        line = self._line
        asked = line.status(self._number())
        try:
            await asyncio.wait([asked], timeout=within_s)
            return line.pieces != pieces or line.closed.done()
        finally:
            if not asked.cancel() and not asked.cancelled():
                asked.exception()  # is told by the line's end


def _listened_to(line: Line) -> Heartbeat | None:
    """None where the system or the loop cannot, or the line is closed again."""
    peer = line.peer
    if peer is None:
        return None
    family = socket.AF_INET if len(peer) == len(("host", "port")) else socket.AF_INET6
    with suppress(OSError, NotImplementedError), ExitStack() as unless_heard:
        asked = unless_heard.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        asked.setblocking(False)
        asked.connect(peer)
        heartbeat = Heartbeat(asked)
        unless_heard.pop_all()
        return heartbeat
    return None
