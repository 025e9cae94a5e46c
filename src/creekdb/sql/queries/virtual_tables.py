"""Virtual tables, through which SQLite reads the registers of the current transaction.

`StoredTable` yields the rows of a table along an access path. A query that uses some columns picks
only these, so that changes of other columns do not affect it. `RowTable` yields rows that a
statement holds in memory: changed rows for RETURNING, and the new row of an UPSERT.
"""

from collections.abc import Container, Iterator, Sequence
from operator import itemgetter, or_
from typing import Any, Final, TypeAlias

import apsw

from creekdb.execution.keys import collation_key
from creekdb.execution.transaction import Transaction
from creekdb.sql.catalog import Catalog, Table
from creekdb.sql.connection import SessionSlot
from creekdb.sql.key_codec import Codec, Component, SqlValue
from creekdb.sql.queries.access_path import (
    EQ,
    AccessPath,
    KeyRange,
    Uncertainties,
    choose_path,
    key_range,
)
from creekdb.sql.statements import (
    has_cast,
    has_range_between_columns,
    has_row_value_in_list,
    has_subquery_in_list,
    is_bounded,
)
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
        return declaration(table), StoredTable(table, self._slot, views, self._catalog.views)

    def Connect(  # noqa: N802
        self, connection: apsw.Connection, module: str, database: str, name: str, *arguments: Any
    ) -> tuple[str, "StoredTable"]:
        return self.Create(connection, module, database, name)


RowBatches: TypeAlias = Iterator[list[tuple[Any, tuple[SqlValue, ...]]]]
"""Batches of rows: keys, or their components, and the used columns."""
NO_BATCHES: Final[RowBatches] = iter(())


