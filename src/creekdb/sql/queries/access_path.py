"""Access paths: which registers a query reads, chosen when SQLite plans it.

SQLite offers constraints on columns and an order. `choose_path` selects the primary key or an index
with the longest prefix of equalities, followed by a range. The path must yield at least the rows
that satisfy the constraints; SQLite checks every row again. Costs are constants, so that plans
depend only on the schema and the version of SQLite, never on the data.

SQLite does not always convert the compared value to the type of the column. `Bound` converts it
where the comparison is certain, and otherwise does not restrict the path.
"""

from typing import Any, Final, NamedTuple

import apsw

from creekdb.sql.catalog import Index, Table
from creekdb.sql.key_codec import Codec, Component, SqlValue, Unencodable, encode, integer_bounds

EQ: Final = apsw.SQLITE_INDEX_CONSTRAINT_EQ
IS: Final = apsw.SQLITE_INDEX_CONSTRAINT_IS
ISNULL: Final = apsw.SQLITE_INDEX_CONSTRAINT_ISNULL
_EQUALITIES: Final = (EQ, IS, ISNULL)
_LOWER: Final = (apsw.SQLITE_INDEX_CONSTRAINT_GT, apsw.SQLITE_INDEX_CONSTRAINT_GE)
_UPPER: Final = (apsw.SQLITE_INDEX_CONSTRAINT_LT, apsw.SQLITE_INDEX_CONSTRAINT_LE)

_TABLE_ROWS: Final = 100_000
"""Assumed number of rows of every table."""
_EQUALITY_SELECTIVITY: Final = 100
_RANGE_SELECTIVITY: Final = 4
_ENTRY_COST: Final = 3.0
"""Cost of a row found through an index, in rows of a scan."""


class Condition(NamedTuple):
    """Constraint that a path uses. `argument` is its position among the arguments of the scan."""

    operator: int
    argument: int | None
    """None for IS NULL, which has no argument."""


class AccessPath(NamedTuple):
    """Registers to read: rows of the primary key or entries of an index, in a range."""

    key: Index
    """Primary key or index of the table."""
    equalities: tuple[Condition, ...] = ()
    """Conditions on the first columns of the index."""
    lower: Condition | None = None
    upper: Condition | None = None
    """Bounds of the column that follows the equalities."""
    reverse: bool = False
    is_ordered: bool = False
    """True if SQLite relies on the order of the rows."""
    columns: tuple[int, ...] = ()
    """Numbers of the columns that the query uses, sorted."""
    is_wide: bool = False
    """True if an upper bound may be the text of a numeric column."""

    def describe(self, table: Table) -> str:
        """Return a description for EXPLAIN QUERY PLAN, such as `primary key (id=?)`."""
        names = [
            table.row_id_name if column == -1 else table.columns[column].name
            for column in self.key.columns
        ]
        conditions = [f"{name}=?" for name in names[: len(self.equalities)]]
        if self.lower is not None:
            conditions.append(f"{names[len(self.equalities)]}>?")
        if self.upper is not None:
            conditions.append(f"{names[len(self.equalities)]}<?")
        return f"{self.key.name} ({' AND '.join(conditions)})" if conditions else self.key.name


class _Usable(NamedTuple):
    number: int
    operator: int
    collation: str
    is_list: bool
    """True for an IN. SQLite scans once for each of its values, in ascending order."""


class Uncertainties(NamedTuple):
    """Properties of a statement whose comparisons may convert a column of TEXT or BLOB affinity."""

    has_subquery_in_list: bool
    has_row_value_in_list: bool
    has_range_between_columns: bool
    has_typed_operand: bool
    """True if an operand may be a column of another table or a CAST. If such an operand is numeric,
    it equals several texts: 1 equals '1' and '01'."""


