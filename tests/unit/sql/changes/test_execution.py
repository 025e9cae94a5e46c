"""INSERT, UPDATE and DELETE, and the registers that they write."""

from typing import Any

import apsw
import pytest

from creekdb.errors import SqlError
from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction
from tests.unit.sql.databases import Database

ITEM = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE, stock INTEGER DEFAULT 5)"


def test_a_row_and_its_entries_are_registers() -> None:
    database = Database(ITEM, "INSERT INTO item VALUES (7, 'tea', 3)")

    assert database.state[("sql", "item", 7)] == (7, "tea", 3)
    assert database.state[("sql.index", "item", "unique 1", "tea")] == (7,)

    database.execute("UPDATE item SET name = 'jam' WHERE id = 7")
    assert ("sql.index", "item", "unique 1", "tea") not in database.state
    database.execute("DELETE FROM item")
    assert list(database.state) == [("sql.schema",)]


def test_a_row_is_stored_by_its_primary_key() -> None:
    database = Database("CREATE TABLE line(shop TEXT, number INT, PRIMARY KEY (number, shop))")
    database.execute("INSERT INTO line VALUES ('a', 2), ('a', 1)")

    assert database.rows("SELECT number FROM line") == ((1,), (2,))
    assert "NOT NULL constraint failed" in database.error("INSERT INTO line(shop) VALUES ('a')")
    assert "no such column: rowid" in database.error("SELECT rowid FROM line")


def test_defaults_and_conversion_are_those_of_sqlite() -> None:
    database = Database(ITEM)

    result = database.execute("INSERT INTO item(id, name) VALUES ('1', 2) RETURNING *")

    assert result["rows"] == ((1, "2", 5),)
    assert (result["row_count"], result["last_row_id"]) == (1, 1)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("INSERT INTO item VALUES (1, 'x', 1)", "UNIQUE constraint failed: item.id"),
        ("INSERT INTO item VALUES (3, 'tea', 1)", "UNIQUE constraint failed: item.name"),
        ("INSERT INTO item VALUES (3, 'x', 1), (3, 'y', 1)", "UNIQUE constraint failed: item.id"),
        ("UPDATE item SET name = 'tea'", "UNIQUE constraint failed: item.name"),
        ("UPDATE item SET id = NULL WHERE id = 1", "datatype mismatch"),
        ("INSERT INTO item VALUES ('x', 'x', 1)", "datatype mismatch"),
        ("INSERT INTO item(id, other) VALUES (1, 1)", "has no column named other"),
        ("INSERT INTO item(id, stock) VALUES (9, 9e999)", "infinite"),
    ],
)
def test_violations_are_reported_and_change_nothing(statement: str, message: str) -> None:
    database = Database(ITEM, "INSERT INTO item VALUES (1, 'tea', 1), (2, 'jam', 1)")

    assert message in database.error(statement)


def test_or_ignore_skips_and_or_replace_deletes_rows_in_the_way() -> None:
    database = Database(ITEM, "INSERT INTO item VALUES (1, 'tea', 1), (2, 'jam', 1)")

    ignored = database.execute("INSERT OR IGNORE INTO item VALUES (1, 'x', 1), (3, 'y', 1)")
    database.execute("REPLACE INTO item VALUES (1, 'jam', 9)")

    assert ignored["row_count"] == 1
    assert database.rows("SELECT * FROM item ORDER BY id") == ((1, "jam", 9), (3, "y", 1))


def test_upsert_sees_the_existing_and_the_excluded_row() -> None:
    database = Database(ITEM, "INSERT INTO item VALUES (1, 'tea', 1)")
    upsert = (
        "INSERT INTO item VALUES (?, ?, ?) ON CONFLICT(name) DO UPDATE "
        "SET stock = stock + excluded.stock WHERE excluded.stock > 1 RETURNING id, stock"
    )

    assert database.rows(upsert, 5, "tea", 4) == ((1, 5),)
    assert database.rows(upsert, 5, "tea", 1) == ()
    assert database.rows(upsert, 5, "jam", 2) == ((5, 2),)
    assert "item.id" in database.error(upsert, 5, "new", 2)


def test_update_from_and_row_values() -> None:
    database = Database(
        ITEM, "INSERT INTO item VALUES (1, 'tea', 1), (2, 'jam', 1)", "CREATE TABLE new(k, n, s)"
    )
    database.execute("INSERT INTO new VALUES (1, 'gin', 7)")

    database.execute("UPDATE item SET (name, stock) = (n, s) FROM new WHERE k = id")
    database.execute("UPDATE item SET (stock) = (SELECT max(s) FROM new) WHERE id = 2")

    assert database.rows("SELECT * FROM item") == ((1, "gin", 7), (2, "jam", 7))


def test_an_update_does_not_meet_its_own_rows() -> None:
    database = Database("CREATE TABLE n(v INTEGER PRIMARY KEY)")
    database.execute("INSERT INTO n VALUES (10), (20), (30)")

    assert database.execute("UPDATE n SET v = v + 11 WHERE v < 100")["row_count"] == 3
    assert database.rows("SELECT v FROM n") == ((21,), (31,), (41,))


