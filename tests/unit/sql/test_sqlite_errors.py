import apsw
import pytest

from creekdb.errors import (
    SqlConstraintError,
    SqlError,
    SqlSyntaxError,
    SqlTypeError,
    SqlUnknownName,
)
from creekdb.sql.sqlite_errors import translate

SCHEMA = "CREATE TABLE t(a INTEGER PRIMARY KEY, b NOT NULL)"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("SELEC 1", SqlSyntaxError, 'near "SELEC": syntax error (line 1, column 1)'),
        ("SELECT\n  missing FROM t", SqlUnknownName, "no such column: missing (line 2, column 3)"),
        (
            "SELECT 'é', missing FROM t",
            SqlUnknownName,
            "no such column: missing (line 1, column 13)",
        ),
        ("SELECT 1 FROM", SqlSyntaxError, "incomplete input (line 1, column 14)"),
        (
            "SELECT *\nFROM main.[Missing]",
            SqlUnknownName,
            "no such table: main.Missing (line 2, column 11)",
        ),
        ("UPDATE t SET c = 1", SqlUnknownName, "no such column: c (line 1, column 14)"),
        (
            "INSERT INTO t(a, c) VALUES (1, 2)",
            SqlUnknownName,
            "table t has no column named c (line 1, column 18)",
        ),
        ("SELECT 1 FROM u, u AS v", SqlUnknownName, "no such table: u"),
        ("SELECT missing()", SqlUnknownName, "no such function: missing (line 1, column 8)"),
        (
            "INSERT INTO t VALUES (1)",
            SqlSyntaxError,
            "table t has 2 columns but 1 values were supplied",
        ),
        ("INSERT INTO t VALUES (1, NULL)", SqlConstraintError, "NOT NULL constraint failed: t.b"),
        ("INSERT INTO t VALUES ('x', 1)", SqlTypeError, "datatype mismatch"),
        ("SELECT abs(-9223372036854775807 - 1)", SqlError, "integer overflow"),
    ],
)
def test_errors_keep_the_words_of_sqlite(text: str, kind: type[SqlError], message: str) -> None:
    connection = apsw.Connection(":memory:")
    connection.execute(SCHEMA)
    with pytest.raises(apsw.Error) as raised:
        connection.execute(text).fetchall()

    error = translate(raised.value, text)

    assert type(error) is kind
    assert str(error) == message
