"""Conversion of the rows of a query to calls of a cluster.

A `RowPlan` names the operation, and the columns that are the arguments of each call. It is made
once per query, when the options and the schema of the query meet the operations and tables of the
cluster. Values are converted column by column.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from creekdb.client import Database
from creekdb.client.sinks import CHUNK_ROWS, InvalidRow
from creekdb.errors import BadValue, UnknownName, UsageError
from creekdb.pipeline.source.write_options import WriteTarget
from creekdb.protocol.values import freeze
from creekdb.sql.tokens import quote_name
from creekdb.wire.json_values import from_json

Row: TypeAlias = tuple[Any, ...]

SQL_OPERATION: Final = "sql"
TABLE_CHUNK_ROWS: Final = 200
"""Rows of one chunk for a table."""
KEY_VALUE_COLUMNS: Final = ("key", "value")


@dataclass(frozen=True)
class RowPlan:
    """Calls that write the rows of a query."""

    operation: str
    columns: tuple[str, ...]
    """Columns in the order of the arguments."""
    leading: tuple[Any, ...] = ()
    """Arguments before those of the row."""
    is_wrapped: bool = False
    """True if all columns together are one argument: the parameters of a SQL statement."""
    required: tuple[str, ...] = ()
    """Columns that must not be null."""
    json_columns: frozenset[str] = frozenset()

    @property
    def chunk_rows(self) -> int:
        """Rows of one call. A SQL statement takes longer than a simple operation."""
        return TABLE_CHUNK_ROWS if self.is_wrapped else CHUNK_ROWS

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Row | InvalidRow]:
        """Yield the arguments of each row, or the row with its error."""
        for batch in batches:
            columns = [self._values(batch, name) for name in self.columns]
            for values in zip(*columns, strict=True):
                row = (values,) if self.is_wrapped else values
                yield _invalid_row(values) if _Invalid in map(type, values) else row

    def column_values(self, row: Row) -> dict[str, Any]:
        """Return the columns of a row of `rows`."""
        values = row[0] if self.is_wrapped and len(row) == 1 else row
        if not isinstance(values, tuple) or len(values) != len(self.columns):
            return {"row": row}
        return dict(zip(self.columns, values, strict=True))

    def _values(self, batch: pa.RecordBatch, name: str) -> Sequence[Any]:
        column = batch.column(batch.schema.get_field_index(name))
        convert = json_value if name in self.json_columns else find_converter(name, column.type)
        values = _python_values(column, name)
        if convert is not None:
            values = [
                value if value is None or type(value) is _Invalid else convert(value)
                for value in values
            ]
        if column.null_count and name in self.required:
            error = f"column '{name}' is null, and belongs to the key"
            values = [_Invalid(None, error) if value is None else value for value in values]
        return values


class _Invalid(NamedTuple):
    """Value that cannot be written."""

    value: Any
    error: str


def _python_values(column: pa.Array, name: str) -> list[Any]:
    """Return the values of a column. Those that Python cannot represent are `_Invalid`."""
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):  # a time outside of the years 1 to 9999, or no UTF-8
        values = [_python_value(each, name) for each in column]
    return values


def _python_value(scalar: pa.Scalar, name: str) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError) as error:
        number = scalar.value if pa.types.is_temporal(scalar.type) else None
        return _Invalid(number, f"column '{name}' has no valid {scalar.type}: {error}")


def _invalid_row(values: Row) -> InvalidRow:
    errors = [each.error for each in values if isinstance(each, _Invalid)]
    plain = tuple([each.value if isinstance(each, _Invalid) else each for each in values])
    return InvalidRow(plain, errors[0])


def find_converter(name: str, kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return the conversion of a column's values, or None if they are stored as they are."""
    types = pa.types
    plain = (
        types.is_boolean,
        types.is_signed_integer,
        types.is_floating,
        types.is_string,
        types.is_large_string,
        types.is_binary,
        types.is_large_binary,
        types.is_null,
    )
    if any(is_kind(kind) for is_kind in plain):
        return None
    if types.is_timestamp(kind):
        return lambda value: value.isoformat(" ")
    if types.is_date(kind):
        return lambda value: value.isoformat()
    if types.is_list(kind) or types.is_large_list(kind) or types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        found = {each.name: find_converter(name, each.type) for each in fields}
        converters = {key: each for key, each in found.items() if each not in (None, freeze)}
        return partial(_convert_items, converters) if converters else freeze
    hint = "cast it to bigint, double or string" if types.is_decimal(kind) else "convert it"
    raise UsageError(f"column '{name}' has the type {kind}, which a cluster cannot store; {hint}")


def _convert_items(converters: Mapping[str, Callable[[Any], Any]], value: Any) -> Any:
    """Return a list or a struct whose items are converted; those of a list have one converter."""
    if isinstance(value, list):
        (convert,) = converters.values()
        return tuple([None if each is None else convert(each) for each in value])
    return {
        key: None if each is None else converters.get(key, freeze)(each)
        for key, each in value.items()
    }


