"""Sinks: batches of rows that a cluster applies exactly once, and loads of many rows.

    sink = db.sink("daily-totals")
    staged = await sink.stage("increment", [("lamp", 1), ("tea", 2)])
    result = await sink.apply(17, [staged])  # applies batch 17 once, however often it is called

Staged rows have no effect until a batch with them is applied (`creekdb.wire.sink_ledgers`).
Every call here may be repeated. So calls that a replica rejects for a while, or whose outcome is
unknown, are retried.
"""

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from creekdb.client.calls import Call
from creekdb.client.errors import NotDone, Unknown
from creekdb.client.proxies import CallOptions
from creekdb.errors import BadValue
from creekdb.protocol.values import freeze
from creekdb.wire.messages import CLIENT_FRAME_BYTES_MAX
from creekdb.wire.reject_reason import RejectReason, reject_rule
from creekdb.wire.sink_ledgers import (
    REJECTED_READ_MAX,
    ROWS_MAX,
    UNNAMED_PREFIX,
    ApplicationResult,
    Ledger,
    Row,
    describe_row,
)
from creekdb.wire.staging import (
    APPLY,
    CLEAR_REJECTED,
    DISCARD,
    LOAD,
    READ_LEDGER,
    READ_REJECTED,
    STAGE,
)

CHUNK_ROWS: Final = 1000
"""Rows of one chunk, by default."""
CHUNK_BYTES_MAX: Final = 512 * 1024
"""Size above which a chunk of several rows is divided, in bytes."""
CHUNKS_IN_FLIGHT: Final = 8
"""Staged chunks that await their response at the same time."""
LOADS_IN_FLIGHT: Final = 32
"""Loaded chunks that await their final response at the same time. It takes longer than the first
response, because replicas commit weak calls together."""
PATIENCE_S: Final = 120.0
"""Time for which a call is retried while no replica accepts it, in seconds."""
RETRY_PAUSE_S: Final = 0.2
_ROW_BYTES_MAX: Final = CLIENT_FRAME_BYTES_MAX - 64 * 1024
UNSENDABLE: Final = (OverflowError, TypeError, UnicodeEncodeError)
"""Errors of encoding a value that a client cannot send."""
_encode: Final = msgspec.msgpack.Encoder().encode

Chunk: TypeAlias = "tuple[Row | InvalidRow, ...]"


class CallPort(Protocol):
    """A database, as far as sinks use it."""

    def call(
        self, options: CallOptions, name: str, /, *arguments: Any, **named: Any
    ) -> Call[Any]: ...


class StagedRows(msgspec.Struct, frozen=True):
    """Rows under one token. Plain data, which other processes may apply."""

    token: str
    chunks: int
    rows: int


class RejectedRow(msgspec.Struct, frozen=True):
    """Row that was not applied, and the error."""

    batch: int
    number: int
    row: Row
    error: str


class InvalidRow(msgspec.Struct, frozen=True):
    """Row that a client cannot send as it is, and the reason."""

    row: Row
    error: str


