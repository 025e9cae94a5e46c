"""Fetching a copy of what a cluster has committed, piece by piece, from one of its replicas."""

import asyncio
import uuid
from collections.abc import Callable, Iterable
from typing import Final

from creekdb.client.errors import NotDone
from creekdb.client.replica_connection import (
    ReplicaConnection,
    ReplicaDiscovery,
    client_tls_context,
)
from creekdb.wire import messages
from creekdb.wire.addresses import parse_address

PREFETCHED_CHUNKS: Final = 4
"""Pieces that are asked for before they are here: the way there and back takes its time."""
CHUNK_TIMEOUT_S: Final = 60.0
"""For one of them."""
BACKUP_DISCOVERY_TIMEOUT_S: Final = 10.0


async def download_backup(
    addresses: Iterable[str],
    write: Callable[[bytes], object],
    *,
    token: str = "",
    authority: str | None = None,
    operations: bool = False,
    progress: Callable[[int, int], None] = lambda done, of: None,
    refused: float | None = None,
) -> None:
    """Hand the bytes of a backup to `write`, as they come. Raises `NotDone` if that is impossible,
    also in the middle: then what was written is worth nothing. `progress` is told how many of how
    many registers are there; `refused` is as in `connect`."""
    heard: asyncio.Queue[messages.ServerMessage] = asyncio.Queue()
    finder = ReplicaDiscovery(
        map(parse_address, addresses), client_tls_context(authority), BACKUP_DISCOVERY_TIMEOUT_S
    )
    hello = messages.ClientHello(messages.WIRE_VERSION, uuid.uuid4().hex, token)
    line, _ = await finder.find(hello, heard.put_nowait, refused)
    try:
        line.write(messages.encode_frame(messages.BackupRequest(1, operations)))
        begun = await _next_message(line, heard)
        assert isinstance(begun, messages.BackupStarted)
        for _ in range(PREFETCHED_CHUNKS):
            line.write(messages.encode_frame(messages.BackupPartRequest(1)))
        while True:
            piece = await _next_message(line, heard)
            assert isinstance(piece, messages.BackupPart)
            write(piece.data)
            progress(piece.registers_done, begun.register_count)
            if piece.is_last:
                return
            line.write(messages.encode_frame(messages.BackupPartRequest(1)))
    finally:
        line.close()


async def _next_message(
    line: ReplicaConnection, heard: "asyncio.Queue[messages.ServerMessage]"
) -> messages.ServerMessage:
    waiting = asyncio.ensure_future(heard.get())
    try:
        await asyncio.wait(
            (waiting, line.closed), timeout=CHUNK_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
        )
        if not waiting.done():
            if line.closed.done():
                message = "the replica closed the connection: is it of an older release?"
                raise NotDone("unreachable", message)
            raise NotDone("deadline", f"the replica was silent for {CHUNK_TIMEOUT_S:g} s")
        message_heard = waiting.result()
    finally:
        waiting.cancel()
    if isinstance(message_heard, messages.Rejected):
        raise NotDone(message_heard.reason, message_heard.message)
    return message_heard
