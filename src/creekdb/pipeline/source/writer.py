"""Writers of `format("creek")`: rows are staged by tasks, and applied once by the driver.

Each task stages its rows under a token of its own, which its commit message names. Spark commits a
batch with one message per partition, from the attempt that succeeded first. The commit applies the
rows of these tokens, unless the ledger of the sink has the batch already
(`creekdb.wire.sink_ledgers`). The staged rows of all other attempts expire.

With `mode=bulk`, tasks write their rows at once. A repeated task writes the same values again.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType, VariantType

from creekdb.client import Database
from creekdb.client.sinks import Sink, StagedRows, load_rows, unnamed_sink
from creekdb.errors import CreekError, UsageError
from creekdb.pipeline.source.dead_letters import write_dead_letters
from creekdb.pipeline.source.row_plan import RowPlan, find_converter, make_plan
from creekdb.pipeline.source.write_options import WriteOptions

QUERY_PROPERTY: Final = "sql.streaming.queryId"
"""Local property of Spark that holds the identity of a streaming query. Its checkpoint keeps it."""

_Result = TypeVar("_Result")


@dataclass
class StagedPartition(WriterCommitMessage):
    """Rows that one task has staged, or written in bulk."""

    staged: StagedRows | None
    query: str
    """Identity of the streaming query. Empty if Spark does not report it."""


class TaskWriter:
    """Tasks and commits of batch writes and of streams."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self.options = options
        self.plan: RowPlan = self._run(_connected_plan(options, schema.names))
        for name in self.plan.columns:
            kind = schema[name].dataType
            if isinstance(kind, VariantType):
                raise UsageError(
                    f"column '{name}' has the type variant, which a cluster cannot store; convert "
                    "it by to_json, and name it in jsonColumns"
                )
            if name not in self.plan.json_columns:
                find_converter(name, to_arrow_type(kind, timezone="UTC"))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task, or write them in bulk."""
        return self._run(self._write(iterator))

    def _run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine to its end, in a process of Spark. Name the option of an error."""
        try:
            return asyncio.run(work)
        except CreekError as error:
            raise self.options.cluster.explained(error) from None

    async def _write(self, batches: Iterable[pa.RecordBatch]) -> StagedPartition:
        options, plan = self.options, self.plan
        rows = plan.rows(batches)
        async with options.cluster.database() as db:
            if options.is_bulk:
                await load_rows(
                    db,
                    plan.operation,
                    rows,
                    leading=plan.leading,
                    chunk_rows=plan.chunk_rows,
                )
                return StagedPartition(None, "")
            staged = await db.sink("tasks").stage(
                plan.operation,
                rows,
                leading=plan.leading,
                keep_rejected=options.dead_letter is not None,
                chunk_rows=plan.chunk_rows,
            )
        return StagedPartition(staged, _query())

    async def apply(self, messages: Sequence[Any], sink_name: str, query: str, batch: int) -> None:
        """Apply the rows of all tasks, and write the rejected ones to files."""
        options = self.options
        staged = _staged_rows(messages)
        async with options.cluster.database() as db:
            sink = db.sink(sink_name, query=query)
            keeps_rejected = options.dead_letter is not None
            await sink.apply(
                batch,
                staged,
                strong=options.is_strong,
                atomic=options.is_atomic,
                keep_rejected=keeps_rejected,
            )
            if options.dead_letter is not None:
                await write_dead_letters(sink, self.plan, options.dead_letter)

    async def discard(self, messages: Sequence[Any]) -> None:
        """Delete staged rows that no batch needs. What remains expires."""
        try:
            async with self.options.cluster.database() as db:
                await Sink(db, "tasks").discard(_staged_rows(messages))
        except CreekError:
            pass


class CreekWriter(TaskWriter, DataSourceArrowWriter):
    """Writer of `df.write`."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._sink = options.sink or unnamed_sink()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if not self.options.is_bulk:
            self._run(self.apply(messages, self._sink, "", self.options.batch or 0))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._run(self.discard(messages))


class CreekStreamWriter(TaskWriter, DataSourceStreamArrowWriter):
    """Writer of `df.writeStream`."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        if self.options.is_bulk:
            return
        queries = {each.query for each in messages if isinstance(each, StagedPartition)}
        query = next(iter(queries)) if len(queries) == 1 else ""
        sink = self.options.sink or query
        if not sink:
            raise UsageError("option sink is missing: set it to a name that no other query uses")
        self._run(self.apply(messages, sink, query, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._run(self.discard(messages))


def batch_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceWriter:
    """Return the writer of `df.write`."""
    if overwrite:
        raise UsageError(
            "mode overwrite is not supported, because a cluster has other writers; use "
            'df.write.mode("append"), which replaces rows with the same key'
        )
    return CreekWriter(WriteOptions.parse(options, is_stream=False), schema)


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamWriter:
    """Return the writer of `df.writeStream`."""
    if overwrite:
        raise UsageError(
            'outputMode complete is not supported: use "update", which replaces rows with the '
            "same key"
        )
    return CreekStreamWriter(WriteOptions.parse(options, is_stream=True), schema)


async def _connected_plan(options: WriteOptions, columns: Sequence[str]) -> RowPlan:
    database: Database = options.cluster.database()
    async with database as db:
        return await make_plan(db, options.target, columns)


def _staged_rows(messages: Sequence[Any]) -> list[StagedRows]:
    return [
        each.staged
        for each in messages
        if isinstance(each, StagedPartition) and each.staged is not None
    ]


def _query() -> str:
    """Return the identity of the streaming query that this task belongs to, or an empty string."""
    context = TaskContext.get()
    return "" if context is None else context.getLocalProperty(QUERY_PROPERTY) or ""
