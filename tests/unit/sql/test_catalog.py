"""Storage of tables: positions of columns, keys of rows and entries, encoding of the schema."""

from creekdb.sql.catalog import STORED_NULL, Schema, Storage
from tests.unit.sql.databases import Database

ITEM = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, stock INTEGER)"


def test_a_schema_survives_encoding() -> None:
    database = Database(ITEM, "CREATE INDEX i ON item(name)", "CREATE VIEW v AS SELECT 1")
    encoded = database.state[("sql.schema",)]
    schema = Schema.decode(encoded)
    assert [entry.kind for entry in schema.entries] == ["table", "index", "view"]
    assert schema.storage == {"item": Storage("item", (0, 1, 2), 3, 3)}
    assert schema.encode() == encoded


def test_a_dropped_position_is_never_used_again() -> None:
    database = Database(
        ITEM,
        "INSERT INTO item VALUES (1, 'tea', 5)",
        "ALTER TABLE item DROP COLUMN name",
        "ALTER TABLE item ADD COLUMN price INTEGER DEFAULT 7",
        "ALTER TABLE item DROP COLUMN price",
        "ALTER TABLE item ADD COLUMN note TEXT",
    )
    storage = database.table("item").storage
    assert (storage.slots, storage.width) == ((0, 2, 4), 5)
    assert database.rows("SELECT * FROM item") == ((1, 5, None),)
    database.execute("INSERT INTO item VALUES (2, 6, 'n')")
    assert database.state[("sql", "item", 2)] == (2, None, 6, None, "n")
    assert database.rows("SELECT note, stock FROM item WHERE id = 2") == (("n", 6),)


def test_a_missing_item_is_the_default_and_an_explicit_null_is_not() -> None:
    database = Database(
        ITEM,
        "INSERT INTO item VALUES (1, 'tea', 5)",
        "ALTER TABLE item ADD COLUMN price INTEGER DEFAULT 7",
        "INSERT INTO item VALUES (2, 'jam', 1, NULL), (3, 'rye', 1, 8)",
    )
    table = database.table("item")
    assert table.store((2, "jam", 1, None)) == (2, "jam", 1, STORED_NULL)
    assert table.load((2, "jam", 1, STORED_NULL)) == (2, "jam", 1, None)
    assert table.load((1, "tea", 5)) == (1, "tea", 5, 7)
    rows = "SELECT id, price FROM item ORDER BY id"
    assert database.rows(rows) == ((1, 7), (2, None), (3, 8))
    database.execute("UPDATE item SET price = NULL WHERE id = 1")
    assert database.rows(rows) == ((1, None), (2, None), (3, 8))


def test_a_dense_row_is_stored_as_it_is() -> None:
    table = Database(ITEM).table("item")
    values = (1, "tea", 5)
    assert table.is_dense
    assert table.store(values) is values
    assert table.load(values) is values


def test_an_entry_with_null_contains_the_key_of_its_row() -> None:
    database = Database("CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b TEXT, UNIQUE (a, b))")
    table = database.table("t")
    (index,) = table.indexes
    prefix = ("sql.index", "t", index.name)
    assert table.index_key(index, (1, "x", "y"), (1,)) == (*prefix, "x", "y")
    assert table.index_key(index, (1, "x", None), (1,)) == (*prefix, "x", 0, 1)


def test_a_new_table_does_not_reuse_the_storage_of_a_renamed_one() -> None:
    database = Database(ITEM, "INSERT INTO item VALUES (1, 'tea', 5)")
    database.execute("ALTER TABLE item RENAME TO old")
    database.execute(ITEM)
    assert database.table("old").storage.name == "item"
    assert database.table("item").storage.name == "item 2"
    assert database.rows("SELECT id FROM old UNION ALL SELECT id FROM item") == ((1,),)


def test_a_name_of_the_row_id_that_no_column_hides_is_used() -> None:
    database = Database("CREATE TABLE t(rowid TEXT, oid TEXT)", "INSERT INTO t VALUES ('a', 'b')")
    assert database.table("t").row_id_name == "_rowid_"
    database.execute("UPDATE t SET oid = 'c'")
    assert database.rows("SELECT rowid, oid FROM t") == (("a", "c"),)


def test_parents_know_the_foreign_keys_of_their_children() -> None:
    database = Database(ITEM, "CREATE TABLE sale(item REFERENCES item)")
    database.execute("INSERT INTO item VALUES (1, 'tea', 5)")
    database.execute("INSERT INTO sale VALUES (1)")
    assert "FOREIGN KEY" in database.error("DELETE FROM item")
    database.execute("ALTER TABLE item RENAME TO ware")
    assert "FOREIGN KEY" in database.error("DELETE FROM ware")


def test_a_dropped_last_column_is_left_out_of_its_rows() -> None:
    database = Database(
        ITEM,
        "ALTER TABLE item ADD COLUMN price INTEGER",
        "INSERT INTO item VALUES (1, 'tea', 5, 9)",
        "ALTER TABLE item DROP COLUMN price",
    )
    assert database.table("item").load((1, "tea", 5, 9)) == (1, "tea", 5)
    update = "UPDATE item SET name = 'jam' RETURNING *"
    assert database.rows(update) == ((1, "jam", 5),)
    assert database.rows("SELECT * FROM item") == ((1, "jam", 5),)
