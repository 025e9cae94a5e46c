import msgspec
import pytest

from creekdb.sql.catalog import Schema
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
        ("CREATE TABLE x AS SELECT count(*) FROM item", "CREATE TABLE … AS SELECT"),
        ("CREATE TABLE x(rowid, _rowid_, OID)", "hide the row id of table x; declare a primary"),
        (
            "ALTER TABLE item ADD COLUMN x DEFAULT 7 REFERENCES item",
            "Cannot add a REFERENCES column with non-NULL default value",
        ),
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


@pytest.mark.parametrize(
    "columns",
    [
        "a TEXT PRIMARY KEY, rowid",
        "a TEXT PRIMARY KEY, without rowid",
        "deferred TEXT PRIMARY KEY, trigger",
        "rowid INTEGER, a TEXT, PRIMARY KEY (rowid, a)",
    ],
)
def test_columns_may_have_the_names_of_options(columns: str) -> None:
    database = Database(f"CREATE TABLE t({columns})", "INSERT INTO t VALUES (1, 2)")

    assert "UNIQUE constraint failed" in database.error("INSERT INTO t VALUES (1, 2)")


@pytest.mark.parametrize("name", ["trigger", "temp", "virtual"])
def test_a_table_may_have_the_name_of_another_kind_of_object(name: str) -> None:
    database = Database(f"CREATE TABLE {name}(a)", f"INSERT INTO {name} VALUES (1)")

    assert database.rows(f"SELECT a FROM {name}") == ((1,),)


def test_a_row_id_is_found_even_if_columns_have_all_its_names() -> None:
    database = Database("CREATE TABLE t(rowid, _rowid_ INTEGER PRIMARY KEY, oid)")
    database.execute("INSERT INTO t VALUES ('a', 5, 'b'), ('a', 6, 'c')")
    database.execute("DELETE FROM t WHERE oid = 'b'")

    assert database.rows("UPDATE t SET rowid = 'd' RETURNING *") == (("d", 6, "c"),)


def test_a_column_with_references_may_be_added_without_a_parent() -> None:
    database = Database(ITEM, "ALTER TABLE item ADD COLUMN x DEFAULT 7 REFERENCES item(id)")
    assert "FOREIGN KEY" in database.error("INSERT INTO item(id) VALUES (1)")
    database.execute("INSERT INTO item(id, x) VALUES (1, 1)")

    database.execute("ALTER TABLE item ADD COLUMN y DEFAULT NULL REFERENCES item(id)")

    assert database.rows("SELECT y FROM item") == ((None,),)


def test_a_table_with_the_name_of_a_dropped_one_has_another_storage() -> None:
    database = Database()
    storages = []
    for _ in range(3):
        database.execute("CREATE TABLE item(name TEXT UNIQUE)")
        storages.append(database.table("item").storage.name)
        database.execute("DROP TABLE item")
    database.execute('CREATE TABLE "item 2"(a)')
    storages.append(database.table("item 2").storage.name)
    database.execute("CREATE TABLE ware(a)")

    assert storages == ["item", "item 2", "item 3", "item 2 2"]
    assert database.table("ware").storage.name == "ware"


def test_a_schema_without_dropped_tables_has_the_encoding_of_release_0_1_0() -> None:
    database = Database(ITEM)
    encoded = database.state[("sql.schema",)]
    entries, storage = msgspec.msgpack.decode(encoded)

    assert storage == {"item": ["item", [0, 1, 2], 3, 3, {}]}
    assert entries[0][:3] == ["table", "item", "item"]
    database.execute("ALTER TABLE item RENAME TO ware")
    database.execute("DROP TABLE ware")
    assert Schema.decode(database.state[("sql.schema",)]).dropped == {"item": 1}


@pytest.mark.parametrize("action", ["CASCADE", "NO ACTION"])
def test_a_table_that_refers_to_itself_is_dropped_with_all_its_rows(action: str) -> None:
    database = Database(
        f"CREATE TABLE node(id INTEGER PRIMARY KEY, up REFERENCES node ON DELETE {action})",
        "WITH RECURSIVE n(id) AS (VALUES (1) UNION ALL SELECT id + 1 FROM n WHERE id < 150) "
        "INSERT INTO node SELECT id, nullif(id - 1, 0) FROM n",
    )

    database.execute("DROP TABLE node")
    assert list(database.state) == [("sql.schema",)]


def test_a_table_with_restricted_children_of_its_own_is_not_dropped() -> None:
    database = Database(
        "CREATE TABLE node(id INTEGER PRIMARY KEY, up REFERENCES node ON DELETE RESTRICT)",
        "INSERT INTO node VALUES (1, NULL), (2, 1)",
    )

    assert "FOREIGN KEY constraint failed" in database.error("DROP TABLE node")