class Sink:
    """Ledger of batches under one name: the result of `db.sink(name)`."""

    def __init__(self, database: CallPort, name: str, query: str = "") -> None:
        if not name:
            raise BadValue("the name of a sink is empty; choose a name")
        self.name = name
        self._query = query
        self._database = database

    async def last_batch(self) -> int | None:
        """Return the number of the last batch that is completely applied, or None."""
        value = await self._call(READ_LEDGER, self.name)
        return None if value is None else Ledger(*value).batch

    async def stage(
        self,
        operation: str,
        rows: Iterable[Row | InvalidRow],
        *,
        leading: tuple[Any, ...] = (),
        keep_rejected: bool = False,
        chunk_rows: int = CHUNK_ROWS,
    ) -> StagedRows:
        """Stage rows, each the arguments of one call of `operation` after the `leading` ones.

        With `keep_rejected`, invalid rows and those with arguments of wrong types become rejected
        rows of the batch. Otherwise `BadValue` or `NotDone` names the first of them.
        """
        token = uuid.uuid4().hex
        stage = _StagedChunks(self._call, token, operation, leading, keep_rejected)
        await run_chunks(stage, chunks_of(rows, chunk_rows), CHUNKS_IN_FLIGHT)
        return StagedRows(token, stage.chunks, stage.rows)

    async def apply(
        self,
        batch: int,
        staged: Sequence[StagedRows],
        *,
        strong: bool = True,
        atomic: bool = False,
        keep_rejected: bool = False,
        rows_max: int = ROWS_MAX,
    ) -> ApplicationResult:
        """Apply all rows of a batch, unless the ledger has this or a later batch already.

        Up to `rows_max` rows take effect at once, if they write at most 8 MiB. A larger batch takes
        effect in several parts, or fails if it is `atomic`. Other rows under the number of a
        complete batch are ignored. The result is final, also that of a weak application.

        A row whose operation raises an error raises `OperationFailed`, and no row of its part takes
        effect. With `keep_rejected`, it becomes a rejected row.
        """
        plan = tuple([(each.token, each.chunks) for each in staged if each.chunks])
        options = (rows_max, atomic, keep_rejected)
        while True:
            value = await self._call(
                APPLY, self.name, self._query, batch, plan, *options, strong=strong
            )
            result = ApplicationResult(*value)
            if result.is_complete:
                break
        if not result.is_own_plan:
            await self.discard(staged)
        return result

    async def discard(self, staged: Iterable[StagedRows]) -> None:
        """Delete staged rows, except those of a batch that is applied in part."""
        for each in staged:
            number = 0
            while number < each.chunks:
                stop = number + 256
                await self._call(DISCARD, each.token, number, stop)
                number = stop

    async def rejected(self) -> list[RejectedRow]:
        """Return the oldest rejected rows, at most `REJECTED_READ_MAX`, until they are cleared."""
        value = freeze(await self._call(READ_REJECTED, self.name, REJECTED_READ_MAX))
        return [RejectedRow(*each) for each in value]

    async def clear_rejected(self, last: RejectedRow) -> None:
        """Delete the rejected rows up to this one."""
        while await self._call(CLEAR_REJECTED, self.name, last.batch, last.number):
            pass

    async def _call(self, name: str, *arguments: Any, strong: bool = True) -> Any:
        return await retry_call(self._database, CallOptions(strong), name, *arguments)


def unnamed_sink() -> str:
    """Return a new name for a sink whose ledger expires."""
    return f"{UNNAMED_PREFIX}{uuid.uuid4().hex}"


async def load_rows(
    database: CallPort,
    operation: str,
    rows: Iterable[Row | InvalidRow],
    *,
    leading: tuple[Any, ...] = (),
    chunk_rows: int = CHUNK_ROWS,
    in_flight: int = LOADS_IN_FLIGHT,
    on_loaded: Callable[[int], None] = lambda count: None,
) -> int:
    """Execute an operation once per row, in weak calls of many rows. Return the number of rows.

    The rows of one call take effect together. The function returns once all outcomes are final.
    A call is repeated if its outcome is unknown. So the operation should store a value under a key,
    and no other client should write to these keys.
    """
    loaded = 0

    async def load(chunk: Chunk) -> None:
        nonlocal loaded
        valid, invalid = _separated(chunk)
        if invalid:
            raise _invalid_row_error(*invalid[0])
        await retry_call(database, CallOptions(False), LOAD, operation, leading, valid)
        loaded += len(chunk)
        on_loaded(len(chunk))

    await run_chunks(load, chunks_of(rows, chunk_rows), in_flight)
    return loaded


