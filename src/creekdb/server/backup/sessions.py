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
from creekdb.protocol.checkpoint.stream import RegisterCursor
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key
from creekdb.server.backup.format import BackupHeader, EncodedChunk, encode_backup
from creekdb.server.runtime.task_supervisor import Spawn
from creekdb.wire.messages import (
    BackupPart,
    BackupPartRequest,
    BackupRequest,
    BackupStarted,
    Rejected,
)

CHUNK_BYTES: Final = 512 * 1024
IDLE_TIMEOUT_S: Final = 60.0
"""For which a copy is kept that nobody asks for."""


class CapturedState(NamedTuple):
    """What a copy is made of."""

    head: BackupHeader
    state: RegisterCursor
    requests: tuple[Request, ...]


class LockedRegisters:
    """Registers that are taken inside a gate: no other thread uses the replica meanwhile."""

    def __init__(self, registers: RegisterCursor, gate: AbstractContextManager[None]) -> None:
        self._registers = registers
        self._lock = gate
        self.count = registers.count

    def take(self, most: int) -> tuple[list[tuple[Key, Any]], list[Key]] | None:
        with self._lock:
            return self._registers.take(most)

    def close(self) -> None:
        with self._lock:
            self._registers.close()


class _BackupSession:
    """One that is being told to its holder."""

    def __init__(self, holder: object, number: int) -> None:
        self.holder = holder
        self.number = number
        self.start_task: asyncio.Task[None] | None = None
        self.idle_timer: asyncio.TimerHandle | None = None
        self.state: RegisterCursor | None = None
        self.chunks: Iterator[EncodedChunk] | None = None
        self._remaining = memoryview(b"")
        self._registers_done = 0

    def next_part(self) -> BackupPart:
        assert self.chunks is not None
        parts: list[bytes | memoryview] = []
        size = 0
        while size < CHUNK_BYTES:
            if not self._remaining:
                piece = next(self.chunks, None)
                if piece is None:
                    break
                self._remaining, self._registers_done = memoryview(piece.data), piece.registers_done
            part, self._remaining = (
                self._remaining[: CHUNK_BYTES - size],
                self._remaining[CHUNK_BYTES - size :],
            )
            parts.append(part)
            size += len(part)
        return BackupPart(self.number, b"".join(parts), self._registers_done, size < CHUNK_BYTES)


class BackupSessions:
    """`take(operations)`: the state as it is now, and the operations that led to it, as far as they
    are at hand, if they are asked for."""

    def __init__(self, take: Callable[[bool], Awaitable[CapturedState]], spawn: Spawn) -> None:
        self._capture = take
        self._spawn = spawn
        self._session: _BackupSession | None = None

    def start(
        self, holder: object, asked: BackupRequest, say: Callable[[BackupStarted | Rejected], None]
    ) -> None:
        if self._session is not None:
            message = "somebody takes a copy of the state here already: try again later"
            say(Rejected(asked.number, "busy", message))
            return
        copy = self._session = _BackupSession(holder, asked.number)
        copy.start_task = self._spawn(self._start(copy, asked, say))

    async def _start(
        self,
        copy: _BackupSession,
        asked: BackupRequest,
        say: Callable[[BackupStarted | Rejected], None],
    ) -> None:
        try:
            taken = await self._capture(asked.has_operations)
        except CreekError as error:
            self._session = None
            say(Rejected(asked.number, "disk", str(error)))
            return
        copy.state = taken.state
        copy.chunks = encode_backup(taken.head, taken.state, taken.requests)
        self._restart_idle_timer(copy)
        say(BackupStarted(asked.number, taken.head.length, taken.state.count))

    def next_part(self, holder: object, asked: BackupPartRequest) -> BackupPart | Rejected:
        copy = self._session
        if (
            copy is None
            or copy.chunks is None
            or (copy.holder, copy.number) != (holder, asked.number)
        ):
            return Rejected(asked.number, "deadline", "the copy was given up: begin again")
        copied = copy.next_part()
        if copied.is_last:
            self.close(holder)
        else:
            self._restart_idle_timer(copy)
        return copied

    def close(self, holder: object) -> None:
        """Whoever holds a copy is gone, or has all of it."""
        copy = self._session
        if copy is None or copy.holder is not holder:
            return
        self._session = None
        if copy.idle_timer is not None:
            copy.idle_timer.cancel()
        if copy.start_task is not None:
            copy.start_task.cancel()
        if copy.state is not None:
            copy.state.close()

    def _restart_idle_timer(self, copy: _BackupSession) -> None:
        if copy.idle_timer is not None:
            copy.idle_timer.cancel()
        loop = asyncio.get_running_loop()
        copy.idle_timer = loop.call_later(IDLE_TIMEOUT_S, self.close, copy.holder)
