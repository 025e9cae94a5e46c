import pytest

from tests.unit.sql.databases import Database

PARENT = "CREATE TABLE parent(id INTEGER PRIMARY KEY, code TEXT COLLATE NOCASE UNIQUE)"


def family(action: str, child_column: str = "p INTEGER DEFAULT 2") -> Database:
    return Database(
        PARENT,
        f"CREATE TABLE child(k INTEGER PRIMARY KEY, {child_column} REFERENCES parent {action})",
        "CREATE INDEX child_p ON child(p)",
        "INSERT INTO parent VALUES (1, 'a'), (2, 'b')",
        "INSERT INTO child VALUES (10, 1), (11, NULL)",
    )


def test_a_child_needs_its_parent_at_the_end_of_the_statement() -> None:
    database = family("")

    assert "FOREIGN KEY constraint failed" in database.error("INSERT INTO child VALUES (12, 9)")
    assert "FOREIGN KEY constraint failed" in database.error("UPDATE child SET p = 9 WHERE k = 10")
    assert "FOREIGN KEY constraint failed" in database.error("DELETE FROM parent WHERE id = 1")
    database.execute("DELETE FROM parent WHERE id = 2")


def test_a_row_may_be_its_own_parent() -> None:
    database = Database("CREATE TABLE node(id INTEGER PRIMARY KEY, up REFERENCES node)")

    database.execute("INSERT INTO node VALUES (1, 1), (3, 2), (2, 1)")
    assert database.execute("DELETE FROM node")["row_count"] == 3


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("ON DELETE CASCADE", ((11, None),)),
        ("ON DELETE SET NULL", ((10, None), (11, None))),
        ("ON DELETE SET DEFAULT", ((10, 2), (11, None))),
    ],
)
def test_actions_on_delete(action: str, expected: tuple[tuple[object, ...], ...]) -> None:
    database = family(action)

    assert database.execute("DELETE FROM parent WHERE id = 1")["row_count"] == 1
    assert database.rows("SELECT * FROM child") == expected
    assert database.rows("SELECT k FROM child WHERE p = 1") == ()


def test_restrict_forbids_even_what_the_statement_would_repair() -> None:
    database = family("ON DELETE RESTRICT")

    assert "FOREIGN KEY constraint failed" in database.error("REPLACE INTO parent VALUES (1, 'z')")


def test_updates_of_a_parent_key_cascade() -> None:
    database = family("ON UPDATE CASCADE")

    database.execute("UPDATE parent SET id = 7 WHERE id = 1")

    assert database.rows("SELECT p FROM child WHERE k = 10") == ((7,),)


def test_cascades_reach_grandchildren() -> None:
    database = Database(
        "CREATE TABLE a(id INTEGER PRIMARY KEY, up REFERENCES a ON DELETE CASCADE)",
        "INSERT INTO a VALUES (1, NULL), (2, 1), (3, 2)",
        "DELETE FROM a WHERE id = 1",
    )

    assert database.rows("SELECT * FROM a") == ()


def test_children_are_compared_by_the_collation_of_the_parent() -> None:
    database = Database(
        PARENT,
        "CREATE TABLE child(p TEXT REFERENCES parent(code))",
        "INSERT INTO parent VALUES (1, 'a')",
        "INSERT INTO child VALUES ('A')",
    )

    assert "FOREIGN KEY constraint failed" in database.error("DELETE FROM parent")


def test_a_foreign_key_without_a_parent_key_is_a_mismatch() -> None:
    database = Database("CREATE TABLE p(a)", "CREATE TABLE c(b REFERENCES p(a))")

    assert "foreign key mismatch" in database.error("INSERT INTO c VALUES (1)")


def test_dropping_a_parent_with_children_is_refused() -> None:
    database = family("")

    assert "FOREIGN KEY constraint failed" in database.error("DROP TABLE parent")
    database.execute("DROP TABLE child")
    database.execute("DROP TABLE parent")
    assert list(database.state) == [("sql.schema",)]


