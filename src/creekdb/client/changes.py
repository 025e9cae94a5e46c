"""Change feed: everything that a cluster commits, in commit order, from any replica.

    async for change in db.changes(start=4711):
        print(change.index, change.operation, change.writes)

The stream requests one part after another, and reads the next one only when the program has taken
all changes of the last. So its memory is bounded by the size of a part or of the largest change,
and a slow program slows nothing but itself. A change that exceeds a message arrives in pieces. If
the replica fails, does not keep the changes or has not reached them yet, the stream continues at
another one, with neither a gap nor a repetition.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

import msgspec

from creekdb.client.errors import NotDone, not_connected_error
from creekdb.client.replica_connection import ReplicaConnection, ReplicaDiscovery
from creekdb.errors import (
    BadValue,
    ChangesExpired,
    ChangesOff,
    ChangesUnavailable,
    CreekError,
    ForeignPosition,
    PositionInFuture,
    UnknownTable,
    UsageError,
)
from creekdb.execution.keys import check_key
from creekdb.protocol.values import freeze
from creekdb.wire import messages
from creekdb.wire.changes import EARLIEST, LATEST, Change, decode_changes, parse_start
from creekdb.wire.messages import TableDescription
from creekdb.wire.pieces import PieceAssembler
from creekdb.wire.reject_reason import RejectReason, reject_rule
from creekdb.wire.table_changes import make_table_change
from creekdb.wire.tentative import TENTATIVE_VIEW, VIEWS, StageTracker

if TYPE_CHECKING:
    from creekdb.client.blocking import BlockingDatabase

POLL_S: Final = 5.0
"""Time that a replica waits for a change before it reports that there is none, in seconds."""
RESPONSE_TIMEOUT_S: Final = 10.0
"""Time after which a silent replica is given up, in seconds, beyond the time of the poll."""
RETRY_PAUSE_S: Final = 0.1
"""Pause after all replicas have rejected a request for a reason that may pass, in seconds."""


class ChangePosition(msgspec.Struct, frozen=True):
    """Position in the feed of one cluster: where a reader continues."""

    cluster: str
    """Identity of the cluster. Empty if the position fits any cluster."""
    index: int
    """Index of the next change."""


def parse_position(start: "int | str | ChangePosition", follow: bool) -> ChangePosition:
    """Return the position that `start` denotes. Raise `BadValue`."""
    cluster = ""
    if isinstance(start, ChangePosition):
        cluster, start = start.cluster, start.index
    if start == "":
        return ChangePosition(cluster, LATEST if follow else EARLIEST)
    index = parse_start(start) if isinstance(start, str) else start
    if type(index) is not int or (isinstance(start, int) and index < 1):
        raise BadValue(
            f"start is {start!r}: it must be 'earliest', 'latest', an index of at least 1, or the "
            "position of a stream"
        )
    return ChangePosition(cluster, index)


def check_selection(prefix: Any, table: Any) -> None:
    """Raise `BadValue` if these do not select registers."""
    prefix = freeze(prefix)
    if prefix is not None and prefix != ():
        check_key(prefix)
        if isinstance(prefix, int):
            raise BadValue(f"prefix is {prefix}: it must be a string or a tuple")
    if type(table) is not str:
        raise BadValue(f"table is {table!r}: it must be the name of an SQL table")
    if table and prefix is not None:
        raise BadValue("prefix and table exclude each other; omit one of them")


class ChangeStream(AsyncIterator[Change]):
    """Changes from a position on: the result of `db.changes(…)`.

    `position` is where the stream continues. A program that stores it with its results can resume
    later, at any replica: `db.changes(start=position)`.
    """

    def __init__(
        self,
        discovery: ReplicaDiscovery,
        hello: messages.ClientHello,
        position: ChangePosition,
        prefix: str | tuple[str | int, ...] | None = None,
        table: str = "",
        view: str = "",
        follow: bool = True,
        poll_s: float = POLL_S,
        response_timeout_s: float = RESPONSE_TIMEOUT_S,
    ) -> None:
        self._discovery = discovery
        self._hello = hello
        self._position = position
        self._prefix = prefix
        self._table_name = table
        self.table: TableDescription | None = None
        """The requested table as the replica described it last, or None before the first part."""
        self._tracker = StageTracker() if view == TENTATIVE_VIEW else None
        self._stamp = -1
        self._view = view
        self._follow = follow
        self._poll_s = poll_s
        self._response_timeout_s = response_timeout_s
        self._connection: ReplicaConnection | None = None
        self._is_ended = False
        """True if the database was closed."""
        self._received: asyncio.Queue[messages.ServerMessage | None] = asyncio.Queue()
        self._number = 0
        self._changes: list[Change] = []
        """Received changes in reverse order."""
        self._stop_index: int | None = None
        """Index of the last change of a stream that does not follow."""
        self._lagging_since: float | None = None
        """Time since which replicas report an earlier last change than that."""
        self._pieces = PieceAssembler()
        """Pieces of the next change, if it exceeds a message."""
        self._part_count = 0
        """Number of received parts."""
        self._rejections: list[messages.ChangesRejected] = []
        """Rejections since the last received part, at most one per replica."""
        self._rejected_since: float | None = None
        self.replica: int | None = None
        """Number of the connected replica, or of the last one; None before the first."""
        self.newest: int | None = None
        """Index of the last change that the replica had when it sent the last part."""

    @property
    def position(self) -> ChangePosition:
        """Position after the last change that the program has taken."""
        if self._changes and self._changes[-1].index:
            return ChangePosition(self._position.cluster, self._changes[-1].index)
        return self._position

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        while not self._changes:
            if self._stop_index is not None and self._position.index > self._stop_index:
                await self.aclose()
                raise StopAsyncIteration
            await self._receive_part()
        return self._changes.pop()

    async def receive(self, wait_s: float | None = None) -> list[Change]:
        """Return the changes that the program has not taken, or those of the next part.

        The list is empty if no change arrives within `wait_s`, or if a part has only changes that
        were not selected. Raise the errors of the stream.
        """
        poll_s = self._poll_s
        self._poll_s = poll_s if wait_s is None else wait_s
        part_count = self._part_count
        try:
            while not self._changes and self._part_count == part_count:
                await self._receive_part()
        finally:
            self._poll_s = poll_s
        changes, self._changes = self._changes[::-1], []
        return changes

    def seek(self, start: "int | str | ChangePosition") -> None:
        """Continue at another position of the same cluster."""
        position = parse_position(start, self._follow)
        cluster = position.cluster or self._position.cluster
        self._position = ChangePosition(cluster, position.index)
        self._changes = []
        self._pieces.clear()
        self._stop_index = self._lagging_since = None

    def end(self) -> None:
        """Close the connection of a database that is closed. The stream cannot be continued."""
        self._is_ended = True
        if self._connection is not None:
            self._connection.close()

    async def aclose(self) -> None:
        """Close the connection. The stream can be continued."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # --- parts --------------------------------------------------------------------------------

    async def _receive_part(self) -> None:
        """Request one part and take its changes, or prepare for another replica."""
        if self._connection is None and not self._is_ended:
            await self._connect()
        if self._is_ended:
            await self.aclose()
            raise not_connected_error()
        connection = self._connection
        assert connection is not None
        self._number += 1
        cluster, index = self._position.cluster, self._position.index
        request = messages.ChangesRequest(
            self._number,
            index,
            cluster,
            self._prefix,
            int(self._poll_s * 1000),
            self._table_name,
            self._view,
            self._stamp,
            self._pieces.next_offset,
        )
        connection.write(messages.encode_frame(request))
        message = await self._response(connection)
        if isinstance(message, messages.ChangesPart):
            self._take(message)
        elif isinstance(message, messages.ChangesRejected):
            await self._on_rejection(message)
        else:
            await self.aclose()  # the connection was lost: continue at another replica

    async def _response(self, connection: ReplicaConnection) -> messages.ServerMessage | None:
        """Return the response, or None if the connection was lost or nothing arrives any more."""
        while True:
            chunks = connection.chunks_received
            try:
                async with asyncio.timeout(self._poll_s + self._response_timeout_s):
                    return await self._next_message()
            except TimeoutError:
                if connection.chunks_received == chunks:
                    return None

    async def _next_message(self) -> messages.ServerMessage | None:
        while True:
            message = await self._received.get()
            number = getattr(message, "number", self._number)
            if number == self._number:
                return message

    def _take(self, part: messages.ChangesPart) -> None:
        bodies = part.bodies
        if part.piece is not None:
            whole = self._pieces.add(part.piece)
            if whole is None:
                return
            bodies = (whole,)
        changes: list[Change] = []
        for body in bodies:
            changes += [each for each in decode_changes(body) if each.index >= part.first]
        if self._table_name:
            if part.table is None:
                raise UsageError(
                    "the replica runs an older release, which reads no tables; upgrade it"
                )
            self.table = part.table
        tracker = self._tracker
        if tracker is not None:
            changes = [*tracker.add_final(changes, part.table)]
            if part.image is not None:
                self._stamp = part.image.stamp
                shown = decode_changes(part.image.body)
                changes += tracker.add_image(shown, part.image.pending, part.table)
        elif part.table is not None:
            changes = [make_table_change(change, part.table) for change in changes]
        changes.reverse()
        self._part_count += 1
        self._changes = changes
        self._position = ChangePosition(part.cluster, part.end)
        self.newest = part.newest
        if not self._follow:
            self._check_end(part.newest)
        self._rejections, self._rejected_since = [], None

    def _check_end(self, newest: int) -> None:
        """Set the end of a stream that does not follow: the last change when it began.

        Another replica may have reached less. It catches up, unless the first one has lost its last
        change before that was readable. So an earlier end is accepted after a while.
        """
        now = asyncio.get_running_loop().time()
        if self._stop_index is None:
            self._stop_index = newest
        if newest >= self._stop_index:
            self._lagging_since = None
        elif self._lagging_since is None:
            self._lagging_since = now
        elif now > self._lagging_since + self._discovery.timeout_s:
            self._stop_index = newest

    # --- replicas -----------------------------------------------------------------------------

    async def _connect(self) -> None:
        self._received = asyncio.Queue()
        self._pieces.clear()
        received = self._received
        make = partial(
            ReplicaConnection,
            self._hello,
            received.put_nowait,
            messages.PEER_FRAME_BYTES_MAX,
        )
        connection, welcome = await self._discovery.find(make)
        connection.closed.add_done_callback(lambda _: received.put_nowait(None))
        self._connection, self.replica, self._stamp = connection, welcome.replica, -1

    async def _on_rejection(self, rejected: messages.ChangesRejected) -> None:
        """Try the next replica. Raise the error once all have rejected the request."""
        if rejected.reason in (RejectReason.FOREIGN_POSITION, RejectReason.TOO_LARGE):
            await self._fail(rejected)
        loop = asyncio.get_running_loop()
        self._rejections.append(rejected)
        if self._rejected_since is None:
            self._rejected_since = loop.time()
        await self.aclose()
        if len(self._rejections) < len(self._discovery.addresses):
            return
        if all(each.reason == RejectReason.CHANGES_OFF for each in self._rejections):
            await self._fail(rejected)
        expired = [each for each in self._rejections if each.reason == RejectReason.CHANGES_EXPIRED]
        has_hope = any(_may_pass(each.reason) for each in self._rejections)
        if not has_hope or loop.time() > self._rejected_since + self._discovery.timeout_s:
            await self._fail(min(expired, key=lambda each: each.first) if expired else rejected)
        self._rejections = []
        await asyncio.sleep(RETRY_PAUSE_S)

    async def _fail(self, rejected: messages.ChangesRejected) -> NoReturn:
        await self.aclose()
        self._rejections, self._rejected_since = [], None
        raise error_of(rejected)


