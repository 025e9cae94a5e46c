"""Execution of CREATE, DROP and ALTER.

SQLite applies the statement to an empty copy of the schema. It checks the statement and rewrites
the schema, for instance all references to a renamed column. The engine then stores the new schema,
and changes the registers where necessary: it fills a new index, and deletes the registers of a
dropped table or index.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import apsw
from msgspec.structs import replace

from creekdb.errors import SqlConstraintError, SqlError, SqlUnsupported
from creekdb.execution.transaction import Transaction
from creekdb.sql.catalog import (
    ROW_ID_NAMES,
    SCHEMA_KEY,
    Catalog,
    Index,
    Schema,
    Storage,
    Table,
)
from creekdb.sql.changes.row_writer import Row, unique_error
from creekdb.sql.connection import Session, SessionSlot, allow_schema_changes
from creekdb.sql.key_codec import SqlValue
from creekdb.sql.probe import Probe
from creekdb.sql.queries.virtual_tables import RESERVED_PREFIX
from creekdb.sql.result import SqlResult
from creekdb.sql.sqlite_errors import translate
from creekdb.sql.statements import StatementReader
from creekdb.sql.tokens import Token, TokenKind, statement_tokens, tokenize

_CREATE_REFUSED: Final = {
    "TRIGGER": "write the statements of the trigger into the operation that changes the table",
    "VIRTUAL": "create an ordinary table",
    "TEMP": "create an ordinary table, or use WITH for the results of a query",
    "TEMPORARY": "create an ordinary table, or use WITH for the results of a query",
}

_TEMPORARY: Final = ("TEMP", "TEMPORARY")
_ALTER_REMEDY: Final = "create a new table and copy the rows with INSERT … SELECT"
_GENERATED: Final = (2, 3)
"""Values of `hidden` in `table_xinfo` for columns that are generated."""


def change_schema(session: Session, previous_catalog: Catalog, text: str) -> SqlResult:
    """Execute a CREATE, DROP or ALTER statement."""
    reader = StatementReader(text)
    _refuse(reader)
    slot = SessionSlot()
    slot.session = session
    schema, before = previous_catalog.schema, previous_catalog.tables
    probe = Probe(schema, slot)
    probe.connection.authorizer = allow_schema_changes
    try:
        probe.connection.execute(_adapted(probe, text, reader.tokens))
    except apsw.Error as error:
        raise translate(error, text) from None
    result = SqlResult(last_row_id=session.last_row_id)
    if probe.entries() == schema.entries:
        return result  # such as IF NOT EXISTS, which must not conflict with anything
    after = _new_schema(probe, schema, before, session.transaction)
    catalog = probe.catalog(after)
    for table in catalog.tables.values():
        _refuse_hidden_row_id(table)
    change = _DataChange(session.transaction)
    for table in before.values():
        if table.storage.name not in {each.name for each in after.storage.values()}:
            change.delete_table(table)
    for table in catalog.tables.values():
        previous = next(
            (each for each in before.values() if each.storage.name == table.storage.name), None
        )
        if previous is not None:
            change.change_indexes(previous, table)
            change.check_rows(previous, table, probe)
    encoded = after.encode()
    session.transaction.put(SCHEMA_KEY, encoded)
    session.schema = encoded
    return result


def refuse_by_words(text: str) -> None:
    """Raise `SqlUnsupported` for clauses that SQLite would report in misleading words.

    CREATE TRIGGER has several statements in its text. INDEXED BY names an index in registers, which
    the connection to SQLite does not have.
    """
    words = [token.word for token in tokenize(text)]
    if words[:1] == ["CREATE"] and "TRIGGER" in _kind_of_object(words):
        raise SqlUnsupported(f"CREATE TRIGGER is not supported; {_CREATE_REFUSED['TRIGGER']}")
    if ("INDEXED", "BY") in pairwise(words):
        raise SqlUnsupported("INDEXED BY is not supported; omit it, every index is considered")


def _refuse(reader: StatementReader) -> None:
    """Raise `SqlUnsupported` for a statement that Creek does not support."""
    words = [token.word for token in reader.tokens]
    if words[0] == "CREATE":
        for word in _kind_of_object(words):
            if word in _CREATE_REFUSED:
                raise SqlUnsupported(f"CREATE {word} is not supported; {_CREATE_REFUSED[word]}")
        if "INDEX" in words[1:3] and _has_word(reader, "WHERE"):
            raise SqlUnsupported("partial indexes are not supported; omit WHERE")
        if words[1:2] == ["TABLE"]:
            _refuse_table(reader, words)
    if words[0] == "DROP" and words[1:2] == ["TRIGGER"]:
        raise SqlUnsupported("there are no triggers; omit the statement")
    if words[0] == "ALTER" and "CONSTRAINT" in words:
        raise SqlUnsupported(f"ALTER TABLE cannot add a constraint; {_ALTER_REMEDY}")


def _kind_of_object(words: list[str]) -> list[str]:
    """Return the words after CREATE that name the kind of object."""
    return words[1:3] if words[1:2] and words[1] in _TEMPORARY else words[1:2]


def _refuse_table(reader: StatementReader, words: list[str]) -> None:
    if any(pair == ("ON", "CONFLICT") for pair in pairwise(words)):
        raise SqlUnsupported(
            "ON CONFLICT in a constraint is not supported; write INSERT OR … or an UPSERT"
        )
    if ("INITIALLY", "DEFERRED") in pairwise(words):
        raise SqlUnsupported(
            "deferred foreign keys are not supported; they are checked after every statement, "
            "omit DEFERRABLE INITIALLY DEFERRED"
        )
    begin = next(
        (token for token in reader.tokens if token.text == "(" or token.word == "AS"), None
    )
    if begin is not None and begin.word == "AS":
        raise SqlUnsupported(
            "CREATE TABLE … AS SELECT is not supported; create the table with its columns, then "
            "INSERT … SELECT"
        )


def _refuse_hidden_row_id(table: Table) -> None:
    is_row_id_only = table.has_row_id and table.row_id_column is None
    if is_row_id_only and table.column_numbers.keys() >= set(ROW_ID_NAMES):
        raise SqlUnsupported(
            f"columns with all the names {', '.join(ROW_ID_NAMES)} hide the row id of table "
            f"{table.name}; declare a primary key"
        )


def _has_word(reader: StatementReader, word: str) -> bool:
    return any(token.word == word and token.depth == 0 for token in reader.tokens)


def _adapted(probe: Probe, text: str, tokens: Sequence[Token]) -> str:
    """Return the statement to execute.

    A table with a primary key other than a row id is stored by its primary key, as SQLite stores
    WITHOUT ROWID tables.
    """
    statement = text[: tokens[-1].stop]
    words = [token.word for token in tokens]
    if words[:2] != ["CREATE", "TABLE"] or "PRIMARY" not in words:
        return statement
    # The options follow the columns, which may have any name.
    options = [token.word for token in tokens if token.depth == 0]
    if ("WITHOUT", "ROWID") in pairwise(options):
        return statement
    connection = probe.connection
    connection.execute("SAVEPOINT create_table")
    try:
        known = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
        connection.execute(statement)
        created = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            if name not in known and not name.startswith("sqlite_")
        ]
        has_other_key = bool(created) and any(
            row[3] == "pk" for row in probe.pragma("index_list", created[0])
        )
    finally:
        connection.execute("ROLLBACK TO create_table")
        connection.execute("RELEASE create_table")
    if not has_other_key:
        return statement
    separator = " " if tokens[-1].text == ")" else ", "
    return f"{statement}{separator}WITHOUT ROWID"


def _new_schema(
    probe: Probe, schema: Schema, before: dict[str, Table], transaction: Transaction
) -> Schema:
    """Return the schema after the statement, with the storage of every table."""
    entries = probe.entries()
    for entry in entries:
        if entry.name.lower().startswith(RESERVED_PREFIX):
            raise SqlUnsupported(
                f"names that start with {RESERVED_PREFIX} are reserved; choose another name"
            )
    names = [entry.name.lower() for entry in entries if entry.kind == "table"]
    old_names = list(schema.storage)
    renamed = dict(
        zip(
            [name for name in names if name not in old_names],
            [name for name in old_names if name not in names],
            strict=False,
        )
    )
    storage: dict[str, Storage] = {}
    for entry in entries:
        name = entry.name.lower()
        if entry.kind == "table":
            old = schema.storage.get(renamed.get(name, name))
            if old is None:
                storage[name] = _new_storage(probe, entry.name, schema)
            else:
                previous = before[renamed.get(name, name)]
                storage[name] = _changed_storage(probe, entry.name, previous, transaction)
        elif entry.kind == "index":
            _refuse_expressions(probe, entry.name)
    kept = {each.name for each in storage.values()}
    dropped = [each.name for each in schema.storage.values() if each.name not in kept]
    return Schema(entries, storage, schema.dropped).with_dropped(dropped)


def _refuse_expressions(probe: Probe, index: str) -> None:
    if any(row[5] and row[1] < 0 for row in probe.pragma("index_xinfo", index)):
        raise SqlUnsupported(
            "an index on an expression is not supported; add a generated column and index that"
        )


def _new_storage(probe: Probe, name: str, schema: Schema) -> Storage:
    used = {storage.name for storage in schema.storage.values()}
    base = unique = name.lower()
    number = 1
    # A name may be left behind by a renamed table. A name of a dropped table is not used again,
    # because readers of old changes would take its rows for those of the new table.
    while unique in used or schema.is_dropped(unique):
        number += 1
        unique = f"{base} {number}"
    width = len(probe.pragma("table_xinfo", name))
    return Storage(unique, tuple(range(width)), width, width)


def _changed_storage(probe: Probe, name: str, previous: Table, transaction: Transaction) -> Storage:
    """Return the storage after ALTER TABLE, which adds, drops or renames one column at most."""
    storage = previous.storage
    columns = probe.pragma("table_xinfo", name)
    names = [row[1].lower() for row in columns]
    old_names = [column.name.lower() for column in previous.columns]
    if len(columns) == len(old_names):
        return storage
    if len(columns) < len(old_names):
        kept = [storage.slots[number] for number, old in enumerate(old_names) if old in names]
        return replace(storage, slots=tuple(kept))
    if columns[-1][6] in _GENERATED:
        raise SqlUnsupported(f"ALTER TABLE cannot add a generated column; {_ALTER_REMEDY}")
    slot = storage.width
    defaults = dict(storage.added_defaults)
    default = _default_value(probe, name, columns[-1], previous, transaction)
    if default is not None:
        defaults[slot] = default
    return replace(storage, slots=(*storage.slots, slot), width=slot + 1, added_defaults=defaults)


def _default_value(
    probe: Probe,
    table: str,
    column: tuple[Any, ...],
    previous: Table,
    transaction: Transaction,
) -> SqlValue:
    """Return the default of an added column of `table`, as SQLite shows it in the existing rows.

    SQLite converts a default in existing rows otherwise than in new ones: DEFAULT 1e2 in a TEXT
    column is '1e2' there. It also rejects a default of another type only if there are rows.
    """
    _, name, declared, not_null, default, _, _ = column
    if (default is None and not not_null) or not _has_rows(transaction, previous):
        return None
    is_null = default is None or statement_tokens(default)[0].word == "NULL"
    if not is_null and any(row[3] == name for row in probe.pragma("foreign_key_list", table)):
        raise SqlError("Cannot add a REFERENCES column with non-NULL default value")
    if default is None:
        raise SqlError("Cannot add a NOT NULL column with default value NULL")
    connection = probe.connection
    connection.execute("SAVEPOINT default_value")
    try:
        strict = "STRICT" if previous.is_strict else ""
        connection.execute(f"CREATE TABLE creek_default(number INTEGER) {strict}")
        connection.execute("INSERT INTO creek_default VALUES (1)")
        connection.execute(
            f"ALTER TABLE creek_default ADD COLUMN value {declared} DEFAULT {_quoted(default)}"
        )
        rows = connection.execute("SELECT value FROM creek_default").fetchall()
    except apsw.Error as error:
        raise translate(error, "") from None
    finally:
        connection.execute("ROLLBACK TO default_value")
        connection.execute("RELEASE default_value")
    value: SqlValue = rows[0][0]
    return value


def _quoted(default: str) -> str:
    """Return a default as it may be written: SQLite stores an expression without parentheses."""
    tokens = statement_tokens(default)
    if tokens[0].text in ("+", "-"):
        tokens = tokens[1:]
    is_literal = tokens[0].kind is TokenKind.LITERAL or tokens[0].word == "NULL"
    return default if is_literal and len(tokens) == 1 else f"({default})"


def _has_rows(transaction: Transaction, table: Table) -> bool:
    return any(True for _ in transaction.scan_picked((), table.row_prefix))


class _DataChange:
    """Changes of registers that follow from a change of the schema."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def delete_table(self, table: Table) -> None:
        self._delete_all(table.row_prefix)
        for index in table.indexes:
            self._delete_all(table.index_prefix(index))
        if table.is_autoincrement:
            self._transaction.delete(table.sequence_key)

    def change_indexes(self, previous: Table, table: Table) -> None:
        """Delete the entries of dropped indexes and fill new ones."""
        old = {index.name for index in previous.indexes}
        new = {index.name for index in table.indexes}
        for index in previous.indexes:
            if index.name not in new:
                self._delete_all(previous.index_prefix(index))
        for index in table.indexes:
            if index.name not in old:
                self._fill(table, index)

    def check_rows(self, previous: Table, table: Table, probe: Probe) -> None:
        """Check existing rows against the constraints of an added column."""
        if len(table.columns) <= len(previous.columns) or not table.needs_probe:
            return
        numbers = tuple(
            number for number, column in enumerate(table.columns) if not column.is_generated
        )
        hides_row_id = table.has_row_id and table.row_id_column is None
        for key, stored in self._transaction.scan(table.row_prefix):
            assert type(key) is tuple
            parts = key[len(table.row_prefix) :]
            row = Row(parts, table.load(stored))
            row_id = row.row_id(table) if hides_row_id else None
            try:
                probe.convert(table, numbers, [row.values[number] for number in numbers], row_id)
            except SqlConstraintError as error:
                # SQLite does not name the constraint here.
                raise SqlConstraintError(f"{str(error).partition(':')[0]}") from None

    def _fill(self, table: Table, index: Index) -> None:
        transaction = self._transaction
        for key, stored in list(transaction.scan(table.row_prefix)):
            assert type(key) is tuple
            parts = key[len(table.row_prefix) :]
            entry = table.index_key(index, table.load(stored), parts)
            if index.unique and transaction.get(entry) is not None:
                raise unique_error(table, index)
            transaction.put(entry, parts)

    def _delete_all(self, prefix: tuple[str, ...]) -> None:
        for key, _ in list(self._transaction.scan_picked((), prefix)):
            self._transaction.delete(key)


def drop_target(text: str) -> str | None:
    """Return the name of the table that a DROP TABLE statement drops, or None."""
    reader = StatementReader(text)
    if not reader.accept("DROP", "TABLE"):
        return None
    reader.accept("IF", "EXISTS")
    return reader.take_name()
