"""Connections: the clock, random numbers and steps of a request; what is refused."""

from contextlib import suppress
from random import Random

import pytest

from creekdb.datatypes.sql import SQL
from creekdb.errors import SqlError
from creekdb.execution.datatype import DataType
from creekdb.execution.transaction import Transaction
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Request
from creekdb.sql.connection import Session
from creekdb.sql.worker import Worker
from tests.unit.sql.databases import Database

SERIES = (
    "WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < ?) "
    "SELECT {} FROM series"
)


def outcome(statement: str, timestamp: int = 1_700_000_000_000_000, event: int = 1) -> object:
    """Return the rows of a statement in the request with this timestamp and number."""
    operation = Operation("sql", (statement, ()))
    value = SQL.sequential().apply(Request(timestamp, Dot(2, event), operation, True)).value
    return value["rows"]


@pytest.mark.parametrize(
    "text",
    ["SELECT CURRENT_TIMESTAMP", "SELECT datetime('now')", "SELECT datetime()"],
)
def test_the_current_time_is_that_of_the_request(text: str) -> None:
    assert outcome(text) == (("2023-11-14 22:13:20",),)
    assert outcome(text, timestamp=0) == (("1970-01-01 00:00:00",),)


def test_a_default_uses_the_time_of_the_request() -> None:
    statements = (
        "CREATE TABLE t(a, at DEFAULT CURRENT_TIMESTAMP, s DEFAULT (unixepoch()))",
        "INSERT INTO t(a) VALUES (1) RETURNING at, s",
    )
    operation = Operation("transaction", (statements,))
    request = Request(1_700_000_000_000_000, Dot(0, 1), operation, True)
    value = SQL.sequential().apply(request).value
    assert value[1]["rows"] == (("2023-11-14 22:13:20", 1_700_000_000),)


@pytest.mark.parametrize("text", ["SELECT random()", "SELECT hex(randomblob(8))"])
def test_random_numbers_derive_from_the_request(text: str) -> None:
    assert outcome(text) == outcome(text)
    assert outcome(text) != outcome(text, event=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT sqlite_version()", "sqlite_version() depends on the replica"),
        ("SELECT load_extension('x')", "load_extension() depends on the replica"),
        ("SELECT datetime('now', 'localtime')", "'localtime' of datetime() depends on the time"),
        ("SELECT strftime('%s', 'now', ' UTC ')", "' UTC ' of strftime() depends on the time"),
        ("SELECT randomblob(100001)", "randomblob() returns at most 100000 bytes"),
        ("PRAGMA journal_mode", "PRAGMA journal_mode is not supported; use one of"),
        ("ATTACH 'x' AS y", "ATTACH is not supported"),
        ("SELECT * FROM sqlite_dbpage", "no such table: sqlite_dbpage"),
    ],
)
def test_what_depends_on_the_machine_is_refused(text: str, message: str) -> None:
    assert message in Database().error(text)


def test_a_query_without_end_is_stopped() -> None:
    small = DataType("small", sql=True, steps=1000)

    @small.operation
    def run(tx: Transaction) -> object:
        return tx.sql(SERIES.format("count(*)"), 10**9).rows

    error = small.sequential().apply(Request(0, Dot(0, 1), Operation("run"), True)).error
    assert error == "OperationStopped: operation 'run' took more than 1000 steps"


def test_a_caught_error_of_an_endless_query_does_not_save_the_operation() -> None:
    small = DataType("small", sql=True, steps=1000)

    @small.operation
    def run(tx: Transaction) -> str:
        with suppress(BaseException):
            tx.sql(SERIES.format("count(*)"), 10**9)
        return "done"

    error = small.sequential().apply(Request(0, Dot(0, 1), Operation("run"), True)).error
    assert (error or "").startswith("OperationStopped")


class CountingTransaction:
    """Transaction that only counts steps."""

    timestamp = 0
    steps = 0

    def step(self) -> None:
        self.steps += 1


def steps_of(worker: Worker, text: str, count: int) -> int:
    """Return the steps of a query on this worker, failed or not."""
    transaction = CountingTransaction()
    worker.slot.session = Session(transaction)  # type: ignore[arg-type]
    with suppress(SqlError):
        worker.query(text, (count,), is_bounded=False)
    return transaction.steps


@pytest.mark.parametrize(
    "column",
    ["n", "count(*)", "abs(-9223372036854775807 - (n > 60))"],
    ids=["rows", "one", "error"],
)
def test_steps_do_not_depend_on_earlier_statements(column: str) -> None:
    used, text, random = Worker(b""), SERIES.format(column), Random(1)
    for _ in range(60):
        count = random.randrange(100)
        assert steps_of(used, text, count) == steps_of(Worker(b""), text, count)


def test_more_work_takes_more_steps() -> None:
    worker = Worker(b"")
    text = SERIES.format("count(*)")
    assert steps_of(worker, text, 10_000) > 5 * steps_of(worker, text, 1_000) > 50


@pytest.mark.parametrize("is_bounded", [True, False])
@pytest.mark.parametrize("value", ["zeroblob(1000)", "printf('%1000d', n)", "1, 2, 3"])
def test_a_result_has_a_greatest_size(value: str, is_bounded: bool) -> None:
    worker = Worker(b"", result_bytes_max=50_000)
    worker.slot.session = Session(CountingTransaction())  # type: ignore[arg-type]
    text = SERIES.format(value)

    assert len(worker.query(text, (40,), is_bounded)) == 40
    with pytest.raises(SqlError, match="the result is larger than 50000 bytes; select fewer"):
        worker.query(text, (20_000,), is_bounded)
    assert len(worker.query(text, (40,), is_bounded)) == 40


def test_a_result_that_is_too_large_is_not_read_to_its_end() -> None:
    worker = Worker(b"", result_bytes_max=2_000_000)
    transaction = CountingTransaction()
    worker.slot.session = Session(transaction)  # type: ignore[arg-type]

    with pytest.raises(SqlError, match="the result is larger"):
        worker.query(SERIES.format("zeroblob(1000000)"), (10**6,), is_bounded=False)

    assert transaction.steps < 10


def test_functions_count_rows_of_the_operation() -> None:
    statements = (
        "CREATE TABLE t(a INTEGER PRIMARY KEY)",
        "INSERT INTO t VALUES (7), (8), (9)",
        "DELETE FROM t WHERE a > 7",
        "SELECT last_insert_rowid(), changes(), total_changes()",
    )
    operation = Operation("transaction", (statements,))
    value = SQL.sequential().apply(Request(5, Dot(0, 1), operation, True)).value
    assert value[3]["rows"] == ((9, 2, 5),)


@pytest.mark.parametrize(
    "table", ["dbstat", "fts5vocab", "pragma_function_list", "pragma_compile_options"]
)
def test_tables_of_the_connection_itself_are_hidden(table: str) -> None:
    assert "Sql" in Database().error(f"SELECT * FROM {table}")
