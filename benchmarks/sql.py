"""Statements of SQL, relative to the same statements on a plain SQLite in memory.

Both sides execute the same texts with the same parameters through the same library. The statements
of Creek run in one transaction on the version store, in one process. Each row of the table has an
integer key, a text and a number.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import apsw

from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from benchmarks.timing import Timed, ratio
from creekdb.datatypes.sql import SQL
from creekdb.execution.mvcc.entry import tentative_position
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.execution.mvcc.version_store import VersionStore
from creekdb.execution.step_limit import STEPS_MAX
from creekdb.execution.transaction import Transaction
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.protocol.values import Key

ROWS = 1_000
CREATE = "CREATE TABLE account(id INTEGER PRIMARY KEY, name TEXT, balance INTEGER)"
INSERT = "INSERT INTO account VALUES (?, ?, ?)"
BLOCKS = 100
"""A transaction executes the timed statements in blocks of this size, like a long procedure."""

Execute = Callable[[str, tuple[Any, ...]], Any]


class Case(NamedTuple):
    what: str
    explanation: str
    statement: str
    parameters: Callable[[int], tuple[Any, ...]]
    bar: float
    statements: int
    """Number of statements per timed block, as a fraction of the scale."""


CASES = (
    Case(
        "point SELECT in SQL",
        "A row found by its key, relative to SQLite in memory.",
        "SELECT name, balance FROM account WHERE id = ?",
        lambda number: (number % ROWS,),
        4.0,
        1,
    ),
    Case(
        "point UPDATE in SQL",
        "One column of a row found by its key, relative to SQLite in memory.",
        "UPDATE account SET balance = balance + ? WHERE id = ?",
        lambda number: (1, number * 7 % ROWS),
        7.0,
        1,
    ),
    Case(
        "scan of 1,000 rows in SQL",
        "The sum of a column over the table, relative to SQLite in memory.",
        "SELECT sum(balance) FROM account",
        lambda number: (),
        20.0,
        20,
    ),
)


def rows() -> Iterator[tuple[int, str, int]]:
    return ((number, f"name {number}", number % 97) for number in range(ROWS))


def sqlite_execute() -> Execute:
    """Return a function that executes a statement on a plain SQLite with the rows."""
    connection = apsw.Connection(":memory:")
    connection.execute(CREATE)
    with connection:
        connection.executemany(INSERT, rows())

    def execute(statement: str, parameters: tuple[Any, ...]) -> Any:
        return connection.execute(statement, parameters).fetchall()

    return execute


def creek_state() -> dict[Key, Any]:
    machine = SQL.sequential()
    machine.call("sql", CREATE)
    machine.call("transaction", tuple((INSERT, row) for row in rows()))
    return machine.state


def creek_execute(state: dict[Key, Any]) -> Execute:
    """Return a function that executes a statement in a transaction on a version store."""
    store = VersionStore()
    loader = StateLoader(SQL.base, with_digest=False)
    loader.add(tuple(state.items()), ())
    store.load(loader)
    numbers = iter(range(1, 1_000_000_000))
    transaction: Transaction | None = None
    executed = 0

    def execute(statement: str, parameters: tuple[Any, ...]) -> Any:
        nonlocal transaction, executed
        if transaction is None or executed % BLOCKS == 0:
            if transaction is not None:
                transaction.close(Outcome())
            number = next(numbers)
            request = Request(number, Dot(0, number), Operation("sql"), strong=False)
            view = store.snapshot(tentative_position(request))
            transaction = Transaction(request, view, False, STEPS_MAX, "sql", SQL.sql_engine)
        executed += 1
        return transaction.sql(statement, *parameters).rows

    return execute


def _timed(make: Callable[[], Execute], case: Case, count: int) -> Timed:
    execute = make()
    calls = [case.parameters(number) for number in range(count)]
    execute(case.statement, calls[0])  # compile

    def run() -> None:
        for parameters in calls:
            execute(case.statement, parameters)

    return Timed(count, run)


def measure(scale: Scale) -> Iterator[Result]:
    state = creek_state()
    for case in CASES:
        count = max(2, scale.timed // case.statements)
        value = ratio(
            partial(_timed, partial(creek_execute, state), case, count),
            partial(_timed, sqlite_execute, case, count),
            scale.repeats,
            case.bar,
        )
        yield Result(what=case.what, explanation=case.explanation, value=value, bar=case.bar)


BENCHMARK = Benchmark("sql", len(CASES), measure)
