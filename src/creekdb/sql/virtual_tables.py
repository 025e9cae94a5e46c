"""Virtual tables, through which SQLite reads the registers of the current transaction.

`StoredTable` yields the rows of a table along an access path. A query that uses some columns picks
only these, so that changes of other columns do not affect it. `RowTable` yields rows that a
statement has in hand: changed rows for RETURNING, and the new row of an UPSERT.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

import apsw

from creekdb.execution.keys import collation_key
from creekdb.sql.access_path import AccessPath, KeyRange, choose_path, key_range
from creekdb.sql.catalog import Catalog, Index, Table
from creekdb.sql.connection import SessionSlot
from creekdb.sql.key_codec import Component, SqlValue
from creekdb.sql.statements import has_subquery_in_list
from creekdb.sql.tokens import quote_name

STORED_MODULE: Final = "creek"
ROWS_MODULE: Final = "creek_rows"
CHANGED_PREFIX: Final = "creek_changed "
EXCLUDED_PREFIX: Final = "creek_excluded "
RESERVED_PREFIX: Final = "creek_"
"""Prefix of table names that the engine reserves."""


class StoredModule:
    """Module of the stored tables of one connection."""

    def __init__(self, catalog: Catalog, slot: SessionSlot) -> None:
        self._catalog = catalog
        self._slot = slot

    def Create(  # noqa: N802 - named by SQLite
        self, connection: apsw.Connection, module: str, database: str, name: str, *arguments: Any
    ) -> tuple[str, "StoredTable"]:
        table = self._catalog.tables[name.lower()]
        entries = self._catalog.schema.entries
        views = tuple([entry.sql for entry in entries if entry.kind == "view"])
        return declaration(table), StoredTable(table, self._slot, views)

    Connect = Create


class StoredTable:
    """Table whose rows are registers."""

    def __init__(self, table: Table, slot: SessionSlot, views: tuple[str, ...]) -> None:
        self._table = table
        self._slot = slot
        self._views_have_one = any(map(has_subquery_in_list, views))
        self._paths: list[AccessPath] = []
        self._numbers: dict[AccessPath, int] = {}

    def BestIndexObject(self, info: apsw.IndexInfo) -> bool:  # noqa: N802
        path = choose_path(self._table, info, self._has_subquery_in_list())
        number = self._numbers.get(path)
        if number is None:
            number = self._numbers[path] = len(self._paths)
            self._paths.append(path)
        info.idxNum = number
        info.idxStr = path.describe(self._table)
        return True

    def _has_subquery_in_list(self) -> bool:
        return self._views_have_one or has_subquery_in_list(self._slot.text)

    def Open(self) -> "StoredCursor":  # noqa: N802
        return StoredCursor(self._table, self._slot, self._paths)

    def Disconnect(self) -> None:  # noqa: N802
        pass

    Destroy = Disconnect


class StoredCursor:
    """Iteration over the rows of one access path."""

    __slots__ = ("_next", "_paths", "_position", "_row", "_row_id", "_slot", "_table")

    def __init__(self, table: Table, slot: SessionSlot, paths: list[AccessPath]) -> None:
        self._table = table
        self._slot = slot
        self._paths = paths
        self._position: dict[int, int] = {}
        self._row: tuple[SqlValue, ...] | None = None
        self._row_id: Component = 0
        self._next: Callable[..., Any] = iter(()).__next__

    def Filter(self, number: int, name: str | None, arguments: tuple[Any, ...]) -> None:  # noqa: N802
        table = self._table
        path = self._paths[number]
        self._position = {column: index for index, column in enumerate(path.columns)}
        rows = scan_rows(table, self._slot, path, arguments)
        self._next = rows.__next__
        self.Next()

    def Next(self) -> None:  # noqa: N802
        try:
            self._row_id, self._row = self._next()
        except StopIteration:
            self._row = None

    def Eof(self) -> bool:  # noqa: N802
        return self._row is None

    def Column(self, number: int) -> SqlValue:  # noqa: N802
        if number == -1:
            return self._row_id
        return self._row[self._position[number]]  # type: ignore[index]

    def Rowid(self) -> Any:  # noqa: N802
        return self._row_id

    def Close(self) -> None:  # noqa: N802
        self._row = None
        self._next = iter(()).__next__


def scan_rows(
    table: Table, slot: SessionSlot, path: AccessPath, arguments: tuple[Any, ...]
) -> Iterator[tuple[Component, tuple[SqlValue, ...]]]:
    """Yield the last key component of each row, the row id if it has one, and the used columns."""
    slots = tuple([table.columns[column].slot for column in path.columns])
    keys, is_exact = key_range(table, path, arguments)
    if keys is None:
        return iter(())
    if not is_exact and path.is_ordered:
        found = _sorted_after_equalities(table, slot, path, slots)
    elif path.key is table.primary_key:
        found = _rows(table, slot, keys, slots, path.reverse)
    else:
        found = _rows_by_index(table, slot, path.key, keys, slots, path.reverse)
    if not table.storage.added_defaults:
        return found
    load = table.load_item
    return ((row_id, tuple(map(load, slots, row))) for row_id, row in found)


def _sorted_after_equalities(
    table: Table, slot: SessionSlot, path: AccessPath, slots: tuple[int, ...]
) -> Iterator[tuple[Component, tuple[SqlValue, ...]]]:
    """Yield all rows in the order of the columns after the equalities.

    An uncertain comparison may hold for several values of the compared columns.
    """
    transaction = slot.current.transaction
    index, rows = path.key, []
    is_primary_key = index is table.primary_key
    prefix = table.row_prefix if is_primary_key else table.index_prefix(index)
    for key, parts in transaction.scan(prefix):
        assert type(key) is tuple
        row_parts = key[len(prefix) :] if is_primary_key else parts
        row = transaction.pick(table.row_key(row_parts), *slots)
        assert row is not None, "a scanned row is present"
        rest = collation_key(key[len(prefix) + len(path.equalities) :])
        rows.append((rest, row_parts[-1], row))
    rows.sort(key=itemgetter(0), reverse=path.reverse)
    return iter([(row_id, row) for _, row_id, row in rows])


def _rows(
    table: Table, slot: SessionSlot, keys: KeyRange, slots: tuple[int, ...], reverse: bool
) -> Iterator[tuple[Component, tuple[SqlValue, ...]]]:
    transaction = slot.current.transaction
    prefix = table.row_key(keys.prefix)
    if len(keys.prefix) == len(table.primary_key.columns):
        row = transaction.pick(prefix, *slots)
        if row is not None:
            yield keys.prefix[-1], row
        return
    for key, row in transaction.scan_picked(
        slots, prefix, **_limits(prefix, keys), reverse=reverse
    ):
        yield key[-1], row  # type: ignore[index]


def _rows_by_index(
    table: Table,
    slot: SessionSlot,
    index: Index,
    keys: KeyRange,
    slots: tuple[int, ...],
    reverse: bool,
) -> Iterator[tuple[Component, tuple[SqlValue, ...]]]:
    transaction = slot.current.transaction
    prefix = (*table.index_prefix(index), *keys.prefix)
    for _, parts in transaction.scan(prefix, **_limits(prefix, keys), reverse=reverse):
        row = transaction.pick(table.row_key(parts), *slots)
        assert row is not None, "an index entry without its row"
        yield parts[-1], row


def _limits(prefix: Any, keys: KeyRange) -> dict[str, Any]:
    """Return the bounds of a scan. The upper bound includes all keys that start with `high`."""
    limits: dict[str, Any] = {}
    if keys.low is not None:
        limits["start"] = (*prefix, keys.low)
    high = keys.high
    if type(high) is int:
        if high < 2**63 - 1:
            limits["stop"] = (*prefix, high + 1)
    elif type(high) is str:
        limits["stop"] = (*prefix, high + "\0")
    return limits


class RowModule:
    """Module of the tables with rows in hand."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.rows: dict[str, Sequence[tuple[int | None, tuple[SqlValue, ...]]]] = {}
        """Rows of each table by its lower-case name with prefix: row id and values."""

    def Create(  # noqa: N802
        self, connection: apsw.Connection, module: str, database: str, name: str, *arguments: Any
    ) -> tuple[str, "RowTable"]:
        lower = name.lower()
        for prefix in (CHANGED_PREFIX, EXCLUDED_PREFIX):
            if lower.startswith(prefix):
                table = self._catalog.tables[lower.removeprefix(prefix)]
                return declaration(table), RowTable(self, lower)
        raise AssertionError(f"no table with rows is named {name}")

    Connect = Create