def json_value(text: Any) -> Any:
    """Return the value of a JSON text, or `_Invalid`."""
    try:
        return from_json(json.loads(text))
    except (BadValue, ValueError, TypeError, RecursionError) as error:
        return _Invalid(str(text), f"{str(text)!r:.80} is no JSON text ({error})")


async def make_plan(db: Database, target: WriteTarget, columns: Sequence[str]) -> RowPlan:
    """Return the plan for rows with these columns. Raise `UsageError` for a mismatch."""
    for name in target.json_columns:
        if name not in columns:
            raise UnknownName("column of the rows", name, list(columns))
    json_columns = frozenset(target.json_columns)
    if target.table is not None:
        return await _table_plan(db, target.table, target.mode, columns, json_columns)
    operation = target.operation
    if operation is None:
        if sorted(columns) != sorted(KEY_VALUE_COLUMNS) or "put" not in db.operations.names():
            raise UsageError(
                f"rows with the columns {_names(columns)} can be written to a table or by an "
                "operation; set option table or operation. Without them, the columns must be key "
                "and value, and the cluster must have the operation 'put'"
            )
        return RowPlan("put", KEY_VALUE_COLUMNS, (), False, ("key",), json_columns)
    return _operation_plan(db, operation, columns, json_columns)


def _operation_plan(
    db: Database, name: str, columns: Sequence[str], json_columns: frozenset[str]
) -> RowPlan:
    known = db.operations.names()
    if name not in known:
        raise UnknownName("operation of the cluster", name, known)
    signature = db.operations.signature_text(name)
    parameters = db.operations.parameters(name)
    if any(each.is_variadic for each in parameters):
        return RowPlan(name, tuple(columns), (), False, (), json_columns)
    names = [each.name for each in parameters]
    for column in columns:
        if column not in names:
            raise UsageError(
                f"column '{column}' is no parameter of {signature}; rename the column, or drop it "
                "from the rows"
            )
    missing = [each.name for each in parameters if each.is_required and each.name not in columns]
    if missing:
        raise UsageError(f"{signature} requires {_names(missing)}: add such a column to the rows")
    ordered = [each for each in names if each in columns]
    if ordered != names[: len(ordered)]:
        gap = next(each for each in names if each not in columns)
        raise UsageError(f"{signature}: column '{ordered[-1]}' requires column '{gap}'; add it")
    return RowPlan(name, tuple(ordered), (), False, (), json_columns)


async def _table_plan(
    db: Database, table: str, mode: str, columns: Sequence[str], json_columns: frozenset[str]
) -> RowPlan:
    datatype = "" if db.welcome is None else db.welcome.datatype
    if SQL_OPERATION not in db.operations.names():
        raise UsageError(
            f"option table is '{table}', and the cluster replicates '{datatype}', which has no "
            "tables; omit table, or name servers of a cluster of the data type 'sql'"
        )
    info = await db.weak.query(f"PRAGMA table_info({quote_name(table)})")
    if not info["rows"]:
        tables = await db.weak.query(
            "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
        )
        raise UnknownName("table of the cluster", table, [name for (name,) in tables["rows"]])
    known = [str(row[1]) for row in info["rows"]]
    key = [str(row[1]) for row in sorted(info["rows"], key=lambda row: row[5]) if row[5]]
    for column in columns:
        if column not in known:
            raise UnknownName(f"column of table '{table}'", column, known)
    if mode == "insert":
        text = _insert_text(table, columns)
        return RowPlan(SQL_OPERATION, tuple(columns), (text,), True, (), json_columns)
    if not key:
        raise UsageError(
            f"table '{table}' has no primary key, which mode={mode} requires; use mode=insert"
        )
    missing = [each for each in key if each not in columns]
    if missing:
        raise UsageError(
            f"the rows lack {_names(missing)} of the primary key of table '{table}'; add it, or "
            "use mode=insert"
        )
    text = _insert_text(table, columns) + _conflict_text(key, columns)
    return RowPlan(SQL_OPERATION, tuple(columns), (text,), True, tuple(key), json_columns)


def _insert_text(table: str, columns: Sequence[str]) -> str:
    names = ", ".join(map(quote_name, columns))
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {quote_name(table)}({names}) VALUES ({marks})"


def _conflict_text(key: Sequence[str], columns: Sequence[str]) -> str:
    changed = [quote_name(each) for each in columns if each not in key]
    target = ", ".join(map(quote_name, key))
    if not changed:
        return f" ON CONFLICT({target}) DO NOTHING"
    assignments = ", ".join(f"{each} = excluded.{each}" for each in changed)
    return f" ON CONFLICT({target}) DO UPDATE SET {assignments}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"'{each}'" for each in names) or "none"