def test_a_default_that_is_deleted_too_is_no_parent() -> None:
    database = Database(
        "CREATE TABLE p(a INTEGER PRIMARY KEY)",
        "CREATE TABLE c(b INTEGER DEFAULT 9 REFERENCES p ON DELETE SET DEFAULT)",
        "INSERT INTO p VALUES (1), (9)",
        "INSERT INTO c(b) VALUES (9)",
    )

    assert "FOREIGN KEY constraint failed" in database.error("DELETE FROM p")
    database.execute("INSERT INTO c(b) VALUES (1)")
    database.execute("DELETE FROM p WHERE a = 1")
    assert database.rows("SELECT b FROM c") == ((9,), (9,))


@pytest.mark.parametrize("resolution", ["", "OR IGNORE", "OR REPLACE", "OR FAIL"])
@pytest.mark.parametrize(
    ("columns", "change"),
    [
        ("p INT UNIQUE DEFAULT 2 REFERENCES parent ON DELETE SET DEFAULT", "DELETE FROM parent"),
        (
            "p INT PRIMARY KEY DEFAULT 2 REFERENCES parent ON DELETE SET DEFAULT",
            "DELETE FROM parent",
        ),
        (
            "p INT UNIQUE DEFAULT 2 REFERENCES parent ON UPDATE SET DEFAULT",
            "UPDATE {} parent SET id = 8",
        ),
        (
            "p REFERENCES parent ON UPDATE CASCADE, q AS (p % 2) UNIQUE",
            "UPDATE {} parent SET id = 8",
        ),
    ],
)
def test_an_action_keeps_unique_constraints(resolution: str, columns: str, change: str) -> None:
    database = Database(
        PARENT,
        f"CREATE TABLE child({columns})",
        "INSERT INTO parent(id) VALUES (1), (2)",
        "INSERT INTO child(p) VALUES (1), (2)",
    )

    error = database.error(f"{change.format(resolution)} WHERE id = 1")

    assert "UNIQUE constraint failed: child." in error


def test_a_child_is_checked_under_its_new_key() -> None:
    database = Database(
        "CREATE TABLE p(a INTEGER PRIMARY KEY, b INTEGER UNIQUE)",
        "CREATE TABLE c(x INTEGER PRIMARY KEY REFERENCES p(b) ON UPDATE CASCADE, "
        "y INTEGER DEFAULT 7 REFERENCES p ON UPDATE SET DEFAULT)",
        "INSERT INTO p VALUES (1, 10)",
        "INSERT INTO c VALUES (10, 1)",
    )

    assert "FOREIGN KEY constraint failed" in database.error("UPDATE p SET a = 2, b = 20")


@pytest.mark.parametrize("action", ["CASCADE", "RESTRICT", "SET NULL", "NO ACTION"])
def test_an_equal_parent_key_under_its_collation_is_no_update(action: str) -> None:
    database = Database(
        PARENT,
        f"CREATE TABLE child(code TEXT REFERENCES parent(code) ON UPDATE {action})",
        "INSERT INTO parent VALUES (1, 'Ann')",
        "INSERT INTO child VALUES ('ann')",
    )

    database.execute("UPDATE parent SET code = 'ANN'")
    assert database.rows("SELECT code FROM child") == (("ann",),)


def test_actions_of_the_newest_foreign_key_are_executed_first() -> None:
    database = Database(
        PARENT,
        "CREATE TABLE old(p DEFAULT 2 UNIQUE REFERENCES parent ON UPDATE SET DEFAULT)",
        "CREATE TABLE new(p REFERENCES parent ON UPDATE RESTRICT)",
        "INSERT INTO parent VALUES (1, 'a'), (2, 'b')",
        "INSERT INTO old VALUES (1), (2)",
        "INSERT INTO new VALUES (1)",
    )
    change = "UPDATE parent SET id = 3 WHERE id = 1"

    assert "FOREIGN KEY constraint failed" in database.error(change)
    database.execute("DELETE FROM new")
    assert "UNIQUE constraint failed" in database.error(change)
