"""Rows decoded from registers by the description of their table, as SELECT returns them."""

from typing import Any

import pytest

from creekdb.sql.catalog import SCHEMA_KEY
from creekdb.sql.engine import ENGINE
from creekdb.sql.table_rows import TableDescription
from tests.unit.sql.databases import Database


def describe(database: Database, table: str) -> TableDescription:
    described: TableDescription = ENGINE.describe_tables(database.state[SCHEMA_KEY])[table]
    return described


def stored_rows(database: Database, table: TableDescription) -> dict[Any, Any]:
    return {
        key: value
        for key, value in database.state.items()
        if isinstance(key, tuple) and key[:2] == table.prefix
    }


def decoded_rows(database: Database, name: str) -> list[tuple[Any, ...]]:
    table = describe(database, name)
    return [table.decode_values(stored) for stored in stored_rows(database, table).values()]


SCRIPTS = {
    "row ids": (
        "CREATE TABLE item(name TEXT, price REAL)",
        "INSERT INTO item VALUES ('a', 1.5), (NULL, NULL), ('c', 3)",
    ),
    "an added column": (
        "CREATE TABLE item(name TEXT PRIMARY KEY)",
        "INSERT INTO item VALUES ('old')",
        "ALTER TABLE item ADD COLUMN price INTEGER DEFAULT 7",
        "INSERT INTO item VALUES ('new', 8), ('none', NULL)",
    ),
    "a dropped column": (
        "CREATE TABLE item(name TEXT PRIMARY KEY, colour TEXT, price INTEGER)",
        "INSERT INTO item VALUES ('a', 'red', 1)",
        "ALTER TABLE item DROP COLUMN colour",
        "INSERT INTO item VALUES ('b', 2)",
    ),
    "a renamed table": (
        "CREATE TABLE first(name TEXT PRIMARY KEY, price INTEGER) STRICT",
        "INSERT INTO first VALUES ('a', 1)",
        "ALTER TABLE first RENAME TO item",
        "ALTER TABLE item RENAME COLUMN price TO cost",
    ),
    "a generated column": (
        "CREATE TABLE item(id INTEGER PRIMARY KEY, price REAL, twice REAL AS (2 * price) STORED)",
        "INSERT INTO item(price) VALUES (1), (2.5)",
    ),
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_decoded_rows_are_those_of_select(script: tuple[str, ...]) -> None:
    database = Database(*script)

    assert sorted(decoded_rows(database, "item"), key=repr) == sorted(
        database.rows("SELECT * FROM item"), key=repr
    )


def test_a_row_is_a_dict_of_its_columns() -> None:
    database = Database(
        "CREATE TABLE item(name TEXT PRIMARY KEY, price INTEGER) STRICT",
        "INSERT INTO item VALUES ('a', 1)",
    )
    table = describe(database, "item")
    ((key, stored),) = stored_rows(database, table).items()

    assert table.decode_row(stored) == {"name": "a", "price": 1}
    assert [(each.name, each.declared_type, each.affinity) for each in table.columns] == [
        ("name", "TEXT", "TEXT"),
        ("price", "INTEGER", "INTEGER"),
    ]
    assert key[:2] == table.prefix


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("(a INTEGER PRIMARY KEY, b)", {"a": 5}),
        ("(a INTEGER, b TEXT, PRIMARY KEY (b, a)) WITHOUT ROWID", {"b": "x", "a": 5}),
        ("(a INTEGER, b TEXT COLLATE NOCASE, PRIMARY KEY (b, a)) WITHOUT ROWID", {"a": 5}),
    ],
)
def test_a_key_determines_the_columns_of_the_primary_key(
    definition: str, expected: dict[str, Any]
) -> None:
    database = Database(f"CREATE TABLE item{definition}")
    database.execute("INSERT INTO item(a, b) VALUES (5, 'x')")
    table = describe(database, "item")
    (key,) = stored_rows(database, table)

    assert table.decode_key(key) == expected


def test_a_table_without_a_key_has_a_row_id() -> None:
    database = Database("CREATE TABLE item(a)", "INSERT INTO item(rowid, a) VALUES (9, 'x')")
    table = describe(database, "item")
    (key,) = stored_rows(database, table)

    assert table.decode_key(key) == {"rowid": 9}
