"""Foreign keys: actions on child rows, and checks at the end of a statement.

Foreign keys are always enforced. A check finds parents and children by queries, so it uses the
primary key or an index, and compares as SQLite does. Without an index on the columns of a foreign
key, a change of a parent reads all its children.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from creekdb.errors import SqlConstraintError
from creekdb.sql.catalog import Catalog, ForeignKey, Table
from creekdb.sql.changes.row_writer import USE_DEFAULT, Row, RowWriter, unique_error
from creekdb.sql.key_codec import SqlValue, collate
from creekdb.sql.tokens import quote_name

ACTION_DEPTH_MAX: Final = 100
"""Maximum length of a chain of cascading actions."""


class RowFinder(Protocol):
    """Port to queries on the tables."""

    def find(self, table: Table, query: str, values: tuple[SqlValue, ...]) -> list[Row]:
        """Return the keys of the rows that a query finds with these values."""


class _ChildCheck(NamedTuple):
    key: ForeignKey
    table: Table
    row: Row


class _ParentCheck(NamedTuple):
    key: ForeignKey
    values: tuple[SqlValue, ...]


class ForeignKeyEnforcer:
    """Enforces the foreign keys during one statement."""

    def __init__(
        self,
        catalog: Catalog,
        writer: RowWriter,
        finder: RowFinder,
        convert: Callable[[Table, Row, dict[int, Any]], Row],
    ) -> None:
        """`convert` returns a row with some values replaced, after all its other constraints."""
        self._catalog = catalog
        self._writer = writer
        self._finder = finder
        self._convert = convert
        self._child_checks: list[_ChildCheck] = []
        self._parent_checks: list[_ParentCheck] = []
        self._depth = 0
        writer.on_insert = self._on_insert
        writer.on_update = self._on_update
        writer.on_delete = self._on_delete

    def check(self) -> None:
        """Check all rows that the statement changed. Raise `SqlConstraintError`."""
        for key, table, row in self._child_checks:
            current = self._writer.read(table, row.parts)
            if current is None:
                continue
            values = _values(table, key.columns, current)
            if None not in values and not self._parents(key, values):
                raise _violation()
        for parent_check in self._parent_checks:
            key, values = parent_check
            if self._children(key, values) and not self._parents(key, values):
                raise _violation()

    def _on_insert(self, table: Table, row: Row) -> None:
        self._child_checks += [_ChildCheck(key, table, row) for key in table.foreign_keys]

    def _on_update(self, table: Table, previous: Row, row: Row) -> None:
        is_moved = previous.parts != row.parts
        for key in table.foreign_keys:
            if is_moved or (
                _values(table, key.columns, previous) != _values(table, key.columns, row)
            ):
                self._child_checks.append(_ChildCheck(key, table, row))
        for key in self._catalog.children.get(table.name.lower(), ()):
            old = _values(table, key.parent_columns, previous)
            new = _values(table, key.parent_columns, row)
            if None not in old and not _are_equal(table, key.parent_columns, old, new):
                self._act(key, key.on_update, old, new)

    def _on_delete(self, table: Table, row: Row) -> None:
        for key in self._catalog.children.get(table.name.lower(), ()):
            old = _values(table, key.parent_columns, row)
            if None not in old:
                self._act(key, key.on_delete, old, None)

    def _act(
        self,
        key: ForeignKey,
        action: str,
        old: tuple[SqlValue, ...],
        new: tuple[SqlValue, ...] | None,
    ) -> None:
        if action == "NO ACTION":
            self._parent_checks.append(_ParentCheck(key, old))
            return
        children = self._children(key, old)
        if action == "RESTRICT":
            if children:
                raise _violation()
            return
        self._depth += 1
        if self._depth > ACTION_DEPTH_MAX:
            raise SqlConstraintError("too many levels of foreign key actions")
        table = self._catalog.tables[key.child.lower()]
        for child in children:
            current = self._writer.read(table, child.parts)
            if current is None:
                continue
            if action == "CASCADE" and new is None:
                self._writer.delete(table, current)
            else:
                self._reassign(key, table, current, new if action == "CASCADE" else None, action)
        self._depth -= 1

    def _reassign(
        self,
        key: ForeignKey,
        table: Table,
        child: Row,
        new: tuple[SqlValue, ...] | None,
        action: str,
    ) -> None:
        numbers = [table.column_numbers[column.lower()] for column in key.columns]
        if new is not None:
            replaced: dict[int, Any] = dict(zip(numbers, new, strict=True))
        elif action == "SET NULL":
            replaced = dict.fromkeys(numbers)
        else:
            replaced = dict.fromkeys(numbers, USE_DEFAULT)
        row = self._convert(table, child, replaced)
        conflicts = self._writer.conflicts(table, row, child)
        if conflicts:  # whatever the statement resolves, an action resolves no conflicts
            raise unique_error(table, conflicts[0].constraint)
        # Even if the row does not change: its default may be the parent that is deleted.
        self._child_checks.append(_ChildCheck(key, table, row))
        self._writer.update(table, child, row)

    def _parents(self, key: ForeignKey, values: tuple[SqlValue, ...]) -> list[Row]:
        table = self._catalog.tables.get(key.parent.lower())
        if table is None:
            return []
        conditions = [
            f"{quote_name(name)} = ?{at}" for at, name in enumerate(key.parent_columns, 1)
        ]
        return self._finder.find(table, _find_query(table, conditions), values)

    def _children(self, key: ForeignKey, values: tuple[SqlValue, ...]) -> list[Row]:
        """Return the children of a parent key, compared as the columns of the parent are."""
        child = self._catalog.tables[key.child.lower()]
        parent = self._catalog.tables[key.parent.lower()]
        conditions = []
        for at, name in enumerate(key.columns, 1):
            column = child.columns[child.column_numbers[name.lower()]]
            model = parent.columns[parent.column_numbers[key.parent_columns[at - 1].lower()]]
            value = f"?{at}"
            if model.affinity not in ("BLOB", column.affinity):
                value = f"CAST({value} AS {model.affinity})"
            if model.collation != column.collation:
                value = f"{value} COLLATE {model.collation}"
            conditions.append(f"{value} = {quote_name(column.name)}")
        return self._finder.find(child, _find_query(child, conditions), values)


def _values(table: Table, columns: tuple[str, ...], row: Row) -> tuple[SqlValue, ...]:
    return tuple([row.values[table.column_numbers[column.lower()]] for column in columns])


def _are_equal(
    table: Table,
    columns: tuple[str, ...],
    first: tuple[SqlValue, ...],
    second: tuple[SqlValue, ...],
) -> bool:
    """True if the values are equal under the collations of these columns."""
    for name, one, other in zip(columns, first, second, strict=True):
        if isinstance(one, str) and isinstance(other, str):
            collation = table.columns[table.column_numbers[name.lower()]].collation
            one, other = collate(one, collation), collate(other, collation)
        if one != other:
            return False
    return True


def _violation() -> SqlConstraintError:
    return SqlConstraintError("FOREIGN KEY constraint failed")


def _find_query(table: Table, conditions: list[str]) -> str:
    """Return the query of the keys of all rows that satisfy the conditions."""
    where = " AND ".join(conditions)
    return f"SELECT {key_columns(table)} FROM {quote_name(table.name)} WHERE {where}"


def key_columns(table: Table, alias: str | None = None) -> str:
    """Return the expressions of a row's key."""
    prefix = "" if alias is None else f"{quote_name(alias)}."
    if table.has_row_id:
        return prefix + table.row_id_name
    return ", ".join(
        prefix + quote_name(table.columns[column].name) for column in table.primary_key.columns
    )