def choose_path(table: Table, info: apsw.IndexInfo, statement: Uncertainties) -> AccessPath:
    """Return the cheapest path, and report its costs and arguments to SQLite.

    If the statement may have an IN with a subquery, the type of the subquery decides how a column
    of TEXT or BLOB affinity is compared. A virtual table must leave the comparison to SQLite, which
    would otherwise compare without that type. The columns of a row value before such an IN appear
    as equalities.
    """
    usable = _usable_constraints(table, info, statement)
    order = [
        (info.get_aOrderBy_iColumn(number), bool(info.get_aOrderBy_desc(number)))
        for number in range(info.nOrderBy)
    ]
    used = info.colUsed
    columns = tuple([number for number in range(len(table.columns)) if min(number, 63) in used])
    candidates = [
        _candidate(table, index, usable, order) for index in (table.primary_key, *table.indexes)
    ]
    best = min(candidates, key=lambda each: (each.cost, -len(each.equalities)))
    best.report(info, may_repeat=statement.has_typed_operand and not best.is_numeric(table))
    return best.path(info, columns, statement.has_range_between_columns)


def _usable_constraints(
    table: Table, info: apsw.IndexInfo, statement: Uncertainties
) -> dict[int, list[_Usable]]:
    usable: dict[int, list[_Usable]] = {}
    for number in range(info.nConstraint):
        operator = info.get_aConstraint_op(number)
        if not info.get_aConstraint_usable(number):
            continue
        if operator in _EQUALITIES or operator in _LOWER or operator in _UPPER:
            column = info.get_aConstraint_iColumn(number)
            if column == -1 and table.row_id_column is not None:
                column = table.row_id_column
            collation = info.get_aConstraint_collation(number).upper()
            is_list = info.get_aConstraintUsage_in(number)
            may_be_typed = (
                statement.has_subquery_in_list
                if is_list
                else operator == EQ and statement.has_row_value_in_list
            )
            if may_be_typed and not _is_numeric(table, column):
                continue
            usable.setdefault(column, []).append(_Usable(number, operator, collation, is_list))
    return usable


def _is_numeric(table: Table, column: int) -> bool:
    return column == -1 or table.columns[column].affinity not in ("TEXT", "BLOB")


class _Candidate(NamedTuple):
    key: Index
    equalities: tuple[_Usable, ...]
    lower: _Usable | None
    upper: _Usable | None
    rows: int
    cost: float
    reverse: bool
    is_ordered: bool
    is_point: bool

    def is_numeric(self, table: Table) -> bool:
        """True if texts in the columns of the key equal no number."""
        return all(_is_numeric(table, column) for column in self.key.columns)

    def report(self, info: apsw.IndexInfo, *, may_repeat: bool) -> None:
        """Report the costs. If `may_repeat`, the equalities may hold for several rows."""
        info.estimatedCost = self.cost
        info.estimatedRows = self.rows
        info.orderByConsumed = self.is_ordered
        if self.is_point and not may_repeat:
            info.idxFlags = apsw.SQLITE_INDEX_SCAN_UNIQUE

    def path(self, info: apsw.IndexInfo, columns: tuple[int, ...], is_wide: bool) -> AccessPath:
        """Return the path, and assign the arguments of its scan."""
        arguments = 0

        def condition(used: _Usable | None) -> Condition | None:
            nonlocal arguments
            if used is None:
                return None
            if used.operator == ISNULL:
                return Condition(ISNULL, None)
            arguments += 1
            info.set_aConstraintUsage_argvIndex(used.number, arguments)
            return Condition(used.operator, arguments - 1)

        equalities = tuple([made for each in self.equalities if (made := condition(each))])
        lower, upper = condition(self.lower), condition(self.upper)
        return AccessPath(
            self.key,
            equalities,
            lower,
            upper,
            self.reverse,
            self.is_ordered,
            columns,
            is_wide and upper is not None,
        )


