"""Blocking reader of a cluster, for processes of Spark: snapshots and parts of the change feed.

Each reader has an event loop, which runs only while a method does. So it needs no thread, and a
process that Spark has forked can use it.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from creekdb.client import ChangePosition, ChangeStream, Database, NotDone
from creekdb.client.snapshots import KeyRange, SnapshotTicket
from creekdb.errors import ChangesExpired, CreekError, ForeignPosition, UnknownTable, UsageError
from creekdb.pipeline.source.options import EARLIEST, LATEST, ClusterOptions, Prefix, Selection
from creekdb.protocol.values import Key
from creekdb.wire.changes import Change
from creekdb.wire.messages import TableDescription
from creekdb.wire.reject_reason import RejectReason

_Result = TypeVar("_Result")

IDLE_WAIT_S: Final = 0.2
"""Time that `wait_for_change` waits, in seconds. It bounds the delay at the end of a query."""

RETRIED_REASONS: Final = (RejectReason.BUSY, RejectReason.NOT_READY)
"""Reasons for which another replica, or a later request, may open a snapshot."""
RETRY_PAUSE_S: Final = 0.2

Page = Sequence[tuple[Key, Any]]


class IndexNotReached(UsageError):
    """No replica has reached a commit index in time."""


class ClusterReader:
    """Connection to a cluster for one query."""

    def __init__(self, options: ClusterOptions, selection: Selection) -> None:
        self._options = options
        self._selection = selection
        self._database = options.database()
        self._runner = asyncio.Runner()
        self._tail: ChangeStream | None = None
        """Stream that requests the end of the feed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._tail is not None:
            self._run(self._tail.aclose())
            self._tail = None
        self._runner.close()

    # --- the end of the feed ------------------------------------------------------------------

    def end(self) -> ChangePosition:
        """Return the position after the last change that a replica has."""
        return self._run(self._read_end())

    def table(self) -> TableDescription | None:
        """Return the selected table as the newest state describes it, or None."""
        if self._selection.table is None:
            return None
        self.end()
        return self._tail_stream().table

    def wait_for_change(self, position: ChangePosition) -> ChangePosition:
        """Return the position after the last change, and wait a moment if there is no new one."""
        end = self.checked_end(position)
        if end.index > position.index:
            return end
        return self._run(self._await_change(position))

    def check_position(self, position: ChangePosition, may_be_lost: bool) -> None:
        """Raise `ChangesUnavailable` if a stream cannot continue at the position."""
        tail = self._tail_stream()
        tail.seek(position)
        try:
            self._run(tail.receive(0))
        except ChangesExpired:
            if not may_be_lost:
                raise

    def checked_end(self, position: ChangePosition) -> ChangePosition:
        """Return the position after the last change. Raise `ForeignPosition`."""
        end = self.end()
        if position.cluster not in ("", end.cluster):
            raise ForeignPosition(
                f"the position belongs to cluster {position.cluster}, and this is {end.cluster}"
            )
        return end

    def first(self) -> ChangePosition:
        """Return the position of the first change that a replica keeps."""

        async def read_first() -> ChangePosition:
            async with self._database.changes(EARLIEST, self._selection.prefix) as stream:
                changes = await stream.receive(0)
                if changes:
                    return ChangePosition(stream.position.cluster, changes[0].index)
                return stream.position

        return self._run(read_first())

    async def _read_end(self) -> ChangePosition:
        tail = self._tail_stream()
        tail.seek(LATEST)
        await tail.receive(0)
        return tail.position

    async def _await_change(self, position: ChangePosition) -> ChangePosition:
        tail = self._tail_stream()
        tail.seek(position)
        await tail.receive(IDLE_WAIT_S)
        newest = max(tail.newest or 0, position.index - 1)
        return ChangePosition(tail.position.cluster, newest + 1)

    def _tail_stream(self) -> ChangeStream:
        if self._tail is None:
            self._tail = self._database.changes(LATEST, table=self._selection.table or "")
        return self._tail

    def describe_table(self) -> TableDescription:
        """Return the selected table as it is in the newest state."""
        ticket = self.open_snapshot(1)
        self.release(ticket)
        assert ticket.table is not None
        return ticket.table

    # --- changes ------------------------------------------------------------------------------

    def changes(
        self, start: ChangePosition, stop: int, prefix: Prefix | None, skip_lost: bool = False
    ) -> Iterator[list[Change]]:
        """Yield lists of the changes from `start` up to `stop` of the registers with a prefix.

        With `skip_lost`, changes that no replica keeps any more are left out.
        """
        stream = self._database.changes(start, prefix)
        try:
            while stream.position.index < stop:
                try:
                    changes = self._run(stream.receive())
                except ChangesExpired as error:
                    if not skip_lost or error.first_index <= stream.position.index:
                        raise
                    stream.seek(ChangePosition(start.cluster, min(error.first_index, stop)))
                    continue
                selected = [change for change in changes if change.index < stop]
                if selected:
                    yield selected
        finally:
            self._run(stream.aclose())

    # --- snapshots ----------------------------------------------------------------------------

    def open_snapshot(self, partitions: int, index_min: int = 0) -> SnapshotTicket:
        """Open a snapshot at `index_min` or later, which ends with its lease.

        Try each replica, since each has few snapshots, and may lag behind the others. Raise
        `UsageError`, and `IndexNotReached` if all of them lag.
        """
        return self._run(self._open_snapshot(partitions, index_min))

    def release(self, ticket: SnapshotTicket) -> None:
        """End a snapshot. A replica that cannot be reached ends it with the lease."""
        self._run(self._release(ticket))

    async def _release(self, ticket: SnapshotTicket) -> None:
        try:
            async with asyncio.timeout(self._options.timeout_s):
                async with self._database.snapshot(ticket=ticket) as snapshot:
                    snapshot.release()
        except (CreekError, TimeoutError):
            pass

    def is_open(self, ticket: SnapshotTicket) -> bool:
        """Return True if the snapshot can be read. This renews its lease."""

        async def read_first_page() -> bool:
            try:
                async with self._database.snapshot(ticket=ticket) as snapshot:
                    async for _ in snapshot.pages():
                        break
            except NotDone:
                return False
            return True

        return self._run(read_first_page())

    def pages(self, ticket: SnapshotTicket, bounds: KeyRange) -> Iterator[Page]:
        """Yield the registers of a range."""
        snapshot = self._database.snapshot(ticket=ticket)
        self._run(snapshot.__aenter__())
        pages: AsyncGenerator[Page, None] = snapshot.pages(*bounds)
        try:
            while (page := self._run(_next_page(pages))) is not None:
                yield page
        finally:
            self._run(pages.aclose())
            self._run(snapshot.__aexit__())

    async def _open_snapshot(self, partitions: int, index_min: int) -> SnapshotTicket:
        deadline = time.monotonic() + self._options.timeout_s
        while True:
            newest, rejected = 0, None
            for server in self._options.servers:
                database = self._options.database(server)
                try:
                    if index_min:
                        newest = max(newest, reached := await _last_index(database))
                        if reached < index_min:
                            continue
                    ticket = await self._snapshot_of(database, partitions)
                except NotDone as error:
                    rejected = error
                    if error.reason not in RETRIED_REASONS:
                        break
                    continue
                if ticket.index >= index_min:
                    return ticket
                await self._release(ticket)
            is_temporary = rejected is None or rejected.reason in RETRIED_REASONS
            if not is_temporary or time.monotonic() > deadline:
                break
            await asyncio.sleep(RETRY_PAUSE_S)
        if rejected is None:
            raise IndexNotReached(
                f"the last commit is {newest}, also after {self._options.timeout_s:g} s"
            )
        if rejected.reason == RejectReason.UNREACHABLE:
            raise rejected
        raise UsageError(f"cannot open a snapshot of the cluster: {rejected}") from None

    async def _snapshot_of(self, database: Database, partitions: int) -> SnapshotTicket:
        """Open a snapshot at the first replica of a database."""
        selection = self._selection
        async with database.snapshot(
            partitions=partitions,
            prefix=selection.prefix,
            table=selection.table or "",
            lease=selection.lease_s,
        ) as snapshot:
            return snapshot.detach()

    def _run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run to completion. Name the option that causes an error."""
        try:
            return self._runner.run(work)
        except UnknownTable as error:
            raise UsageError(f"option table: {error}") from None
        except CreekError as error:
            raise self._options.explained(error) from None


async def _last_index(database: Database) -> int:
    """Return the index of the last commit at the first replica of a database."""
    async with database.changes(LATEST) as stream:
        await stream.receive(0)
        return stream.newest or 0


async def _next_page(pages: AsyncGenerator[Page, None]) -> Page | None:
    return await anext(pages, None)
