"""Statements as a whole: results, errors, refusals and determinism."""

from contextlib import suppress
from typing import Any

import pytest

from creekdb.datatypes.sql import SQL
from creekdb.errors import SqlConstraintError, SqlError, UsageError
from creekdb.execution.datatype import DataType
from creekdb.execution.debug import DebugDataType
from creekdb.execution.sequential import OperationRaised
from creekdb.execution.transaction import NOT_WRITTEN, Transaction
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Request
from creekdb.sql.engine import ENGINE
from tests.unit.schemes.single_replica import SingleReplica
from tests.unit.sql.databases import Database

ACCOUNT = "CREATE TABLE account(name TEXT PRIMARY KEY, balance INTEGER, note TEXT)"


def test_a_query_has_columns_even_without_rows() -> None:
    result = Database(ACCOUNT).execute("SELECT name, balance + 1 AS more FROM account")

    assert result == {
        "columns": ("name", "more"),
        "rows": (),
        "row_count": 0,
        "last_row_id": None,
    }


def test_sql_mixes_with_python_in_one_operation() -> None:
    shop = DataType("shop", sql=True)

    @shop.operation
    def order(tx: Transaction, item: str) -> int:
        tx.sql("CREATE TABLE IF NOT EXISTS sale(item TEXT, price INTEGER)")
        tx.put("last", item)
        tx.sql("INSERT INTO sale VALUES (:item, :price)", item=item, price=3)
        total: int = tx.sql("SELECT sum(price) FROM sale").rows[0][0]
        return total

    machine = shop.sequential()

    assert [machine.call("order", "tea"), machine.call("order", "jam")] == [3, 6]
    assert machine.state["last"] == "jam"


def test_a_named_parameter_may_have_any_name() -> None:
    shop = DataType("shop", sql=True)

    @shop.operation
    def run(tx: Transaction) -> Any:
        return tx.sql("SELECT :text, :self", text=1, self=2).rows

    assert shop.sequential().call("run") == ((1, 2),)


def test_a_rollback_to_a_savepoint_undoes_a_change_of_the_schema() -> None:
    shop = DataType("shop", sql=True)

    @shop.operation
    def run(tx: Transaction) -> Any:
        tx.sql("CREATE TABLE item(name TEXT)")
        before = tx.savepoint()
        tx.sql("ALTER TABLE item ADD COLUMN stock INTEGER")
        tx.roll_back_to(before)
        return tx.sql("SELECT * FROM item").columns

    assert shop.sequential().call("run") == ("name",)


def test_a_data_type_without_sql_refuses_statements() -> None:
    plain = DataType("plain")

    @plain.operation
    def run(tx: Transaction) -> Any:
        return tx.sql("SELECT 1")

    with pytest.raises(OperationRaised, match="declare the data type with sql=True"):
        plain.sequential().call("run")


def test_a_caught_error_leaves_no_trace_of_its_statement() -> None:
    careful = DataType("careful", sql=True)

    @careful.operation
    def run(tx: Transaction) -> Any:
        tx.sql("CREATE TABLE t(a INTEGER PRIMARY KEY)")
        tx.sql("INSERT INTO t VALUES (1)")
        with suppress(SqlConstraintError):
            tx.sql("INSERT INTO t VALUES (2), (3), (1)")
        return tx.sql("SELECT a FROM t").rows

    assert careful.sequential().call("run") == ((1,),)


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("CREATE UNIQUE INDEX by_name ON item(name)", "UNIQUE constraint failed: item.name"),
        ("DROP TABLE item", "FOREIGN KEY constraint failed"),
        ("ALTER TABLE item ADD COLUMN grade INTEGER CHECK (grade > id) DEFAULT 2", "CHECK"),
    ],
)
def test_a_caught_error_leaves_no_trace_of_its_schema_change(statement: str, error: str) -> None:
    careful = DataType("careful", sql=True)

    @careful.operation
    def run(tx: Transaction, changes: bool) -> Any:
        tx.sql("CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT)")
        tx.sql("CREATE TABLE sale(item INTEGER REFERENCES item(id), note TEXT)")
        tx.sql("CREATE TABLE gift(item INTEGER REFERENCES item(id) ON DELETE CASCADE)")
        tx.sql("INSERT INTO item VALUES (1, 'tea'), (2, 'jam'), (3, 'tea')")
        tx.sql("INSERT INTO sale VALUES (2, '')")
        tx.sql("INSERT INTO gift VALUES (1), (3)")
        if changes:
            with pytest.raises(SqlError, match=error):
                tx.sql(statement)
        return tx.sql("SELECT id, name FROM item JOIN gift ON id = item").rows

    changed, unchanged = careful.sequential(), careful.sequential()
    assert changed.call("run", True) == unchanged.call("run", False) == ((1, "tea"), (3, "tea"))
    assert changed.state == unchanged.state


