"""The SQL engine: executes statements on a transaction (`creekdb.execution.sql_engine`).

A statement is compiled once per schema and worker: validated by SQLite, classified, and split into
clauses if it changes rows. `execute` binds the parameters and runs it.
"""

import re
from typing import Any, Final, NamedTuple, Protocol

import apsw

from creekdb.errors import SqlSyntaxError, SqlTypeError, SqlUnknownName, SqlUnsupported
from creekdb.execution.transaction import Transaction
from creekdb.sql.catalog import SCHEMA_KEY, Catalog, Table
from creekdb.sql.changes.execution import execute_change
from creekdb.sql.changes.plan import ChangePlan
from creekdb.sql.changes.schema_changes import change_schema, drop_target, refuse_by_words
from creekdb.sql.connection import READING_PRAGMAS, STATEMENT_BYTES_MAX, Session
from creekdb.sql.order_warnings import find_order_warnings
from creekdb.sql.probe import Prepared
from creekdb.sql.result import SqlResult
from creekdb.sql.statements import (
    NumberedText,
    StatementReader,
    bind,
    is_bounded,
    leading_word,
    number_parameters,
    parse,
)
from creekdb.sql.table_rows import TableDescription, describe_table
from creekdb.sql.tokens import quote_name
from creekdb.sql.worker import COMPILED_MAX, Worker, WorkerPool, check_parameters

_SCHEMA_PREFIXES: Final = ("sqlite_", "pragma_")
"""Prefixes of the tables in which SQLite describes a schema."""
_NUMBERED_PATH: Final = re.compile(r"VIRTUAL TABLE INDEX \d+:(?=.)")
_SEQUENCE_TABLE: Final = "sqlite_sequence"
_TRANSACTION_REMEDY: Final = (
    "an operation is a transaction already; send all statements in one operation"
)
_REFUSED: Final = {
    **dict.fromkeys(
        ("BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"), _TRANSACTION_REMEDY
    ),
    "ATTACH": "a database has its own tables only; create the tables in this one",
    "DETACH": "a database has its own tables only; omit the statement",
    "VACUUM": "registers need no compaction; omit the statement",
    "ANALYZE": "plans must not depend on the data of a replica; omit the statement",
    "REINDEX": "indexes are always complete; omit the statement",
}


class Compiled(Protocol):
    """Statement that is ready for execution."""

    def execute(self, worker: Worker, bindings: tuple[Any, ...]) -> SqlResult:
        """Execute the statement on the transaction of the worker's session."""


class CompiledQuery(NamedTuple):
    """SELECT or VALUES on the registers."""

    text: str
    columns: tuple[str, ...]
    is_bounded: bool

    def execute(self, worker: Worker, bindings: tuple[Any, ...]) -> SqlResult:
        rows = tuple(worker.query(self.text, bindings, self.is_bounded))
        return SqlResult(self.columns, rows, len(rows), worker.session.last_row_id)


class CompiledExplanation(NamedTuple):
    """EXPLAIN QUERY PLAN of a query on the registers."""

    query: CompiledQuery

    def execute(self, worker: Worker, bindings: tuple[Any, ...]) -> SqlResult:
        result = self.query.execute(worker, bindings)
        # SQLite shows the number of an access path. It depends on the earlier statements of the
        # worker, so that replicas would respond differently.
        rows = [
            (*row[:-1], _NUMBERED_PATH.sub("USING ", str(row[-1]), count=1)) for row in result.rows
        ]
        return result._replace(rows=tuple(rows))


class CompiledDescription(NamedTuple):
    """Query on the schema: a PRAGMA, or a SELECT from `sqlite_schema`."""

    text: str
    columns: tuple[str, ...]

    def execute(self, worker: Worker, bindings: tuple[Any, ...]) -> SqlResult:
        rows = tuple(worker.describe(self.text, bindings))
        return SqlResult(self.columns, rows, len(rows), worker.session.last_row_id)


class CompiledChange(NamedTuple):
    """INSERT, UPDATE or DELETE."""

    plan: ChangePlan

    def execute(self, worker: Worker, bindings: tuple[Any, ...]) -> SqlResult:
        return execute_change(self.plan, worker, bindings)


