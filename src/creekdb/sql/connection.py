"""SQLite connections whose results depend only on the statement, the data and the request.

Rules:
- The clock is the timestamp of the request, through a VFS. `random()` and `randomblob()` draw from
  `tx.random`. `last_insert_rowid()`, `changes()` and `total_changes()` count rows of Creek.
- Functions that depend on the machine or on the build are refused, and so are the modifiers
  `localtime` and `utc` of the date functions.
- Statements that reach outside the database are refused by the authorizer.
- Instructions of SQLite count as steps of the operation (`InstructionMeter`). The number does not
  depend on the statements that the connection executed before.
- The plan of a query does not depend on its parameters.
- The size of a result is limited (`fetch_rows`).
"""

from collections.abc import Callable
from itertools import count, islice
from typing import Any, Final

import apsw
import msgspec

from creekdb.errors import SqlTypeError, SqlUnsupported
from creekdb.execution.transaction import Transaction
from creekdb.sql.key_codec import SqlValue

INSTRUCTIONS_PER_STEP: Final = 100
"""Number of instructions of SQLite's virtual machine that count as one step."""
STATEMENT_BYTES_MAX: Final = 1_000_000
"""Maximum length of a statement. Equal on every replica, like all limits below."""
PREPARED_MAX: Final = 500
"""Number of executions after which an unused prepared statement is dropped."""
EXPRESSION_DEPTH_MAX: Final = 200
BLOB_BYTES_MAX: Final = 16_000_000
PATTERN_BYTES_MAX: Final = 10_000
RANDOM_BLOB_BYTES_MAX: Final = 100_000
RESULT_BYTES_MAX: Final = 256_000_000
"""Maximum size of the result of one query: of its values, and of `ROW_BYTES` for each row."""
ROW_BYTES: Final = 100
"""Approximate memory of a row besides its values."""
BATCH_ROWS_MAX: Final = 64
"""Maximum number of rows that are fetched before their size is checked."""
BATCH_BYTES_MAX: Final = 1_000_000
"""Size of a batch of rows above which rows are fetched one by one."""
_encode: Final = msgspec.msgpack.Encoder().encode

_JULIAN_EPOCH_MS: Final = 210_866_760_000_000
"""Unix epoch as a Julian day number, in milliseconds."""
_DATE_FUNCTIONS: Final = (
    "date",
    "time",
    "datetime",
    "julianday",
    "unixepoch",
    "strftime",
    "timediff",
)
_REFUSED_MODIFIERS: Final = ("localtime", "utc")
REFUSED_FUNCTIONS: Final = frozenset(
    (
        "load_extension",
        "sqlite_version",
        "sqlite_source_id",
        "sqlite_log",
        "sqlite_compileoption_get",
        "sqlite_compileoption_used",
        "sqlite_offset",
        "fts3_tokenizer",
        "subtype",
    )
)
READING_PRAGMAS: Final = frozenset(
    (
        "foreign_key_list",
        "index_info",
        "index_list",
        "index_xinfo",
        "table_info",
        "table_list",
        "table_xinfo",
    )
)
"""Pragmas that describe the schema and change nothing."""
_ALLOWED_ACTIONS: Final = frozenset(
    (apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_RECURSIVE, apsw.SQLITE_FUNCTION)
)
_ROW_ACTIONS: Final = frozenset((apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE))
_SCHEMA_ACTIONS: Final = frozenset(
    (
        apsw.SQLITE_ALTER_TABLE,
        apsw.SQLITE_CREATE_INDEX,
        apsw.SQLITE_CREATE_TABLE,
        apsw.SQLITE_CREATE_VIEW,
        apsw.SQLITE_DROP_INDEX,
        apsw.SQLITE_DROP_TABLE,
        apsw.SQLITE_DROP_VIEW,
        apsw.SQLITE_REINDEX,
    )
)
_LIMITS: Final = (
    (apsw.SQLITE_LIMIT_SQL_LENGTH, STATEMENT_BYTES_MAX),
    (apsw.SQLITE_LIMIT_EXPR_DEPTH, EXPRESSION_DEPTH_MAX),
    (apsw.SQLITE_LIMIT_LENGTH, BLOB_BYTES_MAX),
    (apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_BYTES_MAX),
    (apsw.SQLITE_LIMIT_ATTACHED, 0),
    (apsw.SQLITE_LIMIT_WORKER_THREADS, 0),
)


