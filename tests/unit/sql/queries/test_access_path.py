"""Choice of access paths and the key ranges of their arguments."""

import pytest

from tests.unit.sql.databases import Database

TABLE = "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b TEXT, c TEXT COLLATE NOCASE, d BLOB)"
INDEXES = (
    "CREATE INDEX by_ab ON t(a, b)",
    "CREATE INDEX by_b ON t(b)",
    "CREATE UNIQUE INDEX by_c ON t(c)",
    "CREATE INDEX by_c_binary ON t(c COLLATE BINARY)",
)


@pytest.fixture(scope="module")
def database() -> Database:
    return Database(TABLE, *INDEXES)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("SELECT * FROM t WHERE id = 1", "primary key (id=?)"),
        ("SELECT * FROM t WHERE id > 1 AND id < 5", "primary key (id>? AND id<?)"),
        ("SELECT * FROM t WHERE rowid = 1", "primary key (id=?)"),
        ("SELECT * FROM t WHERE a = 1", "by_ab (a=?)"),
        ("SELECT * FROM t WHERE a = 1 AND b > 'x'", "by_ab (a=? AND b>?)"),
        ("SELECT * FROM t WHERE a = 1 AND b = 'x'", "by_ab (a=? AND b=?)"),
        ("SELECT * FROM t WHERE b = 'x'", "by_b (b=?)"),
        ("SELECT * FROM t WHERE a IS NULL", "by_ab (a=?)"),
        ("SELECT * FROM t WHERE c = 'x'", "by_c (c=?)"),
        ("SELECT * FROM t WHERE c = 'x' COLLATE BINARY", "by_c_binary (c=?)"),
        ("SELECT * FROM t WHERE b = 'x' COLLATE NOCASE", "primary key"),
        ("SELECT * FROM t WHERE a + 0 = 1", "primary key"),
        ("SELECT * FROM t WHERE d = x'00'", "primary key"),
        ("SELECT * FROM t WHERE a = 1 OR b = 'x'", "by_"),
        ("SELECT * FROM t WHERE id IN (1, 2)", "primary key (id=?)"),
        ("SELECT * FROM t WHERE b IN (SELECT a FROM t)", "primary key"),
    ],
)
def test_the_longest_prefix_of_equalities_is_chosen(
    database: Database, query: str, path: str
) -> None:
    details = [row[3] for row in database.rows(f"EXPLAIN QUERY PLAN {query}")]
    assert any(path in each for each in details), details
    if "by_" not in path:
        assert not any("by_" in each for each in details)


@pytest.mark.parametrize(
    ("query", "is_sorted_by_sqlite"),
    [
        ("SELECT * FROM t ORDER BY id", False),
        ("SELECT * FROM t ORDER BY id DESC", False),
        ("SELECT b FROM t WHERE a = 1 ORDER BY b", False),
        ("SELECT b FROM t WHERE a = 1 ORDER BY a, b DESC", True),
        ("SELECT b FROM t WHERE a IN (1, 2) ORDER BY b", True),
        ("SELECT b FROM t WHERE a = 1 ORDER BY b COLLATE NOCASE", True),
        ("SELECT c FROM t WHERE c > 'a' ORDER BY c", False),
        ("SELECT a FROM t WHERE a > 1 ORDER BY a, b", False),
        ("SELECT a FROM t WHERE a > 1 ORDER BY a DESC, b", True),
    ],
)
def test_an_order_is_consumed_only_if_the_path_yields_it(
    database: Database, query: str, is_sorted_by_sqlite: bool
) -> None:
    details = [row[3] for row in database.rows(f"EXPLAIN QUERY PLAN {query}")]
    assert any("TEMP B-TREE" in each for each in details) == is_sorted_by_sqlite


def test_an_order_after_a_list_is_that_of_all_its_values() -> None:
    database = Database(
        TABLE, *INDEXES, "INSERT INTO t(id, a, b) VALUES (1, 1, 'z'), (2, 2, 'a'), (3, 1, 'm')"
    )
    query = "SELECT b FROM t WHERE a IN (2, 1) ORDER BY b"
    assert database.rows(query) == (("a",), ("m",), ("z",))
    assert database.rows(f"{query} DESC LIMIT 2") == (("z",), ("m",))


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("b = 5", [1]),  # a number is converted to the type of the column
        ("b > 4", [1, 2]),
        ("b = '5'", [1]),
        ("+a = b", [1]),
        ("b = (SELECT a FROM t WHERE id = 1)", [1]),
        ("b IN (SELECT a FROM t)", [1]),
        ("b IN (5, '6')", [1]),
        ("a = '5'", [1]),
        ("a = '5.0'", [1]),
        ("a = ' 5 '", [1]),
        ("a = '5x'", []),
        ("a > 'x'", []),
        ("a < 'x'", [1, 2]),
        ("a > x'00'", []),
        ("a = 5.0", [1]),
        ("a >= 4.5 AND a <= 5.5", [1]),
        ("id > 0.5 AND id < 1.5", [1]),
        ("id = 1.5", []),
        ("c = 'ABC'", [1, 2]),
        ("c > 'ab' AND c <= 'Abc'", [1, 2]),
    ],
)
def test_a_range_contains_all_rows_that_satisfy_the_condition(
    condition: str, ids: list[int]
) -> None:
    database = Database(
        TABLE,
        "CREATE INDEX by_a ON t(a)",
        "CREATE INDEX by_b ON t(b)",
        "CREATE INDEX by_c ON t(c)",
        "INSERT INTO t VALUES (1, 5, '5', 'abc', NULL), (2, 12, '50', 'ABC', NULL)",
    )
    rows = database.rows(f"SELECT id FROM t WHERE {condition} ORDER BY id")
    assert [row[0] for row in rows] == ids


