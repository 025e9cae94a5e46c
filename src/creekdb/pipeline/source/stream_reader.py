"""Streams of changes: offsets, micro-batches, and the tasks that read them.

Spark plans a micro-batch as a range of offsets, and writes it to the checkpoint of the query before
it is read. Tasks read the range from any replica, so a replica may fail in between. A range that is
read again has the same rows, because changes are final.

One process of the driver plans all micro-batches, and keeps its connection. Others run the tasks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from creekdb.client import ChangePosition
from creekdb.errors import ChangesExpired, ChangesUnavailable, ForeignPosition, UsageError
from creekdb.pipeline.source import columns
from creekdb.pipeline.source.cluster_reader import ClusterReader
from creekdb.pipeline.source.images import Image, ImagePart, replaced_since
from creekdb.pipeline.source.offsets import StreamOffset, parse_offset
from creekdb.pipeline.source.options import EARLIEST, SNAPSHOT, StreamOptions
from creekdb.pipeline.source.reading import BatchMaker, check_schema, stream_schema
from creekdb.wire.messages import TableDescription

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # Spark 4.1 has neither limits nor this trigger for sources in Python

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass

    ReadAllAvailable = ReadMaxRows = None  # type: ignore[assignment, misc]

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

CHANGES_PER_TASK_MIN: Final = 5_000
"""Least number of changes for which a further task pays."""


class SnapshotPartition(InputPartition):
    """Key range of the snapshot with which a stream begins."""

    def __init__(self, part: ImagePart, index: int) -> None:
        super().__init__(part.bounds)
        self.part = part
        self.index = index


class FeedPartition(InputPartition):
    """Range of commit indices, from `start` up to `stop`."""

    def __init__(self, start: ChangePosition, stop: int, table: TableDescription | None) -> None:
        super().__init__((start.index, stop))
        self.start = start
        self.stop = stop
        self.table = table


class CreekStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of the change feed of a cluster."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._options = StreamOptions.parse(given)
        self._schema = schema
        if self._options.selection.table is None:
            check_schema(schema, stream_schema(self._options))
        self._reader: ClusterReader | None = None
        self._target: int | None = None
        """Index at which a query with the trigger AvailableNow ends."""
        self._last_end: StreamOffset | None = None
        self._is_checked = False
        """True once the position of the stream has been checked."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the connection: Spark sends the reader to its tasks."""
        return self.__dict__ | {"_reader": None}

    # --- offsets ------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        start = self._options.start
        return StreamOffset(index=start).to_json() if isinstance(start, int) else _OPEN.to_json()

    def getDefaultReadLimit(self) -> "ReadLimit":  # noqa: N802
        rows_max = self._options.rows_max
        return ReadAllAvailable() if rows_max is None else ReadMaxRows(rows_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._connected().end().index

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: "ReadLimit | None" = None
    ) -> dict[str, Any]:
        offset = parse_offset(self.initialOffset() if start is None else start)
        try:
            end = self._first_end() if offset.is_open else self._next_end(offset, limit)
        except ChangesUnavailable as error:
            raise _explained(error, self._options, offset) from None
        self._last_end = end
        return end.to_json() if end != offset else (start or end.to_json())

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        end = self._last_end
        return None if end is None else replace(end, snapshot=None).to_json()

    def _first_end(self) -> StreamOffset:
        """Return the end of the first batch of a stream that begins at a moving position."""
        reader, start = self._connected(), self._options.start
        position = reader.first() if start == EARLIEST else reader.end()
        ticket = None
        if start == SNAPSHOT:
            ticket = reader.open_snapshot(self._options.selection.partitions)
            position = ChangePosition(ticket.cluster, ticket.index + 1)
            if self._target is not None:
                self._target = max(self._target, position.index)
        return StreamOffset(position.cluster, position.index, ticket)

    def _next_end(self, offset: StreamOffset, limit: "ReadLimit | None") -> StreamOffset:
        reader = self._connected()
        position = ChangePosition(offset.cluster, offset.index)
        if not self._is_checked:
            reader.check_position(position, not self._options.fail_on_data_loss)
            self._is_checked = True
        if self._target is None:
            end = reader.wait_for_change(position)
        else:
            end = reader.checked_end(position)
            end = ChangePosition(end.cluster, min(end.index, self._target))
        if end.index <= offset.index:
            return offset
        rows_max = getattr(limit, "max_rows", None)
        if rows_max is not None:
            end = self._limited_end(position, end, rows_max)
        return StreamOffset(end.cluster, end.index)

    def _limited_end(
        self, start: ChangePosition, end: ChangePosition, rows_max: int
    ) -> ChangePosition:
        """Return the position after the commit with which a batch has `rows_max` rows."""
        options, count = self._options, 0
        prefix = options.selection.key_prefix(self._connected().table())
        skip_lost = not options.fail_on_data_loss
        with ClusterReader(options.cluster, options.selection) as reader:
            for changes in reader.changes(start, end.index, prefix, skip_lost):
                for change in changes:
                    count += (
                        1
                        if options.rows == "operations"
                        else columns.row_count(change, options.before_images)
                    )
                    if count >= rows_max:
                        return ChangePosition(end.cluster, change.index + 1)
        return end

    # --- partitions ---------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        first, last = parse_offset(start), parse_offset(end)
        if last.snapshot is not None:
            return self._snapshot_partitions(last)
        if first.is_open:
            return []  # the batch states where the stream begins
        count = last.index - first.index
        tasks = min(self._options.selection.partitions, 1 + count // CHANGES_PER_TASK_MIN)
        bounds = [first.index + count * each // tasks for each in range(tasks + 1)]
        table = self._connected().table()
        return [
            FeedPartition(ChangePosition(last.cluster, low), high, table)
            for low, high in pairwise(bounds)
        ]

    def _snapshot_partitions(self, end: StreamOffset) -> list[InputPartition]:
        reader, given = self._connected(), end.snapshot
        assert given is not None
        index = end.index - 1
        image = Image(index, given)
        if not reader.is_open(given):
            image = self._restored_image(index)
        return [SnapshotPartition(part, index) for part in image.parts()]

    def _restored_image(self, index: int) -> Image:
        """Return the state of a snapshot that has ended, as a later one and what changed since."""
        reader = self._connected()
        ticket = reader.open_snapshot(self._options.selection.partitions, index)
        try:
            return Image(index, ticket, replaced_since(reader, index, ticket))
        except (ChangesUnavailable, UsageError) as error:
            reader.release(ticket)
            raise UsageError(
                f"the snapshot at index {index} ended before its batch was complete: {error}; or "
                "start the query again with another checkpointLocation and an empty output"
            ) from None

    def commit(self, end: dict[str, Any]) -> None:
        ticket = parse_offset(end).snapshot
        if ticket is not None:
            self._connected().release(ticket)

    def stop(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # --- tasks --------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        options = self._options
        if isinstance(partition, SnapshotPartition):
            part = partition.part
            make = BatchMaker(options.selection, self._schema, part.ticket.table)
            with ClusterReader(options.cluster, options.selection) as reader:
                for page in part.pages(reader):
                    yield make.snapshot(page, partition.index)
            return
        assert isinstance(partition, FeedPartition)
        make = BatchMaker(options.selection, self._schema, partition.table)
        skip_lost = not options.fail_on_data_loss
        prefix = options.selection.key_prefix(partition.table)
        with ClusterReader(options.cluster, options.selection) as reader:
            try:
                for changes in reader.changes(partition.start, partition.stop, prefix, skip_lost):
                    if options.rows == "operations":
                        yield make.operations(changes)
                    else:
                        yield make.writes(changes, options.before_images)
            except ChangesUnavailable as error:
                start = StreamOffset(partition.start.cluster, partition.start.index)
                raise _explained(error, options, start) from None

    def _connected(self) -> ClusterReader:
        if self._reader is None:
            self._reader = ClusterReader(self._options.cluster, self._options.selection)
        return self._reader


_OPEN: Final = StreamOffset()


def _explained(
    error: ChangesUnavailable, options: StreamOptions, offset: StreamOffset
) -> UsageError:
    """Return the error with the option that the user can set."""
    if isinstance(error, ChangesExpired):
        return UsageError(
            f"option failOnDataLoss is 'true', and changes from {offset.index} on are lost: "
            f"{error}; set failOnDataLoss to false to continue at {error.first_index}, or start "
            "with another checkpoint"
        )
    if isinstance(error, ForeignPosition):
        return UsageError(
            f"option servers names another cluster than the checkpoint: {error}; correct servers, "
            "or set checkpointLocation to another directory"
        )
    if offset.cluster == "" and isinstance(options.start, int):
        return UsageError(f"option startingIndex is '{options.start}': {error}")
    return UsageError(str(error))