def test_expressions_see_the_table_before_the_statement() -> None:
    database = Database("CREATE TABLE n(k INTEGER PRIMARY KEY, v)")
    database.execute("INSERT INTO n VALUES (1, 1), (2, 1)")

    database.execute("INSERT INTO n SELECT k + 10, (SELECT count(*) FROM n) FROM n")

    assert database.rows("SELECT v FROM n WHERE k > 10") == ((2,), (2,))


def test_autoincrement_never_reuses_an_id() -> None:
    database = Database("CREATE TABLE n(k INTEGER PRIMARY KEY AUTOINCREMENT, v)")
    database.execute("INSERT INTO n(v) VALUES (1), (2)")
    database.execute("DELETE FROM n")

    assert database.rows("INSERT INTO n(v) VALUES (3) RETURNING k") == ((3,),)


def test_autoincrement_continues_after_an_id_that_an_update_set() -> None:
    database = Database("CREATE TABLE n(k INTEGER PRIMARY KEY AUTOINCREMENT, v)")
    database.execute("INSERT INTO n(v) VALUES (1)")
    database.execute("UPDATE n SET k = 3 WHERE k = 1")

    assert database.rows("INSERT INTO n(v) VALUES (2), (3) RETURNING k") == ((4,), (5,))


def test_a_row_that_or_fail_refuses_uses_up_no_id() -> None:
    careful = DataType("careful", sql=True)

    @careful.operation
    def run(tx: Transaction) -> Any:
        tx.sql("CREATE TABLE n(k INTEGER PRIMARY KEY AUTOINCREMENT, v UNIQUE)")
        with pytest.raises(SqlError):
            tx.sql("INSERT OR FAIL INTO n(v) VALUES (1), (2), (1)")
        tx.sql("INSERT INTO n(v) VALUES (3)")
        return tx.sql("SELECT k FROM n").rows

    assert careful.sequential().call("run") == ((1,), (2,), (3,))


def test_generated_columns_and_checks_follow_updates() -> None:
    database = Database(
        "CREATE TABLE n(k INTEGER PRIMARY KEY, v INT, w AS (v * 2) STORED, CHECK (v < 9))",
        "CREATE INDEX by_w ON n(w)",
        "INSERT INTO n(k, v) VALUES (1, 2)",
    )

    assert database.rows("UPDATE n SET v = 4 RETURNING w") == ((8,),)
    assert database.rows("SELECT k FROM n WHERE w = 8") == ((1,),)
    assert database.error("UPDATE n SET v = 9").endswith("CHECK constraint failed: v < 9")


def run_and_catch(statement: str) -> tuple[str, Any]:
    """Execute a statement that raises. Return its error and the rows afterwards."""
    careful = DataType("careful", sql=True)

    @careful.operation
    def run(tx: Transaction) -> Any:
        tx.sql("CREATE TABLE shop(id INTEGER PRIMARY KEY)")
        tx.sql(
            "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE, stock NOT NULL "
            "CHECK (stock < 9), shop INTEGER REFERENCES shop ON UPDATE CASCADE UNIQUE)"
        )
        tx.sql("INSERT INTO shop VALUES (1), (2)")
        tx.sql("INSERT INTO item VALUES (1, 'tea', 1, 1), (2, 'jam', 2, NULL)")
        with pytest.raises(SqlError) as raised:
            tx.sql(statement)
        return str(raised.value), tx.sql("SELECT id, name FROM item ORDER BY id").rows

    caught: tuple[str, Any] = careful.sequential().call("run")
    return caught


@pytest.mark.parametrize(
    ("statement", "error", "kept"),
    [
        ("INSERT OR FAIL INTO item VALUES (3, 'a', 1, 2), (1, 'b', 1, 2)", "item.id", "a"),
        ("INSERT OR FAIL INTO item VALUES (3, 'a', 1, 2), (4, 'b', NULL, 2)", "NOT NULL", "a"),
        ("INSERT OR FAIL INTO item VALUES (3, 'a', 1, 2), (4, 'b', 9, 2)", "CHECK", "a"),
        ("UPDATE OR FAIL item SET name = 'a'", "UNIQUE constraint failed: item.name", "a"),
        ("INSERT OR FAIL INTO item VALUES (3, 'a', 1, 7), (1, 'b', 1, 2)", "FOREIGN KEY", ""),
        ("INSERT OR FAIL INTO item VALUES (3, 'a', 1, 7), (4, 'b', 9, 2)", "FOREIGN KEY", ""),
        ("UPDATE OR FAIL item SET name = 'a', shop = 7", "FOREIGN KEY", ""),
        ("INSERT OR FAIL INTO item VALUES (3, 'a', 1, 2), ('x', 'b', 1, 2)", "mismatch", ""),
        (
            "INSERT OR FAIL INTO item VALUES (3, 'a', 1, 2), (1, 'b', 1, 2) "
            "ON CONFLICT(id) DO UPDATE SET name = 'jam'",
            "UNIQUE constraint failed: item.name",
            "",
        ),
        ("INSERT INTO item VALUES (3, 'a', 1, 2), (1, 'b', 1, 2)", "item.id", ""),
    ],
)
def test_or_fail_keeps_the_rows_before_a_violation_if_they_have_their_parents(
    statement: str, error: str, kept: str
) -> None:
    message, rows = run_and_catch(statement)

    assert error in message
    assert ("a" in {name for _, name in rows}) == bool(kept)


