import pytest

from tests.unit.sql.databases import Database

ITEM = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, stock INTEGER)"
ROWS = "INSERT INTO item VALUES (1, 'tea', 3), (2, 'jam', 4)"


def test_an_added_column_shows_its_default_and_keeps_an_explicit_null() -> None:
    database = Database(ITEM, ROWS, "ALTER TABLE item ADD COLUMN price INTEGER DEFAULT 9")
    stored = database.state[("sql", "item", 1)]

    database.execute("UPDATE item SET price = NULL WHERE id = 2")

    assert stored == (1, "tea", 3)  # rows are not rewritten
    assert database.rows("SELECT id, price FROM item ORDER BY id") == ((1, 9), (2, None))
    assert database.rows("SELECT id FROM item WHERE price IS NULL") == ((2,),)


def test_renamed_and_dropped_columns_leave_rows_unchanged() -> None:
    database = Database(ITEM, ROWS)
    before = database.state[("sql", "item", 1)]

    database.execute("ALTER TABLE item RENAME COLUMN name TO title")
    database.execute("ALTER TABLE item DROP COLUMN stock")
    database.execute("ALTER TABLE item ADD COLUMN stock TEXT")

    assert database.state[("sql", "item", 1)] == before
    assert database.rows("SELECT * FROM item") == ((1, "tea", None), (2, "jam", None))
    assert "no such column: name" in database.error("SELECT name FROM item")


def test_a_renamed_table_keeps_its_rows_and_frees_its_name() -> None:
    database = Database(ITEM, ROWS, "CREATE INDEX by_name ON item(name)")
    database.execute("ALTER TABLE item RENAME TO ware")
    database.execute(ITEM)

    assert database.rows("SELECT count(*) FROM item") == ((0,),)
    assert database.rows("SELECT id FROM ware WHERE name = 'jam'") == ((2,),)


def test_an_index_is_filled_checked_and_emptied() -> None:
    database = Database(ITEM, ROWS, "CREATE UNIQUE INDEX by_name ON item(name)")
    entry = ("sql.index", "item", "by_name", "tea")

    assert database.state[entry] == (1,)
    database.execute("DROP INDEX by_name")
    assert entry not in database.state
    database.execute("UPDATE item SET name = 'tea'")
    message = database.error("CREATE UNIQUE INDEX by_name ON item(name)")
    assert "UNIQUE constraint failed: item.name" in message


def test_a_dropped_table_leaves_no_registers() -> None:
    database = Database(
        "CREATE TABLE n(k INTEGER PRIMARY KEY AUTOINCREMENT, v UNIQUE)",
        "INSERT INTO n(v) VALUES (1)",
        "DROP TABLE n",
    )

    assert list(database.state) == [("sql.schema",)]


def test_views_are_part_of_the_schema() -> None:
    database = Database(ITEM, ROWS, "CREATE VIEW few AS SELECT name FROM item WHERE stock < 4")

    assert database.rows("SELECT * FROM few") == (("tea",),)
    assert "cannot modify few because it is a view" in database.error("DELETE FROM few")
    database.execute("DROP VIEW few")
    assert "no such table: few" in database.error("SELECT * FROM few")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE item(a)", "table item already exists"),
        ("DROP TABLE missing", "no such table: missing"),
        ("ALTER TABLE item ADD COLUMN x NOT NULL", "Cannot add a NOT NULL column"),
        ("ALTER TABLE item ADD COLUMN x CHECK (stock < 4)", "CHECK constraint failed"),
        (
            "ALTER TABLE item ADD COLUMN x AS (id + 1)",
            "cannot add a generated column; create a new",
        ),
        ("ALTER TABLE item ADD x INT GENERATED ALWAYS AS (id)", "cannot add a generated column"),
        ("ALTER TABLE item ADD CONSTRAINT x CHECK (id > 0)", "cannot add a constraint; create"),
        ("ALTER TABLE item ADD COLUMN x DEFAULT (1 + 1)", "column with non-constant default"),
        ("ALTER TABLE item DROP COLUMN id", 'cannot drop PRIMARY KEY column: "id"'),
        ("CREATE TABLE x(a, a)", "duplicate column name: a"),
        ("CREATE TABLE x(a REFERENCES item DEFERRABLE INITIALLY DEFERRED)", "deferred"),
    ],
)
def test_invalid_schema_changes_are_refused(statement: str, message: str) -> None:
    assert message in Database(ITEM, ROWS).error(statement)


def test_a_schema_change_and_statements_on_it_form_one_transaction() -> None:
    database = Database()

    results = database.machine.call(
        "transaction", (ITEM, ROWS, "ALTER TABLE item ADD COLUMN p DEFAULT 1", "SELECT p FROM item")
    )

    assert results[3]["rows"] == ((1,), (1,))
