"""Scripts of interactive transactions, on a sequential machine."""

from typing import Any

import pytest

from creekdb.datatypes.sql import SQL
from creekdb.datatypes.sql_script import ENTRIES_MAX
from creekdb.execution.sequential import OperationRaised, Sequential

INSERT = {"sql": "INSERT INTO item(stock) VALUES (?) RETURNING id", "parameters": (3,)}
COUNT = {"sql": "SELECT count(*), random(), datetime('now') FROM item", "parameters": ()}


@pytest.fixture
def session() -> Sequential:
    machine = SQL.sequential()
    machine.call("sql", "CREATE TABLE item(id INTEGER PRIMARY KEY, stock INTEGER CHECK(stock > 0))")
    return machine


def stocks(session: Sequential) -> tuple[Any, ...]:
    rows = session.call("query", "SELECT stock FROM item ORDER BY stock")["rows"]
    return tuple(stock for (stock,) in rows)


def preview_all(session: Sequential, *entries: Any) -> tuple[tuple[str, ...], Any, list[Any]]:
    """Preview a script entry by entry, like a client. Return its digests, origin and responses."""
    digests: tuple[str, ...] = ()
    origin, responses = None, []
    for count in range(1, len(entries) + 1):
        response = session.call("preview", entries[:count], digests, origin)
        origin, digests = response["origin"], (*digests, response["digest"])
        responses.append(response)
    return digests, origin, responses


def test_a_preview_keeps_no_writes(session: Sequential) -> None:
    _, _, responses = preview_all(session, INSERT, COUNT)
    assert responses[-1]["value"]["rows"][0][0] == 1
    assert stocks(session) == ()


def test_a_commit_repeats_row_ids_random_numbers_and_times(session: Sequential) -> None:
    digests, origin, responses = preview_all(session, INSERT, COUNT)
    assert session.call("commit", (INSERT, COUNT), digests, origin) == digests
    row_id = responses[0]["value"]["rows"][0][0]
    assert session.call("query", "SELECT id FROM item")["rows"] == ((row_id,),)


def test_a_commit_with_other_results_has_no_effect(session: Sequential) -> None:
    digests, origin, _ = preview_all(session, COUNT, INSERT)
    session.call("sql", "INSERT INTO item(stock) VALUES (7)")
    with pytest.raises(OperationRaised, match=r"SqlSerializationError: .* statement 1 "):
        session.call("commit", (COUNT, INSERT), digests, origin)
    assert stocks(session) == (7,)


def test_a_commit_without_digests_takes_effect_unless_a_statement_fails(
    session: Sequential,
) -> None:
    _, origin, _ = preview_all(session, COUNT, INSERT)
    session.call("sql", "INSERT INTO item(stock) VALUES (7)")
    session.call("commit", (COUNT, INSERT), None, origin)
    assert stocks(session) == (3, 7)
    change = {"sql": "UPDATE item SET stock = stock - 3", "parameters": ()}
    with pytest.raises(OperationRaised, match="SqlConstraintError: CHECK constraint failed"):
        session.call("commit", (INSERT, change), None, origin)
    assert stocks(session) == (3, 7)


def test_an_expected_error_is_a_result_like_any_other(session: Sequential) -> None:
    failing = {"sql": "INSERT INTO item(stock) VALUES (?)", "each": ((5,), (0,))}
    digests, origin, responses = preview_all(session, INSERT, failing, COUNT)
    assert responses[1]["error"].startswith("SqlConstraintError: CHECK")
    session.call("commit", (INSERT, failing, COUNT), digests, origin)
    assert stocks(session) == (3,)


def test_a_rollback_to_a_savepoint_undoes_changes_of_rows_and_schema(session: Sequential) -> None:
    entries = (
        INSERT,
        {"savepoint": "s"},
        {"sql": "CREATE TABLE other(a)", "parameters": ()},
        {"sql": "UPDATE item SET stock = 9", "parameters": ()},
        {"rollback_to": "S"},
        {"sql": "SELECT * FROM other", "parameters": ()},
        {"sql": "SELECT stock FROM item", "parameters": ()},
        {"release": "s"},
    )
    digests, origin, responses = preview_all(session, *entries)
    assert responses[5]["error"] == "SqlUnknownName: no such table: other (line 1, column 15)"
    assert responses[6]["value"]["rows"] == ((3,),)
    session.call("commit", entries, digests, origin)
    assert stocks(session) == (3,)


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("preview", ((),), "at least one entry"),
        ("preview", ("SELECT 1",), "a list of entries"),
        ("preview", ((INSERT,), 3), "'digests' is a list"),
        ("preview", ((INSERT,), (), (1, 2)), "three integers"),
        ("commit", ((INSERT,), None, None), "three integers"),
        ("commit", ((INSERT,), (), (1, 2, 3)), "one digest for each entry"),
        ("commit", (({"text": "SELECT 1"},), None, (1, 2, 3)), "'sql' and 'parameters'"),
        ("commit", (({"release": "s"},), None, (1, 2, 3)), "no such savepoint: s"),
        ("commit", ((INSERT,) * (ENTRIES_MAX + 1), None, (1, 2, 3)), "at most 10000 statements"),
        ("batch", ("SELECT 1", "many"), "list of lists"),
        ("sql", ("SELECT 1", 3), "a list, or a dict by name"),
    ],
)
def test_malformed_scripts_are_refused(
    session: Sequential, name: str, arguments: Any, problem: str
) -> None:
    with pytest.raises(OperationRaised, match=problem):
        session.call(name, *arguments)
    assert stocks(session) == ()


def test_a_batch_merges_its_results_and_fails_as_a_whole(session: Sequential) -> None:
    text = "INSERT INTO item(stock) VALUES (?) RETURNING stock"
    result = session.call("batch", text, ((1,), (2,)))
    assert (result["rows"], result["row_count"]) == (((1,), (2,)), 2)
    with pytest.raises(OperationRaised, match="CHECK"):
        session.call("batch", text, ((3,), (0,)))
    assert stocks(session) == (1, 2)
    assert session.call("batch", text, ())["row_count"] == 0


def test_a_list_of_statements_is_one_transaction(session: Sequential) -> None:
    insert = "INSERT INTO item(stock) VALUES (?)"
    results = session.call("sql", [(insert, (3,)), "SELECT stock FROM item"])
    assert results[1]["rows"] == ((3,),)
    with pytest.raises(OperationRaised, match="CHECK constraint failed"):
        session.call("sql", [(insert, (4,)), (insert, (-1,))])
    assert stocks(session) == (3,)
    with pytest.raises(OperationRaised, match="has its own parameters"):
        session.call("sql", [insert], (4,))
