"""Execution of INSERT, UPDATE and DELETE: a query first, then the writes.

The query finds all rows and evaluates all expressions before the first write. So a statement never
meets rows that it has written itself, and expressions see the tables as they were before it.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from creekdb.errors import SqlConstraintError, SqlTypeError
from creekdb.sql.catalog import Index, Table
from creekdb.sql.foreign_keys import ForeignKeyEnforcer, key_columns
from creekdb.sql.key_codec import SqlValue
from creekdb.sql.result import SqlResult
from creekdb.sql.row_ids import next_row_id
from creekdb.sql.row_writer import USE_DEFAULT, Conflict, Row, RowWriter, unique_error
from creekdb.sql.statements import (
    Assignments,
    Change,
    Delete,
    Insert,
    Target,
    Update,
    Upsert,
    greatest_parameter,
)
from creekdb.sql.tokens import quote_name
from creekdb.sql.virtual_tables import CHANGED_PREFIX, EXCLUDED_PREFIX
from creekdb.sql.worker import Worker

_ROW_ID_NAMES: Final = ("rowid", "_rowid_", "oid")
_EXACT_TYPES: Final = {"INTEGER": int, "TEXT": str, "REAL": float, "BLOB": bytes}
"""Type that a column of each affinity stores without conversion."""


class Query(NamedTuple):
    """Query that evaluates a part of a statement, with the number of parameters that it takes."""

    text: str
    parameters: int

    @classmethod
    def of(cls, text: str) -> "Query":
        return cls(text, greatest_parameter(text))


class ChangePlan(NamedTuple):
    """Compiled statement that changes rows."""

    statement: Change
    table: Table
    source: Query | None
    """Query of the rows to insert, or of the keys and new values of the rows to change."""
    returning: Query | None
    upserts: tuple["ResolvedUpsert", ...]
    columns: tuple[str, ...]
    """Names of the columns that RETURNING yields."""

    @classmethod
    def of(cls, statement: Change, table: Table, columns: tuple[str, ...]) -> "ChangePlan":
        source = _source_query(table, statement)
        returning = None
        if statement.returning:
            target = statement.target
            returning = Query.of(
                f"{target.prefix} SELECT {statement.returning} "
                f"FROM {quote_name(CHANGED_PREFIX + table.name)} AS {quote_name(target.alias)}"
            )
        upserts = statement.upserts if isinstance(statement, Insert) else ()
        resolved = tuple([ResolvedUpsert(table, statement.target, each) for each in upserts])
        return cls(statement, table, source, returning, resolved, columns)

    def execute(self, worker: Worker, bindings: tuple[Any, ...]) -> SqlResult:
        """Execute the statement. It has no effect if it raises, unless it says OR FAIL."""
        changer = RowChanger(worker, self, bindings)
        try:
            match self.statement:
                case Insert():
                    _insert(changer, self, self.statement)
                case Update():
                    _update(changer, self, self.statement)
                case Delete():
                    _delete(changer)
            return changer.finish()
        except Exception:
            if self.statement.target.resolution != "FAIL":
                changer.writer.undo()
            raise


def _source_query(table: Table, statement: Change) -> Query | None:
    target = statement.target
    if isinstance(statement, Insert):
        if statement.source is None:
            return None
        if target.prefix and statement.source.upper().startswith("WITH"):
            return Query.of(f"{target.prefix} SELECT * FROM ({statement.source})")
        return Query.of(f"{target.prefix} {statement.source}")
    selected = key_columns(table, target.alias)
    origin = ""
    if isinstance(statement, Update):
        expressions = [f"({each})" for each in statement.assignments.expressions]
        selected = ", ".join((selected, *expressions))
        origin = f", {statement.origin}" if statement.origin else ""
    where = f" WHERE {statement.where}" if statement.where else ""
    return Query.of(
        f"{target.prefix} SELECT {selected} "
        f"FROM {quote_name(table.name)} AS {quote_name(target.alias)}{origin}{where}"
    )


class RowChanger:
    """Changes rows of one table on behalf of one statement."""

    def __init__(self, worker: Worker, plan: ChangePlan, bindings: tuple[Any, ...]) -> None:
        self.worker = worker
        self.plan = plan
        self.table = plan.table
        self.target = plan.statement.target
        self.writer = RowWriter(worker.session.transaction)
        self.foreign_keys = ForeignKeyEnforcer(worker.catalog, self.writer, worker, self.row_with)
        self.changed: list[Row] = []
        """Rows for RETURNING, in order."""
        self._bindings = bindings

    def query(self, query: Query) -> list[tuple[SqlValue, ...]]:
        return self.worker.query(query.text, self._bindings[: query.parameters])

    def finish(self) -> SqlResult:
        """Check the foreign keys and return the result."""
        self.foreign_keys.check()
        session = self.worker.session
        session.changes = len(self.changed)
        session.total_changes += len(self.changed)
        rows: list[tuple[SqlValue, ...]] = []
        if self.plan.returning is not None:
            self.worker.set_changed(self.table, self.changed)
            rows = self.query(self.plan.returning)
        return SqlResult(self.plan.columns, tuple(rows), len(self.changed), session.last_row_id)

    # --- rows ------------------------------------------------------------------------------------

    def new_row(
        self, numbers: tuple[int, ...], values: Sequence[SqlValue], row_id: int | None
    ) -> Row:
        """Return the row to insert, with defaults and all constraints of the row itself."""
        table = self.table
        alias = table.row_id_column
        given = dict(zip(numbers, values, strict=True))
        if alias is not None:
            if given.get(alias) is None:
                row_id = row_id if row_id is not None else self._assign_row_id()
                given[alias] = row_id
            if table.is_autoincrement:
                # A row that is ignored later uses up its id, as in SQLite.
                self.writer.advance_sequence(table, _row_id_value(given[alias]) or 0)
            complete = self._complete(given)
            assigned = complete[alias]
            assert type(assigned) is int
            return Row((assigned,), complete)
        complete = self._complete(given)
        if table.has_row_id and row_id is None:
            row_id = self._assign_row_id()
        return Row(table.row_key_parts(row_id, complete), complete)

    def row_with(self, table: Table, row: Row, replaced: dict[int, Any]) -> Row:
        """Return a row with some values replaced, after all constraints of the row itself."""
        given = {
            number: replaced.get(number, value)
            for number, value in enumerate(row.values)
            if not table.columns[number].is_generated and replaced.get(number) is not USE_DEFAULT
        }
        if table.row_id_column is not None and given[table.row_id_column] is None:
            raise SqlTypeError("datatype mismatch")
        values = self._complete(given, table)
        if table.row_id_column is not None:
            row_id = values[table.row_id_column]
            assert type(row_id) is int
            return Row((row_id,), values)
        return Row(table.row_key_parts(row.row_id(table), values), values)

    def _complete(self, given: dict[int, Any], table: Table | None = None) -> tuple[SqlValue, ...]:
        table = table or self.table
        if len(given) == len(table.columns) and not table.needs_probe:
            values = tuple([given[number] for number in range(len(given))])
            if _is_stored_unchanged(table, values):
                return values
        numbers = tuple(sorted(given))
        return self.worker.probe.convert(table, numbers, [given[each] for each in numbers])

    def _assign_row_id(self) -> int:
        if self.table.is_autoincrement:
            return self.writer.next_in_sequence(self.table)
        session, table = self.worker.session, self.table
        while True:
            row_id = next_row_id(session)
            if session.transaction.pick(table.row_key((row_id,))) is None:
                return row_id

    # --- writes ----------------------------------------------------------------------------------

    def insert(self, row: Row) -> bool:
        """Insert a row. Return False if it was skipped by OR IGNORE."""
        if not self._resolve(self.writer.conflicts(self.table, row)):
            return False
        self.writer.insert(self.table, row)
        self.note_row_id(row)
        self.changed.append(row)
        return True

    def update(self, previous: Row, row: Row) -> None:
        if not self._resolve(self.writer.conflicts(self.table, row, previous)):
            return
        self.writer.update(self.table, previous, row)
        self.changed.append(row)

    def note_row_id(self, row: Row) -> None:
        row_id = row.row_id(self.table)
        if row_id is not None:
            self.worker.session.last_row_id = row_id

    def _resolve(self, conflicts: list[Conflict]) -> bool:
        """Remove the rows in the way, or return False to skip the new row, or raise."""
        if not conflicts:
            return True
        if self.target.resolution == "IGNORE":
            return False
        if self.target.resolution != "REPLACE":
            raise unique_error(self.table, conflicts[0].constraint)
        for conflict in conflicts:
            existing = self.writer.read(self.table, conflict.parts)
            if existing is not None:
                self.writer.delete(self.table, existing)
        return True


def _insert(changer: RowChanger, plan: ChangePlan, statement: Insert) -> None:
    """Insert all rows of the statement."""
    table = changer.table
    numbers, row_id_position = _insert_columns(table, statement.columns)
    if plan.source is None:
        rows: list[tuple[SqlValue, ...]] = [()]
        numbers = ()
    else:
        rows = changer.query(plan.source)
    for values in rows:
        row_id = None
        if row_id_position is not None:
            row_id = _row_id_value(values[row_id_position])
            values = values[:row_id_position] + values[row_id_position + 1 :]
        try:
            row = changer.new_row(numbers, values, row_id)
        except SqlConstraintError as error:
            if statement.target.resolution == "IGNORE" and _is_ignorable(error):
                continue
            if statement.target.resolution != "REPLACE" or "NOT NULL" not in str(error):
                raise
            row = _row_with_defaults(changer, numbers, values, row_id)
        if not (plan.upserts and _upsert(changer, plan.upserts, row)):
            changer.insert(row)


def _update(changer: RowChanger, plan: ChangePlan, statement: Update) -> None:
    """Update all rows that satisfy the condition."""
    assert plan.source is not None
    table = changer.table
    numbers, row_id_position = _assigned_columns(table, statement.assignments)
    width = len(table.primary_key.columns)
    # A row that a FROM clause joins several times is updated once, with the last values.
    by_key = {
        table.selected_key_parts(found[:width]): found[width:]
        for found in changer.query(plan.source)
    }
    for parts, assigned in by_key.items():
        previous = changer.writer.read(table, parts)
        if previous is not None:
            _update_row(changer, previous, numbers, row_id_position, assigned)


def _update_row(
    changer: RowChanger,
    previous: Row,
    numbers: tuple[int | None, ...],
    row_id_position: int | None,
    assigned: tuple[SqlValue, ...],
) -> None:
    replaced = {
        number: value for number, value in zip(numbers, assigned, strict=True) if number is not None
    }
    try:
        row = changer.row_with(changer.table, previous, replaced)
    except SqlConstraintError as error:
        if changer.target.resolution == "IGNORE" and _is_ignorable(error):
            return
        raise
    if row_id_position is not None:
        row_id = _row_id_value(assigned[row_id_position])
        if row_id is None:
            raise SqlTypeError("datatype mismatch")
        row = Row((row_id,), row.values)
    changer.update(previous, row)


def _delete(changer: RowChanger) -> None:
    """Delete all rows that satisfy the condition."""
    table, source = changer.table, changer.plan.source
    assert source is not None
    for key in changer.query(source):
        row = changer.writer.read(table, table.selected_key_parts(key))
        if row is not None:
            changer.writer.delete(table, row)
            changer.changed.append(row)


class ResolvedUpsert:
    """ON CONFLICT clause with the constraint that it names and the query of its new values."""

    def __init__(self, table: Table, target: Target, clause: Upsert) -> None:
        self.assignments = clause.assignments
        self.index: Index | None = None
        self.query: Query | None = None
        if clause.target is not None:
            wanted = {_column_number(table, name) for name in clause.target}
            self.index = next(
                index
                for index in (table.primary_key, *table.indexes)
                if index.unique and set(index.columns) == wanted
            )
        if clause.assignments is not None:
            # Each expression has a scope of its own, in which a column without a table name is
            # that of the existing row.
            existing = quote_name(CHANGED_PREFIX + table.name)
            scope = f"FROM {existing} AS {quote_name(target.alias)}"
            expressions = [f"(SELECT {each} {scope})" for each in clause.assignments.expressions]
            where = f" WHERE (SELECT {clause.where} {scope})" if clause.where else ""
            excluded = quote_name(EXCLUDED_PREFIX + table.name)
            selected = ", ".join(expressions)
            self.query = Query.of(
                f"{target.prefix} SELECT {selected} FROM {excluded} AS excluded{where}"
            )

    def handles(self, conflict: Conflict) -> bool:
        return self.index is None or self.index is conflict.constraint


def _upsert(changer: RowChanger, upserts: tuple[ResolvedUpsert, ...], row: Row) -> bool:
    """Resolve a conflict of the new row by a clause. Return False if there is none to resolve."""
    conflicts = changer.writer.conflicts(changer.table, row)
    for upsert in upserts:
        for conflict in conflicts:
            if upsert.handles(conflict):
                if upsert.assignments is not None:
                    _update_conflicting(changer, upsert, conflict, row)
                return True
    return False


def _update_conflicting(
    changer: RowChanger, upsert: ResolvedUpsert, conflict: Conflict, row: Row
) -> None:
    assert upsert.assignments is not None
    assert upsert.query is not None
    table, worker = changer.table, changer.worker
    existing = changer.writer.read(table, conflict.parts)
    assert existing is not None, "a conflicting row exists"
    worker.set_changed(table, [existing])
    worker.set_excluded(table, [row])
    found = changer.query(upsert.query)
    if found:
        numbers, row_id_position = _assigned_columns(table, upsert.assignments)
        _update_row(changer, existing, numbers, row_id_position, found[0])


def _insert_columns(
    table: Table, names: tuple[str, ...] | None
) -> tuple[tuple[int, ...], int | None]:
    """Return the numbers of the given columns, and the position of the row id among them."""
    if names is None:
        columns = enumerate(table.columns)
        return tuple(number for number, column in columns if not column.is_generated), None
    numbers = [_column_number(table, name) for name in names]
    position = numbers.index(-1) if -1 in numbers else None
    return tuple(number for number in numbers if number != -1), position


def _assigned_columns(
    table: Table, assignments: Assignments
) -> tuple[tuple[int | None, ...], int | None]:
    """Return the numbers of the assigned columns, and the position of the row id among them."""
    numbers = [_column_number(table, name) for name in assignments.columns]
    position = numbers.index(-1) if -1 in numbers else None
    return tuple(None if number == -1 else number for number in numbers), position


def _column_number(table: Table, name: str) -> int:
    number = table.column_numbers.get(name.lower())
    if number is not None:
        return number
    assert name.lower() in _ROW_ID_NAMES, "SQLite has checked the names of the columns"
    return -1 if table.row_id_column is None else table.row_id_column


def _row_id_value(value: SqlValue) -> int | None:
    if value is None or type(value) is int:
        return value
    if type(value) is float and value.is_integer() and abs(value) < 2.0**63:
        return int(value)
    if type(value) is str and value.strip().lstrip("+-").isdigit():
        return int(value)
    raise SqlTypeError("datatype mismatch")


def _row_with_defaults(
    changer: RowChanger, numbers: tuple[int, ...], values: Sequence[SqlValue], row_id: int | None
) -> Row:
    """Return the row of INSERT OR REPLACE, in which a default replaces a forbidden NULL."""
    columns = changer.table.columns
    kept = [
        (number, value)
        for number, value in zip(numbers, values, strict=True)
        if value is not None or not columns[number].not_null or columns[number].default is None
    ]
    return changer.new_row(
        tuple(number for number, _ in kept), [value for _, value in kept], row_id
    )


def _is_ignorable(error: SqlConstraintError) -> bool:
    return str(error).startswith(("NOT NULL", "CHECK"))


def _is_stored_unchanged(table: Table, values: tuple[SqlValue, ...]) -> bool:
    """True if SQLite would store these values as they are, without an error."""
    for column, value in zip(table.columns, values, strict=True):
        if value is None:
            if column.not_null:
                return False
        elif _EXACT_TYPES.get(column.affinity) is not type(value) or (
            type(value) is float and not 0.0 < abs(value) < 1e308  # -0.0 is stored as 0.0
        ):
            return False
    return True