def test_a_text_in_a_numeric_column_bounds_no_texts_of_numbers() -> None:
    database = Database(
        "CREATE TABLE n(v INT)",
        "INSERT INTO n VALUES ('')",
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a BLOB UNIQUE, b TEXT UNIQUE)",
        "INSERT INTO t VALUES (1, '-3', '-3'), (2, 'x', 'x'), (3, 5, '5')",
    )
    for column in "ab":
        found = database.rows(f"SELECT id FROM n CROSS JOIN t WHERE {column} < v")
        assert sorted(found) == [(1,), (3,)]
        assert database.rows(f"SELECT id FROM t WHERE {column} < '' AND id < 3") == ()


def test_a_number_equals_all_its_texts() -> None:
    database = Database(
        "CREATE TABLE n(v INTEGER)",
        "INSERT INTO n VALUES (5)",
        "CREATE TABLE t(id INTEGER PRIMARY KEY, b TEXT UNIQUE)",
        "INSERT INTO t VALUES (1, '5'), (2, '05'), (3, '5.0'), (4, '5x')",
    )
    assert database.rows("SELECT id FROM n, t WHERE b = v ORDER BY id") == ((1,), (2,), (3,))
    assert database.rows("SELECT id FROM t WHERE b = 5") == ((1,),)


def test_an_explanation_has_no_number_that_depends_on_earlier_statements(
    database: Database,
) -> None:
    for column in "abc":
        database.rows(f"SELECT {column} FROM t WHERE id = 1")

    ((*_, detail),) = database.rows("EXPLAIN QUERY PLAN SELECT * FROM t WHERE a = 1")
    assert detail == "SCAN t USING by_ab (a=?)"


@pytest.mark.parametrize("in_view", [False, True])
def test_a_row_value_in_a_subquery_is_compared_with_the_types_of_that(in_view: bool) -> None:
    database = Database(
        "CREATE TABLE n(v INTEGER, w INTEGER)",
        "INSERT INTO n VALUES (1, 1)",
        "CREATE TABLE t(a BLOB, b TEXT, PRIMARY KEY (a, b))",
        "INSERT INTO t VALUES ('1', '1'), (' 1', '01'), (1, ' 1'), ('x', '1')",
        "CREATE VIEW found AS SELECT a FROM t WHERE (a, b) IN (SELECT v, w FROM n)",
    )
    condition = "(a, b) IN (SELECT v, w FROM n)"
    query = "SELECT a FROM found" if in_view else f"SELECT a FROM t WHERE {condition}"
    assert set(database.rows(query)) == {("1",), (" 1",), (1,)}
    if not in_view:
        assert database.execute(f"DELETE FROM t WHERE {condition}")["row_count"] == 3


def test_row_values_in_a_list_of_values_are_points() -> None:
    database = Database(
        "CREATE TABLE t(a BLOB, b TEXT, c, PRIMARY KEY (a, b))",
        "INSERT INTO t VALUES ('x', 'y', 1), ('x', 'z', 2), ('y', 'y', 3)",
    )
    reads = database.reads("SELECT c FROM t WHERE (a, b) IN (VALUES (?, ?), (?, ?))", *"xyyy")
    assert [each[2:4] for each in reads] == [("2x", "y"), ("2y", "y")]


def test_a_text_key_equals_a_number_in_several_rows() -> None:
    database = Database(
        "CREATE TABLE t(a TEXT PRIMARY KEY)",
        "INSERT INTO t VALUES ('1'), ('01'), ('2')",
        "CREATE TABLE n(v INTEGER)",
        "INSERT INTO n VALUES (1)",
        "CREATE VIEW joined AS SELECT n.v FROM n LEFT JOIN t ON t.a = n.v",
    )
    for query in (
        "SELECT n.v FROM n LEFT JOIN t ON t.a = n.v",  # no column of the table is used
        "SELECT v FROM joined",
        "SELECT DISTINCT t.a FROM n, t WHERE t.a = n.v ORDER BY t.a",
        "SELECT a FROM t WHERE a = CAST('1' AS INTEGER) ORDER BY a",
        "SELECT a FROM t WHERE a = (SELECT v FROM n) ORDER BY a",
    ):
        assert len(database.rows(query)) == 2, query


def test_the_least_integer_is_found_as_a_real() -> None:
    database = Database(
        "CREATE TABLE t(id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (-9223372036854775808)"
    )
    for value in ("-9223372036854775808.0", "CAST(-9223372036854775808 AS REAL)"):
        assert len(database.rows(f"SELECT id FROM t WHERE id = {value}")) == 1
