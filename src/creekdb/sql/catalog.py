"""Schema of a database: tables, columns, indexes and foreign keys.

The schema is data. One register, `SCHEMA_KEY`, holds it encoded, and every operation that uses SQL
reads that register. A change of the schema is therefore a write like any other, and operations that
read the old schema run again.

A schema lists the statements of `sqlite_schema`, and per table its *storage*: the name under which
its registers are stored, and the position of each column in the stored rows. Positions are never
reused. A renamed or dropped column leaves all rows unchanged.
"""

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from creekdb.protocol.values import Key
from creekdb.sql.key_codec import Codec, Component, SqlValue, encode
from creekdb.sql.tokens import quote_name

SCHEMA_KEY: Final = ("sql.schema",)
ROW_PREFIX: Final = "sql"
INDEX_PREFIX: Final = "sql.index"
SEQUENCE_PREFIX: Final = "sql.sequence"

ROW_ID_NAMES: Final = ("rowid", "_rowid_", "oid")

STORED_NULL: Final = ()
"""Explicit NULL in a column that was added with a default. A missing item means the default."""


_NUMBERED: Final = re.compile(r"(.*) ([2-9]|[1-9][0-9]{1,8})", re.DOTALL)
"""Storage of a table whose name was already in use, or was dropped."""

EXACT_TYPES: Final = {"INTEGER": int, "TEXT": str, "REAL": float, "BLOB": bytes}
"""Type that a column of each affinity stores without conversion."""


class Storage(msgspec.Struct, frozen=True, array_like=True):
    """Physical layout of one table."""

    name: str
    """First components of the keys, after the prefix. Survives a renaming of the table."""
    slots: tuple[int, ...]
    """Position of each column in a stored row."""
    width: int
    """Number of positions ever used."""
    created_width: int
    """Number of positions when the table was created. A stored row has at least as many items."""
    added_defaults: dict[int, Any] = {}
    """Per position, the default of a column that was added when the table may have had rows."""


class SchemaEntry(msgspec.Struct, frozen=True, array_like=True):
    """Row of `sqlite_schema`."""

    kind: str
    name: str
    table: str
    sql: str


class Schema(msgspec.Struct, frozen=True, array_like=True):
    """Content of the schema register."""

    entries: tuple[SchemaEntry, ...] = ()
    """In the order of creation, which decides the plans of SQLite."""
    storage: dict[str, Storage] = {}
    """Storage of each table by lower-case name."""
    dropped: dict[str, int] = {}
    """Number of the last dropped storage by base name: `item`, `item 2`, `item 3` have the base
    `item`."""

    def encode(self) -> bytes:
        # Without dropped tables, the field is omitted, as by versions that lack it.
        return msgspec.msgpack.encode(self if self.dropped else (self.entries, self.storage))

    def is_dropped(self, storage: str) -> bool:
        """True if a dropped table may have had a storage of this name."""
        base, number = _storage_number(storage)
        return number <= self.dropped.get(base, 0)

    def with_dropped(self, names: Sequence[str]) -> "Schema":
        """Return this schema after the tables with these storages were dropped."""
        dropped = dict(self.dropped)
        for base, number in map(_storage_number, names):
            dropped[base] = max(number, dropped.get(base, 0))
        return replace(self, dropped=dropped)

    @classmethod
    def decode(cls, encoded: bytes) -> "Schema":
        return msgspec.msgpack.decode(encoded, type=cls)


def _storage_number(storage: str) -> tuple[str, int]:
    """Return the base name of a storage and its number, 1 for the first table of a name."""
    match = _NUMBERED.fullmatch(storage)
    return (match[1], int(match[2])) if match else (storage, 1)


class Column(msgspec.Struct, frozen=True):
    """Column of a table."""

    name: str
    declared_type: str
    affinity: str
    """INTEGER, REAL, NUMERIC, TEXT or BLOB."""
    collation: str
    not_null: bool
    default: str | None
    """Expression of the default, as text."""
    is_generated: bool
    slot: int


class Index(msgspec.Struct, frozen=True, dict=True):
    """Index of a table, or its primary key if the table has no row ids."""

    name: str
    unique: bool
    columns: tuple[int, ...]
    """Numbers of the indexed columns, in order."""
    collations: tuple[str, ...]
    codecs: tuple[Codec, ...]

    @cached_property
    def has_only_integers(self) -> bool:
        """True if each value of the columns is its own key component."""
        return all(codec is Codec.INTEGER for codec in self.codecs)

    @cached_property
    def _select(self) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
        """Function that returns the values of the indexed columns of a row."""
        first, *others = self.columns
        return itemgetter(first, *others) if others else lambda values: (values[first],)

    def encode(self, values: tuple[SqlValue, ...]) -> tuple[Component, ...]:
        """Return the key components of the indexed columns of a row."""
        if self.has_only_integers:
            return self._select(values)
        return tuple(
            [
                encode(values[column], codec, collation)
                for column, codec, collation in zip(
                    self.columns, self.codecs, self.collations, strict=True
                )
            ]
        )


class ForeignKey(msgspec.Struct, frozen=True):
    """Foreign key of a child table."""

    child: str
    columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]
    on_update: str
    on_delete: str


