"""Plans: which columns a statement assigns, and the queries that evaluate its parts."""

import pytest

from creekdb.sql.catalog import Table
from creekdb.sql.changes.plan import ChangePlan, column_number
from creekdb.sql.changes.row_writer import Conflict
from creekdb.sql.statements import parse
from tests.unit.sql.databases import Database

ITEM = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT UNIQUE, size INTEGER, label AS (name))"


@pytest.fixture(scope="module")
def table() -> Table:
    return Database(ITEM).table("item")


def plan(table: Table, text: str) -> ChangePlan:
    return ChangePlan(parse(text), table, views=frozenset({"big"}))


def test_an_insert_without_columns_provides_all_but_generated_ones(table: Table) -> None:
    inserted = plan(table, "INSERT INTO item VALUES (1, 'a', 2)").inserted
    assert inserted is not None
    assert (inserted.numbers, inserted.row_id_position) == ((0, 1, 2), None)
    defaults = plan(table, "INSERT INTO item DEFAULT VALUES")
    assert defaults.inserted is not None
    assert (defaults.inserted.numbers, defaults.source) == ((), None)


def test_a_row_id_without_a_column_has_a_position() -> None:
    table = Database("CREATE TABLE t(a, b)").table("t")
    inserted = plan(table, "INSERT INTO t(b, rowid) VALUES (1, 2)").inserted
    assert inserted is not None
    assert (inserted.numbers, inserted.row_id_position) == ((1,), 1)
    assigned = plan(table, "UPDATE t SET oid = 5, a = 1").assigned
    assert assigned is not None
    assert (assigned.numbers, assigned.row_id_position) == ((None, 0), 0)
    assert assigned.changes_keys


@pytest.mark.parametrize(
    ("text", "changes_keys"),
    [("UPDATE t SET a = 1", True), ("UPDATE t SET b = 1", True), ("UPDATE t SET c = 1", False)],
)
def test_only_columns_of_keys_and_indexes_change_keys(text: str, changes_keys: bool) -> None:
    database = Database("CREATE TABLE t(a INTEGER PRIMARY KEY, b, c)", "CREATE INDEX i ON t(b)")
    assigned = plan(database.table("t"), text).assigned
    assert assigned is not None
    assert assigned.changes_keys == changes_keys


def test_a_generated_column_may_change_keys_with_any_column(table: Table) -> None:
    assigned = plan(table, "UPDATE item SET size = 1").assigned
    assert assigned is not None
    assert assigned.changes_keys


def test_a_query_takes_the_parameters_up_to_its_greatest(table: Table) -> None:
    made = plan(table, "UPDATE item SET size = ?2 WHERE id = ?1 RETURNING size + ?3")
    assert made.source is not None
    assert made.returning is not None
    assert (made.source.parameters, made.returning.parameters) == (2, 3)


@pytest.mark.parametrize(
    ("text", "is_bounded"),
    [
        ("UPDATE item SET size = 1 WHERE name IS DISTINCT FROM 'x'", True),
        ("DELETE FROM item WHERE id IN (1, 2)", True),
        ("DELETE FROM item WHERE id IN (SELECT id FROM item)", False),
        ("UPDATE item SET size = o.size FROM item AS o", False),
        ("INSERT INTO item(name) VALUES ('a'), ('b')", True),
        ("INSERT INTO item(name) SELECT name FROM item", True),
        ("INSERT INTO item(name) SELECT name FROM big", False),
        ("INSERT INTO item(name) SELECT value FROM json_each('[1]')", False),
        ("INSERT INTO item(name) SELECT a.name FROM item a JOIN item b", False),
        ("WITH q AS (VALUES (1)) DELETE FROM item WHERE id = 1", False),
    ],
)
def test_work_that_does_not_follow_from_rows_is_unbounded(
    table: Table, text: str, is_bounded: bool
) -> None:
    source = plan(table, text).source
    assert source is not None
    assert source.is_bounded == is_bounded


def test_an_upsert_handles_the_constraint_that_it_names(table: Table) -> None:
    by_name = next(each for each in table.unique_constraints if each.columns == (1,))
    text = "INSERT INTO item VALUES (1, 'a', 2) ON CONFLICT({}) DO UPDATE SET size = {}"
    (upsert,) = plan(table, text.format("name", "excluded.size")).upserts
    assert upsert.handles(Conflict(by_name, (1,)))
    assert not upsert.handles(Conflict(table.primary_key, (1,)))
    assert upsert.query is not None
    assert upsert.query.is_bounded
    (costly,) = plan(table, text.format("name", "(SELECT max(size) FROM item)")).upserts
    assert costly.query is not None
    assert not costly.query.is_bounded


def test_names_of_columns_ignore_case(table: Table) -> None:
    assert column_number(table, "NAME") == 1
    assert column_number(table, "RowId") == 0
