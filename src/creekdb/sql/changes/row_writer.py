"""Writes of rows with their index entries, and the uniqueness of keys.

A row is one register, and so is every index entry. The value of an entry is the key of its row. A
unique constraint is checked by a read of one register. Every write can be undone, so that a
statement that fails has no effect even if the operation goes on.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from creekdb.errors import SqlConstraintError, SqlError
from creekdb.execution.transaction import Transaction
from creekdb.protocol.values import Key
from creekdb.sql.catalog import Index, Table
from creekdb.sql.key_codec import Component, SqlValue

ROW_ID_MAX: Final = 2**63 - 1
USE_DEFAULT: Final[Any] = object()
"""Marks a column whose value is to be replaced by its default."""


class Row(NamedTuple):
    """Row of a table: the components of its key, and its column values."""

    parts: tuple[Component, ...]
    values: tuple[SqlValue, ...]

    def row_id(self, table: Table) -> int | None:
        first = self.parts[0]
        return first if table.has_row_id and type(first) is int else None


class Conflict(NamedTuple):
    """Unique constraint that a new row violates, and the key of the row in its way."""

    constraint: Index
    parts: tuple[Component, ...]


class RowWriter:
    """Writes of one statement."""

    __slots__ = ("_transaction", "_undo", "on_delete", "on_insert", "on_update")

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._undo: list[tuple[Key, Any]] = []
        self.on_insert: Callable[[Table, Row], None] | None = None
        self.on_update: Callable[[Table, Row, Row], None] | None = None
        self.on_delete: Callable[[Table, Row], None] | None = None

    @property
    def position(self) -> int:
        """Number of writes that can be undone."""
        return len(self._undo)

    def undo(self, position: int = 0) -> None:
        """Undo all writes after this position, newest first."""
        while len(self._undo) > position:
            key, pending = self._undo.pop()
            self._transaction.restore(key, pending)

    def read(self, table: Table, parts: tuple[Component, ...]) -> Row | None:
        stored = self._transaction.get(table.row_key(parts))
        return None if stored is None else Row(parts, table.load(stored))

    def conflicts(self, table: Table, row: Row, previous: Row | None = None) -> list[Conflict]:
        """Return the unique constraints that `row` violates, if it replaces `previous`."""
        get = self._transaction.get
        found: list[Conflict] = []
        has_new_key = previous is None or previous.parts != row.parts
        for index in table.unique_constraints:
            if index is table.primary_key:
                if has_new_key and get(table.row_key(row.parts)) is not None:
                    found.append(Conflict(index, row.parts))
                continue
            if any(row.values[column] is None for column in index.columns):
                continue
            if previous is not None and index.encode(previous.values) == index.encode(row.values):
                continue
            parts = get(table.index_key(index, row.values, row.parts))
            if parts is not None and (previous is None or parts != previous.parts):
                found.append(Conflict(index, parts))
        return found

    def insert(self, table: Table, row: Row) -> None:
        """Write a row without conflicts."""
        self._put(table.row_key(row.parts), table.store(row.values))
        for index in table.indexes:
            self._put(table.index_key(index, row.values, row.parts), row.parts)
        if self.on_insert is not None:
            self.on_insert(table, row)

    def update(self, table: Table, previous: Row, row: Row) -> None:
        """Replace a row by one without conflicts."""
        for index in table.indexes:
            old_key = table.index_key(index, previous.values, previous.parts)
            new_key = table.index_key(index, row.values, row.parts)
            if old_key != new_key:
                self._delete(old_key)
            if old_key != new_key or previous.parts != row.parts:
                self._put(new_key, row.parts)
        if previous.parts != row.parts:
            self._delete(table.row_key(previous.parts))
            if table.is_autoincrement:
                self.advance_sequence(table, row.row_id(table) or 0)
        self._put(table.row_key(row.parts), table.store(row.values))
        if self.on_update is not None:
            self.on_update(table, previous, row)

    def update_in_place(self, table: Table, previous: Row, row: Row) -> None:
        """Replace a row by one with the same key and the same index entries."""
        self._put(table.row_key(row.parts), table.store(row.values))
        if self.on_update is not None:
            self.on_update(table, previous, row)

    def delete(self, table: Table, row: Row) -> None:
        for index in table.indexes:
            self._delete(table.index_key(index, row.values, row.parts))
        self._delete(table.row_key(row.parts))
        if self.on_delete is not None:
            self.on_delete(table, row)

    def next_in_sequence(self, table: Table) -> int:
        """Return the next row id of an AUTOINCREMENT table."""
        last: int = self._transaction.get(table.sequence_key, 0)
        if last == ROW_ID_MAX:
            raise SqlError("database or disk is full")  # in the words of SQLite
        return last + 1

    def advance_sequence(self, table: Table, row_id: int) -> None:
        """Make sure that later row ids of an AUTOINCREMENT table are greater."""
        if row_id > self._transaction.get(table.sequence_key, 0):
            self._put(table.sequence_key, row_id)

    def _put(self, key: Key, value: Any) -> None:
        self._undo.append((key, self._transaction.pending_write(key)))
        self._transaction.put(key, value)

    def _delete(self, key: Key) -> None:
        self._undo.append((key, self._transaction.pending_write(key)))
        self._transaction.delete(key)


def unique_error(table: Table, index: Index) -> SqlConstraintError:
    """Return the error of a violated unique constraint, in the words of SQLite."""
    names = [
        f"{table.name}.{'rowid' if column == -1 else table.columns[column].name}"
        for column in index.columns
    ]
    return SqlConstraintError(f"UNIQUE constraint failed: {', '.join(names)}")