class Table(msgspec.Struct, frozen=True, dict=True):
    """Table with its columns, keys and physical layout."""

    name: str
    storage: Storage
    columns: tuple[Column, ...]
    primary_key: Index
    """Key of the rows. A table with row ids has a key of one column, number -1 or the alias."""
    has_row_id: bool
    row_id_column: int | None
    """Number of the INTEGER PRIMARY KEY column, an alias of the row id."""
    checked_before_key: int
    """Number of the indexes whose uniqueness is checked before that of the primary key."""
    is_autoincrement: bool
    is_strict: bool
    needs_probe: bool
    """True if the table has CHECK constraints or generated columns."""
    indexes: tuple[Index, ...]
    foreign_keys: tuple[ForeignKey, ...]

    @cached_property
    def row_prefix(self) -> tuple[str, str]:
        return (ROW_PREFIX, self.storage.name)

    @cached_property
    def sequence_key(self) -> tuple[str, str]:
        return (SEQUENCE_PREFIX, self.storage.name)

    @cached_property
    def column_numbers(self) -> dict[str, int]:
        """Numbers of the columns by lower-case name."""
        return {column.name.lower(): number for number, column in enumerate(self.columns)}

    @cached_property
    def unique_constraints(self) -> tuple[Index, ...]:
        """Unique indexes and the primary key, in the order in which SQLite checks them."""
        indexes = list(self.indexes)
        indexes.insert(self.checked_before_key, self.primary_key)
        return tuple([index for index in indexes if index.unique])

    @cached_property
    def columns_without_default(self) -> tuple[int, ...]:
        """Numbers of the columns that are NULL if a new row has no value for them."""
        return tuple(
            [
                number
                for number, column in enumerate(self.columns)
                if column.default is None and not column.is_generated
            ]
        )

    @cached_property
    def stored_types(self) -> tuple[tuple[type | None, bool], ...]:
        """Type that each column stores without conversion, and whether it stores NULL."""
        return tuple(
            [
                (
                    EXACT_TYPES.get(column.affinity),
                    not column.not_null and number != self.row_id_column,
                )
                for number, column in enumerate(self.columns)
            ]
        )

    @cached_property
    def is_dense(self) -> bool:
        """True if a stored row is the tuple of all column values."""
        numbers = tuple(range(len(self.columns)))
        storage = self.storage
        # A dropped last column leaves items behind, and an added one is missing in older rows.
        return storage.slots == numbers and (storage.width == storage.created_width == len(numbers))

    def index_prefix(self, index: Index) -> tuple[str, str, str]:
        return (INDEX_PREFIX, self.storage.name, index.name)

    def row_key_parts(
        self, row_id: int | None, values: tuple[SqlValue, ...]
    ) -> tuple[Component, ...]:
        """Return the components of the row's key after the prefix."""
        if self.has_row_id:
            assert row_id is not None
            return (row_id,)
        return self.primary_key.encode(values)

    @cached_property
    def row_id_name(self) -> str:
        """Name of the row id that no column hides, as it is written in SQL."""
        alias = self.row_id_column
        hidden = ROW_ID_NAMES[0] if alias is None else quote_name(self.columns[alias].name)
        return next((name for name in ROW_ID_NAMES if name not in self.column_numbers), hidden)

    def selected_key_parts(self, values: tuple[SqlValue, ...]) -> tuple[Component, ...]:
        """Return the components of the row's key from the selected columns of the key."""
        if self.has_row_id:
            row_id = values[0]
            assert type(row_id) is int, "a row id is an integer"
            return (row_id,)
        key = self.primary_key
        if key.has_only_integers:
            return values  # type: ignore[return-value]
        return tuple(map(encode, values, key.codecs, key.collations))

    def row_key(self, parts: tuple[Component, ...]) -> Key:
        return (ROW_PREFIX, self.storage.name, *parts)

    def index_key(
        self, index: Index, values: tuple[SqlValue, ...], parts: tuple[Component, ...]
    ) -> Key:
        """Return the key of a row's index entry.

        An entry of a unique index without NULL does not contain the key of the row, so that two
        rows with equal values have the same entry.
        """
        encoded = index.encode(values)
        if index.unique and not any(values[column] is None for column in index.columns):
            return (INDEX_PREFIX, self.storage.name, index.name, *encoded)
        return (INDEX_PREFIX, self.storage.name, index.name, *encoded, *parts)

    def store(self, values: tuple[SqlValue, ...]) -> tuple[Any, ...]:
        """Return the stored row of these column values."""
        if self.is_dense:
            return values
        stored: list[Any] = [None] * self.storage.width
        for slot, value in zip(self.storage.slots, values, strict=True):
            if value is None and slot in self.storage.added_defaults:
                stored[slot] = STORED_NULL
            else:
                stored[slot] = value
        return tuple(stored)

    def load(self, stored: tuple[Any, ...]) -> tuple[SqlValue, ...]:
        """Return the column values of a stored row."""
        if self.is_dense:
            return stored
        width = len(stored)
        return tuple(
            [
                self.load_item(slot, stored[slot] if slot < width else None)
                for slot in self.storage.slots
            ]
        )

    def load_item(self, slot: int, item: Any) -> SqlValue:
        """Return the value of one item of a stored row."""
        if item is None:
            return self.storage.added_defaults.get(slot)
        return None if item == STORED_NULL and type(item) is tuple else item


class Catalog:
    """All tables of a schema, by lower-case name."""

    def __init__(self, schema: Schema, tables: tuple[Table, ...]) -> None:
        self.schema = schema
        self.tables = {table.name.lower(): table for table in tables}
        self.views = frozenset(
            entry.name.lower() for entry in schema.entries if entry.kind == "view"
        )
        """Lower-case names of the views."""
        self.children: dict[str, list[ForeignKey]] = {}
        """Foreign keys by the lower-case name of the parent table, in the order in which SQLite
        executes their actions: newest first."""
        self.has_foreign_keys = any(table.foreign_keys for table in tables)
        for table in reversed(tables):
            for key in reversed(table.foreign_keys):
                self.children.setdefault(key.parent.lower(), []).append(key)
