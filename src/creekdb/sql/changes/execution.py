"""Execution of INSERT, UPDATE and DELETE: a query first, then the writes.

The query finds all rows and evaluates all expressions before the first write. So a statement never
reads rows that it has written itself, and its expressions read the tables as they were before.
"""

from collections.abc import Sequence
from typing import Any, Final

from creekdb.errors import SqlConstraintError, SqlTypeError
from creekdb.sql.catalog import Table
from creekdb.sql.changes.foreign_keys import ForeignKeyEnforcer
from creekdb.sql.changes.plan import AssignedColumns, ChangePlan, Query, ResolvedUpsert
from creekdb.sql.changes.row_ids import next_row_id
from creekdb.sql.changes.row_writer import USE_DEFAULT, Conflict, Row, RowWriter, unique_error
from creekdb.sql.key_codec import SqlValue
from creekdb.sql.result import SqlResult
from creekdb.sql.worker import Worker

UNCHECKED_SIZE_MAX: Final = 1_000_000
"""Size of a text or blob that certainly respects the limits of SQLite."""


def execute_change(plan: ChangePlan, worker: Worker, bindings: tuple[Any, ...]) -> SqlResult:
    """Execute a statement. It has no effect if it raises.

    Only OR FAIL keeps the rows before the one that violates a constraint, if these rows satisfy
    the foreign keys.
    """
    changer = RowChanger(worker, plan, bindings)
    failure: SqlConstraintError | None = None
    try:
        try:
            if plan.inserted is not None:
                _insert(changer)
            elif plan.assigned is not None:
                _update(changer, plan.assigned)
            else:
                _delete(changer)
        except RowFailure as failed:
            changer.writer.undo(changer.row_position)
            failure = failed.args[0]
        result = changer.finish()
    except Exception:
        changer.writer.undo()
        raise
    if failure is not None:
        raise failure
    return result


class RowFailure(Exception):
    """Row that violates a constraint in a statement with OR FAIL. Its argument is the error."""