def _may_pass(reason: str) -> bool:
    """True if a replica may accept the same request later."""
    return reason == RejectReason.POSITION_IN_FUTURE or reject_rule(reason).is_temporary


def error_of(rejected: messages.ChangesRejected) -> CreekError:
    """Return the error that a rejection stands for."""
    match rejected.reason:
        case RejectReason.CHANGES_EXPIRED:
            return ChangesExpired(rejected.message, rejected.first)
        case RejectReason.POSITION_IN_FUTURE:
            return PositionInFuture(rejected.message)
        case RejectReason.FOREIGN_POSITION:
            return ForeignPosition(rejected.message)
        case RejectReason.CHANGES_OFF:
            return ChangesOff(rejected.message)
        case RejectReason.UNKNOWN_TABLE:
            return UnknownTable(rejected.message)
        case RejectReason.TOO_LARGE:
            return ChangesUnavailable(rejected.message)
        case _:
            return NotDone(rejected.reason, rejected.message)


def open_stream(
    discovery: ReplicaDiscovery,
    hello: messages.ClientHello,
    start: int | str | ChangePosition,
    prefix: Any,
    table: str,
    view: str,
    follow: bool,
) -> ChangeStream:
    """Return a stream with a connection of its own."""
    check_selection(prefix, table)
    if view not in VIEWS:
        raise BadValue(f"view is {view!r}: it must be '{TENTATIVE_VIEW}', or empty")
    if view and not follow:
        raise BadValue("a tentative view has no end; omit follow=False")
    own_hello = messages.ClientHello(
        hello.version, uuid.uuid4().hex, hello.token, hello.datatype, hello.oldest_version
    )
    return ChangeStream(
        discovery.copy(),
        own_hello,
        parse_position(start, follow),
        freeze(prefix),
        table,
        view,
        follow,
    )


class BlockingChangeStream(Iterator[Change]):
    """Changes from a position on, for programs without asyncio."""

    def __init__(self, blocking: "BlockingDatabase", make: Callable[[], ChangeStream]) -> None:
        self._database = blocking
        self._stream = make()

    @property
    def position(self) -> ChangePosition:
        """Position after the last change that the program has taken."""
        return self._stream.position

    def __next__(self) -> Change:
        async def next_change() -> Change | None:
            return await anext(self._stream, None)

        change = self._database.run_coroutine(next_change())
        if change is None:
            raise StopIteration
        return change

    def close(self) -> None:
        """Close the connection. The stream can be continued."""
        self._database.run_coroutine(self._stream.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