class _StagedChunks:
    """Calls that stage the chunks of one token."""

    def __init__(
        self,
        call: Callable[..., Coroutine[Any, Any, Any]],
        token: str,
        operation: str,
        leading: tuple[Any, ...],
        keep_rejected: bool,
    ) -> None:
        self._call = call
        self._token = token
        self._operation = operation
        self._leading = leading
        self._keep_rejected = keep_rejected
        self.chunks = 0
        self.rows = 0

    def __call__(self, chunk: Chunk) -> Coroutine[Any, Any, Any]:
        valid, invalid = _separated(chunk)
        if invalid and not self._keep_rejected:
            raise _invalid_row_error(*invalid[0])
        number = self.chunks
        self.chunks += 1
        self.rows += len(chunk)
        operation, leading, keep = self._operation, self._leading, self._keep_rejected
        return self._call(STAGE, self._token, number, operation, leading, valid, invalid, keep)


async def retry_call(
    database: CallPort,
    options: CallOptions,
    name: str,
    *arguments: Any,
    patience_s: float = PATIENCE_S,
) -> Any:
    """Make a call that may be repeated, and return its final value.

    It is repeated while replicas reject it for a while, and if its outcome is unknown.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    while True:
        try:
            call = database.call(options, name, *arguments)
            return (await call.stable) if options.strong else (await call.final).value
        except (NotDone, Unknown) as error:
            if loop.time() > deadline or not _is_temporary(error):
                raise
        await asyncio.sleep(RETRY_PAUSE_S)


def _is_temporary(error: NotDone | Unknown) -> bool:
    if isinstance(error, Unknown):
        return True
    return reject_rule(error.reason).is_temporary or error.reason == RejectReason.UNREACHABLE


def _separated(chunk: Chunk) -> tuple[tuple[Row, ...], tuple[tuple[Row, str], ...]]:
    """Return the valid rows, and the invalid ones with their errors."""
    valid = tuple([each for each in chunk if not isinstance(each, InvalidRow)])
    if len(valid) == len(chunk):
        return valid, ()
    return valid, tuple([(each.row, each.error) for each in chunk if isinstance(each, InvalidRow)])


def _invalid_row_error(row: Row, error: str) -> BadValue:
    return BadValue(f"{error} (row: {describe_row(row)})")


def chunks_of(rows: Iterable[Row | InvalidRow], chunk_rows: int) -> Iterator[Chunk]:
    """Divide rows into chunks of bounded number and size.

    Rows that are too large, or have a value that cannot be encoded, become invalid rows.
    """
    remaining = iter(rows)
    while chunk := tuple(islice(remaining, chunk_rows)):
        try:
            yield from _divided(chunk)
        except UNSENDABLE:
            yield from _divided(tuple(map(_encodable, chunk)))


def _encodable(row: Row | InvalidRow) -> Row | InvalidRow:
    """Return the row, or an invalid row with the text of a value that cannot be encoded."""
    try:
        _encode(row)
    except UNSENDABLE as error:
        return _described(row, f"a value of the row cannot be sent: {error}")
    return row


def _described(row: Row | InvalidRow, error: str) -> InvalidRow:
    """Return an invalid row with the text of the row, which cannot be sent itself."""
    if isinstance(row, InvalidRow):
        return InvalidRow((describe_row(row.row),), row.error)
    return InvalidRow((describe_row(row),), error)


def _divided(chunk: Chunk) -> Iterator[Chunk]:
    size = len(_encode(chunk))
    if size <= CHUNK_BYTES_MAX:
        yield chunk
    elif len(chunk) > 1:
        middle = len(chunk) // 2
        yield from _divided(chunk[:middle])
        yield from _divided(chunk[middle:])
    elif size <= _ROW_BYTES_MAX:
        yield chunk
    else:
        error = f"a row of {size} bytes exceeds {_ROW_BYTES_MAX} bytes; store less in it"
        yield (_described(chunk[0], error),)


async def run_chunks(
    send: Callable[[Chunk], Coroutine[Any, Any, Any]],
    chunks: Iterator[Chunk],
    in_flight_max: int,
) -> None:
    """Send all chunks, with a bounded number in flight. The first error cancels the others.

    Another thread makes the chunks, since that may take long and the connection must not wait.
    """
    pending: set[asyncio.Task[Any]] = set()
    try:
        while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
            if len(pending) >= in_flight_max:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            pending.add(asyncio.create_task(send(chunk)))
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