def test_a_schema_change_without_effect_writes_nothing() -> None:
    database = Database(ACCOUNT)
    transaction = DataType("check", sql=True)

    @transaction.operation
    def run(tx: Transaction) -> Any:
        tx.sql("CREATE TABLE IF NOT EXISTS account(a)")
        tx.sql("DROP TABLE IF EXISTS missing")
        return tx.pending_write(("sql.schema",)) is NOT_WRITTEN

    machine = transaction.sequential()
    machine.state = dict(database.state)
    assert machine.call("run") is True


def test_a_failed_transaction_has_no_effect() -> None:
    database = Database(ACCOUNT)
    before = dict(database.state)

    with pytest.raises(OperationRaised, match="no such table: missing"):
        database.machine.call(
            "transaction", ("INSERT INTO account VALUES ('ann', 1, '')", "DELETE FROM missing")
        )

    assert database.state == before


def test_a_read_only_operation_cannot_write() -> None:
    database = Database(ACCOUNT)

    with pytest.raises(OperationRaised, match="declared read-only"):
        database.machine.call("query", "INSERT INTO account(name) VALUES ('ann')")


@pytest.mark.parametrize(
    ("statement", "remedy"),
    [
        ("BEGIN", "send all statements in one operation"),
        ("COMMIT", "send all statements in one operation"),
        ("SAVEPOINT a", "send all statements in one operation"),
        ("ATTACH 'file' AS other", "create the tables in this one"),
        ("VACUUM", "omit the statement"),
        ("ANALYZE", "must not depend on the data"),
        ("PRAGMA journal_mode", "PRAGMA journal_mode is not supported"),
        ("EXPLAIN SELECT 1", "EXPLAIN is supported only as EXPLAIN QUERY PLAN"),
        (
            "CREATE TRIGGER x AFTER INSERT ON account BEGIN SELECT 1; END",
            "statements of the trigger",
        ),
        ("SELECT * FROM account INDEXED BY i", "INDEXED BY is not supported; omit it"),
        ("DELETE FROM account INDEXED BY i", "INDEXED BY is not supported; omit it"),
        ("SELECT seq FROM sqlite_sequence", "sqlite_sequence is not supported"),
        ("CREATE TRIGGER x AFTER INSERT ON account", "CREATE TRIGGER is not supported"),
        ("CREATE TEMP TABLE x(a)", "CREATE TEMP is not supported"),
        ("CREATE VIRTUAL TABLE x USING fts5(a)", "CREATE VIRTUAL is not supported"),
        ("CREATE TABLE x AS SELECT 1", "INSERT … SELECT"),
        ("CREATE TABLE x(a UNIQUE ON CONFLICT IGNORE)", "INSERT OR"),
        ("CREATE TABLE creek_x(a)", "reserved"),
        ("CREATE INDEX x ON account(balance) WHERE balance > 1", "partial indexes"),
        ("CREATE INDEX x ON account(balance + 1)", "generated column"),
        ("SELECT sqlite_version()", "depends on the replica"),
        ("SELECT load_extension('x')", "load_extension"),
        ("SELECT datetime('now', 'localtime')", "times are in UTC"),
        ("SELECT 1; SELECT 2", "found more"),
    ],
)
def test_unsupported_statements_are_refused_by_name(statement: str, remedy: str) -> None:
    assert remedy in Database(ACCOUNT).error(statement)


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("SELECT 'a b", 'unrecognized token: "\'a b"'),
        ("SELECT % FROM 'a", 'near "%": syntax error'),
        ("-- nothing", "expected a statement, found none"),
        (f"SELECT 1{' + 1' * 300}", "Expression tree is too large (maximum depth 200)"),
        (f"SELECT {'(' * 9000}1{')' * 9000}", "Recursion limit"),
        (f"SELECT * FROM {'(SELECT * FROM ' * 9000}t{')' * 9000}", "Recursion limit"),
        (f"SELECT '{'x' * 1_000_000}'", "a statement has at most 1000000 characters"),
        (f"SELECT {'1,' * 2500}1", "too many columns in result set"),
        (f"SELECT ?{'9' * 5000}", "variable number must be between ?1 and ?32766"),
        ("SELECT 'a\0b'", "cannot contain the character NUL"),
        ("SELECT CAST(x'ff' AS TEXT)", "SqlTypeError: a text is not valid Unicode"),
        *[
            (text, "SqlSyntaxError: incomplete input")
            for text in (
                *(
                    "CREATE",
                    "CREATE TABLE",
                    "CREATE UNIQUE",
                    "CREATE TABLE t",
                    "DROP",
                    "DROP TABLE",
                ),
                *("DROP TABLE IF EXISTS", "DROP TABLE main.", "ALTER", "ALTER TABLE", "PRAGMA"),
                *(
                    "EXPLAIN QUERY PLAN SELECT 1 IN",
                    "WITH",
                    "INSERT",
                    "REPLACE INTO",
                    "SELECT 1 IN",
                ),
            )
        ],
    ],
)
def test_a_malformed_statement_has_the_error_of_sqlite(statement: str, error: str) -> None:
    assert error in Database(ACCOUNT).error(statement)


