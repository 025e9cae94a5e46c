"""Changes of a table: rows as columns, and the kind of each change as far as it is known."""

from typing import Any

from creekdb.protocol.ids.version_vector import Dot
from creekdb.sql.table_rows import KeyPart, TableColumn, TableDescription
from creekdb.wire.changes import Change
from creekdb.wire.table_changes import make_table_change, table_change_to_json

TABLE = TableDescription(
    "account",
    "account",
    (
        TableColumn("name", "TEXT", "TEXT", True, 0),
        TableColumn("n", "INTEGER", "INTEGER", False, 1),
    ),
    (KeyPart(0, "text", True),),
    True,
)
ANN, BOB = ("sql", "account", "ann"), ("sql", "account", "bob")


def change(writes: Any, deleted: Any = (), before: Any = None) -> Change:
    return Change(7, Dot(0, 1), 5, "sql", (), True, None, None, None, writes, deleted, before)


def test_a_write_has_the_columns_of_its_row() -> None:
    changed = make_table_change(change(((ANN, ("ann", 5)),)), TABLE)

    (row,) = changed.rows
    assert (row.kind, row.values, row.before) == ("write", {"name": "ann", "n": 5}, None)
    assert (row.key, row.key_columns) == (ANN, {"name": "ann"})
    assert (changed.index, changed.table) == (7, "account")


def test_values_before_the_change_distinguish_insertions_from_updates() -> None:
    writes = ((ANN, ("ann", 5)), (BOB, ("bob", 6)))
    changed = make_table_change(change(writes, (), ((BOB, ("bob", 1)),)), TABLE)

    assert [(row.kind, row.before) for row in changed.rows] == [
        ("insert", None),
        ("update", {"name": "bob", "n": 1}),
    ]


def test_a_deleted_row_has_its_key() -> None:
    changed = make_table_change(change((), (ANN,)), TABLE)
    kept = make_table_change(change((), (ANN,), ((ANN, ("ann", 5)),)), TABLE)

    (row,), (kept_row,) = changed.rows, kept.rows
    assert (row.kind, row.values, row.key_columns) == ("delete", None, {"name": "ann"})
    assert kept_row.before == {"name": "ann", "n": 5}


def test_the_json_form_has_the_rows() -> None:
    encoded = table_change_to_json(make_table_change(change(((ANN, ("ann", 5)),)), TABLE))

    assert encoded["table"] == "account"
    assert encoded["rows"] == [
        {"kind": "write", "key": {"name": "ann"}, "values": {"name": "ann", "n": 5}, "before": None}
    ]