class RowChanger:
    """Changes rows of one table on behalf of one statement."""

    __slots__ = (
        "_bindings",
        "_foreign_keys",
        "changed",
        "plan",
        "row_position",
        "table",
        "worker",
        "writer",
    )

    def __init__(self, worker: Worker, plan: ChangePlan, bindings: tuple[Any, ...]) -> None:
        self.worker = worker
        self.plan = plan
        self.table = plan.table
        self.writer = RowWriter(worker.session.transaction)
        self._foreign_keys: ForeignKeyEnforcer | None = None
        if worker.catalog.has_foreign_keys:
            self._foreign_keys = ForeignKeyEnforcer(
                worker.catalog, self.writer, worker, self.row_with
            )
        self.changed: list[Row] = []
        """Rows for RETURNING, in order."""
        self.row_position = 0
        """Position of the writer before the current row of the statement."""
        self._bindings = bindings

    def query(self, query: Query | None) -> list[tuple[SqlValue, ...]]:
        if query is None:
            return [()]  # DEFAULT VALUES
        bindings = self._bindings[: query.parameters]
        return self.worker.query(query.text, bindings, query.is_bounded)

    def inserted_rows(self) -> list[tuple[SqlValue, ...]]:
        """Return the rows of an INSERT. SQLite is not needed for plain parameters."""
        rows, bindings = self.plan.parameter_rows, self._bindings
        if rows is None or not _are_values_unchanged(bindings):
            return self.query(self.plan.source)
        return [
            tuple([None if position < 0 else bindings[position] for position in row])
            for row in rows
        ]

    def finish(self) -> SqlResult:
        """Check the foreign keys and return the result."""
        if self._foreign_keys is not None:
            self._foreign_keys.check()
        session, count = self.worker.session, len(self.changed)
        session.changes = count
        session.total_changes += count
        rows: list[tuple[SqlValue, ...]] = []
        numbers = self.plan.returned_columns
        if self.plan.returning is not None and numbers is not None:
            rows = [tuple([row.values[each] for each in numbers]) for row in self.changed]
        elif self.plan.returning is not None:
            self.worker.set_changed(self.table, self.changed)
            rows = self.query(self.plan.returning)
        return SqlResult(self.plan.columns, tuple(rows), count, session.last_row_id)

    # --- rows ------------------------------------------------------------------------------------

    def new_row(
        self, numbers: tuple[int, ...], values: Sequence[SqlValue], row_id: int | None
    ) -> Row:
        """Return the row to insert, with defaults and all constraints of the row itself."""
        table = self.table
        alias = table.row_id_column
        is_whole = self.plan.inserts_whole_rows and len(values) == len(table.columns)
        if is_whole and _is_stored_unchanged(table, values):
            complete = tuple(values)
            if alias is not None:
                return Row((_alias_value(table, complete),), complete)
            if not table.has_row_id:
                return Row(table.primary_key.encode(complete), complete)
        given: dict[int, Any] = dict(zip(numbers, values, strict=True))
        if alias is None:
            if table.has_row_id and row_id is None:
                row_id = self._assign_row_id()
            complete = self._complete(table, given, row_id)
            return Row(table.row_key_parts(row_id, complete), complete)
        if given.get(alias) is None:
            given[alias] = row_id if row_id is not None else self._assign_row_id()
        if table.is_autoincrement:
            # A row that is ignored later uses up its id, as in SQLite.
            self.writer.advance_sequence(table, self.row_id(given[alias]) or 0)
        complete = self._complete(table, given)
        return Row((_alias_value(table, complete),), complete)

    def row_with(
        self, table: Table, row: Row, replaced: dict[int, Any], row_id: int | None = None
    ) -> Row:
        """Return a row with some values replaced, after all constraints of the row itself.

        `row_id` replaces the row id of a table in which no column shows it.
        """
        if row_id is not None:
            row = Row((row_id,), row.values)
        if not table.needs_probe and _are_stored_unchanged(table, replaced):
            changed = list(row.values)
            for number, value in replaced.items():
                changed[number] = value
            values = tuple(changed)
        else:
            given = {
                number: replaced.get(number, value)
                for number, value in enumerate(row.values)
                if not table.columns[number].is_generated
                and replaced.get(number) is not USE_DEFAULT
            }
            if table.row_id_column is not None and given[table.row_id_column] is None:
                raise SqlTypeError("datatype mismatch")
            values = self._complete(table, given, row.row_id(table))
        if table.row_id_column is not None:
            return Row((_alias_value(table, values),), values)
        if replaced.keys().isdisjoint(table.primary_key.columns):
            return Row(row.parts, values)
        return Row(table.row_key_parts(row.row_id(table), values), values)

    def _complete(
        self, table: Table, given: dict[int, Any], row_id: int | None = None
    ) -> tuple[SqlValue, ...]:
        if not table.needs_probe:
            for number in table.columns_without_default:
                given.setdefault(number, None)
            if len(given) == len(table.columns) and _are_stored_unchanged(table, given):
                return tuple([given[number] for number in range(len(given))])
        numbers = tuple(sorted(given))
        values = [given[each] for each in numbers]
        if not table.needs_probe or table.row_id_column is not None:
            row_id = None  # no CHECK reads it, or a column shows it
        return self.worker.probe.convert(table, numbers, values, row_id)

    def row_id(self, value: SqlValue) -> int | None:
        """Return a value as a row id, None for NULL, or raise `SqlTypeError`."""
        if type(value) is str:
            value = self.worker.probe.to_number(value)
        if value is None or type(value) is int:
            return value
        if type(value) is float and value.is_integer() and -(2.0**63) <= value < 2.0**63:
            return int(value)
        raise SqlTypeError("datatype mismatch")

    def _assign_row_id(self) -> int:
        if self.table.is_autoincrement:
            return self.writer.next_in_sequence(self.table)
        session, table = self.worker.session, self.table
        while True:
            row_id = next_row_id(session)
            if session.transaction.pick(table.row_key((row_id,))) is None:
                return row_id

    # --- writes ----------------------------------------------------------------------------------

    def insert(self, row: Row) -> None:
        """Insert a row, or skip it by OR IGNORE."""
        if self._resolve(self.writer.conflicts(self.table, row), self.plan.resolution):
            self.writer.insert(self.table, row)
            self.changed.append(row)
            row_id = row.row_id(self.table)
            if row_id is not None:
                self.worker.session.last_row_id = row_id

    def update(self, previous: Row, row: Row, changes_keys: bool, resolution: str) -> None:
        """Update a row, or skip it if the resolution of conflicts is IGNORE."""
        if not changes_keys:
            self.writer.update_in_place(self.table, previous, row)
        elif self._resolve(self.writer.conflicts(self.table, row, previous), resolution):
            self.writer.update(self.table, previous, row)
        else:
            return
        self.changed.append(row)

    def _resolve(self, conflicts: list[Conflict], resolution: str) -> bool:
        """Remove the rows in the way, or return False to skip the new row, or raise."""
        if not conflicts:
            return True
        if resolution == "IGNORE":
            return False
        if resolution != "REPLACE":
            error = unique_error(self.table, conflicts[0].constraint)
            raise RowFailure(error) if resolution == "FAIL" else error
        for conflict in conflicts:
            existing = self.writer.read(self.table, conflict.parts)
            if existing is not None:
                self.writer.delete(self.table, existing)
        return True


