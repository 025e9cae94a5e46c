"""Leased snapshots: the committed state at one index, read by key range from any connection.

    async with db.snapshot(partitions=8) as snapshot:
        for start, stop in snapshot.ranges():
            async for key, value in snapshot.items(start, stop):
                ...
        async for change in db.changes(start=snapshot.index + 1): ...

A snapshot belongs to one replica. Its `ticket` is plain data, by which other processes read it.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from functools import partial
from itertools import pairwise
from typing import Any, Final, Self

import msgspec

from creekdb.client.errors import NotDone
from creekdb.client.replica_connection import ReplicaConnection, ReplicaDiscovery
from creekdb.protocol.values import Key, freeze
from creekdb.wire import messages
from creekdb.wire.reject_reason import RejectReason

RESPONSE_TIMEOUT_S: Final = 60.0


class SnapshotTicket(msgspec.Struct, frozen=True):
    """Data by which any process can read an open snapshot."""

    id: str
    address: tuple[str, int]
    """Client address of the replica that holds the snapshot."""
    cluster: str
    """Identity of the cluster, for positions in the change feed."""
    index: int
    """Number of committed requests that the state includes."""
    splits: tuple[Key, ...] = ()
    """Keys that split the registers into ranges of similar size."""


class Snapshot:
    """Snapshot that is opened by `async with`, and released at its end unless it was given."""

    def __init__(
        self,
        discovery: ReplicaDiscovery,
        hello: messages.ClientHello,
        request: messages.SnapshotRequest,
        ticket: SnapshotTicket | None = None,
    ) -> None:
        self._discovery = discovery
        self._hello = msgspec.structs.replace(hello, client=uuid.uuid4().hex)
        self._request = request
        self._given = ticket
        self._ticket = ticket
        self._connection: ReplicaConnection | None = None
        self._received: asyncio.Queue[messages.ServerMessage | None] = asyncio.Queue()
        self._number = 1

    @property
    def ticket(self) -> SnapshotTicket:
        assert self._ticket is not None, "open the snapshot with 'async with' first"
        return self._ticket

    @property
    def index(self) -> int:
        """Number of committed requests that the state includes."""
        return self.ticket.index

    def ranges(self) -> list[tuple[Key | None, Key | None]]:
        """Return ranges that together hold all registers: start and stop, None for no bound."""
        bounds: list[Key | None] = [None, *self.ticket.splits, None]
        return list(pairwise(bounds))

    async def __aenter__(self) -> Self:
        received = self._received
        make = partial(
            ReplicaConnection, self._hello, received.put_nowait, messages.PEER_FRAME_BYTES_MAX
        )
        discovery = self._discovery
        if self._given is not None:
            discovery = discovery.only(self._given.address)
        connection, _ = await discovery.find(make)
        self._connection = connection
        connection.closed.add_done_callback(lambda _: received.put_nowait(None))
        if self._given is None:
            try:
                opened = await self._exchange(self._request)
            except BaseException:
                connection.close()
                raise
            assert isinstance(opened, messages.SnapshotOpened)
            address = discovery.last_address
            self._ticket = SnapshotTicket(
                opened.id, address, opened.cluster, opened.index, freeze(opened.splits)
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            if self._given is None:
                release = messages.SnapshotRelease(self.ticket.id)
                self._connection.write(messages.encode_frame(release))
            self._connection.close()

    async def items(
        self, start: Key | None = None, stop: Key | None = None
    ) -> AsyncIterator[tuple[Key, Any]]:
        """Iterate over the registers from `start` up to `stop`, in key order."""
        following = start
        while True:
            self._number += 1
            page = await self._exchange(
                messages.SnapshotRead(
                    self._number, self.ticket.id, following, stop, self._request.prefix
                )
            )
            assert isinstance(page, messages.SnapshotPage)
            for key, value in page.items:
                yield freeze(key), freeze(value)
            if page.next is None:
                return
            following = freeze(page.next)

    async def _exchange(
        self, request: messages.SnapshotRequest | messages.SnapshotRead
    ) -> messages.ServerMessage:
        assert self._connection is not None
        self._connection.write(messages.encode_frame(request))
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                message = await self._received.get()
        except TimeoutError:
            message = None
        if message is None:
            text = "the replica that holds the snapshot is unreachable; open another one"
            raise NotDone(RejectReason.UNREACHABLE, text)
        if isinstance(message, messages.Rejected):
            raise NotDone(message.reason, message.message)
        return message