def _candidate(
    table: Table,
    index: Index,
    usable: dict[int, list[_Usable]],
    order: list[tuple[int, bool]],
) -> _Candidate:
    equalities: list[_Usable] = []
    lower = upper = None
    for column, collation in zip(index.columns, index.collations, strict=True):
        matching = [each for each in usable.get(column, ()) if each.collation == collation]
        equality = next((each for each in matching if each.operator in _EQUALITIES), None)
        if equality is None:
            lower = next((each for each in matching if each.operator in _LOWER), None)
            upper = next((each for each in matching if each.operator in _UPPER), None)
            break
        equalities.append(equality)
    is_primary_key = index is table.primary_key
    is_complete = len(equalities) == len(index.columns)
    is_point = is_complete and index.unique and all(each.operator == EQ for each in equalities)
    rows = _TABLE_ROWS
    if is_point:
        rows = 1
    else:
        for _ in equalities:
            rows = max(2, rows // _EQUALITY_SELECTIVITY)
        for bound in (lower, upper):
            if bound is not None:
                rows = max(2, rows // _RANGE_SELECTIVITY)
    cost = rows * (1.0 if is_primary_key else _ENTRY_COST)
    fixed = 0  # columns with one value, which an order may omit
    while fixed < len(equalities) and not equalities[fixed].is_list:
        fixed += 1
    is_ordered, reverse = _matches_order(table, index, fixed, order)
    return _Candidate(
        index,
        tuple(equalities),
        lower,
        upper,
        rows,
        cost - (0.5 * rows if is_ordered and order else 0.0),
        reverse,
        is_ordered and bool(order),
        is_point,
    )


def _matches_order(
    table: Table, index: Index, fixed: int, order: list[tuple[int, bool]]
) -> tuple[bool, bool]:
    """Return whether the index yields this order, and whether in reverse.

    SQLite compares the order under the collations of the columns.
    """
    if not order:
        return False, False
    row_id = table.primary_key.columns[0] if table.has_row_id else None
    columns = [*index.columns]
    if index is not table.primary_key:
        columns += [each for each in table.primary_key.columns if each not in columns]
    position, directions = 0, set()
    for column, descending in order:
        if column == -1 and row_id is not None:
            column = row_id
        while position < len(columns) and columns[position] != column and position < fixed:
            position += 1
        if position >= len(columns) or columns[position] != column:
            return False, False
        is_indexed = position < len(index.columns) and column >= 0
        if is_indexed and index.collations[position] != table.columns[column].collation:
            return False, False
        directions.add(descending)
        position += 1
    if len(directions) > 1:
        return False, False
    return True, directions.pop()


# --- ranges of keys, when the query runs ------------------------------------------------------


class KeyRange(NamedTuple):
    """Key components that all keys start with, and bounds of the next component."""

    prefix: tuple[Component, ...]
    low: Component | None = None
    high: Component | None = None
    """Bounds, None where unbounded."""
    excludes_low: bool = False
    excludes_high: bool = False
    """True if no key with this bound as its next component is in the range."""


def key_range(
    table: Table, path: AccessPath, arguments: tuple[Any, ...]
) -> tuple[KeyRange | None, bool]:
    """Return the range that a path reads, None if it is empty.

    The second value is False if the range covers more than the equalities, because a comparison is
    uncertain.
    """
    prefix: tuple[Component, ...] = ()
    bounds: list[SqlValue] = []
    for condition in (path.lower, path.upper):
        bound = None if condition is None else arguments[condition.argument or 0]
        if condition is not None and bound is None:
            return None, True  # a comparison with NULL is never true
        bounds.append(bound)
    for position, condition in enumerate(path.equalities):
        components = _equal_components(table, path.key, position, condition, arguments)
        if components is None:
            return KeyRange(prefix), False
        if not components:
            return None, True
        prefix = (*prefix, *components)
    position = len(path.equalities)
    low, high = _bounds(table, path.key, position, bounds[0], bounds[1])
    if position < len(path.key.columns):
        codec = path.key.codecs[position]
        if low is None and path.upper is not None:
            low = _FIRST_AFTER_NULL.get(codec)  # NULL is not less than anything
        # The bounds of integers are rounded, and then inclusive.
        is_exact = [codec is not Codec.INTEGER or type(bound) is int for bound in bounds]
        excludes_low = _is_strict(path.lower) and low is not None and is_exact[0]
        excludes_high = _is_strict(path.upper) and high is not None and is_exact[1]
        column = path.key.columns[position]
        if path.is_wide and type(bounds[1]) is str and not _is_numeric(table, column):
            # In the comparison, texts of numbers may be numbers, which are less than all texts.
            high = max(str(high), str(encode(_AFTER_NUMBERS, codec, "BINARY")))
        return KeyRange(prefix, low, high, excludes_low, excludes_high), True
    return KeyRange(prefix, low, high), True


_FIRST_AFTER_NULL: Final[dict[Codec, Component]] = {Codec.TEXT: "", Codec.GENERAL: "1"}
"""Least component of a value other than NULL."""
_AFTER_NUMBERS: Final = ":"
"""Text after all texts of numbers, which start with white space, a sign, a point or a digit."""
_STRICT: Final = (apsw.SQLITE_INDEX_CONSTRAINT_GT, apsw.SQLITE_INDEX_CONSTRAINT_LT)


def _is_strict(condition: Condition | None) -> bool:
    return condition is not None and condition.operator in _STRICT


def _equal_components(
    table: Table, index: Index, position: int, condition: Condition, arguments: tuple[Any, ...]
) -> list[Component] | None:
    """Return the component of a column that satisfies an equality, if any; None if uncertain."""
    value = None if condition.argument is None else arguments[condition.argument]
    if value is None and condition.operator == EQ:
        return []  # never equal
    converted = _converted(table, index.columns[position], value)
    if converted is _UNCERTAIN:
        return None
    try:
        return [encode(converted, index.codecs[position], index.collations[position])]
    except Unencodable:
        is_whole = type(converted) is float and converted.is_integer()
        if is_whole and -(2.0**63) <= converted < 2.0**63:
            return [int(converted)]
        return []


def _bounds(
    table: Table, index: Index, position: int, low: SqlValue, high: SqlValue
) -> tuple[Component | None, Component | None]:
    if position >= len(index.columns):
        return None, None
    codec, collation = index.codecs[position], index.collations[position]
    column = index.columns[position]
    low, high = (
        None if (converted := _converted(table, column, bound)) is _UNCERTAIN else converted
        for bound in (low, high)
    )
    if codec is Codec.INTEGER:
        return integer_bounds(low, high)
    return (
        None if low is None else encode(low, codec, collation),
        None if high is None else encode(high, codec, collation),
    )


_UNCERTAIN: Final[Any] = object()
"""Marks a comparison whose conversion depends on the other operand."""


def _converted(table: Table, column: int, value: SqlValue) -> Any:
    """Return the value as SQLite compares it with this column, or `_UNCERTAIN`."""
    affinity = "INTEGER" if column == -1 else table.columns[column].affinity
    kind = type(value)
    if value is None or kind is bytes:
        return value
    if affinity == "TEXT":
        # A number from another numeric column would convert this column instead.
        return value if kind is str else _UNCERTAIN
    if affinity == "BLOB":
        return value if kind is str else _UNCERTAIN
    return _number(value) if isinstance(value, str) else value


def _number(text: str) -> Any:
    """Return the number that a text converts to in a comparison, or the text.

    Only plain integers and decimals are converted here. Any other text is uncertain, unless it
    cannot be a number.
    """
    stripped = text.strip(" \t\n\v\f\r")
    if not stripped or stripped[0] not in "+-.0123456789":
        return text
    digits = stripped.removeprefix("-").removeprefix("+")
    if (
        digits.isascii()
        and digits.isdigit()
        and len(digits) < 16
        and len(stripped) - len(digits) < 2
    ):
        return int(stripped)
    return _UNCERTAIN
