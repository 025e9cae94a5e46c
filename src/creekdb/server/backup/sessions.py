"""Backup sessions: the committed state at one moment, sent in parts on request.

A client starts a session, and then requests each part. So no part is encoded or queued before it is
requested. A session retains only the versions that have changed since its start. There is one
session at a time, and it ends when it has been idle for too long.
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
from creekdb.wire.reject_reason import RejectReason

IDLE_TIMEOUT_S: Final = 60.0
"""Time without a request after which a session ends, in seconds."""


class BackupLimits(NamedTuple):
    chunk_bytes: int = 512 * 1024
    """Size of one part, in bytes."""
    durable_timeout_s: float = 5.0
    """Time limit until the captured state is durable, in seconds."""


class CapturedState(NamedTuple):
    """Committed state with its header, and the requests that led to it."""

    header: BackupHeader
    state: RegisterCursor
    requests: tuple[Request, ...]


class LockedRegisters:
    """Registers that are read under a lock, so that no other thread uses the replica meanwhile."""

    def __init__(self, registers: RegisterCursor, lock: AbstractContextManager[None]) -> None:
        self._registers = registers
        self._lock = lock
        self.count = registers.count

    def take(self, limit: int) -> tuple[list[tuple[Key, Any]], list[Key]] | None:
        with self._lock:
            return self._registers.take(limit)

    def close(self) -> None:
        with self._lock:
            self._registers.close()


class _BackupSession:
    """Backup that is being sent to its holder."""

    def __init__(self, holder: object, number: int, chunk_bytes: int) -> None:
        self._chunk_bytes = chunk_bytes
        self.holder = holder
        self.number = number
        self.start_task: asyncio.Task[None] | None = None
        self.idle_timer: asyncio.TimerHandle | None = None
        self.state: RegisterCursor | None = None
        self.chunks: Iterator[EncodedChunk] | None = None
        self._encoded = bytearray()
        """Encoded bytes that have not been sent."""
        self._registers_done = 0

    def next_part(self) -> BackupPart:
        assert self.chunks is not None
        encoded, size = self._encoded, self._chunk_bytes
        while len(encoded) < size and (chunk := next(self.chunks, None)) is not None:
            encoded += chunk.data
            self._registers_done = chunk.registers_done
        part = bytes(encoded[:size])
        del encoded[:size]
        return BackupPart(self.number, part, self._registers_done, len(part) < size)


class BackupSessions:
    """Backup sessions of a replica.

    `capture(operations)` returns the current state. If `operations` is True, it includes the
    requests that led to the state, as far as the journal has them.
    """

    def __init__(
        self,
        capture: Callable[[bool], Awaitable[CapturedState]],
        spawn: Spawn,
        chunk_bytes: int = BackupLimits().chunk_bytes,
    ) -> None:
        self._chunk_bytes = chunk_bytes
        self._capture = capture
        self._spawn = spawn
        self._session: _BackupSession | None = None

    def start(
        self,
        holder: object,
        request: BackupRequest,
        send: Callable[[BackupStarted | Rejected], None],
    ) -> None:
        if self._session is not None:
            message = "another backup is in progress on this replica; retry later"
            send(Rejected(request.number, RejectReason.BUSY, message))
            return
        session = self._session = _BackupSession(holder, request.number, self._chunk_bytes)
        session.start_task = self._spawn(self._start(session, request, send))

    async def _start(
        self,
        session: _BackupSession,
        request: BackupRequest,
        send: Callable[[BackupStarted | Rejected], None],
    ) -> None:
        try:
            captured = await self._capture(request.has_operations)
        except CreekError as error:
            self._session = None
            send(Rejected(request.number, RejectReason.DISK, str(error)))
            return
        session.state = captured.state
        session.chunks = encode_backup(captured.header, captured.state, captured.requests)
        self._restart_idle_timer(session)
        send(BackupStarted(request.number, captured.header.length, captured.state.count))

    def next_part(self, holder: object, request: BackupPartRequest) -> BackupPart | Rejected:
        session = self._session
        if (
            session is None
            or session.chunks is None
            or (session.holder, session.number) != (holder, request.number)
        ):
            return Rejected(
                request.number, RejectReason.DEADLINE, "the backup session has expired; start again"
            )
        part = session.next_part()
        if part.is_last:
            self.close(holder)
        else:
            self._restart_idle_timer(session)
        return part

    def close(self, holder: object) -> None:
        """End the session of a holder that has disconnected or has received everything."""
        session = self._session
        if session is None or session.holder is not holder:
            return
        self._session = None
        if session.idle_timer is not None:
            session.idle_timer.cancel()
        if session.start_task is not None:
            session.start_task.cancel()
        if session.state is not None:
            session.state.close()

    def _restart_idle_timer(self, session: _BackupSession) -> None:
        if session.idle_timer is not None:
            session.idle_timer.cancel()
        loop = asyncio.get_running_loop()
        session.idle_timer = loop.call_later(IDLE_TIMEOUT_S, self.close, session.holder)
