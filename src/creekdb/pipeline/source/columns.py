"""Columns of registers and changes, as Arrow batches with declared schemas.

A column is made only if the schema of the query has it: `spark.read.schema("key STRING")` selects.

A key is a string, an integer or a tuple of these. The option `keyType` names the one type that the
keys of a query have, or `json` for any. Values are JSON texts. A batch must have exactly the schema
that Spark derives from the declared one, including whether columns are nullable.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from creekdb.client.arrow import ArrowWriter
from creekdb.errors import BadValue, UsageError
from creekdb.protocol.values import Key
from creekdb.wire.changes import Change
from creekdb.wire.json_values import to_json
from creekdb.wire.messages import TableDescription

INSERT: Final = "insert"
UPDATE_PREIMAGE: Final = "update_preimage"
UPDATE_POSTIMAGE: Final = "update_postimage"
DELETE: Final = "delete"

INT64_END: Final = 2**63

_KEY_SPARK_TYPES: Final[dict[str, DataType]] = {
    "string": StringType(),
    "int": LongType(),
    "json": StringType(),
}
_PLAIN_TYPES: Final = frozenset((str, int, float, bool, type(None)))

CHANGE_FIELDS: Final = (
    StructField("_change_type", StringType(), False),
    StructField("_commit_index", LongType(), False),
    StructField("_commit_timestamp", TimestampType(), True),
    StructField("_operation", StringType(), True),
    StructField("_strong", BooleanType(), True),
    StructField("_changed", BooleanType(), True),
)
"""Columns that a stream of writes has after those of the register. A row of the snapshot has only
the first two."""


def register_schema(key_type: str) -> StructType:
    """Return the schema of keys and values."""
    return StructType(
        [
            StructField("key", _KEY_SPARK_TYPES[key_type], False),
            StructField("value", StringType(), True),
        ]
    )


def table_schema(table: TableDescription) -> StructType:
    """Return the schema of the rows of a table."""
    schema: StructType = from_arrow_schema(ArrowWriter(table).schema)
    return schema


def changes_schema(registers: StructType, is_table: bool) -> StructType:
    """Return the schema of a stream of writes. A deleted row has the columns of its key only."""
    fields = registers.fields
    if is_table:
        fields = [StructField(field.name, field.dataType, True) for field in fields]
    return StructType([*fields, *CHANGE_FIELDS])


def writes_schema(key_type: str) -> StructType:
    """Return the schema of a stream of writes to keys."""
    return changes_schema(register_schema(key_type), is_table=False)


def operations_schema() -> StructType:
    """Return the schema of a stream with a row per committed operation."""
    written = StructType(
        [StructField("key", StringType(), False), StructField("value", StringType(), True)]
    )
    return StructType(
        [
            StructField("_commit_index", LongType(), False),
            StructField("_commit_timestamp", TimestampType(), True),
            StructField("_call_timestamp", TimestampType(), False),
            StructField("_operation", StringType(), False),
            StructField("_strong", BooleanType(), False),
            StructField("_changed", BooleanType(), True),
            StructField("_replica", IntegerType(), False),
            StructField("_event", LongType(), False),
            StructField("_client", StringType(), True),
            StructField("_number", LongType(), True),
            StructField("arguments", StringType(), False),
            StructField("value", StringType(), True),
            StructField("error", StringType(), True),
            StructField("writes", ArrayType(written, False), False),
        ]
    )


# --- texts ------------------------------------------------------------------------------------

_encode_json: Final = msgspec.json.Encoder().encode


def json_bytes(value: Any) -> bytes:
    """Return a stored value as JSON, encoded as over HTTP."""
    if type(value) not in _PLAIN_TYPES:
        value = to_json(value)
    try:
        return _encode_json(value)
    except OverflowError:  # an integer of more than 64 bits
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def text_array(texts: Sequence[bytes | None]) -> pa.Array:
    return pa.array(texts, pa.binary()).cast(pa.string())


def json_array(values: Iterable[Any]) -> pa.Array:
    return text_array(list(map(json_bytes, values)))


def key_array(keys: Sequence[Key], key_type: str) -> pa.Array:
    if key_type == "json":
        return json_array(keys)
    expected = str if key_type == "string" else int
    for key in keys:
        if type(key) is not expected:
            _refuse_key(key, key_type)
    try:
        return pa.array(keys, pa.string() if key_type == "string" else pa.int64())
    except OverflowError:
        large = next(key for key in keys if isinstance(key, int) and abs(key) >= INT64_END)
        _refuse_key(large, key_type)


def _refuse_key(key: Key, key_type: str) -> NoReturn:
    raise BadValue(
        f"option keyType is '{key_type}', and the register {key!r} has a key of another type; set "
        "keyType to json, or select registers by prefix"
    )


# --- batches ----------------------------------------------------------------------------------

Columns: TypeAlias = dict[str, Callable[[], pa.Array]]
"""Columns by name, each made on demand."""


class Written(NamedTuple):
    """Register with a value, or without one if it was deleted."""

    key: Key
    value: Any
    has_value: bool = True


class RegisterColumns:
    """Columns of registers: `key` and `value`, or those of a table."""

    def __init__(self, key_type: str, table: TableDescription | None) -> None:
        self._key_type = key_type
        self._table = table
        self._writer = None if table is None else ArrowWriter(table)

    def of(self, written: Sequence[Written]) -> Columns:
        if self._writer is None:
            return {
                "key": lambda: key_array([each.key for each in written], self._key_type),
                "value": lambda: text_array(
                    [json_bytes(each.value) if each.has_value else None for each in written]
                ),
            }
        arrays = self._writer.column_arrays([self._row(each) for each in written])
        names = self._writer.schema.names
        return {name: partial(_identity, array) for name, array in zip(names, arrays, strict=True)}

    def of_page(self, page: Sequence[tuple[Key, Any]]) -> Columns:
        if self._writer is not None:
            return self.of([Written(key, value) for key, value in page])
        return {
            "key": lambda: key_array([key for key, _ in page], self._key_type),
            "value": lambda: json_array([value for _, value in page]),
        }

    def _row(self, written: Written) -> Sequence[Any]:
        table = self._table
        assert table is not None
        if written.has_value:
            return table.decode_values(written.value)
        key_columns = table.decode_key(written.key)
        return [key_columns.get(name) for name in table.column_names]


def _identity(array: pa.Array) -> pa.Array:
    return array


def make_batch(columns: Columns, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch of a schema. Raise `UsageError` if a column is missing."""
    arrays = []
    for field in schema:
        make = columns.get(field.name)
        array = None if make is None else make()
        if array is None or array.type != field.type:
            has = "has no such column" if array is None else f"has {array.type}"
            raise UsageError(
                f"the schema of the query has the column '{field.name}' of type {field.type}, and "
                f"the cluster {has}; load the table again, or correct the schema"
            )
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def snapshot_columns(count: int, index: int) -> Columns:
    """Return the change columns of registers of a snapshot, which a stream has as inserts."""
    columns: Columns = {
        field.name: partial(pa.nulls, count, to_arrow_type(field.dataType, timezone="UTC"))
        for field in CHANGE_FIELDS
    }
    columns["_change_type"] = lambda: pa.array([INSERT] * count, pa.string())
    columns["_commit_index"] = lambda: pa.array([index] * count, pa.int64())
    return columns