def _insert(changer: RowChanger) -> None:
    """Insert all rows of the statement."""
    plan = changer.plan
    inserted, resolution = plan.inserted, plan.resolution
    assert inserted is not None
    position = inserted.row_id_position
    for values in changer.inserted_rows():
        changer.row_position = changer.writer.position
        numbers, row_id = inserted.numbers, None
        if position is not None:
            row_id = changer.row_id(values[position])
            values = values[:position] + values[position + 1 :]
        if resolution == "REPLACE":
            numbers, values = _without_forbidden_nulls(changer.table, numbers, values)
        try:
            row = changer.new_row(numbers, values, row_id)
        except SqlConstraintError as error:
            if resolution == "IGNORE" and _is_resolvable(error):
                continue
            if resolution == "FAIL" and _is_resolvable(error):
                raise RowFailure(error) from None
            raise
        if not (plan.upserts and _upsert(changer, row)):
            changer.insert(row)


def _update(changer: RowChanger, assigned: AssignedColumns) -> None:
    """Update all rows that satisfy the condition."""
    table, writer = changer.table, changer.writer
    width = len(table.primary_key.columns)
    # A row that a FROM clause joins several times is updated once, with the last values.
    by_key = {
        table.selected_key_parts(found[:width]): found[width:]
        for found in changer.query(changer.plan.source)
    }
    for parts, values in by_key.items():
        previous = writer.read(table, parts)
        changer.row_position = writer.position
        if previous is not None:
            _update_row(changer, previous, assigned, values, changer.plan.resolution)


def _update_row(
    changer: RowChanger,
    previous: Row,
    assigned: AssignedColumns,
    values: tuple[SqlValue, ...],
    resolution: str,
) -> None:
    replaced: dict[int, Any] = {
        number: value
        for number, value in zip(assigned.numbers, values, strict=True)
        if number is not None
    }
    row_id = None
    if assigned.row_id_position is not None:
        row_id = changer.row_id(values[assigned.row_id_position])
        if row_id is None:
            raise SqlTypeError("datatype mismatch")
    try:
        row = changer.row_with(changer.table, previous, replaced, row_id)
    except SqlConstraintError as error:
        if resolution == "IGNORE" and _is_resolvable(error):
            return
        if resolution == "FAIL" and _is_resolvable(error):
            raise RowFailure(error) from None
        if resolution != "REPLACE" or not str(error).startswith("NOT NULL"):
            raise
        columns = changer.table.columns
        for number, value in replaced.items():
            if value is None and columns[number].not_null and columns[number].default is not None:
                replaced[number] = USE_DEFAULT
        row = changer.row_with(changer.table, previous, replaced, row_id)
    changer.update(previous, row, assigned.changes_keys, resolution)


