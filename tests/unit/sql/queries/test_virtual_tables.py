"""Queries read only the registers and columns that they need, and each of these."""

import pytest

from creekdb.datatypes.sql import SQL
from tests.unit.schemes.single_replica import SingleReplica
from tests.unit.sql.databases import Database

ITEM = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, stock INTEGER, price REAL)"
ROWS = "INSERT INTO item VALUES (1, 'tea', 3, 1.5), (2, 'jam', 4, 2.5), (3, 'tea', 5, NULL)"
INDEX = "CREATE INDEX by_name ON item(name, stock)"


@pytest.fixture
def database() -> Database:
    return Database(ITEM, ROWS, INDEX)


def test_a_point_query_reads_one_row_and_the_used_columns(database: Database) -> None:
    assert database.reads("SELECT price, name FROM item WHERE id = 2") == [
        ("sql", "item", 2, (0, 1, 3)),
    ]
    assert database.reads("SELECT name FROM item WHERE id = 9") == [("sql", "item", 9, (0, 1))]
    assert database.reads("SELECT 1 FROM item WHERE id = 2") == [("sql", "item", 2, (0,))]


def test_a_query_by_an_index_reads_its_entries_and_their_rows(database: Database) -> None:
    reads = database.reads("SELECT price FROM item WHERE name = 'tea' AND stock > 3")
    assert {each[:3] for each in reads} == {("sql.index", "item", "by_name"), ("sql", "item", 3)}


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("id > 1", [2, 3]),
        ("id > 0.5", [1, 2, 3]),
        ("id > 1.0 AND id < 2.0", [1, 2]),  # bounds that are no integers are inclusive
        ("id >= 2 AND id < 3", [2]),
        ("id > 9223372036854775807", []),
        ("id >= -9223372036854775808", [1, 2, 3]),
        ("id BETWEEN 2 AND 2", [2]),
        ("id <= 1", [1]),
        ("id IN (1, 3, 7)", [1, 3, 7]),
        ("id = '2'", [2]),
        ("id = 'x'", []),
        ("id = NULL", []),
        ("id = 1 AND name = 'x'", [1]),
        ("price > 0", [1, 2, 3]),
    ],
)
def test_a_condition_on_the_key_restricts_the_rows(
    database: Database, condition: str, ids: list[int]
) -> None:
    reads = database.reads(f"SELECT stock FROM item WHERE {condition}")
    assert sorted({each[2] for each in reads}) == ids


@pytest.mark.parametrize(
    ("column", "condition", "ids"),
    [
        ("t", "t < 'c'", {2, 3}),
        ("t", "t <= 'c'", {2, 3, 4}),
        ("t", "t > 'b'", {4, 5}),
        ("n", "n < 5", {2, 3}),
        ("n", "n <= 5", {2, 3, 4}),
        ("n", "n > 5", {5}),
        ("n", "n BETWEEN 1.5 AND 5", {3, 4}),
    ],
)
def test_a_range_of_an_index_leaves_out_its_bounds_and_nulls(
    column: str, condition: str, ids: set[int]
) -> None:
    database = Database(
        "CREATE TABLE v(id INTEGER PRIMARY KEY, t TEXT, n REAL)",
        f"CREATE INDEX i ON v({column})",
        "INSERT INTO v VALUES (1, NULL, NULL), (2, 'a', 1), (3, 'b', 1.5), (4, 'c', 5)",
        "INSERT INTO v VALUES (5, 'd', 7)",
    )
    reads = database.reads(f"SELECT id FROM v WHERE {condition}")
    assert {each[2] for each in reads if each[0] == "sql"} == ids


def test_all_columns_of_a_wide_table_can_be_read() -> None:
    names = [f"c{number}" for number in range(70)]
    database = Database(
        f"CREATE TABLE wide(id INTEGER PRIMARY KEY, {', '.join(names)})",
        f"INSERT INTO wide VALUES (1, {', '.join(map(str, range(70)))})",
    )
    assert database.rows("SELECT c5, c62, c63, c69 FROM wide WHERE id = 1") == ((5, 62, 63, 69),)
    assert database.reads("SELECT c5 FROM wide WHERE id = 1") == [("sql", "wide", 1, (0, 6))]
    (read,) = database.reads("SELECT c69 FROM wide WHERE id = 1")
    assert 70 in read[-1]


def test_an_order_that_a_key_provides_is_read_in_it(database: Database) -> None:
    assert [each[2] for each in database.reads("SELECT stock FROM item ORDER BY id DESC")] == [
        3,
        2,
        1,
    ]
    first = database.reads("SELECT stock FROM item ORDER BY id LIMIT 1")
    assert [each[2] for each in first] == [1]  # no row is read ahead


def test_an_uncertain_comparison_reads_all_rows_in_order() -> None:
    database = Database(
        "CREATE TABLE t(a TEXT, b INTEGER, PRIMARY KEY (a, b))",
        "INSERT INTO t VALUES ('10', 2), ('10', 1), ('9', 3)",
        "CREATE TABLE n(v NUMERIC)",
        "INSERT INTO n VALUES (10)",
    )
    query = "SELECT b FROM t, n WHERE a = v ORDER BY b DESC"
    assert database.rows(query) == ((2,), (1,))


def test_returning_and_excluded_rows_are_no_registers(database: Database) -> None:
    reads = database.reads("INSERT INTO item VALUES (9, 'x', 1, 2) RETURNING id, name")
    assert {each[2] for each in reads if each[0] == "sql"} == {9}
    upsert = (
        "INSERT INTO item VALUES (9, 'y', 5, 5) "
        "ON CONFLICT(id) DO UPDATE SET stock = item.stock + excluded.stock RETURNING stock"
    )
    assert database.rows(upsert) == ((6,),)


@pytest.mark.parametrize(
    ("query", "late", "runs_again"),
    [
        ("SELECT count(*) FROM t WHERE id > 5", "INSERT INTO t VALUES (8, 0, 0)", True),
        ("SELECT count(*) FROM t WHERE id > 5", "INSERT INTO t VALUES (4, 0, 0)", False),
        ("SELECT a FROM t WHERE id = 7", "INSERT INTO t VALUES (7, 0, 0)", True),
        ("SELECT a FROM t WHERE b = 3", "INSERT INTO t VALUES (7, 0, 3)", True),
        ("SELECT a FROM t WHERE b = 3", "INSERT INTO t VALUES (7, 0, 4)", False),
        ("SELECT max(b) FROM t", "UPDATE t SET b = 9 WHERE id = 1", True),
        ("SELECT a FROM t WHERE id = 1", "UPDATE t SET b = 9 WHERE id = 1", False),
        ("SELECT a FROM t WHERE b = 1", "UPDATE t SET b = 9 WHERE id = 2", False),
        ("SELECT a FROM t WHERE b = 1", "DELETE FROM t WHERE id = 1", True),
        ("SELECT 1", "UPDATE t SET a = 9", False),
    ],
)
def test_what_a_query_did_not_find_counts_as_read(query: str, late: str, runs_again: bool) -> None:
    single = SingleReplica(SQL)
    create = ("CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b INTEGER)",)
    index = "CREATE INDEX by_b ON t(b)"
    rows = "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)"
    single.receive_request(0, "transaction", (*create, index, rows))
    single.execute_all()
    reader = single.invoke("sql", query)
    single.execute_all()
    change = single.receive_request(1, "sql", late)
    assert single.execute_all() == ([change, reader] if runs_again else [change])