class Session:
    """State of one operation that SQL functions read: its transaction and its last changes."""

    __slots__ = (
        "changes",
        "last_row_id",
        "row_ids",
        "schema",
        "total_changes",
        "transaction",
        "worker",
    )

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.last_row_id: int | None = None
        self.changes = 0
        self.total_changes = 0
        self.row_ids = 0
        """Number of row ids that the operation has assigned."""
        self.worker: Any = None
        """Worker that executes the statements of the operation, once the first one has run."""
        self.schema: bytes | None = None
        """Schema register, once read."""


class RequestClock(apsw.VFS):
    """VFS whose clock shows the timestamp of the current request."""

    _numbers = count()

    def __init__(self, slot: "SessionSlot") -> None:
        self.vfs_name = f"creek-{next(self._numbers)}"
        self._slot = slot
        super().__init__(self.vfs_name, "memdb", exclude={"xCurrentTime"})

    def xCurrentTimeInt64(self) -> int:  # noqa: N802 - named by SQLite
        session = self._slot.session
        timestamp_us = 0 if session is None else session.transaction.timestamp
        return _JULIAN_EPOCH_MS + timestamp_us // 1000


class SessionSlot:
    """Session that a connection currently serves. Connections are shared by many operations."""

    __slots__ = ("clock", "session", "text")

    def __init__(self) -> None:
        self.session: Session | None = None
        self.text = ""
        """Text of the current query."""
        self.clock = RequestClock(self)
        """Clock of all connections with this slot. A connection holds no reference to its VFS."""

    @property
    def current(self) -> Session:
        session = self.session
        assert session is not None, "no statement is running on this connection"
        return session


def open_connection(slot: SessionSlot) -> apsw.Connection:
    """Return an empty in-memory database that obeys the rules above.

    The caller installs an authorizer once it has created its tables.
    """
    connection = apsw.Connection(
        ":memory:", vfs=slot.clock.vfs_name, statementcachesize=PREPARED_MAX
    )
    connection.drop_modules(None)  # such as dbstat, which shows the pages of this connection
    helper = apsw.Connection(":memory:", vfs=slot.clock.vfs_name)
    _define_functions(connection, helper, slot)
    for limit, value in _LIMITS:
        connection.limit(limit, value)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    return connection


def fetch_rows(cursor: apsw.Cursor, bytes_max: int) -> list[tuple[SqlValue, ...]]:
    """Return all rows of a query. Raise `SqlTypeError` if they are larger than `bytes_max`."""
    rows: list[tuple[SqlValue, ...]] = []
    size, count = 0, 1
    while batch := list(islice(cursor, count)):
        rows += batch
        batch_size = len(_encode(batch))
        size += batch_size + ROW_BYTES * len(batch)
        if size > bytes_max:
            cursor.close(True)  # otherwise the query goes on to hold its memory
            raise SqlTypeError(
                f"the result is larger than {bytes_max} bytes; select fewer rows or columns"
            )
        count = min(2 * count, BATCH_ROWS_MAX) if batch_size < BATCH_BYTES_MAX else 1
    return rows


class InstructionMeter:
    """Counts the instructions of queries on one connection as steps of the operation.

    SQLite calls a progress handler after a number of instructions, but it begins to count where the
    previous execution of a cached statement ended. So there is at most one call too many, and the
    first call counts no step. SQLite reports the exact number at the end of the query. All missing
    steps are counted then.
    """

    def __init__(
        self, connection: apsw.Connection, slot: SessionSlot, result_bytes_max: int
    ) -> None:
        self._connection = connection
        self._slot = slot
        self._result_bytes_max = result_bytes_max
        self._calls = 0
        self._instructions = 0

    def execute(self, text: str, bindings: tuple[Any, ...]) -> list[tuple[SqlValue, ...]]:
        """Return all rows of a query. Raise `OperationStopped` above the step limit."""
        connection = self._connection
        self._calls = self._instructions = 0
        connection.set_progress_handler(self._handle_progress, INSTRUCTIONS_PER_STEP)
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._handle_profile)
        try:
            return fetch_rows(connection.execute(text, bindings), self._result_bytes_max)
        finally:
            connection.trace_v2(0, None)
            connection.set_progress_handler(None)
            missing = self._instructions // INSTRUCTIONS_PER_STEP - max(0, self._calls - 1)
            for _ in range(missing):
                self._slot.current.transaction.step()

    def _handle_progress(self) -> bool:
        self._calls += 1
        if self._calls > 1:
            self._slot.current.transaction.step()
        return False

    def _handle_profile(self, event: dict[str, Any]) -> None:
        self._instructions = event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]