def _delete(changer: RowChanger) -> None:
    """Delete all rows that satisfy the condition."""
    table, writer = changer.table, changer.writer
    for key in changer.query(changer.plan.source):
        row = writer.read(table, table.selected_key_parts(key))
        if row is not None:
            writer.delete(table, row)
            changer.changed.append(row)


def _upsert(changer: RowChanger, row: Row) -> bool:
    """Resolve a conflict of the new row by a clause. Return False if there is none to resolve."""
    conflicts = changer.writer.conflicts(changer.table, row)
    for upsert in changer.plan.upserts:
        for conflict in conflicts:
            if upsert.handles(conflict):
                _update_conflicting(changer, upsert, conflict, row)
                return True
    return False


def _update_conflicting(
    changer: RowChanger, upsert: ResolvedUpsert, conflict: Conflict, row: Row
) -> None:
    if upsert.assigned is None:
        return  # DO NOTHING
    table, worker = changer.table, changer.worker
    existing = changer.writer.read(table, conflict.parts)
    assert existing is not None, "a conflicting row exists"
    worker.set_changed(table, [existing])
    worker.set_excluded(table, [row])
    for values in changer.query(upsert.query):
        # The resolution of the INSERT does not apply to the update.
        _update_row(changer, existing, upsert.assigned, values, "ABORT")


def _alias_value(table: Table, values: tuple[SqlValue, ...]) -> int:
    assert table.row_id_column is not None
    row_id = values[table.row_id_column]
    assert type(row_id) is int, "an INTEGER PRIMARY KEY is an integer"
    return row_id


def _without_forbidden_nulls(
    table: Table, numbers: tuple[int, ...], values: tuple[SqlValue, ...]
) -> tuple[tuple[int, ...], tuple[SqlValue, ...]]:
    """Return the columns and values of INSERT OR REPLACE, without NULLs that a default replaces."""
    columns = table.columns
    kept = [
        (number, value)
        for number, value in zip(numbers, values, strict=True)
        if value is not None or not columns[number].not_null or columns[number].default is None
    ]
    return tuple([number for number, _ in kept]), tuple([value for _, value in kept])


def _is_resolvable(error: SqlConstraintError) -> bool:
    """True if OR IGNORE and OR FAIL apply to this violation of a row by itself."""
    return str(error).startswith(("NOT NULL", "CHECK"))


def _are_values_unchanged(bindings: tuple[Any, ...]) -> bool:
    """True if SQLite would return these parameters as they are, without an error."""
    for value in bindings:
        if type(value) is float:
            if value != value:  # NaN is NULL
                return False
        elif type(value) is str:
            if not value.isascii() or len(value) > UNCHECKED_SIZE_MAX:
                return False
        elif type(value) is bytes and len(value) > UNCHECKED_SIZE_MAX:
            return False
    return True


def _is_stored_unchanged(table: Table, values: Sequence[Any]) -> bool:
    """True if SQLite would store this whole row as it is, without an error."""
    types = table.stored_types
    for number in range(len(types)):
        kind, is_nullable = types[number]
        if not _is_exact(values[number], kind, is_nullable):
            return False
    return True


def _are_stored_unchanged(table: Table, values: dict[int, Any]) -> bool:
    """True if SQLite would store these values of columns as they are, without an error."""
    types = table.stored_types
    for number, value in values.items():
        kind, is_nullable = types[number]
        if not _is_exact(value, kind, is_nullable):
            return False
    return True


def _is_exact(value: Any, kind: type | None, is_nullable: bool) -> bool:
    """True if a column that stores this type needs no conversion of the value."""
    if value is None:
        return is_nullable
    if kind is float and type(value) is float:
        return 0.0 < abs(value) < 1e308  # -0.0 is stored as 0.0
    return kind is not None and type(value) is kind
