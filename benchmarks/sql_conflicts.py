"""Re-executions of SQL statements under `creek`, counted.

Three replicas are divided, execute statements on both sides, and are connected again. Statements
that do not conflict are executed once at each replica. Every number is exact.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from benchmarks.heal import ELECTION_TICKS, NO_CHECKPOINTS, PER_TICK, run_until_stable
from benchmarks.network import Cluster
from benchmarks.result import Benchmark, Result
from benchmarks.scale import Scale
from creekdb.datatypes.sql import SQL
from creekdb.protocol.request import Operation
from creekdb.protocol.settings import Settings
from creekdb.schemes.creek import CreekReplica

SIDES = (0, 2)
"""One replica of each side."""
OPERATIONS_DIVISOR = 10
"""Divisor of the number of operations of other counts. A statement costs more than a write."""
ROWS = 10
CREATE = (
    "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, stock INTEGER, price INTEGER) STRICT",
    "CREATE INDEX item_by_name ON item(name)",
)
FILL = "INSERT INTO item VALUES (?, ?, 0, 0)"

Statement: TypeAlias = Callable[[int, int], tuple[str, tuple[Any, ...]]]
"""Function from a side and a number to the statement and its parameters."""


def _insert(side: int, number: int) -> tuple[str, tuple[Any, ...]]:
    return "INSERT INTO item(name, stock, price) VALUES (?, 1, 1)", (f"{side} {number}",)


def _set_price_or_copy_stock(side: int, number: int) -> tuple[str, tuple[Any, ...]]:
    """Update a column on one side, and read another one of the same rows on the other side."""
    row = number % ROWS
    if side == 0:
        return "UPDATE item SET price = ? WHERE id = ?", (number, row)
    copy = "INSERT INTO item(name, stock) SELECT name, stock FROM item WHERE id = ?"
    return copy, (row,)


def _set_price_or_copy_price(side: int, number: int) -> tuple[str, tuple[Any, ...]]:
    row = number % ROWS
    if side == 0:
        return "UPDATE item SET price = ? WHERE id = ?", (number, row)
    copy = "INSERT INTO item(name, price) SELECT name, price FROM item WHERE id = ?"
    return copy, (row,)


class Case(NamedTuple):
    what: str
    explanation: str
    statement: Statement
    bar: int | None


CASES = (
    Case(
        "SQL: concurrent inserts into one table",
        "Re-executions at all replicas when both sides of a partition inserted rows into one "
        "table, which has an index.",
        _insert,
        0,
    ),
    Case(
        "SQL: an update of one column, readers of another",
        "The same when one side updated a column of rows, and the other side read another column.",
        _set_price_or_copy_stock,
        0,
    ),
    Case(
        "SQL: an update of one column, readers of it",
        "The same when the other side read the updated column, for comparison.",
        _set_price_or_copy_price,
        None,
    ),
)


def reexecutions(statement: Statement, operations: int) -> int:
    """Return the re-executions of all replicas when a partition heals after `operations`
    statements on each side."""
    settings = Settings(members=(0, 1, 2), checkpoint_every=NO_CHECKPOINTS)
    cluster = Cluster(settings, scheme=CreekReplica, datatype=SQL)
    for _ in range(ELECTION_TICKS):
        cluster.tick()
    filling = [*CREATE, *((FILL, (row, f"item {row}")) for row in range(ROWS))]
    cluster.invoke(0, Operation("transaction", (tuple(filling),)), strong=True)
    run_until_stable(cluster)
    cluster.partition(SIDES[1:])
    for number in range(operations):
        for side, replica in enumerate(SIDES):
            cluster.invoke(replica, Operation("sql", statement(side, number)), strong=False)
        if number % PER_TICK == 0:
            cluster.tick()
    cluster.heal()
    run_until_stable(cluster)
    lengths = (replica.view.committed_length() for replica in cluster.replicas)
    return cluster.executions - sum(lengths)


def measure(scale: Scale) -> Iterator[Result]:
    operations = scale.partition_operations // OPERATIONS_DIVISOR
    for case in CASES:
        yield Result(
            what=case.what,
            explanation=case.explanation,
            value=reexecutions(case.statement, operations),
            unit="re-executions",
            bar=case.bar,
            exact=case.bar is not None,
        )


BENCHMARK = Benchmark("sql-conflicts", len(CASES), measure)
