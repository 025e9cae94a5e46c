"""Leased snapshots: the committed state at one index, read by key range from any connection.

    async with db.snapshot(partitions=8) as snapshot:
        for start, stop in snapshot.ranges():
            async for key, value in snapshot.items(start, stop):
                ...
        async for change in db.changes(start=snapshot.index + 1): ...

A snapshot belongs to one replica. Its `ticket` is plain data, by which other processes read it:

    with creekdb.connect(ticket.server) as db, db.snapshot(ticket=ticket) as snapshot:
        for key, value in snapshot.items(start, stop): ...

The next page is requested while the program handles the last one. So the memory of a reader is
bounded by two pages.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

import msgspec

from creekdb.client.arrow import ArrowWriter, RecordBatch
from creekdb.client.errors import NotDone, Unknown
from creekdb.client.replica_connection import ReplicaConnection, ReplicaDiscovery
from creekdb.errors import DECODE_ERRORS, BadValue, UnknownTable, UsageError
from creekdb.protocol.values import Key, freeze
from creekdb.wire import messages
from creekdb.wire.addresses import format_address
from creekdb.wire.json_values import from_json, to_json
from creekdb.wire.messages import TableDescription
from creekdb.wire.reject_reason import RejectReason

if TYPE_CHECKING:
    from creekdb.client.blocking import BlockingDatabase

SNAPSHOT_LEASE_S: Final = 60.0
"""Default time without a read after which a snapshot ends, in seconds."""
RESPONSE_TIMEOUT_S: Final = 60.0

KeyRange: TypeAlias = tuple[Key | None, Key | None]
"""First key, and key before which the range ends. None stands for no bound."""

_Result = TypeVar("_Result")


class SnapshotTicket(msgspec.Struct, frozen=True):
    """Data by which any process can read an open snapshot.

    It can be pickled, and `encode` returns it as text.
    """

    id: str
    address: tuple[str, int]
    """Client address of the replica that holds the snapshot."""
    cluster: str
    """Identity of the cluster, for positions in the change feed."""
    index: int
    """Number of committed requests that the state includes."""
    splits: tuple[str | int | tuple[str | int, ...], ...] = ()
    """Keys that split the registers into ranges of similar size."""
    prefix: str | tuple[str | int, ...] | None = None
    """Prefix of the keys that are read, or None."""
    table: TableDescription | None = None
    """SQL table whose rows are read, as it was at the index."""

    @property
    def server(self) -> str:
        """Address of the replica as text, for `connect`."""
        return format_address(*self.address)

    def ranges(self) -> list[KeyRange]:
        """Return ranges that together hold all registers."""
        bounds: list[Key | None] = [None, *self.splits, None]
        return list(pairwise(bounds))

    def encode(self) -> str:
        # The default of a column may be bytes, which plain JSON does not distinguish from text.
        plain = msgspec.to_builtins(self, builtin_types=(bytes,))
        return msgspec.json.encode(to_json(plain)).decode()

    @classmethod
    def decode(cls, text: str) -> "SnapshotTicket":
        """Return the ticket of an encoded text. Raise `BadValue`."""
        try:
            return msgspec.convert(from_json(msgspec.json.decode(text)), cls)
        except (*DECODE_ERRORS, BadValue) as error:
            raise BadValue(f"the text is not the ticket of a snapshot: {error}") from error


class Snapshot:
    """Snapshot that `async with` opens, and releases at its end unless it has a given ticket."""

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
        self._pending: dict[int, asyncio.Future[messages.ServerMessage]] = {}
        """Expected responses by number."""
        self._number = 1

    @property
    def ticket(self) -> SnapshotTicket:
        assert self._ticket is not None, "open the snapshot with 'async with' first"
        return self._ticket

    @property
    def index(self) -> int:
        """Number of committed requests that the state includes."""
        return self.ticket.index

    @property
    def table(self) -> TableDescription | None:
        """The SQL table that was requested, as it was at the index."""
        return self.ticket.table

    def ranges(self) -> list[KeyRange]:
        """Return ranges that together hold all registers: start and stop, None for no bound."""
        return self.ticket.ranges()

    async def __aenter__(self) -> Self:
        make = partial(
            ReplicaConnection, self._hello, self._on_message, messages.PEER_FRAME_BYTES_MAX
        )
        discovery = self._discovery
        if self._given is not None:
            discovery = discovery.only(self._given.address)
        connection, _ = await discovery.find(make)
        self._connection = connection
        connection.closed.add_done_callback(lambda _: self._on_connection_lost())
        if self._given is None:
            try:
                self._ticket = await self._open(discovery)
            except BaseException:
                await connection.aclose()
                raise
        return self

    async def _open(self, discovery: ReplicaDiscovery) -> SnapshotTicket:
        request = self._request
        opened = await self._exchange(request)
        assert isinstance(opened, messages.SnapshotOpened)
        prefix = request.prefix
        if request.table:
            if opened.table is None:
                raise UsageError(
                    "the replica runs an older release, which reads no tables; upgrade it"
                )
            prefix = opened.table.prefix
        return SnapshotTicket(
            opened.id,
            discovery.last_address,
            opened.cluster,
            opened.index,
            opened.splits,
            prefix,
            opened.table,
        )

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            if self._given is None:
                self.release()
            await self._connection.aclose()

    def release(self) -> None:
        """End the snapshot for all its readers."""
        assert self._connection is not None, "open the snapshot with 'async with' first"
        self._connection.write(messages.encode_frame(messages.SnapshotRelease(self.ticket.id)))

    def detach(self) -> SnapshotTicket:
        """Close the connection without releasing the snapshot, which then ends with its lease."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        return self.ticket

    # --- reading ------------------------------------------------------------------------------

    async def items(
        self, start: Key | None = None, stop: Key | None = None
    ) -> AsyncIterator[tuple[Key, Any]]:
        """Iterate over the registers from `start` up to `stop`, in key order."""
        async with aclosing(self.pages(start, stop)) as pages:
            async for page in pages:
                for item in page:
                    yield item

    async def rows(
        self, start: Key | None = None, stop: Key | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """Iterate over the rows of the table, as dicts of their columns, in key order."""
        decode = self._checked_table().decode_row
        async with aclosing(self.pages(start, stop)) as pages:
            async for page in pages:
                for _, stored in page:
                    yield decode(stored)

    async def record_batches(
        self, start: Key | None = None, stop: Key | None = None
    ) -> AsyncIterator[RecordBatch]:
        """Iterate over the registers, or the rows of the table, as record batches of Arrow.

        A table has its columns (`creekdb.client.arrow`), and other registers have `key` and
        `value` as JSON. Requires the package pyarrow.
        """
        writer = ArrowWriter(self.table)
        async with aclosing(self.pages(start, stop)) as pages:
            async for page in pages:
                yield writer.record_batch(page)

    async def pages(
        self, start: Key | None = None, stop: Key | None = None
    ) -> AsyncGenerator[Sequence[tuple[Key, Any]], None]:
        """Iterate over lists of registers from `start` up to `stop`, in key order."""
        response: asyncio.Future[messages.ServerMessage] | None = self._request_page(start, stop)
        try:
            while response is not None:
                page = await self._receive(response)
                assert isinstance(page, messages.SnapshotPage)
                response = None if page.next is None else self._request_page(page.next, stop)
                yield [
                    (key, freeze(value) if type(value) in (list, dict) else value)
                    for key, value in page.items
                ]
        finally:
            if response is not None:
                response.cancel()

    def _checked_table(self) -> TableDescription:
        if self.table is None:
            raise UsageError("the snapshot has no table; open it with table='name'")
        return self.table

    def _request_page(
        self, start: Key | None, stop: Key | None
    ) -> "asyncio.Future[messages.ServerMessage]":
        ticket = self.ticket
        self._number += 1
        return self._send(
            messages.SnapshotRead(self._number, ticket.id, start, stop, ticket.prefix)
        )

    # --- messages -----------------------------------------------------------------------------

    def _send(
        self, request: messages.SnapshotRequest | messages.SnapshotRead
    ) -> "asyncio.Future[messages.ServerMessage]":
        assert self._connection is not None, "open the snapshot with 'async with' first"
        response: asyncio.Future[messages.ServerMessage] = (
            asyncio.get_running_loop().create_future()
        )
        if self._connection.closed.done():
            response.set_exception(_unreachable())
        else:
            self._pending[request.number] = response
            self._connection.write(messages.encode_frame(request))
        return response

    async def _exchange(self, request: messages.SnapshotRequest) -> messages.ServerMessage:
        return await self._receive(self._send(request))

    async def _receive(
        self, response: "asyncio.Future[messages.ServerMessage]"
    ) -> messages.ServerMessage:
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                message = await response
        except TimeoutError:
            raise _unreachable() from None
        if isinstance(message, messages.Rejected):
            if message.reason == RejectReason.UNKNOWN_TABLE:
                raise UnknownTable(message.message)
            raise NotDone(message.reason, message.message)
        return message

    def _on_message(self, message: messages.ServerMessage) -> None:
        response = self._pending.pop(getattr(message, "number", 0), None)
        if response is not None and not response.done():
            response.set_result(message)

    def _on_connection_lost(self) -> None:
        pending, self._pending = self._pending, {}
        for response in pending.values():
            if not response.done():
                response.set_exception(_unreachable())


def _unreachable() -> NotDone:
    text = "the replica that holds the snapshot is unreachable; open another one"
    return NotDone(RejectReason.UNREACHABLE, text)


class BlockingSnapshot:
    """Snapshot that is opened by `with`, for programs without asyncio."""

    def __init__(self, blocking: "BlockingDatabase", make: Callable[[], Snapshot]) -> None:
        self._database = blocking
        self._snapshot = make()

    @property
    def ticket(self) -> SnapshotTicket:
        return self._snapshot.ticket

    @property
    def index(self) -> int:
        """Number of committed requests that the state includes."""
        return self._snapshot.index

    @property
    def table(self) -> TableDescription | None:
        """The SQL table that was requested, as it was at the index."""
        return self._snapshot.table

    def ranges(self) -> list[KeyRange]:
        """Return ranges that together hold all registers: start and stop, None for no bound."""
        return self._snapshot.ranges()

    def __enter__(self) -> Self:
        self._database.run_coroutine(self._snapshot.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._database.run_coroutine(self._snapshot.__aexit__())

    def items(self, start: Key | None = None, stop: Key | None = None) -> Iterator[tuple[Key, Any]]:
        """Iterate over the registers from `start` up to `stop`, in key order."""
        for page in self.pages(start, stop):
            yield from page

    def rows(self, start: Key | None = None, stop: Key | None = None) -> Iterator[dict[str, Any]]:
        """Iterate over the rows of the table, as dicts of their columns, in key order."""
        decode = self._snapshot._checked_table().decode_row
        for page in self.pages(start, stop):
            for _, stored in page:
                yield decode(stored)

    def record_batches(
        self, start: Key | None = None, stop: Key | None = None
    ) -> Iterator[RecordBatch]:
        """Iterate over record batches of Arrow, as `Snapshot.record_batches` does."""
        writer = ArrowWriter(self.table)
        for page in self.pages(start, stop):
            yield writer.record_batch(page)

    def pages(
        self, start: Key | None = None, stop: Key | None = None
    ) -> Iterator[Sequence[tuple[Key, Any]]]:
        """Iterate over lists of registers from `start` up to `stop`, in key order."""
        run = self._database.run_coroutine
        pages = self._snapshot.pages(start, stop)

        async def next_page() -> Sequence[tuple[Key, Any]] | None:
            return await anext(pages, None)

        try:
            while (page := run(next_page())) is not None:
                yield page
        finally:
            # The connection was closed first, or the garbage collector runs on its thread.
            with suppress(NotDone, Unknown, UsageError):
                run(pages.aclose())
