"""Cursor of PEP 249: executes statements and holds the rows of the last one."""

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from creekdb.client.blocking import BlockingCall
from creekdb.dbapi.errors import InterfaceError, ProgrammingError
from creekdb.dbapi.outcome import Outcome, latest_outcome
from creekdb.dbapi.types import column_type, convert_parameters
from creekdb.sql.result import SqlResult

if TYPE_CHECKING:
    from creekdb.dbapi.connection import Connection

WEAK: Final = "weak"
STRONG: Final = "strong"

Row: TypeAlias = tuple[Any, ...]
Description: TypeAlias = tuple[tuple[str, Any, None, None, None, None, None], ...]


class Cursor:
    """Executes statements on a connection. Any number of cursors share one transaction."""

    arraysize = 1
    """Number of rows that `fetchmany` returns by default."""

    def __init__(self, connection: "Connection", consistency: str | None) -> None:
        self.connection: Final = connection
        self.consistency = consistency
        self._is_closed = False
        self._result: SqlResult | None = None
        self._position = 0
        self._call: BlockingCall[Any] | None = None
        self._commit_before: BlockingCall[Any] | None = None

    @property
    def consistency(self) -> str | None:
        """Level of this cursor's statements, or None for that of the connection."""
        return self._consistency

    @consistency.setter
    def consistency(self, level: str | None) -> None:
        self._consistency = None if level is None else checked_level(level)

    # --- statements -----------------------------------------------------------------------------

    def execute(self, operation: str, parameters: Any = ()) -> Self:
        """Execute one statement. Parameters are a sequence for `?`, or a mapping for `:name`."""
        return self._run(operation, {"parameters": convert_parameters(parameters)})

    def executemany(self, operation: str, seq_of_parameters: Iterable[Any]) -> Self:
        """Execute one statement once per element. All executions take effect, or none."""
        each = tuple([convert_parameters(parameters) for parameters in seq_of_parameters])
        return self._run(operation, {"each": each})

    def outcome(self, wait: bool = False) -> Outcome:
        """Return whether the result of the last statement is tentative, stable or changed.

        `wait` waits for the final response. A weak query has none. The outcome of a statement in a
        transaction is that of the transaction, once committed.
        """
        self._check_open()
        if self._call is not None:
            return latest_outcome(self._call, wait)
        if self._result is None:
            raise InterfaceError("no statement was executed")
        committed = self.connection.last_commit
        if self.connection.in_transaction or committed in (None, self._commit_before):
            raise InterfaceError("the transaction of the statement was not committed")
        assert committed is not None
        return latest_outcome(committed, wait)

    # --- result ---------------------------------------------------------------------------------

    @property
    def description(self) -> Description | None:
        """Columns of the result, seven items each, or None for a statement without rows.

        The type code is the Python type of the first value that is not NULL.
        """
        if self._result is None or not self._result.columns:
            return None
        rows = self._result.rows
        return tuple(
            (name, column_type(rows, number), None, None, None, None, None)
            for number, name in enumerate(self._result.columns)
        )

    @property
    def rowcount(self) -> int:
        """Number of changed or returned rows; -1 before the first statement."""
        return -1 if self._result is None else self._result.row_count

    @property
    def lastrowid(self) -> int | None:
        """Row id of the last inserted row, or None."""
        return None if self._result is None else self._result.last_row_id

    def fetchone(self) -> Row | None:
        """Return the next row, or None."""
        rows = self._rows()
        if self._position >= len(rows):
            return None
        self._position += 1
        return rows[self._position - 1]

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Return the next `size` rows, or fewer at the end."""
        rows = self._rows()
        start, count = self._position, self.arraysize if size is None else size
        if count < 0:
            raise ProgrammingError(f"cannot fetch {count} rows; use fetchall() for all rows")
        self._position = min(len(rows), start + count)
        return list(rows[start : self._position])

    def fetchall(self) -> list[Row]:
        """Return all remaining rows."""
        return self.fetchmany(len(self._rows()))

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    # --- lifecycle ------------------------------------------------------------------------------

    def close(self) -> None:
        """Discard the rows. Later uses raise `InterfaceError`, but `rowcount` stays."""
        self._is_closed = True
        self._call = None
        if self._result is not None:
            self._result = self._result._replace(rows=())

    def setinputsizes(self, sizes: Any) -> None:
        """Do nothing, as PEP 249 permits."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing, as PEP 249 permits."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- parts ----------------------------------------------------------------------------------

    def _run(self, text: str, entry: dict[str, Any]) -> Self:
        self._check_open()
        if not isinstance(text, str):
            raise ProgrammingError(f"a statement is a str, not {type(text).__name__}")
        self._result = self._call = None
        self._position = 0
        self._commit_before = self.connection.last_commit
        self._result, self._call = self.connection.run({"sql": text, **entry}, self.consistency)
        return self

    def _rows(self) -> tuple[Row, ...]:
        self._check_open()
        if self._result is None or not self._result.columns:
            raise ProgrammingError("no rows to fetch: the last statement returned none", "24000")
        return self._result.rows

    def _check_open(self) -> None:
        if self._is_closed:
            raise InterfaceError("the cursor is closed", "24000")


def checked_level(level: Any) -> str:
    """Return the consistency level, or raise `InterfaceError`."""
    if level not in (WEAK, STRONG):
        raise InterfaceError(f"consistency is 'weak' or 'strong', not {level!r}")
    return str(level)
