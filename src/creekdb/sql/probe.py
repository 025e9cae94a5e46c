"""Probe: an empty SQLite database with the tables of a schema.

A probe answers what Creek would otherwise have to derive from the text of a schema:

- which columns, keys, indexes and foreign keys a table has (`describe`);
- whether a statement is valid, which columns it returns and which tables it reads (`prepare`);
- how a row looks after defaults, type conversion, generated columns, NOT NULL and CHECK
  (`convert`).

Errors are SQLite's own. No row remains in a probe.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import apsw

from creekdb.errors import SqlTypeError
from creekdb.sql.catalog import (
    Catalog,
    Column,
    ForeignKey,
    Index,
    Schema,
    SchemaEntry,
    Storage,
    Table,
)
from creekdb.sql.connection import SessionSlot, allow_statements, open_connection
from creekdb.sql.key_codec import Codec, SqlValue
from creekdb.sql.sqlite_errors import translate
from creekdb.sql.tokens import quote_name, tokenize

PRIMARY_KEY_INDEX: Final = "primary key"
"""Name of the primary key among the indexes of a table. Its entries are the rows."""


class Prepared(NamedTuple):
    """Properties of a valid statement."""

    columns: tuple[str, ...]
    is_readonly: bool
    tables: frozenset[str]
    """Lower-case names of the tables that the statement reads, also through views."""


class Probe:
    """Empty database with the tables of one schema."""

    def __init__(self, schema: Schema, slot: SessionSlot) -> None:
        self.slot = slot
        self.connection = open_connection(slot)
        for entry in schema.entries:
            self.connection.execute(entry.sql)
        self._read_tables: set[str] = set()
        # No bound method: the connection would refer to the probe that owns it.
        self.connection.authorizer = partial(_record_tables, self._read_tables)
        self._inserts: dict[tuple[str, tuple[int, ...], bool], str] = {}

    def prepare(self, text: str) -> Prepared:
        """Validate a statement without executing it."""
        prepared: list[Prepared] = []

        def stop(cursor: apsw.Cursor, statement: str, bindings: Any) -> bool:
            columns = tuple([name for name, _ in cursor.get_description()])
            tables = frozenset(map(str.lower, self._read_tables))
            prepared.append(Prepared(columns, cursor.is_readonly, tables))
            return False

        cursor = self.connection.cursor()
        cursor.exec_trace = stop
        self._read_tables.clear()
        # SQLite reports foreign keys without a matching parent key only if it enforces them.
        self.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 1)
        try:
            # SQLite does not authorize a cached statement again.
            cursor.execute(text, apsw._null_bindings, can_cache=False)  # type: ignore[attr-defined]
        except apsw.ExecTraceAbort:
            pass
        except apsw.Error as error:
            raise translate(error, text) from None
        finally:
            self.connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 0)
        return prepared[0] if prepared else Prepared((), True, frozenset())

    def entries(self) -> tuple[SchemaEntry, ...]:
        """Return the statements of the schema, after changes of it."""
        rows = self.connection.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_schema "
            "WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid"
        )
        return tuple([SchemaEntry(*row) for row in rows])

    def convert(
        self,
        table: Table,
        numbers: tuple[int, ...],
        values: Sequence[SqlValue],
        row_id: int | None = None,
    ) -> tuple[SqlValue, ...]:
        """Return the complete row that SQLite would store for these columns.

        `row_id` is the row id of a table in which no column shows it. A CHECK may read it.
        """
        has_row_id = row_id is not None
        key = (table.name, numbers, has_row_id)
        statement = self._inserts.get(key) or self._insert(table, numbers, has_row_id)
        if has_row_id:
            values = (*values, row_id)
        with self._discarded():
            try:
                cursor = self.connection.execute(statement, values)
                row: tuple[SqlValue, ...] = cursor.fetchall()[0]
            except (apsw.Error, UnicodeError) as error:
                raise translate(error, "") from None
        for value in row:
            if type(value) is float and (value in (float("inf"), float("-inf"))):
                raise SqlTypeError("an infinite number cannot be stored; store NULL or a text")
        return row

    def to_number(self, text: str) -> SqlValue:
        """Return the number that a text is as a whole, otherwise the text, as in SQLite."""
        number = "CAST(?1 AS NUMERIC)"
        query = f"SELECT CASE WHEN {number} = ?1 THEN {number} ELSE ?1 END"
        value: SqlValue = self.connection.execute(query, (text,)).fetchall()[0][0]
        return value

    @contextmanager
    def _discarded(self) -> Iterator[None]:
        self.connection.execute("SAVEPOINT row")
        try:
            yield
        finally:
            self.connection.execute("ROLLBACK TO row")
            self.connection.execute("RELEASE row")

    def _insert(self, table: Table, numbers: tuple[int, ...], has_row_id: bool) -> str:
        columns = [quote_name(table.columns[number].name) for number in numbers]
        if has_row_id:
            columns.append(table.row_id_name)
        marks = ", ".join("?" * len(columns))
        values = f"({', '.join(columns)}) VALUES ({marks})" if columns else "DEFAULT VALUES"
        statement = f"INSERT INTO {quote_name(table.name)} {values} RETURNING *"
        self._inserts[table.name, numbers, has_row_id] = statement
        return statement

    # --- description of the schema ---------------------------------------------------------------

    def catalog(self, schema: Schema) -> Catalog:
        """Return the description of all tables."""
        tables = [
            self.describe(entry.name, entry.sql, schema.storage[entry.name.lower()])
            for entry in schema.entries
            if entry.kind == "table"
        ]
        return Catalog(schema, tuple(tables))

    def describe(self, name: str, sql: str, storage: Storage | None = None) -> Table:
        """Return the description of one table."""
        info = self.pragma("table_xinfo", name)
        options = next(row for row in self.pragma("table_list", name) if row[0] == "main")
        is_without_row_id, is_strict = bool(options[4]), bool(options[5])
        if storage is None:
            storage = Storage(name.lower(), tuple(range(len(info))), len(info), len(info))
        words = _words(sql)
        indexes, primary_key_collations, checked_before = self._indexes(name)
        collations = self._column_collations(name, info)
        columns = tuple(
            Column(
                name=column,
                declared_type=declared,
                affinity=affinity(declared, is_strict),
                collation=collations[number],
                not_null=bool(not_null),
                default=default,
                is_generated=hidden in (2, 3),
                slot=storage.slots[number],
            )
            for number, column, declared, not_null, default, _, hidden in info
        )
        key_numbers = tuple(row[0] for row in sorted(info, key=lambda row: row[5]) if row[5])
        row_id_column = None
        if not is_without_row_id and primary_key_collations is None and key_numbers:
            row_id_column = key_numbers[0]
        codecs = [
            Codec.INTEGER if number == row_id_column else _codec(column, is_strict)
            for number, column in enumerate(columns)
        ]
        if is_without_row_id:
            assert primary_key_collations is not None
            primary_key = Index(
                PRIMARY_KEY_INDEX,
                True,
                key_numbers,
                primary_key_collations,
                tuple(codecs[number] for number in key_numbers),
            )
        else:
            row_id = -1 if row_id_column is None else row_id_column
            primary_key = Index(PRIMARY_KEY_INDEX, True, (row_id,), ("BINARY",), (Codec.INTEGER,))
        return Table(
            name=name,
            storage=storage,
            columns=columns,
            primary_key=primary_key,
            has_row_id=not is_without_row_id,
            row_id_column=row_id_column,
            checked_before_key=checked_before,
            is_autoincrement="AUTOINCREMENT" in words,
            is_strict=is_strict,
            needs_probe="CHECK" in words or any(column.is_generated for column in columns),
            indexes=tuple(
                Index(index, unique, numbers, used, tuple(codecs[number] for number in numbers))
                for index, unique, numbers, used in indexes
            ),
            foreign_keys=self._foreign_keys(name),
        )

    def pragma(self, pragma: str, name: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(f"PRAGMA {pragma}({quote_name(name)})").fetchall()

    def _indexes(
        self, table: str
    ) -> tuple[
        list[tuple[str, bool, tuple[int, ...], tuple[str, ...]]], tuple[str, ...] | None, int
    ]:
        """Return the indexes, newest first, and the collations of a primary key index.

        The number is that of the indexes that SQLite checks before the primary key.
        """
        found: list[tuple[str, bool, tuple[int, ...], tuple[str, ...]]] = []
        primary_key_collations, primary_key_position = None, 0
        for _, name, unique, origin, _ in self.pragma("index_list", table):
            rows = [row for row in self.pragma("index_xinfo", name) if row[5]]
            collations = tuple(row[4].upper() for row in rows)
            if origin == "pk":
                primary_key_collations, primary_key_position = collations, len(found)
            else:
                # Named by number: the name of an automatic index contains that of its table.
                number = name.rpartition("_")[2]
                storage = f"unique {number}" if name.startswith("sqlite_") else name.lower()
                found.append((storage, bool(unique), tuple(row[1] for row in rows), collations))
        return found, primary_key_collations, primary_key_position

    def _column_collations(self, table: str, info: list[tuple[Any, ...]]) -> list[str]:
        collations: list[str] = []
        for row in info:
            metadata = self.connection.column_metadata("main", table, row[1])
            collations.append(metadata[1].upper())
        return collations

    def _foreign_keys(self, child: str) -> tuple[ForeignKey, ...]:
        by_number: dict[int, list[tuple[Any, ...]]] = {}
        for row in self.pragma("foreign_key_list", child):
            by_number.setdefault(row[0], []).append(row)
        keys = []
        for number in sorted(by_number, reverse=True):
            rows = sorted(by_number[number], key=lambda row: row[1])
            parent = rows[0][2]
            parent_columns = tuple(row[4] for row in rows)
            if None in parent_columns:
                parent_info = sorted(self.pragma("table_xinfo", parent), key=lambda row: row[5])
                parent_columns = tuple(row[1] for row in parent_info if row[5])
            columns = tuple(row[3] for row in rows)
            keys.append(ForeignKey(child, columns, parent, parent_columns, rows[0][5], rows[0][6]))
        return tuple(keys)


def _record_tables(
    tables: set[str],
    action: int,
    first: str | None,
    second: str | None,
    database: str | None,
    trigger: str | None,
) -> int:
    """Authorizer that adds each table that a statement reads to `tables`."""
    if action == apsw.SQLITE_READ and first is not None:
        tables.add(first)
    return allow_statements(action, first, second, database, trigger)


@lru_cache(maxsize=1000)
def _words(sql: str) -> frozenset[str]:
    """Return the keywords and identifiers of a statement of the schema."""
    return frozenset(token.word for token in tokenize(sql))


def affinity(declared_type: str, is_strict: bool) -> str:
    """Return the affinity of a declared type, by the rules of SQLite."""
    declared = declared_type.upper()
    if is_strict and declared == "ANY":
        return "BLOB"
    if "INT" in declared:
        return "INTEGER"
    if any(part in declared for part in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if "BLOB" in declared or not declared:
        return "BLOB"
    if any(part in declared for part in ("REAL", "FLOA", "DOUB")):
        return "REAL"
    return "NUMERIC"


def _codec(column: Column, is_strict: bool) -> Codec:
    if column.affinity == "TEXT":
        return Codec.TEXT
    if column.affinity == "INTEGER" and is_strict and column.not_null:
        return Codec.INTEGER
    return Codec.GENERAL


__all__ = ["PRIMARY_KEY_INDEX", "Prepared", "Probe", "affinity"]
