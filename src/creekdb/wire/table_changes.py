"""Changes of the rows of one SQL table.

The feed contains registers. A `TableChange` is a change whose registers hold rows of one table, and
has them as columns too (`creekdb.sql.table_rows`).
"""

from typing import Any, Final, NamedTuple

import msgspec

from creekdb.protocol.values import Key
from creekdb.sql.table_rows import TableDescription
from creekdb.wire.changes import Change, change_to_json
from creekdb.wire.json_values import to_json

INSERT: Final = "insert"
UPDATE: Final = "update"
DELETE: Final = "delete"
WRITE: Final = "write"
"""Insertion or update, if the replicas keep no values before the changes."""


class RowChange(NamedTuple):
    """Change of one row."""

    kind: str
    """`insert`, `update`, `delete`, or `write` for an insertion or update."""
    key: Key
    """Key of the register that holds the row. It identifies the row in its table."""
    key_columns: dict[str, Any]
    """Columns of the primary key; `rowid` in a table without one. A column whose collation is not
    BINARY is left out."""
    values: dict[str, Any] | None
    """All columns after the change, or None if the row was deleted."""
    before: dict[str, Any] | None
    """All columns before the change. None if there was no row, or if the replicas keep no values
    before the changes."""


class TableChange(Change, frozen=True, array_like=True):
    """Committed request that changed rows of the table."""

    rows: tuple[RowChange, ...] = ()
    table: str = ""


def make_table_change(change: Change, table: TableDescription) -> TableChange:
    """Return a change whose registers are all rows of the table, with their columns."""
    before = None if change.before is None else dict(change.before)
    rows: list[RowChange] = []
    for key, stored in change.writes:
        previous = _previous(before, key, table)
        kind = WRITE if before is None else INSERT if previous is None else UPDATE
        values = table.decode_row(stored)
        rows.append(RowChange(kind, key, table.decode_key(key), values, previous))
    for key in change.deleted:
        previous = _previous(before, key, table)
        rows.append(RowChange(DELETE, key, table.decode_key(key), None, previous))
    fields = msgspec.structs.asdict(change)
    return TableChange(**fields, rows=tuple(rows), table=table.name)


def _previous(
    before: dict[Key, Any] | None, key: Key, table: TableDescription
) -> dict[str, Any] | None:
    return None if before is None or key not in before else table.decode_row(before[key])


def table_change_to_json(change: TableChange) -> dict[str, Any]:
    """Return a change as JSON values, with its rows."""
    rows = [
        {
            "kind": row.kind,
            "key": to_json(row.key_columns),
            "values": to_json(row.values),
            "before": to_json(row.before),
        }
        for row in change.rows
    ]
    return {**change_to_json(change), "table": change.table, "rows": rows}
