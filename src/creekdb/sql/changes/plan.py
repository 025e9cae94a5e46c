"""Plans of INSERT, UPDATE and DELETE: the queries that evaluate their parts."""

from collections.abc import Container
from typing import Final, NamedTuple

from creekdb.sql.catalog import ROW_ID_NAMES, Index, Table
from creekdb.sql.changes.foreign_keys import key_columns
from creekdb.sql.changes.row_writer import Conflict
from creekdb.sql.queries.virtual_tables import CHANGED_PREFIX, EXCLUDED_PREFIX
from creekdb.sql.statements import (
    Assignments,
    Change,
    Insert,
    Target,
    Update,
    Upsert,
    greatest_parameter,
    is_bounded,
)
from creekdb.sql.tokens import TokenKind, quote_name, split_at_commas, tokenize

_LITERAL_WORDS: Final = frozenset(
    ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "FALSE", "NULL", "TRUE")
)
"""Words that are no columns, even if columns have these names."""


class Query(NamedTuple):
    """Query that evaluates a part of a statement."""

    text: str
    parameters: int
    """Number of parameters that the query takes."""
    is_bounded: bool
    """True if its instructions need not be counted (`is_bounded`)."""

    @classmethod
    def of(cls, text: str, views: Container[str]) -> "Query":
        return cls(text, greatest_parameter(text), is_bounded(text, views))


class AssignedColumns:
    """Columns that a SET clause assigns."""

    __slots__ = ("changes_keys", "numbers", "row_id_position")

    def __init__(self, table: Table, assignments: Assignments) -> None:
        numbers = [column_number(table, name) for name in assignments.columns]
        self.row_id_position = numbers.index(-1) if -1 in numbers else None
        """Position of the row id among the assigned values, None if it is not assigned."""
        self.numbers = tuple([None if number == -1 else number for number in numbers])
        """Numbers of the columns, None for the row id."""
        keys = {column for index in (table.primary_key, *table.indexes) for column in index.columns}
        generated = any(column.is_generated for column in table.columns)
        self.changes_keys = generated or not keys.isdisjoint(numbers)
        """True if an assignment may change the key of a row or of an index entry."""


class InsertedColumns:
    """Columns that an INSERT provides."""

    __slots__ = ("numbers", "row_id_position")

    def __init__(self, table: Table, statement: Insert) -> None:
        self.row_id_position = None
        """Position of the row id among the values, None if it is not given."""
        if statement.source is None:
            numbers: list[int] = []
        elif statement.columns is None:
            columns = enumerate(table.columns)
            numbers = [number for number, column in columns if not column.is_generated]
        else:
            numbers = [column_number(table, name) for name in statement.columns]
            if -1 in numbers:
                self.row_id_position = numbers.index(-1)
        self.numbers = tuple([number for number in numbers if number != -1])
        """Numbers of the columns, without the row id."""


class ResolvedUpsert:
    """ON CONFLICT clause with the constraint that it names and the query of its new values."""

    __slots__ = ("assigned", "constraint", "query")

    def __init__(self, table: Table, target: Target, clause: Upsert, views: Container[str]) -> None:
        self.constraint: Index | None = None
        """Constraint that the clause handles, None for any."""
        self.assigned: AssignedColumns | None = None
        """None for DO NOTHING."""
        self.query: Query | None = None
        if clause.target is not None:
            wanted = {column_number(table, name) for name in clause.target}
            self.constraint = next(
                index for index in table.unique_constraints if set(index.columns) == wanted
            )
        if clause.assignments is not None:
            self.assigned = AssignedColumns(table, clause.assignments)
            # Each expression has a scope of its own, in which a column without a table name is
            # that of the existing row.
            existing = quote_name(CHANGED_PREFIX + table.name)
            scope = f"FROM {existing} AS {quote_name(target.alias)}"
            expressions = [f"(SELECT {each} {scope})" for each in clause.assignments.expressions]
            where = f" WHERE (SELECT {clause.where} {scope})" if clause.where else ""
            excluded = quote_name(EXCLUDED_PREFIX + table.name)
            selected = ", ".join(expressions)
            text = f"{target.prefix} SELECT {selected} FROM {excluded} AS excluded{where}"
            # The scopes have one row each.
            written = (*clause.assignments.expressions, clause.where)
            is_simple = all(is_bounded(f"SELECT 1, {each}", views) for each in written)
            self.query = Query(text, greatest_parameter(text), is_simple and not target.prefix)

    def handles(self, conflict: Conflict) -> bool:
        return self.constraint is None or self.constraint is conflict.constraint


