"""SQL over HTTP: the body of `POST /sql`, and statements and results as text for the page."""

from collections.abc import Callable
from typing import Any, Final

from creekdb.errors import BadValue
from creekdb.http.operations import OperationCatalog, OperationSpec
from creekdb.http.schema import Schema
from creekdb.protocol.request import Operation, Outcome
from creekdb.sql.statements import QUERY_WORDS, find_leading_word
from creekdb.wire.deduplication import describe_call, unwrap_call
from creekdb.wire.json_values import from_json, untag_integer

PATH: Final = "/sql"
CHANGING_OPERATION: Final = "transaction"
READING_OPERATION: Final = "queries"
STATEMENT_KEYS: Final = frozenset(("sql", "parameters"))
_PARAMETERS_SCHEMA: Final[Schema] = {
    "type": ["array", "object"],
    "description": "Values of `?`, or values of `:name` by name. An integer may also have the form "
    '`{"$integer": "…"}`.',
}
BODY_SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {
        "statements": {
            "type": "array",
            "minItems": 1,
            "examples": [["SELECT 1"]],
            "items": {
                "anyOf": [
                    {"type": "string"},
                    {
                        "type": "object",
                        "properties": {
                            "sql": {"type": "string"},
                            "parameters": _PARAMETERS_SCHEMA,
                        },
                        "required": ["sql"],
                        "additionalProperties": False,
                    },
                ]
            },
        }
    },
    "required": ["statements"],
    "additionalProperties": False,
}


def is_supported(operations: OperationCatalog) -> bool:
    """True if the replica executes SQL for clients."""
    return (
        operations.datatype.sql_engine is not None
        and CHANGING_OPERATION in operations.by_name
        and READING_OPERATION in operations.by_name
    )


def parse_statements(
    operations: OperationCatalog, body: Any
) -> tuple[OperationSpec, tuple[Any, ...]]:
    """Return the operation for the statements of a body, and its arguments. Raise `BadValue`."""
    if type(body) is not dict or "statements" not in body:
        raise BadValue("the body must be an object with the key 'statements'")
    if others := sorted(body.keys() - {"statements"}):
        raise BadValue(
            f"the body has the unknown key {others[0]!r}; 'statements' is the only one, and "
            "'consistency' and 'wait' are parameters of the URL"
        )
    values = body["statements"]
    if type(values) is not list or not values:
        raise BadValue("'statements' must be an array with at least one statement")
    statements = tuple(_statement(number, each) for number, each in enumerate(values, 1))
    is_reading = all(find_leading_word(text) in QUERY_WORDS for text, _ in statements)
    name = READING_OPERATION if is_reading else CHANGING_OPERATION
    return operations.find(name), (statements,)


def path_description(content: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Return how the description of the path differs from that of an operation."""
    return {
        "operationId": "execute_sql",
        "summary": "Execute SQL",
        "description": (
            "Executes the statements as one transaction. All take effect, or none. The value of "
            "the response has one result for each statement, with `columns`, `rows`, `row_count` "
            "and `last_row_id`. A call whose statements are all queries is read-only: a weak one "
            "has one response."
        ),
        "tags": ["sql"],
        "requestBody": {"required": True, "content": content(BODY_SCHEMA)},
    }


def describe_operation(operation: Operation) -> str:
    """Return the statements of a call without their parameters, or the call if it has none."""
    match unwrap_call(operation):
        case Operation("sql" | "query", (str(text), *_)):
            return text
        case Operation("transaction" | "queries", (tuple(statements),)):
            texts = [each if isinstance(each, str) else each[0] for each in statements if each]
            return "; ".join(map(str, texts))
        case _:
            return describe_call(operation)


def describe_outcome(outcome: Outcome) -> str:
    """Return the numbers of rows of all results, the error, or another value."""
    if outcome.error is not None:
        return outcome.error
    match outcome.value:
        case {"row_count": int(count)}:
            return f"{count} row{'' if count == 1 else 's'}"
        case tuple(results) if results:
            return "; ".join(describe_outcome(Outcome(each)) for each in results)
        case value:
            return repr(value)


def _statement(number: int, value: Any) -> tuple[str, Any]:
    if type(value) is str:
        return value, ()
    if type(value) is not dict or type(value.get("sql")) is not str or set(value) - STATEMENT_KEYS:
        raise BadValue(
            f"statement {number} must be a string, or an object with 'sql' and 'parameters'"
        )
    parameters = value.get("parameters", [])
    if type(parameters) is not list and type(parameters) is not dict:
        raise BadValue(f"the parameters of statement {number} must be an array or an object")
    if type(parameters) is dict:
        return value["sql"], {name: _parameter(each) for name, each in parameters.items()}
    return value["sql"], tuple([_parameter(each) for each in parameters])


def _parameter(value: Any) -> Any:
    return from_json(untag_integer(value))
