"""Copies of the committed state, for whoever keeps a backup: taken at one moment, told in pieces.

Whoever wants a copy asks for it once, and then for each piece. So nothing is made, or waits to be
sent, that was not asked for; and what a copy holds on to is what has changed since it was taken.
There is one at a time, and it is given up when nobody asks for more.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

from creekdb.errors import CreekError
from creekdb.protocol.checkpoint.stream import Registers
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key
from creekdb.server.backup.format import Head, Piece, encoded
from creekdb.server.runtime.task_supervisor import Spawn
from creekdb.wire.messages import Copied, CopyBegun, CopyRequest, MoreRequest, Refused

PIECE_BYTES: Final = 512 * 1024
IDLE_S: Final = 60.0
"""For which a copy is kept that nobody asks for."""


class Taken(NamedTuple):
    """What a copy is made of."""

    head: Head
    state: Registers
    requests: tuple[Request, ...]


class Gated:
    """Registers that are taken inside a gate: no other thread uses the replica meanwhile."""

    def __init__(self, registers: Registers, gate: AbstractContextManager[None]) -> None:
        self._registers = registers
        self._gate = gate
        self.count = registers.count

    def take(self, most: int) -> tuple[list[tuple[Key, Any]], list[Key]] | None:
        with self._gate:
            return self._registers.take(most)

    def close(self) -> None:
        with self._gate:
            self._registers.close()


class _Copy:
    """One that is being told to its holder."""

    def __init__(self, holder: object, number: int) -> None:
        self.holder = holder
        self.number = number
        self.begun: asyncio.Task[None] | None = None
        self.idle: asyncio.TimerHandle | None = None
        self.state: Registers | None = None
        self.pieces: Iterator[Piece] | None = None
        self._rest = memoryview(b"")
        self._done = 0

    def next(self) -> Copied:
        assert self.pieces is not None
        parts: list[bytes | memoryview] = []
        size = 0
        while size < PIECE_BYTES:
            if not self._rest:
                piece = next(self.pieces, None)
                if piece is None:
                    break
                self._rest, self._done = memoryview(piece.data), piece.done
            part, self._rest = self._rest[: PIECE_BYTES - size], self._rest[PIECE_BYTES - size :]
            parts.append(part)
            size += len(part)
        return Copied(self.number, b"".join(parts), self._done, size < PIECE_BYTES)


class Copies:
    """`take(operations)`: the state as it is now, and the operations that led to it, as far as they
    are at hand, if they are asked for."""

    def __init__(self, take: Callable[[bool], Awaitable[Taken]], spawn: Spawn) -> None:
        self._take = take
        self._spawn = spawn
        self._copy: _Copy | None = None

    def begin(
        self, holder: object, asked: CopyRequest, say: Callable[[CopyBegun | Refused], None]
    ) -> None:
        if self._copy is not None:
            message = "somebody takes a copy of the state here already: try again later"
            say(Refused(asked.number, "busy", message))
            return
        copy = self._copy = _Copy(holder, asked.number)
        copy.begun = self._spawn(self._begin(copy, asked, say))

    async def _begin(
        self, copy: _Copy, asked: CopyRequest, say: Callable[[CopyBegun | Refused], None]
    ) -> None:
        try:
            taken = await self._take(asked.operations)
        except CreekError as error:
            self._copy = None
            say(Refused(asked.number, "disk", str(error)))
            return
        copy.state = taken.state
        copy.pieces = encoded(taken.head, taken.state, taken.requests)
        self._wait(copy)
        say(CopyBegun(asked.number, taken.head.length, taken.state.count))

    def more(self, holder: object, asked: MoreRequest) -> Copied | Refused:
        copy = self._copy
        if (
            copy is None
            or copy.pieces is None
            or (copy.holder, copy.number) != (holder, asked.number)
        ):
            return Refused(asked.number, "deadline", "the copy was given up: begin again")
        copied = copy.next()
        if copied.last:
            self.give_up(holder)
        else:
            self._wait(copy)
        return copied

    def give_up(self, holder: object) -> None:
        """Whoever holds a copy is gone, or has all of it."""
        copy = self._copy
        if copy is None or copy.holder is not holder:
            return
        self._copy = None
        if copy.idle is not None:
            copy.idle.cancel()
        if copy.begun is not None:
            copy.begun.cancel()
        if copy.state is not None:
            copy.state.close()

    def _wait(self, copy: _Copy) -> None:
        if copy.idle is not None:
            copy.idle.cancel()
        loop = asyncio.get_running_loop()
        copy.idle = loop.call_later(IDLE_S, self.give_up, copy.holder)