def allow_queries(
    action: int, first: str | None, second: str | None, database: str | None, trigger: str | None
) -> int:
    """Authorizer of connections that only read."""
    if action == apsw.SQLITE_FUNCTION:
        _check_function(second)
    return apsw.SQLITE_OK if action in _ALLOWED_ACTIONS else apsw.SQLITE_DENY


def allow_statements(
    action: int, first: str | None, second: str | None, database: str | None, trigger: str | None
) -> int:
    """Authorizer of probes: queries, changes of rows and descriptions of the schema."""
    if action in _ROW_ACTIONS or (action == apsw.SQLITE_PRAGMA and first in READING_PRAGMAS):
        return apsw.SQLITE_OK
    if action in (apsw.SQLITE_SAVEPOINT, apsw.SQLITE_TRANSACTION):
        return apsw.SQLITE_OK
    return allow_queries(action, first, second, database, trigger)


def allow_schema_changes(
    action: int, first: str | None, second: str | None, database: str | None, trigger: str | None
) -> int:
    """Authorizer of the connection on which a schema is changed."""
    if action in _SCHEMA_ACTIONS or (action, first) == (apsw.SQLITE_PRAGMA, "quick_check"):
        return apsw.SQLITE_OK  # ALTER TABLE checks the rows by itself, with this pragma
    return allow_statements(action, first, second, database, trigger)


def _check_function(name: str | None) -> None:
    if name in REFUSED_FUNCTIONS:
        raise SqlUnsupported(
            f"the function {name}() depends on the replica that executes it; remove it"
        )


def _define_functions(
    connection: apsw.Connection, helper: apsw.Connection, slot: SessionSlot
) -> None:
    def random(*_: Any) -> int:
        return slot.current.transaction.random.randrange(-(2**63), 2**63)

    def randomblob(*arguments: Any) -> bytes:
        length = arguments[0]
        size = max(1, length) if type(length) is int else 1
        if size > RANDOM_BLOB_BYTES_MAX:
            raise SqlUnsupported(f"randomblob() returns at most {RANDOM_BLOB_BYTES_MAX} bytes")
        draw = slot.current.transaction.random.randrange
        return bytes([draw(256) for _ in range(size)])

    def last_insert_rowid(*_: Any) -> int:
        return slot.current.last_row_id or 0

    def changes(*_: Any) -> int:
        return slot.current.changes

    def total_changes(*_: Any) -> int:
        return slot.current.total_changes

    connection.create_scalar_function("random", random, 0)
    connection.create_scalar_function("randomblob", randomblob, 1)
    connection.create_scalar_function("last_insert_rowid", last_insert_rowid, 0)
    connection.create_scalar_function("changes", changes, 0)
    connection.create_scalar_function("total_changes", total_changes, 0)
    for name in _DATE_FUNCTIONS:
        connection.create_scalar_function(
            name, _date_function(name, helper), -1, deterministic=True
        )


def _date_function(name: str, helper: apsw.Connection) -> Callable[..., Any]:
    """Return a date function that refuses the time zone of the machine."""

    def date_function(*arguments: SqlValue) -> Any:
        for argument in arguments:
            if type(argument) is str and argument.strip().lower() in _REFUSED_MODIFIERS:
                raise SqlUnsupported(
                    f"the modifier '{argument}' of {name}() depends on the time zone of the "
                    "replica; times are in UTC"
                )
        marks = ",".join("?" * len(arguments))
        return helper.execute(f"SELECT {name}({marks})", arguments).get

    return date_function
