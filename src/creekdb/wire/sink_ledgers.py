"""Staged rows, and the ledgers of sinks that apply them exactly once.

A sink writes the rows of a batch in two steps. Each of its tasks *stages* rows in chunks under a
token of its own. One call then *applies* all rows of the batch, in the order of its plan of tokens,
and records the batch in the ledger of the sink. A batch whose number is not above the ledger is
ignored. So neither a repeated task nor a repeated batch has an effect, and their rows are garbage.

Rules:

- One application executes a bounded number of rows within the step limit, and writes a bounded
  number of bytes beyond its first row. If rows remain, it keeps the plan and its progress in the
  ledger, and the next application continues. Until the batch is complete, its plan stays the same:
  a repeated batch with other tokens continues the first one.
- A batch is known by its number only. Rows that are sent under the number of a complete batch are
  ignored, even if they differ from the rows of that batch.
- An application takes effect as a whole. An atomic one fails if rows would remain.
- A row whose operation raises an error fails the application, or is kept as a rejected row.
- A ledger belongs to one query. Batches of another query, whose numbers start anew, are an error.
- Staged rows expire by age unless a ledger has them in its plan. So does the ledger of a sink
  without a name.

All registers are reserved, so no scan of an operation reads them.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from creekdb.execution.keys import RESERVED_PREFIXES, SINKS_PREFIX, collation_key, prefix_range
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import ABSENT, View
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.values import Key
from creekdb.wire.batches import BATCH_CALLS_MAX, BatchView

ROWS_MAX: Final = BATCH_CALLS_MAX
"""Number of rows that one application executes, at most. Other operations wait meanwhile."""
APPLICATION_BYTES_MAX: Final = 8 * 1024 * 1024
"""Size of the writes of one application, without those of its last row, in bytes."""
REJECTED_READ_MAX: Final = 1000
"""Number of rejected rows in one response, at most."""
UNNAMED_PREFIX: Final = "~"
"""First character of the name of a sink that its user has not named. Its ledger expires."""
ROW_CHARS_MAX: Final = 200
"""Number of characters of a row that an error quotes."""

LEDGERS: Final = "ledgers"
CHUNKS: Final = "rows"
REJECTED: Final = "rejected"

_encode: Final = msgspec.msgpack.Encoder().encode

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = tuple[Row, ...]


class RowExecutor(Protocol):
    """The data type, as far as applications use it."""

    steps: int

    def run_as(
        self, request: Request, name: str, arguments: tuple[Any, ...], view: View
    ) -> ExecutionResult: ...

    def run_rows(
        self, request: Request, name: str, leading: tuple[Any, ...], rows: Rows, view: View
    ) -> ExecutionResult: ...


class Chunk(NamedTuple):
    """Rows that one call stages."""

    timestamp_us: int
    operation: str
    leading: tuple[Any, ...]
    """Arguments of the operation that precede those of each row."""
    rows: Rows
    rejected: tuple[tuple[Row, str], ...]
    """Rows that were rejected before, with their errors."""


class Progress(NamedTuple):
    """Application of a batch that is not complete."""

    batch: int
    plan: tuple[tuple[str, int], ...]
    """Tokens with their numbers of chunks, in the order of application."""
    token: int = 0
    """Index of the token whose rows come next."""
    chunk: int = 0
    """Number of the chunk of that token."""
    row: int = 0
    """Index of the next row in that chunk."""
    applied: int = 0
    rejected: int = 0


class Ledger(NamedTuple):
    """State of one sink."""

    timestamp_us: int
    query: str
    """Identity of the query whose batches the ledger counts. Empty if it is not known."""
    batch: int | None = None
    """Number of the last complete batch, None before the first."""
    applied: int = 0
    """Number of rows that the last complete batch has applied."""
    rejected: int = 0
    progress: Progress | None = None

    @classmethod
    def from_value(cls, value: Any) -> "Ledger":
        ledger = cls(*value)
        progress = ledger.progress
        return ledger if progress is None else ledger._replace(progress=Progress(*progress))

    def to_value(self) -> tuple[Any, ...]:
        return (*self[:-1], None if self.progress is None else tuple(self.progress))


class Application(NamedTuple):
    """Arguments of `APPLY`."""

    sink: str
    query: str
    batch: int
    plan: tuple[tuple[str, int], ...]
    rows_max: int = ROWS_MAX
    is_atomic: bool = False
    keeps_rejected: bool = False
    """True if a row whose operation raises is kept as a rejected row."""
    bytes_max: int = 0
    """Bound for the size of the writes, in bytes, or 0 for none. Added by the replica that issues
    the application, once all members execute it alike."""


class ApplicationResult(NamedTuple):
    """Response to `APPLY`."""

    is_complete: bool
    is_own_plan: bool
    """False if the rows of another plan were applied for this batch, so that these are garbage."""
    applied: int
    """Number of rows of the batch that were applied so far."""
    rejected: int


class RowRejected(Exception):
    """Error that stops an application. Its text is that of the response."""


def ledger_key(sink: str) -> Key:
    return (SINKS_PREFIX, LEDGERS, sink)


def chunk_key(token: str, number: int) -> Key:
    return (SINKS_PREFIX, CHUNKS, token, number)


def run_application(executor: RowExecutor, request: Request, view: View) -> ExecutionResult:
    application = Application(*request.operation.arguments)
    stored = view.read(ledger_key(application.sink))
    ledger = Ledger(0, application.query) if stored is ABSENT else Ledger.from_value(stored)
    if application.query and ledger.query and application.query != ledger.query:
        return failure(
            f"ForeignBatch: sink '{application.sink}' holds batches of query {ledger.query}, "
            f"not of {application.query}; choose another name for the sink"
        )
    if ledger.batch is not None and application.batch <= ledger.batch:
        is_last = application.batch == ledger.batch
        counts = (ledger.applied, ledger.rejected) if is_last else (0, 0)
        return ExecutionResult(
            Outcome(tuple(ApplicationResult(True, False, *counts))), {}, 1, 0, {}, view
        )
    progress = ledger.progress or Progress(application.batch, application.plan)
    if progress.batch != application.batch:
        return failure(
            f"ForeignBatch: sink '{application.sink}' has applied a part of batch "
            f"{progress.batch}; repeat that batch before batch {application.batch}"
        )
    run = _ApplicationRun(executor, request, view, application, progress)
    try:
        progress = run.advance()
    except RowRejected as error:
        return ExecutionResult(Outcome(None, str(error)), {}, run.read_count, run.scan_count, {})
    is_complete = progress.token == len(progress.plan)
    if application.is_atomic and not is_complete:
        return failure(
            f"TooManyRows: batch {progress.batch} needs more than one application of "
            f"{application.rows_max} rows, {executor.steps} steps or "
            f"{application.bytes_max or APPLICATION_BYTES_MAX} bytes; make batches smaller, or "
            "give up atomic=true"
        )
    ledger = Ledger(
        request.timestamp,
        application.query or ledger.query,
        progress.batch if is_complete else ledger.batch,
        progress.applied if is_complete else ledger.applied,
        progress.rejected if is_complete else ledger.rejected,
        None if is_complete else progress,
    )
    run.writes[ledger_key(application.sink)] = ledger.to_value()
    result = ApplicationResult(
        is_complete, progress.plan == application.plan, progress.applied, progress.rejected
    )
    return ExecutionResult(
        Outcome(tuple(result)), run.writes, run.read_count + 1, run.scan_count, {}, view
    )


class _ApplicationRun:
    """One execution of `APPLY`."""

    def __init__(
        self,
        executor: RowExecutor,
        request: Request,
        view: View,
        application: Application,
        progress: Progress,
    ) -> None:
        self._executor = executor
        self._request = request
        self._application = application
        self._progress = progress
        self._rows_left = application.rows_max
        self._steps_left = executor.steps
        self._bytes_left = application.bytes_max
        """Bytes that may be written, if the application has a bound for them."""
        self.writes: dict[Key, Any] = {}
        self._view = BatchView(view, self.writes)
        self.read_count = 0
        self.scan_count = 0

    def advance(self) -> Progress:
        """Execute rows up to a limit, and return the progress after them."""
        progress = self._progress
        while progress.token < len(progress.plan):
            token, chunk_count = progress.plan[progress.token]
            if progress.chunk >= chunk_count:
                progress = progress._replace(token=progress.token + 1, chunk=0)
                continue
            if self._rows_left <= 0 or self._is_full:
                break
            self._progress = progress
            progress = self._apply_chunk(token)
        return progress

    @property
    def _is_full(self) -> bool:
        """True if the step limit or the bound for the size is reached."""
        return self._steps_left <= 0 or (self._bytes_left <= 0 and self._application.bytes_max > 0)

    def _apply_chunk(self, token: str) -> Progress:
        """Execute rows of the next chunk, and return the progress after them."""
        progress = self._progress
        key = chunk_key(token, progress.chunk)
        value = self._view.read(key)
        self.read_count += 1
        if value is ABSENT:
            raise RowRejected(
                f"StagedRowsExpired: rows of batch {progress.batch} are missing, because they were "
                "staged too long ago; write the batch again"
            )
        chunk = Chunk(*value)
        rejected = progress.rejected
        if progress.row == 0:
            for row, error in chunk.rejected:
                self._keep_rejected(rejected, row, error)
                rejected += 1
        rows = chunk.rows[progress.row : progress.row + self._rows_left]
        applied = self._apply_together(chunk, rows)
        executed = len(rows)
        if not applied and rows:
            executed, applied = self._apply_one_by_one(chunk, rows, rejected)
        rejected += executed - applied
        self._rows_left -= max(executed, 1)
        following = progress.row + executed
        progress = progress._replace(applied=progress.applied + applied, rejected=rejected)
        if following < len(chunk.rows):
            return progress._replace(row=following)
        self.writes[key] = ABSENT
        return progress._replace(chunk=progress.chunk + 1, row=0)

    def _apply_together(self, chunk: Chunk, rows: Rows) -> int:
        """Execute all rows in one transaction. Return their number, or 0 if one raises, or if they
        write more than remains."""
        execution = self._executor.run_rows(
            self._request, chunk.operation, chunk.leading, rows, self._view
        )
        if execution.outcome.error is not None or reserved_write(execution) is not None:
            return 0
        size = self._measure(execution.writes)
        if size > self._bytes_left and len(rows) > 1:
            return 0
        self._record(execution, size)
        return len(rows)

    def _apply_one_by_one(self, chunk: Chunk, rows: Rows, rejected: int) -> tuple[int, int]:
        """Execute rows within the limits. Return how many were executed, and succeeded."""
        applied = 0
        for index, row in enumerate(rows):
            if index and self._is_full:
                return index, applied
            execution = self._executor.run_as(
                self._request, chunk.operation, chunk.leading + row, self._view
            )
            error = execution.outcome.error or reserved_write(execution)
            if error is None:
                applied += 1
                self._record(execution, self._measure(execution.writes))
                continue
            if not self._application.keeps_rejected:
                number = self._progress.applied + rejected + index + 1
                raise RowRejected(f"{error} (row {number} of the batch: {describe_row(row)})")
            self._steps_left -= execution.read_count + execution.scan_count + 1
            self._keep_rejected(rejected + index - applied, row, error)
        return len(rows), applied

    def _measure(self, writes: dict[Key, Any]) -> int:
        """Return the size of these writes in bytes, or 0 if the application has no bound."""
        return len(_encode(tuple(writes.items()))) if self._application.bytes_max else 0

    def _record(self, execution: ExecutionResult, size: int) -> None:
        assert not execution.blind_adds, "an addition in a batch reads the register"
        self.read_count += execution.read_count
        self.scan_count += execution.scan_count
        steps = execution.read_count + execution.scan_count + len(execution.writes)
        self._steps_left -= max(steps, 1)
        self._bytes_left -= size
        self.writes.update(execution.writes)

    def _keep_rejected(self, number: int, row: Row, error: str) -> None:
        key = (SINKS_PREFIX, REJECTED, self._application.sink, self._progress.batch, number)
        self.writes[key] = (row, error)
        self._bytes_left -= self._measure({key: (row, error)})


def describe_row(row: Row) -> str:
    """Return a row as an error quotes it."""
    text = repr(row)
    return text if len(text) <= ROW_CHARS_MAX else f"{text[:ROW_CHARS_MAX]}…"


def reserved_write(execution: ExecutionResult) -> str | None:
    """Return the error of an execution that writes to a reserved register, or None."""
    for key in execution.writes:
        if type(key) is tuple and key and key[0] in RESERVED_PREFIXES:
            return f"BadValue: register {key!r} belongs to Creek; choose another name"
    return None


def run_ledger(executor: RowExecutor, request: Request, view: View) -> ExecutionResult:
    value = view.read(ledger_key(request.operation.arguments[0]))
    return ExecutionResult(Outcome(None if value is ABSENT else value), {}, 1, 0, {}, view)


def read_rejected(executor: RowExecutor, request: Request, view: View) -> ExecutionResult:
    sink, limit = request.operation.arguments
    keys = view.keys(*prefix_range((SINKS_PREFIX, REJECTED, sink)), False)
    found = list(islice(tuples_of(keys), min(max(limit, 0), REJECTED_READ_MAX)))
    value = tuple([(key[3], key[4], *view.read(key)) for key in found])
    return ExecutionResult(Outcome(value), {}, 0, len(found), {}, view)


def clear_rejected(executor: RowExecutor, request: Request, view: View) -> ExecutionResult:
    sink, batch, number = request.operation.arguments
    start, _ = prefix_range((SINKS_PREFIX, REJECTED, sink))
    keys = view.keys(start, collation_key((SINKS_PREFIX, REJECTED, sink, batch, number + 1)), False)
    cleared = list(islice(keys, REJECTED_READ_MAX))
    writes = dict.fromkeys(cleared, ABSENT)
    return ExecutionResult(Outcome(len(cleared)), writes, 0, len(cleared), {}, view)


def planned_tokens(view: View) -> frozenset[str]:
    """Return the tokens of all plans that are not complete."""
    tokens: set[str] = set()
    for key in view.keys(*prefix_range((SINKS_PREFIX, LEDGERS)), False):
        progress = Ledger.from_value(view.read(key)).progress
        if progress is not None:
            tokens.update(token for token, _ in progress.plan)
    return frozenset(tokens)


def tuples_of(keys: Iterator[Key]) -> Iterator[tuple[str | int, ...]]:
    return (key for key in keys if isinstance(key, tuple))


def failure(error: str) -> ExecutionResult:
    return ExecutionResult(Outcome(None, error))