# --- changes ----------------------------------------------------------------------------------


class WriteRow(NamedTuple):
    """Row of a stream of writes."""

    written: Written
    change_type: str
    change: Change


def write_rows(changes: Iterable[Change], before_images: bool) -> list[WriteRow]:
    """Return a row per written or deleted register, in the order of the commits.

    Without values before the changes, an insert cannot be distinguished from an update, and is
    an `update_postimage`.
    """
    rows: list[WriteRow] = []
    for change in changes:
        before = None if change.before is None else dict(change.before)
        for key, value in change.writes:
            kind = UPDATE_POSTIMAGE
            if before is not None and key not in before:
                kind = INSERT
            elif before is not None and before_images:
                preimage = Written(key, before[key])
                rows.append(WriteRow(preimage, UPDATE_PREIMAGE, change))
            rows.append(WriteRow(Written(key, value), kind, change))
        for key in change.deleted:
            has_value = before_images and before is not None and key in before
            value = before[key] if has_value and before is not None else None
            rows.append(WriteRow(Written(key, value, has_value), DELETE, change))
    return rows


def row_count(change: Change, before_images: bool) -> int:
    """Return the number of rows of a change in a stream of writes."""
    count = len(change.writes) + len(change.deleted)
    if before_images and change.before is not None:
        before = dict(change.before)
        count += sum(1 for key, _ in change.writes if key in before)
    return count


def write_columns(rows: Sequence[WriteRow]) -> Columns:
    """Return the change columns of rows."""
    return {
        "_change_type": lambda: pa.array([row.change_type for row in rows], pa.string()),
        **_common_columns([row.change for row in rows]),
    }


def operation_columns(changes: Sequence[Change]) -> Columns:
    """Return the columns of a stream with a row per operation."""
    return {
        **_common_columns(changes),
        "_call_timestamp": lambda: _timestamps([each.timestamp for each in changes]),
        "_replica": lambda: pa.array([each.id.replica for each in changes], pa.int32()),
        "_event": lambda: pa.array([each.id.event for each in changes], pa.int64()),
        "_client": lambda: pa.array([each.client or None for each in changes], pa.string()),
        "_number": lambda: pa.array(
            [each.number if each.client else None for each in changes], pa.int64()
        ),
        "arguments": lambda: json_array([each.arguments for each in changes]),
        "value": lambda: text_array(
            [None if each.error is not None else json_bytes(each.value) for each in changes]
        ),
        "error": lambda: pa.array([each.error for each in changes], pa.string()),
        "writes": lambda: _written_lists(changes),
    }


def _common_columns(changes: Sequence[Change]) -> Columns:
    return {
        "_commit_index": lambda: pa.array([each.index for each in changes], pa.int64()),
        "_commit_timestamp": lambda: _timestamps(
            [each.commit_timestamp or each.timestamp for each in changes]
        ),
        "_operation": lambda: pa.array([each.operation for each in changes], pa.string()),
        "_strong": lambda: pa.array([each.strong for each in changes], pa.bool_()),
        "_changed": lambda: pa.array([each.changed for each in changes], pa.bool_()),
    }


def _timestamps(values: Sequence[int]) -> pa.Array:
    return pa.array(values, pa.int64()).cast(pa.timestamp("us", tz="UTC"))


_WRITES_TYPE: Final = to_arrow_type(operations_schema()["writes"].dataType)


def _written_lists(changes: Sequence[Change]) -> pa.Array:
    offsets, keys = [0], []
    values: list[bytes | None] = []
    for change in changes:
        for key, value in change.writes:
            keys.append(json_bytes(key))
            values.append(json_bytes(value))
        for key in change.deleted:
            keys.append(json_bytes(key))
            values.append(None)
        offsets.append(len(keys))
    written = pa.StructArray.from_arrays(
        [text_array(keys), text_array(values)], fields=list(_WRITES_TYPE.value_type)
    )
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), written, type=_WRITES_TYPE)