class RowTable:
    """Table with rows in hand."""

    def __init__(self, module: RowModule, name: str) -> None:
        self._module = module
        self._name = name

    def BestIndexObject(self, info: apsw.IndexInfo) -> bool:  # noqa: N802
        info.estimatedRows = 1
        info.estimatedCost = 1.0
        return True

    def Open(self) -> "RowCursor":  # noqa: N802
        return RowCursor(self._module.rows.get(self._name, ()))

    def Disconnect(self) -> None:  # noqa: N802
        pass

    Destroy = Disconnect


class RowCursor:
    """Iteration over rows in hand."""

    __slots__ = ("_position", "_rows")

    def __init__(self, rows: Sequence[tuple[int | None, tuple[SqlValue, ...]]]) -> None:
        self._rows = rows
        self._position = 0

    def Filter(self, number: int, name: str | None, arguments: tuple[Any, ...]) -> None:  # noqa: N802
        self._position = 0

    def Next(self) -> None:  # noqa: N802
        self._position += 1

    def Eof(self) -> bool:  # noqa: N802
        return self._position >= len(self._rows)

    def Column(self, number: int) -> SqlValue:  # noqa: N802
        row_id, values = self._rows[self._position]
        return row_id if number == -1 else values[number]

    def Rowid(self) -> int:  # noqa: N802
        return self._rows[self._position][0] or self._position

    def Close(self) -> None:  # noqa: N802
        pass


def declaration(table: Table) -> str:
    """Return the columns of a virtual table, with the types and collations of comparisons."""
    columns = [
        f"{quote_name(column.name)} {_declared_type(column.affinity)} COLLATE {column.collation}"
        for column in table.columns
    ]
    if table.has_row_id:
        return f"CREATE TABLE x({', '.join(columns)})"
    key = ", ".join(quote_name(table.columns[each].name) for each in table.primary_key.columns)
    return f"CREATE TABLE x({', '.join(columns)}, PRIMARY KEY ({key})) WITHOUT ROWID"


def _declared_type(affinity: str) -> str:
    return "" if affinity == "BLOB" else affinity
