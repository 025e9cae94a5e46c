"""SQL as text on the live page."""

from collections.abc import Callable
from typing import Any

import pytest

from creekdb.datatypes.sql import SQL
from creekdb.errors import BadValue
from creekdb.http.operations import OperationCatalog
from creekdb.http.sql import describe_operation, describe_outcome, parse_statements
from creekdb.protocol.request import Operation, Outcome
from creekdb.wire.deduplication import wrap_call

RESULT = {"columns": ("n",), "rows": ((1,),), "row_count": 1, "last_row_id": None}


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (SQL.call("sql", "SELECT ?", (1,)), "SELECT ?"),
        (SQL.call("queries", ("SELECT 1", ("SELECT ?", (2,)))), "SELECT 1; SELECT ?"),
        (wrap_call("client", 3, SQL.call("query", "SELECT 1")), "SELECT 1"),
        (Operation("transaction", ()), "transaction()"),
        (Operation("other", ("SELECT 1",)), "other('SELECT 1')"),
    ],
)
def test_calls_are_shown_as_their_statements(operation: Operation, text: str) -> None:
    assert describe_operation(operation) == text


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (Outcome(RESULT), "1 row"),
        (Outcome((RESULT, {**RESULT, "row_count": 3})), "1 row; 3 rows"),
        (Outcome(None, "SqlError: no such table: a"), "SqlError: no such table: a"),
        (Outcome(None), "None"),
        (Outcome(()), "()"),
    ],
)
def test_results_are_shown_as_numbers_of_rows(outcome: Outcome, text: str) -> None:
    assert describe_outcome(outcome) == text


@pytest.mark.parametrize("wrap", [lambda value: [1, value], lambda value: {"id": value}])
def test_parameters_may_be_tagged_integers(wrap: Callable[[object], Any]) -> None:
    def parameters(value: object) -> Any:
        body = {"statements": [{"sql": "SELECT :id", "parameters": wrap(value)}]}
        _, ((statement,),) = parse_statements(OperationCatalog(SQL), body)
        return statement[1]

    expected = wrap(-9007199254740993)
    assert parameters({"$integer": "-9007199254740993"}) == (
        tuple(expected) if isinstance(expected, list) else expected
    )
    with pytest.raises(BadValue, match="integer"):
        parameters({"$integer": 9007199254740993})


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ([], "an object with the key 'statements'"),
        ({}, "an object with the key 'statements'"),
        ({"statements": ["SELECT 1"], "consistency": "strong"}, "unknown key 'consistency'"),
        ({"statements": []}, "at least one statement"),
    ],
)
def test_a_wrong_body_is_refused_with_its_key(body: Any, problem: str) -> None:
    with pytest.raises(BadValue, match=problem):
        parse_statements(OperationCatalog(SQL), body)