INJECTION = "x'; DROP TABLE account; DELETE FROM account WHERE '1' = '1"


def test_a_parameter_is_never_a_part_of_the_statement() -> None:
    database = Database(ACCOUNT, "INSERT INTO account VALUES ('ann', 1, '')")
    database.execute("INSERT INTO account VALUES (?, 2, ?)", INJECTION, INJECTION)
    database.execute("UPDATE account SET note = note || ? WHERE name = ?", "' --", INJECTION)
    database.execute("DELETE FROM account WHERE name = ?", "ann' OR '1' = '1")
    database.execute("SELECT * FROM account WHERE name = ? OR note LIKE ?", "'; --", "%';%")
    assert database.rows("SELECT * FROM account ORDER BY 1") == (
        ("ann", 1, ""),
        (INJECTION, 2, INJECTION + "' --"),
    )


@pytest.mark.parametrize("value", [(1, 2), {"a": 1}, 2**70])
def test_a_parameter_of_another_type_is_refused(value: Any) -> None:
    shop = DataType("shop", sql=True)

    @shop.operation
    def run(tx: Transaction) -> Any:
        return tx.sql("SELECT ?", value)

    with pytest.raises(OperationRaised, match="SqlTypeError: parameter 1 is"):
        shop.sequential().call("run")


@pytest.mark.parametrize(
    ("text", "parameters", "error"),
    [
        (
            "SELECT '\ud800'",
            (),
            "SqlSyntaxError: a statement cannot contain the character NUL or half",
        ),
        ("SELECT ?", ("\ud800",), "SqlTypeError: a text is not valid Unicode"),
        ("INSERT INTO t VALUES (?)", ("\ud800",), "SqlTypeError: a text is not valid Unicode"),
    ],
)
def test_half_a_surrogate_pair_is_refused(
    text: str, parameters: tuple[str, ...], error: str
) -> None:
    shop = DataType("shop", sql=True)

    @shop.operation
    def run(tx: Transaction) -> Any:
        tx.sql("CREATE TABLE t(a TEXT)")
        return tx.sql(text, *parameters)

    with pytest.raises(OperationRaised, match=error):
        shop.sequential().call("run")


def test_parameters_are_never_parsed() -> None:
    database = Database(ACCOUNT)
    attack = "x'); DROP TABLE account; --"

    database.execute("INSERT INTO account(name) VALUES (?)", attack)

    assert database.rows("SELECT name FROM account WHERE name = ?", attack) == ((attack,),)


def test_a_statement_that_is_too_long_or_too_deep_is_refused() -> None:
    database = Database(ACCOUNT)

    assert "at most" in database.error("SELECT " + "1" * 1_000_000)
    assert "Expression tree is too large" in database.error("SELECT " + "+".join("1" * 300))


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"


