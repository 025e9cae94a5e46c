"""Readers of the change feed, over TCP and HTTP alike.

A reader requests one part after another, and a replica keeps nothing for it in between: the next
request may go to another replica. So a slow reader costs nothing. A part is read from the segments
when it is requested, and its size is bounded. A request at the end of the feed waits for the next
change, up to the time that the reader allows. The number of concurrent requests is bounded.

A position after the end may be that of a replica that is further ahead. The request waits for some
time before it is rejected. Such a rejection, and that of a position that is no longer kept, concern
this replica only. The client then tries the others.

A replica that lacks changes which others may keep rejects their readers until it has copied them.
It also rejects a reader that starts at the earliest change, since that reader would miss them.

Every change that was committed can be read. A change that exceeds one message is sent in pieces
(`creekdb.wire.pieces`).
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from creekdb.errors import CreekError, UsageError
from creekdb.protocol.values import freeze
from creekdb.server.changes.feed import ChangeFeed
from creekdb.server.changes.gap_filling import GapFiller
from creekdb.server.changes.segments import Frame
from creekdb.server.changes.tables import SqlTables
from creekdb.server.changes.tentative import TentativeView
from creekdb.server.runtime.task_supervisor import Spawn
from creekdb.sql.table_rows import TableDescription
from creekdb.wire.changes import EARLIEST, LATEST, KeyFilter, decode_changes, encode_changes
from creekdb.wire.messages import ChangesPart, ChangesRejected, ChangesRequest
from creekdb.wire.pieces import NO_PIECES, cut_piece
from creekdb.wire.reject_reason import RejectReason
from creekdb.wire.tentative import TENTATIVE_VIEW, TentativeImage

CHANGES_HINT: Final = "start its replicas with --keep-changes 24h"


IMAGE_PAUSE_FACTOR: Final = 20
"""Least interval between two images of the tentative view, in times the cost of one."""


class ReaderLimits(NamedTuple):
    readers_max: int = 64
    """Upper bound for the concurrent requests and streams of a replica."""
    requests_per_connection_max: int = 4
    part_bytes: int = 256 * 1024
    """Approximate size of one part, in bytes."""
    part_bytes_max: int = 15 * 1024 * 1024
    """Upper bound for the changes in one message, in bytes. A single large change may exceed
    `part_bytes`. A change that also exceeds this bound is sent in pieces."""
    wait_s_max: float = 30.0
    """Upper bound for the wait for a change, in seconds."""
    image_pause_s: float = 0.02
    """Least interval between two images of the tentative view, in seconds."""
    future_wait_s: float = 2.0
    """Wait for a position that this replica has not reached, in seconds."""


DEFAULT_LIMITS: Final = ReaderLimits()


class ReadRejected(CreekError):
    """Request for changes that this replica cannot send."""

    def __init__(self, reason: RejectReason, message: str, first: int = 0, newest: int = 0) -> None:
        super().__init__(message)
        self.reason = reason
        self.first = first
        self.newest = newest


class ChangesQuery(NamedTuple):
    """Part of the feed that a reader requests."""

    start: int
    cluster: str = ""
    key_filter: KeyFilter | None = None
    wait_s: float = 0.0
    table: str = ""
    """SQL table whose changes are requested, instead of a key filter."""
    is_tentative: bool = False
    """True if the reader also requests the changes that are not final."""
    stamp: int = -1
    """Stamp of the last image of changes that are not final, as the reader has it."""


class FeedPart(NamedTuple):
    """Encoded changes from `first` to `end`. They may include changes before `first`.

    `newest` is the last change of the replica, which may not be readable yet.
    """

    cluster: str
    first: int
    end: int
    newest: int
    bodies: tuple[bytes, ...]
    table: TableDescription | None = None
    image: TentativeImage | None = None


class ChangeReaders:
    """Requests for changes at one replica. `feed` is None if it keeps no changes."""

    def __init__(
        self,
        feed: ChangeFeed | None,
        identity: Callable[[], str | None],
        spawn: Spawn,
        tables: SqlTables | None = None,
        tentative: TentativeView | None = None,
        limits: ReaderLimits = DEFAULT_LIMITS,
        gap_filler: GapFiller | None = None,
    ) -> None:
        """`identity` returns the identity of the cluster, or None if it has none yet."""
        self.feed = feed
        self.limits = limits
        self._identity = identity
        self._spawn = spawn
        self._tables = tables
        self._tentative = tentative
        self._gap_filler = gap_filler
        self._tasks: dict[object, set[asyncio.Task[None]]] = {}
        """Requests in progress by connection."""
        self.active_count = 0
        """Number of requests and streams in progress."""
        self.parts_sent = 0

    # --- over TCP -----------------------------------------------------------------------------

    def start(
        self,
        holder: object,
        request: ChangesRequest,
        send: Callable[[ChangesPart | ChangesRejected], None],
    ) -> None:
        """Respond to a request of a connection, now or when there is a change."""
        tasks = self._tasks.setdefault(holder, set())
        if len(tasks) >= self.limits.requests_per_connection_max:
            message = "too many requests for changes on one connection; await a part first"
            send(ChangesRejected(request.number, RejectReason.BUSY, message))
            return
        task = self._spawn(self._respond(request, send))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def close(self, holder: object) -> None:
        """Drop the requests of a connection that was closed."""
        for task in tuple(self._tasks.pop(holder, ())):
            task.cancel()

    async def _respond(
        self,
        request: ChangesRequest,
        send: Callable[[ChangesPart | ChangesRejected], None],
    ) -> None:
        number = request.number
        prefix = freeze(request.prefix)
        query = ChangesQuery(
            request.start,
            request.cluster,
            None if prefix is None else KeyFilter(prefix),
            request.wait_ms / 1000,
            request.table,
            request.view == TENTATIVE_VIEW,
            request.stamp,
        )
        try:
            self.enter()
            try:
                part = await self.read(query)
            finally:
                self.leave()
        except ReadRejected as error:
            send(ChangesRejected(number, error.reason, str(error), error.first, error.newest))
            return
        send(self._message(request, part))

    def _message(self, request: ChangesRequest, part: FeedPart) -> ChangesPart | ChangesRejected:
        """Return the message with a part, or with a piece of a part that is too large for one."""
        number, size, limit = request.number, sum(map(len, part.bodies)), self.limits.part_bytes_max
        if size <= limit:
            return ChangesPart(number, *part)
        if request.offset == NO_PIECES:
            message = (
                f"the change at {part.first} has {size} bytes, and this client accepts {limit}; "
                f"upgrade the client, or continue at {part.end}"
            )
            return ChangesRejected(number, RejectReason.TOO_LARGE, message, 0, part.newest)
        piece = cut_piece(b"".join(part.bodies), request.offset, limit)
        return ChangesPart(number, *part._replace(bodies=()), piece=piece)

    # --- over TCP and HTTP --------------------------------------------------------------------

    def enter(self) -> None:
        """Count a request or stream. Raise `ReadRejected` if there are too many."""
        if self.active_count >= self.limits.readers_max:
            message = f"{self.limits.readers_max} readers are active; retry later, or elsewhere"
            raise ReadRejected(RejectReason.BUSY, message)
        self.active_count += 1

    def leave(self) -> None:
        self.active_count -= 1

    async def read(self, query: ChangesQuery) -> FeedPart:
        """Return the next part. Raise `ReadRejected`.

        Only a single frame exceeds `part_bytes`.
        """
        feed, cluster = self._checked_feed(query)
        if query.start == EARLIEST:
            self._check_complete(feed)
        start = _resolve(query.start, feed)
        if start > feed.written_index and start > feed.received_index + 1:
            await self._wait_for_position(feed, start)
        table = self._find_table(query.table)
        if query.start == LATEST:
            return FeedPart(cluster, start, start, feed.received_index, (), table)
        if start > feed.written_index and query.is_tentative and start <= feed.received_index + 1:
            part = FeedPart(cluster, start, start, feed.received_index, (), table)
            image = await self._wait_for_image(feed, start, query)
            if start > feed.written_index:
                return part._replace(image=image)
        if start > feed.written_index:
            await _wait_for(feed, start, min(query.wait_s, self.limits.wait_s_max))
            if start > feed.written_index:
                return FeedPart(cluster, start, start, feed.received_index, (), table)
        frames = await self._read_frames(feed, start)
        self.parts_sent += 1
        end = frames[-1].end
        bodies = tuple([frame.body for frame in frames])
        key_filter = query.key_filter
        if query.table:
            table = self._find_table(query.table)  # it may have changed during the wait
            key_filter = None if table is None else KeyFilter(table.prefix)
        if key_filter is not None:
            bodies = _filtered(bodies, key_filter)
        return FeedPart(cluster, start, end, feed.received_index, bodies, table)

    def _check_complete(self, feed: ChangeFeed, index: int | None = None) -> None:
        """Raise `ReadRejected` if this replica lacks changes that another one may keep.

        With `index`, only a range that contains this index counts.
        """
        gap = None if self._gap_filler is None else self._gap_filler.find_fillable_gap(index)
        if gap is not None:
            start, stop = gap
            first = feed.log.first_index
            raise ReadRejected(
                RejectReason.NOT_READY,
                f"this replica lacks the changes from {start} to {stop - 1}, which another one may "
                f"keep; read from another replica, retry later, or start at {first}",
                first,
                feed.received_index,
            )

    async def _wait_for_position(self, feed: ChangeFeed, start: int) -> None:
        """Wait until this replica reaches a position. Raise `ReadRejected` if it does not."""
        await _wait_for(feed, start - 1, min(self.limits.future_wait_s, self.limits.wait_s_max))
        newest = feed.received_index
        if start > newest + 1:
            raise ReadRejected(
                RejectReason.POSITION_IN_FUTURE,
                f"change {start} does not exist yet: the last change of this replica is {newest}; "
                "check the position, or read from another replica",
                feed.log.first_index,
                newest,
            )

    async def _wait_for_image(
        self, feed: ChangeFeed, start: int, query: ChangesQuery
    ) -> TentativeImage | None:
        """Return the next image that the reader lacks, or None if there is a final change, or if
        the time is over."""
        assert self._tentative is not None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(query.wait_s, self.limits.wait_s_max)
        while True:
            begin = loop.time()
            key_filter = query.key_filter
            if query.table:
                table = self._find_table(query.table)
                key_filter = None if table is None else KeyFilter(table.prefix)
            image = self._tentative.image(key_filter)
            now = loop.time()
            if image.stamp != query.stamp:
                return image
            pause = max(self.limits.image_pause_s, (now - begin) * IMAGE_PAUSE_FACTOR)
            await _wait_for(feed, start, min(pause, deadline - now))
            if start <= feed.written_index or loop.time() >= deadline:
                return None

    def _find_table(self, name: str) -> TableDescription | None:
        """Return the table in the newest state, or None for an empty name."""
        if not name:
            return None
        try:
            if self._tables is None:
                raise UsageError("this replica has no tables; select registers by a prefix")
            return self._tables.find(name)
        except UsageError as error:
            raise ReadRejected(RejectReason.UNKNOWN_TABLE, str(error)) from error

    def _checked_feed(self, query: ChangesQuery) -> tuple[ChangeFeed, str]:
        """Return the feed and the identity of the cluster."""
        if self.feed is None:
            raise ReadRejected(
                RejectReason.CHANGES_OFF, f"this cluster keeps no changes; {CHANGES_HINT}"
            )
        cluster = self._identity()
        if cluster is None:
            message = "the cluster has no identity yet, or this replica has just started; retry"
            raise ReadRejected(RejectReason.NOT_READY, message)
        if query.cluster not in ("", cluster):
            raise ReadRejected(
                RejectReason.FOREIGN_POSITION,
                f"the position belongs to cluster {query.cluster}, and this is {cluster}; read the "
                "state of this cluster again, and continue after its index",
            )
        return self.feed, cluster

    async def _read_frames(self, feed: ChangeFeed, start: int) -> list[Frame]:
        segment, frames = feed.log.find(start), []
        if segment is not None:
            bytes_max = self.limits.part_bytes
            try:
                if feed.log.is_last(segment):
                    frames = segment.read(start, bytes_max)
                else:
                    frames = await asyncio.to_thread(segment.read, start, bytes_max)
                if not frames:
                    feed.drop_damage(segment, start)
            except OSError:
                frames = []  # the segment has expired meanwhile, or the disk failed
        if not frames:
            self._check_complete(feed, start)
            first = feed.log.first_index
            raise ReadRejected(
                RejectReason.CHANGES_EXPIRED,
                f"change {start} is not kept by this replica, which has all changes from {first} "
                "on; read from another replica, or read the state and continue after its index",
                first,
                feed.received_index,
            )
        return frames


def _resolve(start: int, feed: ChangeFeed) -> int:
    if start == EARLIEST:
        return feed.log.first_index
    return feed.received_index + 1 if start == LATEST else start


async def _wait_for(feed: ChangeFeed, index: int, wait_s: float) -> None:
    """Wait until the feed has the change, or the time is over."""
    if wait_s <= 0:
        return
    loop = asyncio.get_running_loop()
    written: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not written.done():
            written.set_result(None)

    feed.notify_after(index, wake)
    try:
        await asyncio.wait((written,), timeout=wait_s)
    finally:
        feed.cancel(wake)


def _filtered(bodies: tuple[bytes, ...], key_filter: KeyFilter) -> tuple[bytes, ...]:
    selected: list[Any] = []
    for body in bodies:
        for change in decode_changes(body):
            matching = key_filter.select(change)
            if matching is not None:
                selected.append(matching)
    return (encode_changes(selected),) if selected else ()
