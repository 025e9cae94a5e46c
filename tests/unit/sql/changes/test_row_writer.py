"""Rows with their index entries, uniqueness and undo."""

from typing import Any

import pytest

from creekdb.datatypes.sql import SQL
from creekdb.execution.sequential import Sequential
from creekdb.execution.transaction import Transaction
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import NOOP, Outcome, Request
from creekdb.protocol.values import Key
from creekdb.sql.catalog import Table
from creekdb.sql.changes.row_writer import Row, RowWriter, unique_error
from tests.unit.schemes.single_replica import SingleReplica
from tests.unit.sql.databases import Database

SCHEMA = (
    "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE, stock INTEGER)",
    "CREATE INDEX by_stock ON item(stock)",
)


class WriterFixture:
    """A row writer on a table with a unique constraint and an index."""

    def __init__(self) -> None:
        database = Database(*SCHEMA, "INSERT INTO item VALUES (1, 'tea', 3), (2, NULL, 3)")
        self.table: Table = database.table("item")
        self.before = dict(database.state)
        view = Sequential(SQL)
        view.state = dict(database.state)
        self.transaction = Transaction(Request(0, Dot(0, 1), NOOP, True), view)
        self.writer = RowWriter(self.transaction)

    def row(self, *values: Any) -> Row:
        return Row((values[0],), values)

    @property
    def writes(self) -> dict[Key, Any]:
        return self.transaction.close(Outcome()).writes

    def entries(self) -> set[tuple[Any, ...]]:
        """Return the keys of the index entries after the writes."""
        keys = {**self.before, **self.writes}
        prefix = self.table.index_prefix(self.table.indexes[0])[:2]
        return {
            key[2:]
            for key, value in keys.items()
            if type(key) is tuple and key[:2] == prefix and type(value) is tuple
        }


@pytest.fixture
def fixture() -> WriterFixture:
    return WriterFixture()


def test_an_update_moves_the_entries_of_changed_columns_only(fixture: WriterFixture) -> None:
    before = fixture.entries()
    fixture.writer.update(fixture.table, fixture.row(1, "tea", 3), fixture.row(1, "jam", 3))
    written = {key[2:] for key in fixture.writes if type(key) is tuple and len(key) == 4}
    assert written == {("unique 1", "tea"), ("unique 1", "jam")}
    assert fixture.entries() == before - {("unique 1", "tea")} | {("unique 1", "jam")}


def test_a_new_key_moves_all_entries(fixture: WriterFixture) -> None:
    fixture.writer.update(fixture.table, fixture.row(1, "tea", 3), fixture.row(7, "tea", 3))
    assert fixture.transaction.get(("sql", "item", 1)) is None
    assert fixture.transaction.get(("sql", "item", 7)) == (7, "tea", 3)
    assert fixture.transaction.get(("sql.index", "item", "unique 1", "tea")) == (7,)
    assert len(fixture.entries()) == 4


def test_a_deletion_removes_all_registers_of_a_row(fixture: WriterFixture) -> None:
    for values in ((1, "tea", 3), (2, None, 3)):
        fixture.writer.delete(fixture.table, fixture.row(*values))
    assert fixture.entries() == set()
    assert [key for key in fixture.before if fixture.transaction.get(key)] == [("sql.schema",)]


@pytest.mark.parametrize(
    ("values", "constraints"),
    [
        ((3, "jam", 3), []),
        ((1, "jam", 3), ["primary key"]),
        ((3, "tea", 3), ["unique 1"]),
        ((2, "tea", 3), ["unique 1", "primary key"]),
        ((3, None, 3), []),
    ],
)
def test_conflicts_are_those_of_unique_constraints(
    fixture: WriterFixture, values: tuple[Any, ...], constraints: list[str]
) -> None:
    found = fixture.writer.conflicts(fixture.table, fixture.row(*values))
    assert sorted(each.constraint.name for each in found) == sorted(constraints)


def test_a_row_does_not_conflict_with_itself(fixture: WriterFixture) -> None:
    previous = fixture.row(1, "tea", 3)
    assert fixture.writer.conflicts(fixture.table, fixture.row(1, "tea", 9), previous) == []
    (conflict,) = fixture.writer.conflicts(fixture.table, fixture.row(2, "tea", 9), previous)
    assert conflict.parts == (2,)


def test_undo_restores_what_the_operation_had_written_before(fixture: WriterFixture) -> None:
    fixture.writer.insert(fixture.table, fixture.row(5, "rye", 1))
    written = dict(fixture.writes)
    second = RowWriter(fixture.transaction)
    second.update(fixture.table, fixture.row(5, "rye", 1), fixture.row(5, "rye", 2))
    second.update(fixture.table, fixture.row(5, "rye", 2), fixture.row(5, "oil", 2))
    second.delete(fixture.table, fixture.row(1, "tea", 3))
    second.undo()
    assert fixture.writes == written
    fixture.writer.undo()
    assert fixture.writes == {}


def test_errors_name_the_columns_of_the_constraint(fixture: WriterFixture) -> None:
    unique = {index.name: index for index in fixture.table.unique_constraints}
    texts = [str(unique_error(fixture.table, unique[name])) for name in sorted(unique)]
    assert texts == [
        "UNIQUE constraint failed: item.id",
        "UNIQUE constraint failed: item.name",
    ]


def test_concurrent_inserts_of_one_unique_value_do_not_both_succeed() -> None:
    single = SingleReplica(SQL)
    single.receive_request(0, "transaction", SCHEMA)
    single.execute_all()
    early = single.invoke("sql", "INSERT INTO item VALUES (1, 'tea', 1)")
    single.execute_all()
    late = single.receive_request(1, "sql", "INSERT INTO item VALUES (2, 'tea', 1)")
    assert single.execute_all() == [late, early]
    reader = single.invoke("query", "SELECT id FROM item")
    single.execute_all()
    assert single.responses_to(reader)[-1][1]["rows"] == ((2,),)
