"""Tables that are created, queried and changed with SQL (`creekdb.sql`).

>>> session = SQL.sequential()
>>> _ = session.call("sql", "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, stock INTEGER)")
>>> session.call("sql", "INSERT INTO item(id, name, stock) VALUES (?, ?, ?)", (1, "tea", 3))
{'columns': (), 'rows': (), 'row_count': 1, 'last_row_id': 1}
>>> session.call("query", "SELECT name, stock FROM item WHERE id = :id", {"id": 1})
{'columns': ('name', 'stock'), 'rows': (('tea', 3),), 'row_count': 1, 'last_row_id': None}
>>> results = session.call(
...     "transaction",
...     (
...         ("UPDATE item SET stock = stock - 1 WHERE id = ?", (1,)),
...         ("SELECT stock FROM item", ()),
...     ),
... )
>>> results[1]["rows"]
((2,),)
"""

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import Any

from creekdb.datatypes.sql_script import (
    EntryOutcome,
    Origin,
    ScratchExecution,
    check_digest,
    checked_entries,
    execute_each,
    execute_parts,
    split_parameters,
)
from creekdb.datatypes.sql_workload import sample as sample
from creekdb.errors import SqlTypeError
from creekdb.execution.datatype import DataType
from creekdb.execution.step_limit import STEPS_MAX
from creekdb.execution.transaction import Transaction


def sql(tx: Transaction, text: str | list[object], parameters: Any = ()) -> Any:
    """Execute one statement, whose parameters are a list, or a dict by name.

    A list of statements is executed as by `transaction`.
    """
    if isinstance(text, str):
        return _execute(tx, text, parameters)
    if parameters:
        raise SqlTypeError("each statement of a list has its own parameters: (text, parameters)")
    return _execute_all(tx, text)


def query(tx: Transaction, text: str, parameters: Any = ()) -> dict[str, Any]:
    """Execute one statement that only reads."""
    return _execute(tx, text, parameters)


def transaction(tx: Transaction, statements: Any) -> tuple[dict[str, Any], ...]:
    """Execute statements, each a text or a pair of text and parameters. All take effect or none."""
    return _execute_all(tx, statements)


def queries(tx: Transaction, statements: Any) -> tuple[dict[str, Any], ...]:
    """Execute statements that only read, each a text or a pair of text and parameters."""
    return _execute_all(tx, statements)


def _execute_all(tx: Transaction, statements: Any) -> tuple[dict[str, Any], ...]:
    if not isinstance(statements, Sequence) or isinstance(statements, str | bytes):
        raise SqlTypeError("a transaction takes a list of statements")
    return execute_parts("statement", partial(_execute_statement, tx), statements)


def _execute_statement(tx: Transaction, statement: Any) -> dict[str, Any]:
    if isinstance(statement, str):
        return _execute(tx, statement, ())
    if isinstance(statement, Sequence) and len(statement) == 2:
        return _execute(tx, statement[0], statement[1])
    raise SqlTypeError("a statement is a text, or a pair of text and parameters")


def batch(tx: Transaction, text: str, parameter_lists: Any) -> dict[str, Any]:
    """Execute one statement once per list of parameters. All executions take effect or none."""
    return execute_each(partial(_execute, tx, text), parameter_lists)


def preview(tx: Transaction, entries: Any, digests: Any = (), origin: Any = None) -> dict[str, Any]:
    """Execute a script (`creekdb.datatypes.sql_script`) without keeping its writes.

    Return the result or error of its last entry, the digest of that, and the origin of the script.
    `digests` are those of the entries before.
    """
    script = checked_entries(entries)
    if not script:
        raise SqlTypeError("a preview needs at least one entry")
    start = Origin.of(tx) if origin is None else Origin.from_value(origin)
    with closing(ScratchExecution(tx, start)) as scratch:
        outcome = _execute_script(scratch, script, digests)[-1]
    return {
        "origin": tuple(start),
        "digest": outcome.digest,
        "value": outcome.value,
        "error": outcome.error,
    }


def commit(tx: Transaction, entries: Any, digests: Any, origin: Any) -> tuple[str, ...]:
    """Execute a script and keep its writes. Return the digests of its entries.

    If `digests` is not None, the script takes effect only if each entry has its digest. Otherwise
    it takes effect unless one of its entries fails.
    """
    script = checked_entries(entries)
    with closing(ScratchExecution(tx, Origin.from_value(origin))) as scratch:
        if digests is None:
            values = execute_parts("statement", scratch.run, script)
            outcomes = [EntryOutcome(value, None) for value in values]
        else:
            if not isinstance(digests, Sequence) or len(digests) != len(script):
                raise SqlTypeError("'digests' is None, or has one digest for each entry")
            outcomes = _execute_script(scratch, script, digests)
        scratch.keep_writes(tx)
    return tuple(outcome.digest for outcome in outcomes)


def _execute_script(
    scratch: ScratchExecution, script: Sequence[Any], digests: Any
) -> list[EntryOutcome]:
    """Execute all entries. Raise `SqlSerializationError` at the first with another digest."""
    if not isinstance(digests, Sequence):
        raise SqlTypeError("'digests' is a list")
    outcomes: list[EntryOutcome] = []
    for position, entry in enumerate(script):
        outcomes.append(scratch.execute(entry))
        if position < len(digests):
            check_digest(position, outcomes[-1], digests[position])
    return outcomes


def _execute(tx: Transaction, text: Any, parameters: Any) -> dict[str, Any]:
    positional, named = split_parameters(parameters)
    value: dict[str, Any] = tx.sql(text, *positional, **named).to_value()
    return value


def create_sql_type(name: str = "sql", *, steps: int = STEPS_MAX) -> DataType:
    """Return a data type with the operations of this module.

    `steps` is the step limit of one operation. It must be equal on every replica.
    """
    datatype = DataType(name, steps=steps, sql=True)
    for operation in (sql, query, transaction, queries, batch, preview, commit):
        datatype.operation(readonly=operation in (query, queries, preview))(operation)
    return datatype


SQL = create_sql_type()
