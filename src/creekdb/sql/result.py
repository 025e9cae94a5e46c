"""Result of one SQL statement."""

from typing import Any, NamedTuple

from creekdb.sql.key_codec import SqlValue


class SqlResult(NamedTuple):
    """Columns and rows that a statement returned, and the number of rows that it changed."""

    columns: tuple[str, ...] = ()
    """Names of the columns. Empty for a statement without result rows."""
    rows: tuple[tuple[SqlValue, ...], ...] = ()
    row_count: int = 0
    """Number of rows that an INSERT, UPDATE or DELETE inserted, changed or deleted; otherwise the
    number of `rows`. Rows changed by a foreign key action do not count."""
    last_row_id: int | None = None
    """Row id of the last row that the operation inserted into a table with row ids, or None."""

    def to_value(self) -> dict[str, Any]:
        """Return the result as a value that can be sent."""
        return self._asdict()

    @classmethod
    def from_value(cls, value: dict[str, Any]) -> "SqlResult":
        """Return the result that `to_value` encoded."""
        return cls(
            tuple(value["columns"]),
            tuple(tuple(row) for row in value["rows"]),
            value["row_count"],
            value["last_row_id"],
        )
