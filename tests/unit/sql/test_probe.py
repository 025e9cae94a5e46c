"""Probes: descriptions of tables, validation of statements and conversion of rows."""

import pytest

from creekdb.errors import SqlConstraintError, SqlTypeError, SqlUnknownName
from creekdb.sql.catalog import Schema, SchemaEntry, Storage, Table
from creekdb.sql.connection import Session, SessionSlot
from creekdb.sql.key_codec import Codec
from creekdb.sql.probe import Probe, affinity
from tests.unit.sql.databases import Database


def described(sql: str, *others: str) -> Table:
    """Return the description of the table t."""
    statements = (sql, *others)
    entries = tuple(SchemaEntry("table", "t", "t", each) for each in statements)
    return Probe(Schema(entries), SessionSlot()).describe("t", sql)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("INTEGER", "INTEGER"),
        ("bigint unsigned", "INTEGER"),
        ("CHARINT", "INTEGER"),
        ("VARCHAR(10)", "TEXT"),
        ("CLOB", "TEXT"),
        ("", "BLOB"),
        ("BLOB", "BLOB"),
        ("DOUBLE PRECISION", "REAL"),
        ("FLOAT", "REAL"),
        ("DECIMAL(10, 2)", "NUMERIC"),
        ("ANY", "NUMERIC"),
    ],
)
def test_affinities_follow_the_rules_of_sqlite(declared: str, expected: str) -> None:
    assert affinity(declared, is_strict=False) == expected
    database = Database(f"CREATE TABLE t(a {declared})")
    stored = database.rows("INSERT INTO t VALUES ('5') RETURNING typeof(a)")
    numeric = {"INTEGER": "integer", "NUMERIC": "integer", "REAL": "real"}
    assert stored == ((numeric.get(expected, "text"),),)


def test_any_of_a_strict_table_converts_nothing() -> None:
    assert affinity("ANY", is_strict=True) == "BLOB"


def test_keys_and_their_order_are_described() -> None:
    table = described(
        "CREATE TABLE t(a TEXT COLLATE NOCASE, b INTEGER NOT NULL, c UNIQUE, "
        "PRIMARY KEY (b, a)) STRICT, WITHOUT ROWID".replace("c UNIQUE", "c ANY UNIQUE"),
        "CREATE UNIQUE INDEX newest ON t(a COLLATE BINARY, c DESC)",
    )
    assert table.primary_key.columns == (1, 0)
    assert table.primary_key.collations == ("BINARY", "NOCASE")
    assert table.primary_key.codecs == (Codec.INTEGER, Codec.TEXT)
    assert [index.name for index in table.indexes] == ["newest", "unique 1"]
    assert table.indexes[0].collations == ("BINARY", "BINARY")
    assert (table.has_row_id, table.is_strict, table.row_id_column) == (False, True, None)


@pytest.mark.parametrize(
    ("declaration", "row_id_column"),
    [
        ("a INTEGER PRIMARY KEY", 0),
        ("b, a INTEGER, PRIMARY KEY (a)", 1),
        ("a INTEGER", None),
        ("a INTEGER UNIQUE", None),
    ],
)
def test_an_integer_primary_key_is_the_row_id(declaration: str, row_id_column: int | None) -> None:
    table = described(f"CREATE TABLE t({declaration})")
    assert table.row_id_column == row_id_column
    assert table.has_row_id


def test_special_tables_need_the_probe_for_each_row() -> None:
    assert described("CREATE TABLE t(a CHECK (a > 0))").needs_probe
    assert described("CREATE TABLE t(a, b AS (a + 1))").needs_probe
    assert not described("CREATE TABLE t(a NOT NULL DEFAULT 5)").needs_probe
    assert described("CREATE TABLE t(a INTEGER PRIMARY KEY AUTOINCREMENT)").is_autoincrement


def test_foreign_keys_without_columns_refer_to_the_primary_key() -> None:
    schema = Schema(
        (
            SchemaEntry("table", "p", "p", "CREATE TABLE p(x, y, PRIMARY KEY (y, x))"),
            SchemaEntry(
                "table",
                "t",
                "t",
                "CREATE TABLE t(a, b, FOREIGN KEY (a, b) REFERENCES p ON DELETE CASCADE)",
            ),
        )
    )
    (key,) = Probe(schema, SessionSlot()).describe("t", schema.entries[1].sql).foreign_keys
    assert (key.columns, key.parent_columns) == (("a", "b"), ("y", "x"))
    assert (key.on_delete, key.on_update) == ("CASCADE", "NO ACTION")


def probe_of(sql: str) -> tuple[Probe, Table]:
    storage = {"t": Storage("t", (0, 1), 2, 2)}
    slot = SessionSlot()
    slot.session = Session(None)  # type: ignore[arg-type]
    probe = Probe(Schema((SchemaEntry("table", "t", "t", sql),), storage), slot)
    return probe, probe.describe("t", sql)


def test_a_converted_row_has_defaults_and_types_and_leaves_no_trace() -> None:
    probe, table = probe_of("CREATE TABLE t(a INTEGER, b TEXT DEFAULT 'none' CHECK (b <> 'bad'))")
    assert probe.convert(table, (0,), ["12"]) == (12, "none")
    assert probe.convert(table, (0, 1), ["x", 5]) == ("x", "5")
    with pytest.raises(SqlConstraintError, match="CHECK constraint failed"):
        probe.convert(table, (1,), ["bad"])
    assert probe.connection.execute("SELECT count(*) FROM t").get == 0


def test_an_infinite_number_is_refused() -> None:
    probe, table = probe_of("CREATE TABLE t(a REAL, b)")
    with pytest.raises(SqlTypeError, match="infinite"):
        probe.convert(table, (0,), ["9e999"])


def test_a_statement_is_validated_without_being_executed() -> None:
    probe, _ = probe_of("CREATE TABLE t(a, b)")
    assert probe.prepare("INSERT INTO t VALUES (1, 2) RETURNING b AS c").columns == ("c",)
    assert not probe.prepare("DELETE FROM t").is_readonly
    assert probe.prepare("SELECT a FROM t").is_readonly
    assert probe.connection.execute("SELECT count(*) FROM t").get == 0
    with pytest.raises(SqlUnknownName, match="no such column: nope"):
        probe.prepare("SELECT nope FROM t")


STRICT = "CREATE TABLE s(i INTEGER, r REAL, t TEXT, b BLOB, x ANY) STRICT"


@pytest.mark.parametrize(
    ("column", "value", "is_stored"),
    [
        ("i", "5", True),
        ("i", "'5'", True),
        ("i", "5.5", False),
        ("i", "'x'", False),
        ("i", "x'00'", False),
        ("r", "5", True),
        ("r", "'x'", False),
        ("t", "5", True),
        ("t", "x'00'", False),
        ("b", "'x'", False),
        ("b", "x'00'", True),
        ("x", "x'00'", True),
    ],
)
def test_a_strict_column_holds_values_of_its_type_only(
    column: str, value: str, is_stored: bool
) -> None:
    database = Database(STRICT, "INSERT INTO s DEFAULT VALUES")
    for text in (f"INSERT INTO s({column}) VALUES ({value})", f"UPDATE s SET {column} = {value}"):
        if is_stored:
            database.execute(text)
        else:
            assert "cannot store" in database.error(text)