class ChangePlan:
    """Compiled statement that changes rows."""

    __slots__ = (
        "assigned",
        "columns",
        "inserted",
        "inserts_whole_rows",
        "parameter_rows",
        "resolution",
        "returned_columns",
        "returning",
        "source",
        "statement",
        "table",
        "upserts",
    )

    def __init__(
        self,
        statement: Change,
        table: Table,
        columns: tuple[str, ...] = (),
        views: Container[str] = (),
    ) -> None:
        """`columns` are those that RETURNING yields, `views` the lower-case names of all views."""
        self.statement = statement
        self.table = table
        self.columns = columns
        self.resolution = statement.target.resolution
        self.source = _source_query(table, statement, views)
        """Query of the rows to insert, or of the keys and new values of the rows to change. None
        for DEFAULT VALUES."""
        self.parameter_rows = _parameter_rows(self.source)
        """For VALUES whose items are parameters or NULL: the position of the parameter of each
        item, -1 for NULL, by row. None for any other source."""
        self.returning = _returning_query(table, statement, views)
        self.returned_columns = _plain_columns(table, statement.returning)
        """Numbers of the columns that RETURNING lists, None if it contains anything else."""
        self.assigned: AssignedColumns | None = None
        self.inserted: InsertedColumns | None = None
        self.inserts_whole_rows = False
        """True if an INSERT provides all columns of the table in order, and nothing else."""
        self.upserts: tuple[ResolvedUpsert, ...] = ()
        if isinstance(statement, Update):
            self.assigned = AssignedColumns(table, statement.assignments)
        elif isinstance(statement, Insert):
            self.inserted = InsertedColumns(table, statement)
            self.inserts_whole_rows = (
                self.inserted.numbers == tuple(range(len(table.columns)))
                and self.inserted.row_id_position is None
                and not table.needs_probe
                and not table.is_autoincrement
            )
            self.upserts = tuple(
                [ResolvedUpsert(table, statement.target, each, views) for each in statement.upserts]
            )


def column_number(table: Table, name: str) -> int:
    """Return the number of a column, -1 for a row id without one."""
    number = table.column_numbers.get(name.lower())
    if number is not None:
        return number
    assert name.lower() in ROW_ID_NAMES, "SQLite has checked the names of the columns"
    return -1 if table.row_id_column is None else table.row_id_column


def _returning_query(table: Table, statement: Change, views: Container[str]) -> Query | None:
    if not statement.returning:
        return None
    target = statement.target
    return Query.of(
        f"{target.prefix} SELECT {statement.returning} "
        f"FROM {quote_name(CHANGED_PREFIX + table.name)} AS {quote_name(target.alias)}",
        views,
    )


def _parameter_rows(source: Query | None) -> tuple[tuple[int, ...], ...] | None:
    tokens = [] if source is None else tokenize(source.text)
    if not tokens or tokens[0].word != "VALUES":
        return None
    rows: list[tuple[int, ...]] = []
    for part in split_at_commas(tokens[1:], 0):
        if part[0].text != "(" or part[-1].text != ")":
            return None
        positions: list[int] = []
        for item in split_at_commas(part[1:-1], 1):
            is_parameter = len(item) == 1 and item[0].kind is TokenKind.PARAMETER
            if is_parameter:
                positions.append(int(item[0].text[1:]) - 1)
            elif len(item) == 1 and item[0].word == "NULL":
                positions.append(-1)
            else:
                return None
        rows.append(tuple(positions))
    return tuple(rows)


def _plain_columns(table: Table, returning: str) -> tuple[int, ...] | None:
    """Return the numbers of the listed columns, None if the list contains anything else."""
    numbers: list[int] = []
    for part in split_at_commas(tokenize(returning), 0):
        is_plain = len(part) == 1 and part[0].kind is TokenKind.WORD
        if not is_plain or part[0].word in _LITERAL_WORDS:
            return None
        number = table.column_numbers.get(part[0].text.lower())
        if number is None:
            return None
        numbers.append(number)
    return tuple(numbers)


def _source_query(table: Table, statement: Change, views: Container[str]) -> Query | None:
    target = statement.target
    if isinstance(statement, Insert):
        if statement.source is None:
            return None
        if target.prefix and statement.source.upper().startswith("WITH"):
            return Query.of(f"{target.prefix} SELECT * FROM ({statement.source})", views)
        return Query.of(f"{target.prefix} {statement.source}", views)
    selected = key_columns(table, target.alias)
    origin = ""
    if isinstance(statement, Update):
        expressions = [f"({each})" for each in statement.assignments.expressions]
        selected = ", ".join((selected, *expressions))
        origin = f", {statement.origin}" if statement.origin else ""
    where = f" WHERE {statement.where}" if statement.where else ""
    return Query.of(
        f"{target.prefix} SELECT {selected} "
        f"FROM {quote_name(table.name)} AS {quote_name(target.alias)}{origin}{where}",
        views,
    )
