"""Scripts: the statements of an interactive SQL transaction, executed again from its start.

A client executes an interactive transaction statement by statement, and each response depends on
the statements before. The client keeps the statements as a script. A replica executes the whole
script on a scratch transaction, either to preview its last entry or to commit it.

An entry of a script is one of these dicts:

- `{"sql": text, "parameters": values}` is a statement;
- `{"sql": text, "each": [values, …]}` is a statement that is executed once per list of values;
- `{"savepoint": name}`, `{"release": name}` and `{"rollback_to": name}` are savepoints.

Every entry has a digest of its result or error. A later execution compares digests, so that it
commits only if the client would have received the same responses again.

The *origin* of a script replaces the request in everything that derives from it: the current time,
random numbers and row ids. These are therefore equal in all executions of the script.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from creekdb.errors import SqlError, SqlSerializationError, SqlTypeError, SqlUnknownName
from creekdb.execution.operation_errors import error_text
from creekdb.execution.transaction import ABSENT, Savepoint, Transaction
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Operation, Outcome, Request

ENTRIES_MAX: Final = 10_000
"""Maximum number of entries of a script. A preview executes all of them."""
_DIGEST_BYTES: Final = 12
_DRAW_MAX: Final = 2**31
_TIMESTAMP_MAX: Final = 2**62
Result = TypeVar("Result")
_encode = msgspec.msgpack.Encoder(order="sorted").encode


class Origin(NamedTuple):
    """Request that a script pretends to be, in all its executions."""

    timestamp: int
    replica: int
    event: int

    @classmethod
    def of(cls, tx: Transaction) -> "Origin":
        """Return the origin of a script that starts with this request."""
        return cls(tx.timestamp, tx.replica, 1 + tx.random.randrange(_DRAW_MAX))

    @classmethod
    def from_value(cls, value: Any) -> "Origin":
        """Return the origin that a client sent back, or raise `SqlTypeError`."""
        if (
            isinstance(value, Sequence)
            and len(value) == 3
            and all(type(part) is int and 0 <= part < _TIMESTAMP_MAX for part in value)
        ):
            return cls(*value)
        raise SqlTypeError("an origin consists of three integers, as returned by 'preview'")


class EntryOutcome(NamedTuple):
    """Result of one entry, or its error."""

    value: dict[str, Any] | None
    error: str | None

    @property
    def digest(self) -> str:
        """Digest of the result or error. Equal digests mean equal responses."""
        return blake2b(_encode(tuple(self)), digest_size=_DIGEST_BYTES).hexdigest()


class ScratchExecution:
    """Execution of a script on the state that an operation sees. It keeps no writes by itself."""

    def __init__(self, tx: Transaction, origin: Origin) -> None:
        operation = Operation("script")
        request = Request(
            origin.timestamp, Dot(origin.replica, origin.event), operation, strong=False
        )
        self._transaction = tx.begin_scratch(request, operation.name)
        self._savepoints: list[tuple[str, Savepoint]] = []
        """Savepoints of the script, with their names."""

    def execute(self, entry: Any) -> EntryOutcome:
        """Execute one entry. An error of SQL is an outcome and has no effect."""
        before = self._transaction.savepoint()
        try:
            return EntryOutcome(self.run(entry), None)
        except SqlError as error:
            self._transaction.roll_back_to(before)
            return EntryOutcome(None, error_text(error))

    def close(self) -> None:
        """Release the resources of the transaction."""
        self._transaction.close(Outcome())

    def keep_writes(self, tx: Transaction) -> None:
        """Write what the script has written to the transaction of the operation."""
        for key, value in self._transaction.close(Outcome()).writes.items():
            if value is ABSENT:
                tx.delete(key)
            else:
                tx.put(key, value)

    def run(self, entry: Any) -> dict[str, Any] | None:
        """Execute one entry and return its result, or None for a savepoint. Raise its error."""
        match entry:
            case {"sql": text, "parameters": parameters, **rest} if not rest:
                return self._run(text, parameters)
            case {"sql": text, "each": parameter_lists, **rest} if not rest:
                return self._run_each(text, parameter_lists)
            case {"savepoint": str(name), **rest} if not rest:
                self._savepoints.append((name, self._transaction.savepoint()))
            case {"release": str(name), **rest} if not rest:
                del self._savepoints[self._find_savepoint(name) :]
            case {"rollback_to": str(name), **rest} if not rest:
                index = self._find_savepoint(name)
                self._transaction.roll_back_to(self._savepoints[index][1])
                del self._savepoints[index + 1 :]
            case _:
                raise SqlTypeError(
                    "an entry of a script is a dict with 'sql' and 'parameters' or 'each', or with "
                    "'savepoint', 'release' or 'rollback_to'"
                )
        return None

    def _run(self, text: Any, parameters: Any) -> dict[str, Any]:
        positional, named = split_parameters(parameters)
        value: dict[str, Any] = self._transaction.sql(text, *positional, **named).to_value()
        return value

    def _run_each(self, text: Any, parameter_lists: Any) -> dict[str, Any]:
        return execute_each(partial(self._run, text), parameter_lists)

    def _find_savepoint(self, name: str) -> int:
        for index in range(len(self._savepoints) - 1, -1, -1):
            if self._savepoints[index][0].lower() == name.lower():
                return index
        raise SqlUnknownName(f"no such savepoint: {name}")


def split_parameters(parameters: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional and named parameters, one of which is empty."""
    if isinstance(parameters, Mapping):
        return (), dict(parameters)
    if isinstance(parameters, Sequence) and not isinstance(parameters, str | bytes):
        return tuple(parameters), {}
    raise SqlTypeError("parameters are a list, or a dict by name")


def execute_each(execute: Callable[[Any], dict[str, Any]], parameter_lists: Any) -> dict[str, Any]:
    """Execute a statement once per list of parameters. Return all results as one."""
    if not isinstance(parameter_lists, Sequence) or isinstance(parameter_lists, str | bytes):
        raise SqlTypeError("a batch takes a list of lists of parameters")
    results = execute_parts("parameters", execute, parameter_lists)
    last = results[-1] if results else {"columns": (), "last_row_id": None}
    return {
        "columns": last["columns"],
        "rows": tuple([row for result in results for row in result["rows"]]),
        "row_count": sum([result["row_count"] for result in results]),
        "last_row_id": last["last_row_id"],
    }


def execute_parts(
    kind: str, execute: Callable[[Any], Result], parts: Sequence[Any]
) -> tuple[Result, ...]:
    """Return the results of all parts of an operation. An error of SQL names its part."""
    results: list[Result] = []
    try:
        for part in parts:
            results += [execute(part)]
    except SqlError as error:
        if len(parts) > 1:
            error.args = (f"{error} ({kind} {len(results) + 1} of {len(parts)})",)
        raise
    return tuple(results)


def checked_entries(entries: Any) -> Sequence[Any]:
    """Return the entries of a script, or raise `SqlTypeError`."""
    if not isinstance(entries, Sequence) or isinstance(entries, str | bytes):
        raise SqlTypeError("a script is a list of entries")
    if len(entries) > ENTRIES_MAX:
        raise SqlTypeError(
            f"a transaction has at most {ENTRIES_MAX} statements; commit more often, "
            "or pass many rows to one statement"
        )
    return entries


def check_digest(position: int, outcome: EntryOutcome, expected: Any) -> None:
    """Raise `SqlSerializationError` unless the outcome of an entry has the expected digest."""
    if outcome.digest != expected:
        raise SqlSerializationError(
            f"could not serialize access: statement {position + 1} of the transaction has another "
            "result now, because of concurrent operations; retry the transaction"
        )