@pytest.mark.parametrize(
    "endless",
    [
        f"{ENDLESS} SELECT sum(x) FROM c",
        "SELECT * FROM numbers",
        "SELECT * FROM main.numbers",
        "SELECT * FROM 'numbers'",
        "SELECT a FROM t WHERE a IN numbers",
        "SELECT a IN main.numbers FROM t",
        "UPDATE t SET a = 2 WHERE a NOT IN numbers",
        "INSERT INTO t SELECT 2 IN numbers",
        "INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE SET a = 2 IN numbers",
        "DELETE FROM t RETURNING a IN numbers",
    ],
)
def test_a_runaway_statement_is_stopped_after_the_same_number_of_steps(endless: str) -> None:
    short = DataType("short", sql=True, steps=500)

    @short.operation
    def run(tx: Transaction) -> Any:
        tx.sql("CREATE TABLE t(a UNIQUE)")
        tx.sql("INSERT INTO t VALUES (1)")
        tx.sql(f"CREATE VIEW numbers AS {ENDLESS} SELECT x FROM c")
        return tx.sql(endless).rows

    errors = []
    for _ in range(3):
        with pytest.raises(OperationRaised) as raised:
            short.sequential().call("run")
        errors.append(str(raised.value))

    assert errors == ["OperationStopped: operation 'run' took more than 500 steps"] * 3


def request(text: str, timestamp: int = 1_763_480_000_123_456, replica: int = 1) -> Request:
    return Request(timestamp, Dot(replica, 1), Operation("sql", (text,)), strong=False)


def test_clock_and_random_numbers_derive_from_the_request() -> None:
    text = "SELECT datetime('now'), CURRENT_DATE, unixepoch(), random(), hex(randomblob(4))"
    first, again = (SQL.sequential().apply(request(text)).value for _ in range(2))
    other = SQL.sequential().apply(request(text, timestamp=1_763_480_000_123_457)).value

    assert first == again
    assert first["rows"][0][:3] == ("2025-11-18 15:33:20", "2025-11-18", 1_763_480_000)
    assert other["rows"][0][3:] != first["rows"][0][3:]


def test_debug_mode_accepts_statements_with_and_without_a_cached_plan() -> None:
    machine = DebugDataType(SQL).sequential()
    machine.call("sql", ACCOUNT)
    for name in ("ann", "bob", "ann"):
        machine.call("sql", "INSERT INTO account(name) VALUES (?) ON CONFLICT DO NOTHING", (name,))

    assert machine.call("query", "SELECT count(*) FROM account")["rows"] == ((2,),)


def test_debug_mode_collects_warnings_about_results_that_depend_on_the_plan() -> None:
    datatype = DebugDataType(SQL)
    machine = datatype.sequential()
    machine.call("sql", ACCOUNT)
    query = "SELECT name FROM account LIMIT 1"
    machine.call("preview", ({"sql": query, "parameters": ()},))

    assert datatype.sql_warnings[ACCOUNT] == ()
    assert "LIMIT without ORDER BY" in datatype.sql_warnings[query][0]


def test_changes_and_row_ids_are_those_of_the_operation() -> None:
    database = Database("CREATE TABLE t(a)")

    results = database.machine.call(
        "transaction",
        ("INSERT INTO t VALUES (1), (2)", "SELECT changes(), last_insert_rowid(), total_changes()"),
    )

    row_id = results[0]["last_row_id"]
    assert results[1]["rows"] == ((2, row_id, 2),)
    assert database.rows("SELECT changes(), last_insert_rowid()") == ((0, 0),)


def test_the_schema_can_be_queried() -> None:
    database = Database(ACCOUNT, "CREATE INDEX by_balance ON account(balance)")

    columns = database.rows("PRAGMA table_info(account)")
    names = database.rows("SELECT name FROM sqlite_schema WHERE type = 'index' ORDER BY name")

    assert [row[1] for row in columns] == ["name", "balance", "note"]
    assert ("by_balance",) in names
    assert database.rows("SELECT name FROM pragma_table_info('account')")[0] == ("name",)


@pytest.mark.parametrize("text", ["sqlite_master", "sqlite_schema", "sqlite_sequence", "pragma_x"])
def test_a_name_in_a_text_does_not_decide_which_tables_are_read(text: str) -> None:
    database = Database(ACCOUNT, "INSERT INTO account VALUES ('ann', 1, '')")

    assert database.rows(f"SELECT name, '{text}' FROM account") == (("ann", text),)
    assert database.rows(f"SELECT name AS {text} FROM account") == (("ann",),)