@pytest.mark.parametrize("table", ["t(a)", "t(id INTEGER PRIMARY KEY AUTOINCREMENT, a)"])
@pytest.mark.parametrize(
    ("text", "row_id"),
    [
        *[(text, 5) for text in ("5", " 5 ", "+5", "5.", "5.0", ".5e1", "50e-1", "5\t")],
        ("1e1", 10),
        ("-3", -3),
        ("-0", 0),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        *[(text, None) for text in ("", "+-5", "--5", "5 x", "0x5", "1_0", "5.5", "\xa05", "²")],
        *[(text, None) for text in ("\u0665", "9223372036854775808", "1e19", "9" * 5000)],
    ],
)
def test_a_text_is_a_row_id_as_in_sqlite(table: str, text: str, row_id: int | None) -> None:
    database = Database(f"CREATE TABLE {table}")
    plain = apsw.Connection(":memory:")
    plain.execute(f"CREATE TABLE {table}")
    insert = "INSERT INTO t(rowid, a) VALUES (?, 1)"

    if row_id is None:
        assert "SqlTypeError: datatype mismatch" in database.error(insert, text)
        with pytest.raises(apsw.MismatchError):
            plain.execute(insert, (text,))
    else:
        database.execute(insert, text)
        plain.execute(insert, (text,))
        assert database.rows("SELECT rowid FROM t") == ((row_id,),)
        assert plain.execute("SELECT rowid FROM t").fetchall() == [(row_id,)]


NUMBERED = "CREATE TABLE n(id INTEGER PRIMARY KEY, a UNIQUE, b NOT NULL DEFAULT 7 CHECK (b < 50))"
THREE = "INSERT INTO n VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)"


@pytest.mark.parametrize("resolution", ["OR IGNORE", "OR REPLACE", "OR FAIL", ""])
@pytest.mark.parametrize(
    ("assignment", "error"),
    [
        ("a = 2", "UNIQUE constraint failed: n.a"),
        ("b = NULL", "NOT NULL constraint failed: n.b"),
        ("b = 99", "CHECK constraint failed: b < 50"),
    ],
)
def test_the_resolution_of_an_insert_does_not_apply_to_its_upsert(
    resolution: str, assignment: str, error: str
) -> None:
    database = Database(NUMBERED, THREE)
    insert = f"INSERT {resolution} INTO n VALUES (1, 9, 9)"
    assert error in database.error(f"{insert} ON CONFLICT(id) DO UPDATE SET {assignment}")


def test_or_replace_uses_the_default_for_an_updated_null() -> None:
    database = Database(NUMBERED, THREE)
    database.execute("UPDATE OR REPLACE n SET b = NULL, a = 3 WHERE id = 1")
    assert database.rows("SELECT * FROM n") == ((1, 3, 7), (2, 2, 2))
    assert "NOT NULL" in database.error("UPDATE n SET b = NULL")


@pytest.mark.parametrize(
    ("clauses", "row"),
    [
        ("ON CONFLICT(a) DO UPDATE SET b = 20 ON CONFLICT(id) DO UPDATE SET b = 30", (1, 1, 20)),
        ("ON CONFLICT(id) DO UPDATE SET b = 30 ON CONFLICT(a) DO UPDATE SET b = 20", (2, 2, 30)),
        ("ON CONFLICT(id) DO UPDATE SET b = 30 ON CONFLICT DO NOTHING", (2, 2, 30)),
    ],
)
def test_the_first_clause_for_a_conflict_decides(clauses: str, row: tuple[int, ...]) -> None:
    database = Database(NUMBERED, THREE)
    database.execute(f"INSERT INTO n VALUES (2, 1, 5) {clauses}")
    assert database.rows("SELECT * FROM n WHERE b >= 20") == (row,)


def test_a_check_reads_the_row_id_of_its_row() -> None:
    database = Database(
        "CREATE TABLE t(a, CHECK (rowid < 10))", "INSERT INTO t(rowid, a) VALUES (5, 1)"
    )

    assert "CHECK constraint failed" in database.error("INSERT INTO t(rowid) VALUES (50)")
    assert "CHECK constraint failed" in database.error("INSERT INTO t(a) VALUES (1)")
    assert "CHECK constraint failed" in database.error("UPDATE t SET rowid = 60")
    database.execute("UPDATE t SET rowid = 6, a = 2")
    database.execute("UPDATE t SET a = 3")
    assert database.rows("SELECT rowid, a FROM t") == ((6, 3),)

    change = "ALTER TABLE t ADD COLUMN b DEFAULT 1 CHECK (b + rowid < 7)"
    assert "CHECK constraint failed" in database.error(change)
    database.execute(change.replace("7", "8"))
