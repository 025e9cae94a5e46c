"""Operations by which sinks stage rows, apply them once, and discard them.

`creekdb.wire.sink_ledgers` describes staging and applies the rows. This module has the operations
of staged rows, their arguments, and the load of rows without a ledger.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

from creekdb.execution.footprint import Footprint
from creekdb.execution.keys import SINKS_PREFIX, CollationKey, collation_key, prefix_range
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import ABSENT, View
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.protocol.values import Key
from creekdb.wire.batches import BatchView
from creekdb.wire.sink_ledgers import (
    CHUNKS,
    LEDGERS,
    REJECTED,
    ROWS_MAX,
    UNNAMED_PREFIX,
    Application,
    RowExecutor,
    chunk_key,
    clear_rejected,
    failure,
    ledger_key,
    planned_tokens,
    read_rejected,
    reserved_write,
    run_application,
    run_ledger,
    tuples_of,
)

STAGE: Final = "creek.stage"
"""Operation that stages one chunk: token, number, operation, leading arguments, rows, rejected."""
APPLY: Final = "creek.apply"
"""Operation that applies rows of a batch. Its arguments are those of `Application`, without the
bound in bytes if it is none."""
READ_LEDGER: Final = "creek.ledger"
"""Operation that returns the ledger of a sink, or None."""
READ_REJECTED: Final = "creek.rejected"
"""Operation that returns the oldest rejected rows of a sink, at most as many as requested."""
CLEAR_REJECTED: Final = "creek.clear_rejected"
"""Operation that deletes the rejected rows of a sink up to a batch and number."""
DISCARD: Final = "creek.discard"
"""Operation that deletes the chunks of a token, from one number up to another."""
EXPIRE_STAGED: Final = "creek.expire_staged"
"""Operation that deletes old chunks and ledgers: time limit, and key components to continue at."""
LOAD: Final = "creek.load"
"""Operation that executes an operation once per row, without a ledger, all rows or none."""

CLIENT_STAGING_OPERATIONS: Final = frozenset(
    (STAGE, APPLY, READ_LEDGER, READ_REJECTED, CLEAR_REJECTED, DISCARD, LOAD)
)
"""Operations of this module that clients may call."""
STAGING_OPERATIONS: Final = CLIENT_STAGING_OPERATIONS | {EXPIRE_STAGED}
WRITING_OPERATIONS: Final = frozenset((APPLY, LOAD))
"""Operations of this module that write registers of clients."""

CHUNKS_VISITED_MAX: Final = 256
"""Number of registers that one expiry or discard visits, at most."""
PLAN_TOKENS_MAX: Final = 10_000
"""Number of tokens in one plan, at most."""


def expire_staged(before_us: int, *cursor: Any) -> Operation:
    """Return the operation that expires chunks and ledgers older than `before_us`.

    `cursor` has the components of the register to begin at. The operation returns the number of
    deleted registers, and the components of the register to continue at.
    """
    return Operation(EXPIRE_STAGED, (before_us, *cursor))


def bounded_application(operation: Operation, bytes_max: int) -> Operation:
    """Return an application with this bound for its writes, in bytes; 0 stands for no bound."""
    arguments = operation.arguments[: len(_KINDS[APPLY])]
    return Operation(APPLY, (*arguments, bytes_max) if bytes_max else arguments)


def _is_bounded(operation: Operation) -> bool:
    name, arguments = operation.name, operation.arguments
    return name == APPLY and len(arguments) == len(_KINDS[APPLY]) + 1 and type(arguments[-1]) is int


def run_staging(executor: RowExecutor, request: Request, view: View) -> ExecutionResult:
    """Execute an operation of this module."""
    operation = request.operation
    problem = describe_bad_arguments(operation)
    if problem is not None:
        return failure(f"BadValue: {operation.name}: {problem}")
    return _RUN[operation.name](executor, request, view)


def find_staging_footprint(operation: Operation) -> Footprint | None:
    """Return the registers that `run_staging` can touch, or None for all."""
    name, arguments = operation.name, operation.arguments
    if describe_bad_arguments(operation) is not None:
        return Footprint(())
    if name == STAGE:
        return Footprint(((SINKS_PREFIX, CHUNKS, arguments[0]),))
    if name == DISCARD:
        return Footprint(((SINKS_PREFIX, CHUNKS, arguments[0]),), ((SINKS_PREFIX, LEDGERS),))
    if name == READ_LEDGER:
        return Footprint((ledger_key(arguments[0]),))
    if name in (READ_REJECTED, CLEAR_REJECTED):
        return Footprint(((SINKS_PREFIX, REJECTED, arguments[0]),))
    return Footprint(((SINKS_PREFIX,),)) if name == EXPIRE_STAGED else None


# --- arguments ----------------------------------------------------------------------------------


def describe_bad_arguments(operation: Operation) -> str | None:
    """Return why the arguments are invalid, or None."""
    arguments = operation.arguments
    kinds = _KINDS[operation.name]
    if operation.name == EXPIRE_STAGED:
        arguments = arguments[:1]  # a cursor may follow
    elif _is_bounded(operation):
        arguments = arguments[:-1]
    if len(arguments) != len(kinds):
        return f"takes {len(kinds)} arguments, not {len(arguments)}"
    for number, (argument, kind) in enumerate(zip(arguments, kinds, strict=True), 1):
        if type(argument) is not kind:
            given = type(argument).__name__
            return f"argument {number} must be a {kind.__name__}, not a {given}"
    return _CHECKS[operation.name](arguments) if operation.name in _CHECKS else None


def _check_stage(arguments: tuple[Any, ...]) -> str | None:
    _, number, _, _, rows, rejected = arguments
    if number < 0:
        return "the number of a chunk is at least 0"
    if len(rows) + len(rejected) > ROWS_MAX:
        return f"a chunk has at most {ROWS_MAX} rows"
    if not all(type(each) is tuple for each in rows):
        return "a row is a tuple"
    if not all(type(each) is tuple and len(each) == 2 for each in rejected):
        return "a rejected row is a pair of row and error"
    return None


def _check_application(arguments: tuple[Any, ...]) -> str | None:
    application = Application(*arguments)
    if not application.sink:
        return "the name of the sink is empty"
    if application.batch < 0:
        return "the number of a batch is at least 0"
    if not 0 < application.rows_max <= ROWS_MAX:
        return f"the number of rows is 1 to {ROWS_MAX}"
    if not all(type(each) is tuple for each in arguments[3]):
        return "a plan consists of pairs of token and number of chunks"
    if len(application.plan) > PLAN_TOKENS_MAX:
        return f"a plan has at most {PLAN_TOKENS_MAX} tokens"
    if any(tuple(map(type, each)) != (str, int) for each in application.plan):
        return "a plan consists of pairs of token and number of chunks"
    return None


def _check_load(arguments: tuple[Any, ...]) -> str | None:
    rows = arguments[2]
    if not 0 < len(rows) <= ROWS_MAX:
        return f"a load has 1 to {ROWS_MAX} rows"
    return None if all(type(each) is tuple for each in rows) else "a row is a tuple"


_KINDS: Final[dict[str, tuple[type, ...]]] = {
    STAGE: (str, int, str, tuple, tuple, tuple),
    APPLY: (str, str, int, tuple, int, bool, bool),
    READ_LEDGER: (str,),
    READ_REJECTED: (str, int),
    CLEAR_REJECTED: (str, int, int),
    DISCARD: (str, int, int),
    EXPIRE_STAGED: (int,),
    LOAD: (str, tuple, tuple),
}
_CHECKS: Final[dict[str, Callable[[tuple[Any, ...]], str | None]]] = {
    STAGE: _check_stage,
    APPLY: _check_application,
    LOAD: _check_load,
}


# --- execution ----------------------------------------------------------------------------------


def _run_stage(executor: RowExecutor, request: Request, view: View) -> ExecutionResult:
    token, number, *rest = request.operation.arguments
    return ExecutionResult(
        Outcome(), {chunk_key(token, number): (request.timestamp, *rest)}, 0, 0, {}, view
    )


def _run_load(executor: RowExecutor, request: Request, view: View) -> ExecutionResult:
    name, leading, rows = request.operation.arguments
    # A batch's view never adds blindly, so all writes are in one place.
    execution = executor.run_rows(request, name, leading, rows, BatchView(view, {}))
    problem = reserved_write(execution)
    if problem is not None:
        return failure(problem)
    if execution.outcome.error is not None:
        return failure(execution.outcome.error)
    return ExecutionResult(
        Outcome(len(rows)),
        execution.writes,
        execution.read_count,
        execution.scan_count,
        {},
        view,
    )


def _run_discard(executor: RowExecutor, request: Request, view: View) -> ExecutionResult:
    token, start, stop = request.operation.arguments
    keys = view.keys(
        collation_key(chunk_key(token, start)), collation_key(chunk_key(token, stop)), False
    )
    found = list(islice(keys, CHUNKS_VISITED_MAX))
    in_plans = planned_tokens(view)
    discarded = [] if token in in_plans else found
    writes = dict.fromkeys(discarded, ABSENT)
    return ExecutionResult(Outcome(len(discarded)), writes, 0, len(found), {}, view)


def _run_expiry(executor: RowExecutor, request: Request, view: View) -> ExecutionResult:
    before_us, *cursor = request.operation.arguments
    start, stop = prefix_range((SINKS_PREFIX,))
    if cursor:
        start = max(start, _cursor_key(cursor))
    visited = list(islice(tuples_of(view.keys(start, stop, False)), CHUNKS_VISITED_MAX + 1))
    continuation: tuple[Any, ...] = ()
    if len(visited) > CHUNKS_VISITED_MAX:
        continuation = visited.pop()[1:]
    in_plans = planned_tokens(view)
    expired: list[Key] = [key for key in visited if _is_expired(view, key, before_us, in_plans)]
    writes = dict.fromkeys(expired, ABSENT)
    value = (len(expired), *continuation)
    return ExecutionResult(Outcome(value), writes, 0, len(visited), {}, view)


def _cursor_key(cursor: Iterable[Any]) -> CollationKey:
    """Return the key at which an expiry continues. Components of other types are left out."""
    return collation_key((SINKS_PREFIX, *[each for each in cursor if type(each) in (int, str)]))


def _is_expired(
    view: View, key: tuple[str | int, ...], before_us: int, in_plans: frozenset[str]
) -> bool:
    kind = key[1]
    if kind == CHUNKS:
        return key[2] not in in_plans and view.read(key)[0] < before_us
    if kind == LEDGERS and str(key[2]).startswith(UNNAMED_PREFIX):
        return bool(view.read(key)[0] < before_us)
    return False


_RUN: Final[dict[str, Callable[[RowExecutor, Request, View], ExecutionResult]]] = {
    STAGE: _run_stage,
    APPLY: run_application,
    READ_LEDGER: run_ledger,
    READ_REJECTED: read_rejected,
    CLEAR_REJECTED: clear_rejected,
    DISCARD: _run_discard,
    EXPIRE_STAGED: _run_expiry,
    LOAD: _run_load,
}