def test_views_of_the_schema_show_the_tables_of_the_database_only() -> None:
    database = Database(
        "CREATE TABLE account(name TEXT)", "CREATE VIEW names AS SELECT name FROM sqlite_schema"
    )

    assert database.rows("SELECT name FROM names") == (("account",), ("names",))
    assert database.rows("SELECT name FROM sqlite_temp_schema") == ()


@pytest.mark.parametrize(
    ("statement", "remedy"),
    [
        ("SELECT s.name FROM account, sqlite_schema AS s", "send two queries"),
        ("SELECT name FROM account WHERE name IN (SELECT name FROM names)", "send two queries"),
        ("SELECT (SELECT count(*) FROM pragma_table_info('account')) FROM account", "two queries"),
        ("INSERT INTO account(name) SELECT name FROM sqlite_schema", "query the schema first"),
        ("UPDATE account SET note = (SELECT count(*) FROM names)", "query the schema first"),
        ("DELETE FROM account RETURNING (SELECT 1 FROM sqlite_schema)", "query the schema first"),
    ],
)
def test_a_statement_on_rows_cannot_read_the_schema(statement: str, remedy: str) -> None:
    database = Database(ACCOUNT, "CREATE VIEW names AS SELECT name FROM sqlite_schema")

    assert remedy in database.error(statement)


def test_the_ids_of_autoincrement_are_refused_by_name() -> None:
    database = Database("CREATE TABLE n(k INTEGER PRIMARY KEY AUTOINCREMENT)")

    for text in (
        "SELECT seq FROM sqlite_sequence",
        "SELECT k FROM n WHERE k IN (SELECT seq FROM sqlite_sequence)",
    ):
        assert "sqlite_sequence is not supported" in database.error(text)


def test_the_version_names_the_sources_of_sqlite() -> None:
    assert ENGINE.version.startswith("sqlite 3.")
    assert len(ENGINE.version.split()) > 4


def test_a_missing_package_is_reported_at_the_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError("no apsw", name="apsw")

    monkeypatch.setattr("creekdb.execution.sql_engine.import_module", missing)

    with pytest.raises(UsageError, match=r"install creekdb\[sql\]"):
        DataType("shop", sql=True)


# --- conflicts ----------------------------------------------------------------------------------


def test_concurrent_inserts_into_one_table_reexecute_nothing() -> None:
    single = SingleReplica(SQL)
    single.receive_request(0, "sql", "CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER)")
    single.execute_all()
    inserts = [single.invoke("sql", "INSERT INTO t(v) VALUES (?)", (each,)) for each in range(5)]
    single.execute_all()

    late = single.receive_request(1, "sql", "INSERT INTO t(v) VALUES (9)")

    assert single.execute_all() == [late]
    assert [single.issue_counts[each] for each in inserts] == [1] * 5


def test_a_late_change_of_the_schema_executes_its_readers_again() -> None:
    single = SingleReplica(SQL)
    single.receive_request(0, "sql", "CREATE TABLE t(a INTEGER PRIMARY KEY)")
    single.execute_all()
    insert = single.invoke("sql", "INSERT INTO t(a) VALUES (1) RETURNING *")
    single.execute_all()

    late = single.receive_request(1, "sql", "ALTER TABLE t ADD COLUMN b DEFAULT 7")

    assert single.execute_all() == [late, insert]
    reader = single.invoke("query", "SELECT * FROM t")
    single.execute_all()
    assert single.responses_to(reader)[-1][1]["rows"] == ((1, 7),)


def test_an_update_of_one_column_reexecutes_no_reader_of_another() -> None:
    single = SingleReplica(SQL)
    create = "CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b INTEGER)"
    single.receive_request(0, "transaction", (create, "INSERT INTO t VALUES (1, 1, 1), (2, 1, 1)"))
    single.execute_all()
    other = single.invoke("sql", "SELECT sum(b) FROM t")
    reader = single.invoke("sql", "SELECT sum(a) FROM t")
    single.execute_all()

    late = single.receive_request(1, "sql", "UPDATE t SET a = 7 WHERE id = 1")

    assert single.execute_all() == [late, reader]
    assert single.issue_counts[other] == 1