class CompiledSchemaChange(NamedTuple):
    """CREATE, DROP or ALTER."""

    text: str

    def execute(self, worker: Worker, bindings: tuple[Any, ...]) -> SqlResult:
        transaction = worker.session.transaction
        before = transaction.savepoint()
        try:
            return self._execute(worker)
        except Exception:
            transaction.roll_back_to(before)
            raise

    def _execute(self, worker: Worker) -> SqlResult:
        dropped = drop_target(self.text)
        session = worker.session
        table = worker.catalog.tables.get((dropped or "").lower())
        if table is not None and _has_drop_actions(worker.catalog, table):
            # References may forbid the deletion of rows, or cascade it.
            delete = f"DELETE FROM {quote_name(table.name)}"
            # Row counts of the session are those of statements.
            counts = session.changes, session.total_changes
            execute_change(ChangePlan(parse(delete), table), worker, ())
            session.changes, session.total_changes = counts
        result = change_schema(session, worker.catalog, self.text)
        if session.schema != worker.encoded:
            ENGINE.release_worker(session)  # later statements need one for the new schema
        return result


class Engine:
    """Executes SQL statements with SQLite on the registers of transactions."""

    def __init__(self) -> None:
        self._pool = WorkerPool()

    @property
    def version(self) -> str:
        """Version of SQLite and of its sources, and of the rules by which Creek stores rows."""
        return f"sqlite {apsw.sqlite_lib_version()} {apsw.sqlite3_sourceid()} layout 2"

    def open_session(self, transaction: Transaction) -> Session:
        return Session(transaction)

    def execute(
        self, session: Session, text: Any, parameters: tuple[Any, ...], named: dict[str, Any]
    ) -> SqlResult:
        """Execute one statement. Raise `SqlError`, without effect, if that is impossible."""
        if type(text) is not str:
            raise SqlTypeError(f"a statement is a str, not a {type(text).__name__}")
        if len(text) > STATEMENT_BYTES_MAX:
            raise SqlSyntaxError(f"a statement has at most {STATEMENT_BYTES_MAX} characters")
        worker: Worker = session.worker or self._assign_worker(session)
        numbered, compiled = worker.compiled.get(text) or self._compile(worker, text)
        if named or len(parameters) != numbered.size:
            parameters = bind(numbered, parameters, named)
        return compiled.execute(worker, check_parameters(parameters))

    def find_warnings(self, text: str) -> tuple[str, ...]:
        """Return the reasons for which the result of a statement may depend on its plan."""
        return find_order_warnings(text)

    def describe_tables(self, schema: bytes) -> dict[str, TableDescription]:
        """Return the tables of an encoded schema by lower-case name."""
        worker = self._pool.take(schema)
        tables = {name: describe_table(each) for name, each in worker.catalog.tables.items()}
        self._pool.give_back(worker)
        return tables

    def close_session(self, session: Session) -> None:
        """Release the worker of a session. A later statement reads the schema again."""
        session.schema = None
        self.release_worker(session)

    def release_worker(self, session: Session) -> None:
        if session.worker is not None:
            self._pool.give_back(session.worker)
            session.worker = None

    def _assign_worker(self, session: Session) -> Worker:
        """Return a worker for the current schema of the session."""
        if session.schema is None:
            session.schema = session.transaction.get(SCHEMA_KEY, b"")
        worker = session.worker = self._pool.take(session.schema)
        worker.slot.session = session
        return worker

    def _compile(self, worker: Worker, text: str) -> tuple[NumberedText, Compiled]:
        _check_characters(text)
        try:
            refuse_by_words(text)
            numbered = number_parameters(text)
        except SqlSyntaxError:
            worker.probe.prepare(text)  # SQLite may find an earlier error
            raise
        compiled = numbered, compile_statement(worker, text, numbered)
        if len(worker.compiled) >= COMPILED_MAX:
            del worker.compiled[next(iter(worker.compiled))]
        worker.compiled[text] = compiled
        return compiled


