"""Registers and rows as record batches of Arrow. Requires the package pyarrow.

A column of a table has the type of its affinity: INTEGER is int64, REAL and NUMERIC are double,
TEXT is string and BLOB is binary. A NUMERIC column that is declared as a date or time is a string.
Only STRICT tables guarantee that the values have these types. A value of another type is an error
that names the column.

Clients convert, because the conversion costs a replica as much time, and more memory.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec

from creekdb.errors import BadValue, UsageError
from creekdb.protocol.values import Key
from creekdb.sql.table_rows import TableColumn, TableDescription
from creekdb.wire.json_values import to_json

RecordBatch: TypeAlias = Any
"""`pyarrow.RecordBatch`, which this module imports when it is needed."""

KEY_COLUMN: Final = "key"
VALUE_COLUMN: Final = "value"
_TYPES: Final = {
    "INTEGER": "int64",
    "REAL": "float64",
    "NUMERIC": "float64",
    "TEXT": "string",
    "BLOB": "binary",
}


def import_arrow() -> Any:
    """Return the module pyarrow. Raise `UsageError` if it is missing."""
    try:
        import pyarrow  # noqa: PLC0415 - optional
    except ModuleNotFoundError as error:
        raise UsageError(
            "record batches need the package pyarrow, which is missing; install pyarrow"
        ) from error
    return pyarrow


def column_type_name(column: TableColumn) -> str:
    """Return the name of the Arrow type of a column."""
    declared = column.declared_type.upper()
    if column.affinity == "NUMERIC" and ("DATE" in declared or "TIME" in declared):
        return "string"
    if column.affinity == "BLOB" and "BLOB" not in declared:
        return "string"  # untyped: values as JSON
    return _TYPES[column.affinity]


class ArrowWriter:
    """Conversion of pages of a snapshot to record batches of one schema."""

    def __init__(self, table: TableDescription | None) -> None:
        self._arrow = import_arrow()
        self._table = table
        self.schema = self._make_schema()

    def _make_schema(self) -> Any:
        arrow, table = self._arrow, self._table
        if table is None:
            return arrow.schema(
                [
                    arrow.field(KEY_COLUMN, arrow.string(), nullable=False),
                    arrow.field(VALUE_COLUMN, arrow.string(), nullable=False),
                ]
            )
        return arrow.schema(
            [
                arrow.field(
                    column.name,
                    arrow.type_for_alias(column_type_name(column)),
                    nullable=not column.is_not_null,
                )
                for column in table.columns
            ]
        )

    def record_batch(self, page: Sequence[tuple[Key, Any]]) -> RecordBatch:
        if self._table is None:
            return self._arrow.record_batch(
                [[_json(key) for key, _ in page], [_json(value) for _, value in page]],
                schema=self.schema,
            )
        decode = self._table.decode_values
        arrays = self.column_arrays([decode(stored) for _, stored in page])
        return self._arrow.record_batch(arrays, schema=self.schema)

    def column_arrays(self, rows: Sequence[Sequence[Any]]) -> list[Any]:
        """Return the arrays of the columns of the table. A row has a value per column."""
        assert self._table is not None
        columns = list(zip(*rows, strict=True)) or [()] * len(self._table.columns)
        return [self._array(number, values) for number, values in enumerate(columns)]

    def _array(self, number: int, values: Sequence[Any]) -> Any:
        table = self._table
        assert table is not None
        column, field = table.columns[number], self.schema.field(number)
        if column.affinity == "BLOB" and field.type == self._arrow.string():
            values = [None if value is None else _json(value) for value in values]
        try:
            return self._arrow.array(values, field.type)
        except (self._arrow.ArrowInvalid, self._arrow.ArrowTypeError, TypeError) as error:
            raise BadValue(
                f"column '{column.name}' of table '{table.name}' holds a value that is no "
                f"{field.type}: {error}; declare the table STRICT, or read its rows instead"
            ) from error


def _json(value: Any) -> str:
    return msgspec.json.encode(to_json(value)).decode()
