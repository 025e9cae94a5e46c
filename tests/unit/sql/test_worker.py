"""Workers and their pool; parameters as SQL values."""

from typing import Any

import pytest

from creekdb.errors import SqlTypeError, SqlUnknownName
from creekdb.sql.catalog import Schema, SchemaEntry, Storage
from creekdb.sql.worker import COMPILED_MAX, IDLE_MAX, SCHEMAS_MAX, WorkerPool, check_parameters
from tests.unit.sql.databases import Database


def schema(name: str) -> bytes:
    entry = SchemaEntry("table", name, name, f"CREATE TABLE {name}(a)")
    return Schema((entry,), {name: Storage(name, (0,), 1, 1)}).encode()


def test_a_worker_is_used_again_for_its_schema_only() -> None:
    pool = WorkerPool()
    first = pool.take(schema("a"))
    pool.give_back(first)
    other = pool.take(schema("b"))
    assert other is not first
    assert list(other.catalog.tables) == ["b"]
    assert pool.take(schema("a")) is first
    assert pool.take(schema("a")) is not first


def test_few_idle_workers_are_kept_per_schema() -> None:
    pool = WorkerPool()
    workers = [pool.take(schema("a")) for _ in range(IDLE_MAX + 2)]
    for worker in workers:
        pool.give_back(worker)
    taken = [pool.take(schema("a")) for _ in workers]
    assert sum(worker in workers for worker in taken) == IDLE_MAX


def test_the_least_recently_used_schema_loses_its_workers() -> None:
    pool = WorkerPool()
    first, second = pool.take(schema("t0")), pool.take(schema("t1"))
    pool.give_back(first)
    pool.give_back(second)
    pool.give_back(pool.take(schema("t0")))
    for number in range(2, SCHEMAS_MAX + 1):
        pool.give_back(pool.take(schema(f"t{number}")))
    assert pool.take(schema("t0")) is first
    assert pool.take(schema("t1")) is not second


def test_an_idle_worker_has_no_session() -> None:
    pool = WorkerPool()
    worker = pool.take(schema("a"))
    pool.give_back(worker)
    with pytest.raises(AssertionError):
        _ = worker.session


def test_many_statements_do_not_fill_the_memory() -> None:
    database = Database("CREATE TABLE t(a)")
    for number in range(COMPILED_MAX + 20):
        database.execute(f"SELECT {number} FROM t")
    pool = WorkerPool()
    worker = pool.take(database.state[("sql.schema",)])
    assert len(worker.compiled) <= COMPILED_MAX


@pytest.mark.parametrize(
    ("values", "checked"),
    [
        ((None, 1, 2.5, "a", b"b"), (None, 1, 2.5, "a", b"b")),
        ((True, False, 7), (1, 0, 7)),
        ((2**63 - 1, -(2**63)), (2**63 - 1, -(2**63))),
    ],
)
def test_parameters_are_sql_values(values: tuple[Any, ...], checked: tuple[Any, ...]) -> None:
    assert check_parameters(values) == checked
    assert [type(each) for each in check_parameters(values)] == [type(each) for each in checked]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (2**63, "parameter 2 is an integer beyond 64 bits"),
        ((1,), "parameter 2 is a tuple; give each value separately"),
        ({}, "parameter 2 is a dict"),
    ],
)
def test_another_parameter_is_refused_with_its_number(value: Any, problem: str) -> None:
    with pytest.raises(SqlTypeError, match=problem):
        check_parameters((1, value))


def test_a_query_on_another_schema_is_an_error() -> None:
    worker = WorkerPool().take(schema("a"))
    with pytest.raises(SqlUnknownName, match="no such table: b"):
        worker.query("SELECT * FROM b")
