"""Interactive transaction: statements on a snapshot, and one operation that commits all of them.

Rules:
- A statement runs as a read-only operation at the connected replica. That operation executes all
  statements of the transaction again, so that the new one sees the changes of the earlier ones. No
  replica keeps an open transaction, and n statements cost n(n + 1) / 2 executions before COMMIT.
- A transaction is strong if one of its statements is. An earlier statement that would now have
  another result fails a strong transaction. All its results thus come from one state.
- COMMIT sends the statements in one operation. A strong one takes effect only if every statement
  has the same result at its position. A weak one takes effect unless a statement fails there.
- The first query of a strong transaction is a strong operation, so that the transaction sees
  everything that was committed before it began.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from creekdb.client.blocking import BlockingCall
from creekdb.client.errors import OperationFailed
from creekdb.dbapi.errors import ProgrammingError, SerializationFailure, operation_error
from creekdb.sql.result import SqlResult

CallOperation = Callable[..., BlockingCall[Any]]
"""Begins a call: takes True for a strong one, the name of the operation and its arguments."""


class ScriptEntry(NamedTuple):
    """Entry of the script (`creekdb.datatypes.sql_script`), with the digest of its result."""

    entry: dict[str, Any]
    digest: str
    has_failed: bool


class InteractiveTransaction:
    """Statements so far, the digests of their results, and the origin of the script."""

    def __init__(self, begin_call: CallOperation) -> None:
        self._begin_call = begin_call
        self._entries: list[ScriptEntry] = []
        self._origin: tuple[int, ...] | None = None
        self._savepoints: list[str] = []
        self._has_read_strongly = False
        self.is_strong = False
        """True if one of the statements is strong."""
        self._is_aborted = False

    @property
    def is_empty(self) -> bool:
        """True if COMMIT has nothing to send."""
        return not self._entries

    def execute(self, entry: dict[str, Any], *, strong: bool) -> SqlResult:
        """Execute one statement on the snapshot and return its result.

        `strong`: the statement is a query of a strong transaction.
        """
        self._check_not_aborted()
        strong = strong and not self._has_read_strongly
        call = self._begin_call(
            strong,
            "preview",
            (*[each.entry for each in self._entries], entry),
            tuple([each.digest for each in self._entries]) if self.is_strong else (),
            self._origin,
        )
        try:
            response = call.stable if strong else call.tentative
        except OperationFailed:  # an error of the statement itself is not raised
            self._is_aborted = True
            raise
        self._has_read_strongly = self._has_read_strongly or strong
        self._origin = tuple(response["origin"])
        error: str | None = response["error"]
        self._entries.append(ScriptEntry(entry, response["digest"], error is not None))
        if error is not None:
            raise operation_error(error)
        value: dict[str, Any] | None = response["value"]
        return SqlResult() if value is None else SqlResult.from_value(value)

    def add_savepoint(self, name: str) -> None:
        self._savepoints.append(name.lower())
        self.execute({"savepoint": name}, strong=False)

    def release(self, name: str) -> None:
        index = self._find_savepoint(name)
        self.execute({"release": name}, strong=False)
        del self._savepoints[index:]

    def rollback_to(self, name: str) -> None:
        index = self._find_savepoint(name)
        self.execute({"rollback_to": name}, strong=False)
        del self._savepoints[index + 1 :]

    def commit(self) -> BlockingCall[Any]:
        """Send all statements in one operation and return the call, with a response."""
        self._check_not_aborted()
        entries, strong = self._entries, self.is_strong
        if strong:
            digests: tuple[str, ...] | None = tuple([each.digest for each in entries])
        else:
            digests = None
            entries = [each for each in entries if not each.has_failed]
        call = self._begin_call(
            strong, "commit", tuple([each.entry for each in entries]), digests, self._origin
        )
        if strong:
            call.stable  # noqa: B018 - waits, and raises the error
        else:
            call.tentative  # noqa: B018
        return call

    def _check_not_aborted(self) -> None:
        if self._is_aborted:
            raise SerializationFailure(
                "the transaction has failed because of concurrent operations; "
                "roll it back and retry it"
            )

    def _find_savepoint(self, name: str) -> int:
        for index in range(len(self._savepoints) - 1, -1, -1):
            if self._savepoints[index] == name.lower():
                return index
        raise ProgrammingError(f"no such savepoint: {name}", "3B001")
