"""Plain parameters and columns, which SQLite does not evaluate, have the results of SQLite."""

from typing import Any

import apsw
import pytest

from creekdb.execution.sequential import OperationRaised
from tests.unit.sql.databases import Database

SCHEMA = (
    "CREATE TABLE item(a INTEGER NOT NULL, b TEXT NOT NULL, c REAL, d BLOB, e ANY, "
    "PRIMARY KEY (a, b)) STRICT, WITHOUT ROWID",
    'CREATE TABLE loose(id INTEGER PRIMARY KEY, "null" TEXT, n NUMERIC, plain)',
    "CREATE INDEX loose_by_plain ON loose(plain)",
    "CREATE TABLE filled(id INTEGER PRIMARY KEY, n INTEGER, label TEXT NOT NULL DEFAULT 'none')",
    "CREATE TABLE counted(id INTEGER PRIMARY KEY AUTOINCREMENT, "
    "label TEXT NOT NULL DEFAULT 'none')",
)
VALUES: tuple[Any, ...] = (
    *(None, 0, 1, -(2**63), 2**63 - 1, 1.0, 1.5, -0.0, 1e300),
    *("", "a", "é", "5", "5.0", " 7", "1e2", "\U0010ffff", b"", b"\x00a", True),
)


def outcome_in_sqlite(statement: str, parameters: tuple[Any, ...], select: str) -> Any:
    connection = apsw.Connection(":memory:")
    for each in SCHEMA:
        connection.execute(each)
    try:
        returned = connection.execute(statement, parameters).fetchall()
    except apsw.Error as error:
        return str(error)
    return [tuple(row) for row in returned], connection.execute(select).fetchall()


def outcome(statement: str, parameters: tuple[Any, ...], select: str) -> Any:
    database = Database(*SCHEMA)
    try:
        returned = database.execute(statement, *parameters)
    except OperationRaised as error:
        return str(error).partition(": ")[2]
    return list(returned["rows"]), list(database.rows(select))


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("column", range(5))
def test_an_inserted_row_of_parameters_is_converted_as_in_sqlite(value: Any, column: int) -> None:
    row: list[Any] = [3, "key", 2.5, b"blob", "any"]
    row[column] = value
    statement, select = "INSERT INTO item VALUES (?, ?, ?, ?, ?)", "SELECT * FROM item"

    assert repr(outcome(statement, tuple(row), select)) == repr(
        outcome_in_sqlite(statement, tuple(row), select)
    )


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_row_with_a_row_id_is_converted_as_in_sqlite(value: Any) -> None:
    statement = "INSERT INTO loose VALUES (?, ?, ?, ?), (9, ?1, NULL, ?1) RETURNING plain, n, id"
    parameters = (4, value, value, value)
    select = "SELECT *, typeof(plain), typeof(n) FROM loose ORDER BY id"

    assert repr(outcome(statement, parameters, select)) == repr(
        outcome_in_sqlite(statement, parameters, select)
    )


@pytest.mark.parametrize(
    "returning",
    [
        *("plain, id", "ID, Plain, n, id", "*", '"null"', "null", "plain AS other", "n + 1, plain"),
        *("rowid", "CURRENT_TIME IS NULL", "true, plain", "loose.plain", "'plain'"),
    ],
)
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO loose VALUES (1, 'x', '5', 'y')",
        "INSERT INTO loose VALUES (1, 'x', '5', 'y') ON CONFLICT DO UPDATE SET plain = 'z'",
    ],
)
def test_returned_columns_are_those_of_sqlite(statement: str, returning: str) -> None:
    statement, select = f"{statement} RETURNING {returning}", "SELECT * FROM loose"

    assert outcome(statement, (), select) == outcome_in_sqlite(statement, (), select)


@pytest.mark.parametrize(
    "key", [(3, "key"), (3.0, "key"), ("3", "key"), (None, "key"), (3, b"key")]
)
def test_a_point_query_by_a_composite_key_compares_like_sqlite(key: tuple[Any, ...]) -> None:
    statement = "INSERT INTO item VALUES (3, 'key', 1.0, NULL, 4)"
    connection = apsw.Connection(":memory:")
    database = Database(*SCHEMA, statement)
    for each in (*SCHEMA, statement):
        connection.execute(each)
    for query in (
        "SELECT e FROM item WHERE a = ? AND b = ?",
        "UPDATE item SET e = e + 1 WHERE a = ? AND b = ? RETURNING a, e",
    ):
        expected = connection.execute(query, key).fetchall()
        assert list(database.execute(query, *key)["rows"]) == expected


@pytest.mark.parametrize("value", [5, *VALUES], ids=repr)
def test_a_point_query_by_an_integer_compares_like_sqlite(value: Any) -> None:
    insert = "INSERT INTO loose(id) VALUES (0), (1), (5)"
    select = "SELECT id FROM loose WHERE id = ?"
    connection = apsw.Connection(":memory:")
    for each in (*SCHEMA, insert):
        connection.execute(each)

    rows = Database(*SCHEMA, insert).rows(select, value)
    assert list(rows) == connection.execute(select, (value,)).fetchall()


def test_an_update_of_a_key_moves_the_row() -> None:
    database = Database(*SCHEMA, "INSERT INTO item VALUES (3, 'key', 1.0, NULL, 4)")
    database.execute("UPDATE item SET a = a + 1, e = 5 WHERE a = 3")

    assert ("sql", "item", 3, "key") not in database.state
    assert database.state[("sql", "item", 4, "key")] == (4, "key", 1.0, None, 5)


@pytest.mark.parametrize("row", [(1, 2, None), (1, None, "a"), (None, None, None)])
def test_replace_fills_a_forbidden_null_with_the_default(row: tuple[Any, ...]) -> None:
    replace = "REPLACE INTO filled VALUES (?, ?, ?)"
    select = "SELECT label, n FROM filled"

    assert outcome(replace, row, select) == outcome_in_sqlite(replace, row, select)


def test_a_replaced_null_uses_up_one_id_of_the_sequence() -> None:
    replace = "REPLACE INTO counted(label) VALUES (?), (?)"
    select = "SELECT id, label FROM counted"

    rows = outcome(replace, (None, "a"), select)
    assert rows == outcome_in_sqlite(replace, (None, "a"), select)
    assert rows[1] == [(1, "none"), (2, "a")]
