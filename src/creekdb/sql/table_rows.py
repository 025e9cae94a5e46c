"""Rows of SQL tables for readers of registers, which need no SQLite.

A reader of a snapshot or of the change feed receives registers. A `TableDescription` has the prefix
of those that hold the rows of a table, and turns a register into the columns of a row. Replicas
derive it from the schema (`describe_table`), and send it to clients.

A description decodes rows that were written before it: positions of columns are never reused.
Columns that were dropped since are left out, and columns that were added have their defaults.
"""

from functools import cached_property
from typing import Any, Final

import msgspec

from creekdb.protocol.values import Key
from creekdb.sql.catalog import ROW_PREFIX, STORED_NULL, Table
from creekdb.sql.key_codec import Codec, SqlValue, decode

ROW_ID_COLUMN: Final = "rowid"
"""Key of a table that has no other one, in `TableDescription.decode_key`."""


class TableColumn(msgspec.Struct, frozen=True, array_like=True):
    """Column of a described table."""

    name: str
    declared_type: str
    affinity: str
    """INTEGER, REAL, NUMERIC, TEXT or BLOB."""
    is_not_null: bool
    slot: int
    """Position in a stored row."""
    added_default: Any = None
    """Value of rows that are older than the column."""


class KeyPart(msgspec.Struct, frozen=True, array_like=True):
    """Component of the keys of the rows."""

    column: int | None
    """Number of the column, or None for a row id that no column shows."""
    codec: str
    """Value of a `Codec`."""
    is_exact: bool
    """True if the component determines the value. A collation such as NOCASE loses some."""


class TableDescription(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """Table as readers of registers see it."""

    name: str
    storage: str
    """Name under which the rows are stored. It survives a renaming of the table."""
    columns: tuple[TableColumn, ...]
    key: tuple[KeyPart, ...]
    is_strict: bool
    """True if every value has the declared type."""

    @property
    def prefix(self) -> tuple[str, str]:
        """Prefix of the keys of the rows."""
        return (ROW_PREFIX, self.storage)

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        return tuple([column.name for column in self.columns])

    @cached_property
    def _is_dense(self) -> bool:
        return all(
            column.slot == number and column.added_default is None
            for number, column in enumerate(self.columns)
        )

    def decode_values(self, stored: tuple[Any, ...]) -> tuple[SqlValue, ...]:
        """Return the values of all columns of a stored row, in the order of the columns."""
        if self._is_dense and len(stored) == len(self.columns) and STORED_NULL not in stored:
            return stored
        return tuple([_item(stored, column) for column in self.columns])

    def decode_row(self, stored: tuple[Any, ...]) -> dict[str, SqlValue]:
        """Return a stored row as a dict of its columns."""
        return dict(zip(self.column_names, self.decode_values(stored), strict=True))

    def decode_key(self, key: Key) -> dict[str, SqlValue]:
        """Return the columns that the key of a row determines.

        The key of a table without a primary key is `rowid`.
        """
        assert isinstance(key, tuple)
        assert key[:2] == self.prefix
        columns: dict[str, SqlValue] = {}
        for part, component in zip(self.key, key[2:], strict=True):
            name = ROW_ID_COLUMN if part.column is None else self.columns[part.column].name
            if part.is_exact:
                columns[name] = decode(component, Codec(part.codec))
        return columns


def _item(stored: tuple[Any, ...], column: TableColumn) -> Any:
    item = stored[column.slot] if column.slot < len(stored) else None
    if item is None:
        item = column.added_default
    return None if type(item) is tuple and item == STORED_NULL else item


def describe_table(table: Table) -> TableDescription:
    """Return the description of a table of the catalog."""
    defaults = table.storage.added_defaults
    key = table.primary_key
    return TableDescription(
        table.name,
        table.storage.name,
        tuple(
            [
                TableColumn(
                    column.name,
                    column.declared_type,
                    column.affinity,
                    column.not_null,
                    column.slot,
                    defaults.get(column.slot),
                )
                for column in table.columns
            ]
        ),
        tuple(
            [
                KeyPart(None if column < 0 else column, codec.value, collation == "BINARY")
                for column, codec, collation in zip(
                    key.columns, key.codecs, key.collations, strict=True
                )
            ]
        ),
        table.is_strict,
    )
