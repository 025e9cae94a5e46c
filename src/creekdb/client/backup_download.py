"""Download of a backup: the committed state of a cluster, in chunks from one of its replicas."""

import asyncio
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from creekdb.client.errors import NotDone
from creekdb.client.replica_connection import (
    ReplicaConnection,
    ReplicaDiscovery,
    client_tls_context,
)
from creekdb.wire import messages
from creekdb.wire.addresses import parse_address
from creekdb.wire.reject_reason import RejectReason

PREFETCHED_CHUNKS: Final = 4
"""Number of chunks requested in advance, to hide the round-trip time."""
CHUNK_TIMEOUT_S: Final = 60.0
"""Timeout for one chunk."""
BACKUP_DISCOVERY_TIMEOUT_S: Final = 10.0


async def download_backup(
    addresses: Iterable[str],
    write: Callable[[bytes], object],
    *,
    token: str = "",
    authority: str | None = None,
    operations: bool = False,
    progress: Callable[[int, int], None] = lambda registers_done, register_count: None,
    refused: float | None = None,
) -> None:
    """Download a backup and pass its bytes to `write` as they arrive.

    If `operations`, the backup also contains the committed operations that the replica still has.
    `progress` is called with the number of registers done and their total. `token`, `authority`
    and `refused` are as in `connect`. Raises `NotDone` if the download fails, possibly in the
    middle. The bytes written so far are then useless.
    """
    received: asyncio.Queue[messages.ServerMessage | None] = asyncio.Queue()
    discovery = ReplicaDiscovery(
        map(parse_address, addresses), client_tls_context(authority), BACKUP_DISCOVERY_TIMEOUT_S
    )
    hello = messages.ClientHello(messages.WIRE_VERSION, uuid.uuid4().hex, token)
    connection, _ = await discovery.find(
        partial(ReplicaConnection, hello, received.put_nowait), refused
    )
    connection.closed.add_done_callback(lambda _: received.put_nowait(None))
    part_request = messages.encode_frame(messages.BackupPartRequest(1))
    try:
        connection.write(messages.encode_frame(messages.BackupRequest(1, operations)))
        started = await _next_message(received)
        assert isinstance(started, messages.BackupStarted)
        for _ in range(PREFETCHED_CHUNKS):
            connection.write(part_request)
        while True:
            part = await _next_message(received)
            assert isinstance(part, messages.BackupPart)
            write(part.data)
            progress(part.registers_done, started.register_count)
            if part.is_last:
                return
            connection.write(part_request)
    finally:
        await connection.aclose()


async def _next_message(
    received: "asyncio.Queue[messages.ServerMessage | None]",
) -> messages.ServerMessage:
    """Return the next received message. None means that the connection is closed."""
    try:
        async with asyncio.timeout(CHUNK_TIMEOUT_S):
            message = await received.get()
    except TimeoutError:
        cause = f"no data from the replica for {CHUNK_TIMEOUT_S:g} s"
        raise NotDone(RejectReason.DEADLINE, f"backup failed: {cause}") from None
    if message is None:
        cause = "the replica closed the connection; its release may not support backups"
        raise NotDone(RejectReason.UNREACHABLE, f"backup failed: {cause}")
    if isinstance(message, messages.Rejected):
        raise NotDone(message.reason, message.message)
    return message