def compile_statement(worker: Worker, text: str, numbered: NumberedText) -> Compiled:
    """Validate a statement and return it ready for execution."""
    word = leading_word(text)
    if word in ("INSERT", "REPLACE", "UPDATE", "DELETE"):
        prepared = _prepare(worker, text)
        if _reads_schema(worker.catalog, prepared):
            raise SqlUnsupported(
                "a change cannot read the schema (sqlite_schema, pragma_…); query the schema "
                "first, and pass the result in parameters"
            )
        change = parse(numbered.text)
        table = worker.catalog.tables.get(change.target.table.lower())
        if table is None:
            raise SqlUnsupported(
                f"{change.target.table} is not a table of the database; only tables can be changed"
            )
        return CompiledChange(ChangePlan(change, table, prepared.columns, worker.catalog.views))
    if word in ("CREATE", "DROP", "ALTER"):
        return CompiledSchemaChange(text)
    if word == "PRAGMA":
        return _compile_pragma(worker, text)
    if word in _REFUSED:
        raise SqlUnsupported(f"{word} is not supported; {_REFUSED[word]}")
    if word == "EXPLAIN":
        return _compile_explain(worker, text, numbered)
    return _compile_query(worker, text, numbered)


def _compile_query(worker: Worker, text: str, numbered: NumberedText) -> Compiled:
    prepared = _prepare(worker, text)
    if not _reads_schema(worker.catalog, prepared):
        bounded = is_bounded(text, worker.catalog.views)
        return CompiledQuery(numbered.text, prepared.columns, bounded)
    if not prepared.tables.isdisjoint(worker.catalog.tables):
        raise SqlUnsupported(
            "a query cannot read both the schema (sqlite_schema, pragma_…) and rows of tables; "
            "send two queries"
        )
    return CompiledDescription(numbered.text, prepared.columns)


def _compile_pragma(worker: Worker, text: str) -> Compiled:
    reader = StatementReader(text)
    reader.accept("PRAGMA")
    name = reader.take_name().lower()
    if name not in READING_PRAGMAS:
        known = ", ".join(sorted(READING_PRAGMAS))
        raise SqlUnsupported(f"PRAGMA {name} is not supported; use one of {known}")
    return CompiledDescription(text, worker.probe.prepare(text).columns)


def _compile_explain(worker: Worker, text: str, numbered: NumberedText) -> Compiled:
    reader = StatementReader(text)
    if not reader.accept("EXPLAIN", "QUERY", "PLAN") or reader.word not in (
        "SELECT",
        "VALUES",
        "WITH",
    ):
        raise SqlUnsupported(
            "EXPLAIN is supported only as EXPLAIN QUERY PLAN of a query; rewrite the statement"
        )
    compiled = _compile_query(worker, text, numbered)
    return CompiledExplanation(compiled) if isinstance(compiled, CompiledQuery) else compiled


def _check_characters(text: str) -> None:
    """Raise `SqlSyntaxError` for a character that SQLite cannot read."""
    position = text.find("\0")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        position = error.start if position < 0 else min(position, error.start)
    if position >= 0:
        raise SqlSyntaxError(
            "a statement cannot contain the character NUL or half a surrogate pair; "
            "pass values in parameters",
            text,
            position,
        )


def _prepare(worker: Worker, text: str) -> Prepared:
    """Validate a statement. Raise `SqlUnsupported` if it reads the ids of AUTOINCREMENT."""
    try:
        prepared = worker.probe.prepare(text)
    except SqlUnknownName as error:
        # Only a database that uses AUTOINCREMENT has the table.
        if not str(error).startswith(f"no such table: {_SEQUENCE_TABLE}"):
            raise
    else:
        if _SEQUENCE_TABLE not in prepared.tables:
            return prepared
    raise SqlUnsupported(
        f"{_SEQUENCE_TABLE} is not supported; insert a row RETURNING its id, or select max()"
    )


def _has_drop_actions(catalog: Catalog, table: Table) -> bool:
    """True if foreign keys may forbid that a table is dropped, or change rows of another one."""
    return any(
        key.child != table.name or key.on_delete not in ("NO ACTION", "CASCADE")
        for key in catalog.children.get(table.name.lower(), ())
    )


def _reads_schema(catalog: Catalog, prepared: Prepared) -> bool:
    """True if a statement reads a table that describes the schema."""
    return any(
        name.startswith(_SCHEMA_PREFIXES)
        and name not in catalog.tables
        and name not in catalog.views
        for name in prepared.tables
    )


ENGINE: Final = Engine()
