"""Schemas of queries, and the batches that tasks read."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from creekdb.errors import UsageError
from creekdb.pipeline.source import columns
from creekdb.pipeline.source.cluster_reader import ClusterReader
from creekdb.pipeline.source.options import (
    FEED_OPTIONS,
    STREAM_OPTIONS,
    BatchOptions,
    OptionReader,
    Selection,
    StreamOptions,
)
from creekdb.protocol.values import Key
from creekdb.wire.changes import Change
from creekdb.wire.messages import TableDescription


def declared_schema(given: Mapping[str, str]) -> StructType:
    """Return the schema of a query without one of its own.

    Spark requests the schema before it states whether the query is a stream. The options of a
    stream state it, and so readChangeFeed=true is required.
    """
    options = OptionReader(given)
    if options.flag("readChangeFeed", False):
        return stream_schema(StreamOptions.parse(given))
    for name in (*FEED_OPTIONS, *STREAM_OPTIONS):
        if name != "readChangeFeed" and options.has(name):
            raise UsageError(f"option {name} is for streams of changes: set readChangeFeed to true")
    batch = BatchOptions.parse(given)
    if batch.selection.table is None:
        return columns.register_schema(batch.selection.key_type)
    with ClusterReader(batch.cluster, batch.selection) as reader:
        return columns.table_schema(reader.describe_table())


def stream_schema(options: StreamOptions) -> StructType:
    """Return the schema of a stream."""
    if options.rows == "operations":
        return columns.operations_schema()
    if options.selection.table is None:
        return columns.writes_schema(options.selection.key_type)
    with ClusterReader(options.cluster, options.selection) as reader:
        registers = columns.table_schema(reader.describe_table())
    return columns.changes_schema(registers, is_table=True)


def check_schema(given: StructType, declared: StructType) -> None:
    """Raise `UsageError` if a query selects columns that do not exist or have other types."""
    types = {field.name: field.dataType for field in declared.fields}
    for field in given.fields:
        if field.name not in types:
            raise UsageError(
                f"the schema of the query has the column '{field.name}', which does not exist; "
                f"choose among {', '.join(types)}"
            )
        if field.dataType != types[field.name]:
            raise UsageError(
                f"the schema of the query has the column '{field.name}' of type "
                f"{field.dataType.simpleString()}, and its type is "
                f"{types[field.name].simpleString()}; correct the schema"
            )


class BatchMaker:
    """Conversion of registers and changes to Arrow batches of the schema of the query."""

    def __init__(
        self, selection: Selection, schema: StructType, table: TableDescription | None
    ) -> None:
        self._schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self._registers = columns.RegisterColumns(selection.key_type, table)

    def registers(self, page: Sequence[tuple[Key, Any]]) -> pa.RecordBatch:
        """Return registers of the state."""
        return columns.make_batch(self._registers.of_page(page), self._schema)

    def snapshot(self, page: Sequence[tuple[Key, Any]], index: int) -> pa.RecordBatch:
        """Return registers of a snapshot as inserts of a stream."""
        made = self._registers.of_page(page) | columns.snapshot_columns(len(page), index)
        return columns.make_batch(made, self._schema)

    def writes(self, changes: Sequence[Change], before_images: bool) -> pa.RecordBatch:
        """Return a row per write."""
        rows = columns.write_rows(changes, before_images)
        made = self._registers.of([row.written for row in rows])
        return columns.make_batch(made | columns.write_columns(rows), self._schema)

    def operations(self, changes: Sequence[Change]) -> pa.RecordBatch:
        """Return a row per operation."""
        return columns.make_batch(columns.operation_columns(changes), self._schema)