class PlannedScan:
    """Access path with all that does not depend on the arguments of a scan."""

    __slots__ = (
        "exact_kinds",
        "is_complete",
        "is_primary_key",
        "path",
        "positions",
        "prefix",
        "slots",
    )

    def __init__(self, table: Table, path: AccessPath) -> None:
        self.path = path
        self.is_primary_key = path.key is table.primary_key
        self.prefix: tuple[str, ...] = (
            table.row_prefix if self.is_primary_key else table.index_prefix(path.key)
        )
        self.slots = tuple([table.columns[column].slot for column in path.columns])
        """Positions of the used columns in a stored row."""
        self.positions = {column: index for index, column in enumerate(path.columns)}
        """Positions of the used columns in a picked row."""
        self.is_complete = self.is_primary_key and len(path.equalities) == len(path.key.columns)
        """True if the equalities determine one row."""
        self.exact_kinds = () if table.storage.added_defaults else _exact_kinds(path)
        """Type of each argument that is its own key component. Empty if the path has bounds, or
        if a column needs an encoding."""

    def exact_key(self, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the prefix followed by the arguments, None if one of them has another type."""
        kinds = self.exact_kinds
        if not kinds:
            return None
        for position in range(len(kinds)):
            if type(arguments[position]) is not kinds[position]:
                return None
        return self.prefix + arguments


def _exact_kinds(path: AccessPath) -> tuple[type, ...]:
    if path.lower is not None or path.upper is not None:
        return ()
    kinds: list[type] = []
    for position, condition in enumerate(path.equalities):
        is_integer = path.key.codecs[position] is Codec.INTEGER
        if not is_integer or condition.operator != EQ or condition.argument != position:
            return ()
        kinds.append(int)
    return tuple(kinds)


class StoredTable:
    """Table whose rows are registers."""

    def __init__(
        self,
        table: Table,
        slot: SessionSlot,
        views: tuple[str, ...],
        view_names: Container[str],
    ) -> None:
        self._table = table
        self._slot = slot
        # A statement that uses a view is not bounded, so that its operands may have types.
        self._views = _uncertainties(views, view_names)._replace(has_typed_operand=False)
        self._view_names = view_names
        self._scans: list[PlannedScan] = []
        self._numbers: dict[AccessPath, int] = {}

    def BestIndexObject(self, info: apsw.IndexInfo) -> bool:  # noqa: N802
        found = _uncertainties((self._slot.text,), self._view_names)
        statement = Uncertainties(*map(or_, self._views, found))
        path = choose_path(self._table, info, statement)
        number = self._numbers.get(path)
        if number is None:
            number = self._numbers[path] = len(self._scans)
            self._scans.append(PlannedScan(self._table, path))
        info.idxNum = number
        info.idxStr = path.describe(self._table)
        return True

    def Open(self) -> "StoredCursor":  # noqa: N802
        return StoredCursor(self._table, self._slot, self._scans)

    def Disconnect(self) -> None:  # noqa: N802
        pass

    def Destroy(self) -> None:  # noqa: N802
        pass


class StoredCursor:
    """Iteration over the rows of one access path, in batches."""

    __slots__ = (
        "_batch",
        "_batches",
        "_index",
        "_key",
        "_positions",
        "_row",
        "_scans",
        "_slot",
        "_table",
    )

    def __init__(self, table: Table, slot: SessionSlot, scans: list[PlannedScan]) -> None:
        self._table = table
        self._slot = slot
        self._scans = scans
        self._positions: dict[int, int] = {}
        self._row: tuple[SqlValue, ...] | None = None
        self._key: Any = ()
        """Key of the row, or its components. The last one is the row id, if the table has any."""
        self._batches: RowBatches = NO_BATCHES
        self._batch: list[tuple[Any, tuple[SqlValue, ...]]] = []
        self._index = 0

    def Filter(self, number: int, name: str | None, arguments: tuple[Any, ...]) -> None:  # noqa: N802
        scan = self._scans[number]
        self._positions = scan.positions
        key = scan.exact_key(arguments)
        if key is not None and scan.is_complete:
            self._key = key
            self._row = self._slot.current.transaction.pick(key, *scan.slots)
            self._batch = []
            return
        if key is not None and scan.is_primary_key:
            self._batches = self._slot.current.transaction.scan_batches(
                scan.slots, key, reverse=scan.path.reverse
            )
        else:
            self._batches = scan_rows(self._table, self._slot, scan, arguments)
        self._batch, self._index = [], 0
        self.Next()

    def Next(self) -> None:  # noqa: N802
        index = self._index + 1
        if index < len(self._batch):
            self._index = index
            self._key, self._row = self._batch[index]
            return
        batch = next(self._batches, None)
        while batch is not None and not batch:
            batch = next(self._batches, None)
        if batch is None:
            self._row = None
            self._batch = []
        else:
            self._batch, self._index = batch, 0
            self._key, self._row = batch[0]

    def Eof(self) -> bool:  # noqa: N802
        return self._row is None

    def Column(self, number: int) -> SqlValue:  # noqa: N802
        if number == -1:
            row_id: int = self._key[-1]
            return row_id
        return self._row[self._positions[number]]  # type: ignore[index]

    def Rowid(self) -> Any:  # noqa: N802
        return self._key[-1]

    def Close(self) -> None:  # noqa: N802
        self._row = None
        self._batch = []
        self._batches = NO_BATCHES


def _uncertainties(texts: tuple[str, ...], view_names: Container[str]) -> Uncertainties:
    """Return the properties that at least one of these statements has."""
    return Uncertainties(
        any(map(has_subquery_in_list, texts)),
        any(map(has_row_value_in_list, texts)),
        any(map(has_range_between_columns, texts)),
        any(has_cast(text) or not is_bounded(text, view_names) for text in texts),
    )


def scan_rows(
    table: Table, slot: SessionSlot, scan: PlannedScan, arguments: tuple[Any, ...]
) -> RowBatches:
    """Return the rows of an access path."""
    path, transaction = scan.path, slot.current.transaction
    keys, is_exact = key_range(table, path, arguments)
    if keys is None:
        return NO_BATCHES
    if not is_exact and path.is_ordered:
        found: RowBatches = _sorted_after_equalities(table, transaction, scan)
    elif not scan.is_primary_key:
        found = _rows_by_index(table, transaction, scan, keys)
    elif len(keys.prefix) == len(path.key.columns):
        key = (*scan.prefix, *keys.prefix)
        row = transaction.pick(key, *scan.slots)
        found = NO_BATCHES if row is None else iter(([(key, row)],))
    else:
        prefix = (*scan.prefix, *keys.prefix)
        start, stop = _limits(prefix, keys)
        found = transaction.scan_batches(
            scan.slots, prefix, start=start, stop=stop, reverse=path.reverse
        )
    if not table.storage.added_defaults:
        return found
    load = table.load_item
    return ([(key, tuple(map(load, scan.slots, row))) for key, row in each] for each in found)


def _rows_by_index(
    table: Table, transaction: Transaction, scan: PlannedScan, keys: KeyRange
) -> RowBatches:
    prefix = (*scan.prefix, *keys.prefix)
    start, stop = _limits(prefix, keys)
    entries = transaction.scan(prefix, start=start, stop=stop, reverse=scan.path.reverse)
    for _, parts in entries:
        row = transaction.pick(table.row_key(parts), *scan.slots)
        assert row is not None, "an index entry without its row"
        yield [(parts, row)]


def _sorted_after_equalities(
    table: Table, transaction: Transaction, scan: PlannedScan
) -> RowBatches:
    """Return all rows in the order of the columns after the equalities.

    An uncertain comparison may hold for several values of the compared columns.
    """
    first = len(scan.prefix) + len(scan.path.equalities)
    rows = []
    for key, parts in transaction.scan(scan.prefix):
        assert type(key) is tuple
        row_parts = key[len(scan.prefix) :] if scan.is_primary_key else parts
        row = transaction.pick(table.row_key(row_parts), *scan.slots)
        assert row is not None, "a scanned row is present"
        rows.append((collation_key(key[first:]), row_parts, row))
    rows.sort(key=itemgetter(0), reverse=scan.path.reverse)
    return iter([[(row_parts, row) for _, row_parts, row in rows]])


def _limits(prefix: tuple[Any, ...], keys: KeyRange) -> tuple[Any, Any]:
    """Return the bounds of a scan. A bound stands for all keys that start with it."""
    start = stop = None
    if keys.low is not None:
        start = _after(prefix, keys.low) if keys.excludes_low else (*prefix, keys.low)
    if keys.high is not None:
        stop = (*prefix, keys.high) if keys.excludes_high else _after(prefix, keys.high)
    return start, stop


def _after(prefix: tuple[Any, ...], component: Component) -> tuple[Any, ...]:
    """Return the least key after all keys that start with the prefix and this component."""
    if type(component) is int:
        return (*prefix, component + 1) if component < 2**63 - 1 else (*prefix, "")
    assert type(component) is str
    return (*prefix, component + "\0")


class RowModule:
    """Module of the tables with rows in memory."""

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

    def Connect(  # noqa: N802
        self, connection: apsw.Connection, module: str, database: str, name: str, *arguments: Any
    ) -> tuple[str, "RowTable"]:
        return self.Create(connection, module, database, name)


class RowTable:
    """Table with rows in memory."""

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

    def Destroy(self) -> None:  # noqa: N802
        pass


class RowCursor:
    """Iteration over rows in memory."""

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
