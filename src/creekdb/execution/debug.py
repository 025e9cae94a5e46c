"""Debug mode: executes every operation twice on the same state and compares the results.

`DebugDataType(datatype)` replaces a data type. It raises `NotDeterministic`, with the name of the
operation, if the second execution has another response, read, write or addition. Without debug
mode the fault shows only when two replicas differ. Lines count as steps, so that an endless loop
is stopped.

Two executions in one process cannot show every difference: the order of a set of strings, for
example, differs only between processes with different hash seeds. The *execution log* therefore
records every execution, and `first_difference` compares the logs of two processes.

Debug mode also collects warnings about SQL statements whose results depend on the plan of SQLite.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile, tee, zip_longest
from operator import eq
from typing import Any, Final

import msgspec

from creekdb.errors import NotDeterministic
from creekdb.execution.datatype import DataType, DataTypeWrapper
from creekdb.execution.keys import CollationKey
from creekdb.execution.result import ExecutionResult
from creekdb.execution.sql_engine import SqlEngine
from creekdb.execution.transaction import ABSENT, RangeScan, View
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.values import Key

EXECUTION_LOG_LENGTH_MAX: Final = 64_000_000
"""Maximum length of an execution log, in characters. Later executions are not recorded, but they
are still repeated and compared."""

EXCERPT_LENGTH_MAX: Final = 300
"""Number of characters around the difference that an error quotes."""

_SIZES: Final = tuple(size for size in range(8, 500, 16) for _ in range(12))


class ExecutionRecord(msgspec.Struct, frozen=True, array_like=True):
    """Text of one execution. Two records are equal only if the executions were equal."""

    operation: str
    result: str


class DebugDataType(DataTypeWrapper):
    """Data type that verifies the determinism of its operations."""

    def __init__(self, datatype: DataType) -> None:
        super().__init__(datatype, count_lines=True)
        self.sql_warnings: dict[str, tuple[str, ...]] = {}
        """Warnings about each executed SQL statement, by its text."""
        if datatype.sql_engine is not None:
            self.sql_engine = WarningSqlEngine(datatype.sql_engine, self.sql_warnings)
        self.execution_log: list[ExecutionRecord] = []
        self._remaining_length = EXECUTION_LOG_LENGTH_MAX

    def run(self, request: Request, view: View) -> ExecutionResult:
        cache: dict[tuple[Any, ...], Any] = {}
        first_view, second_view = RecordingView(view, cache), RecordingView(view, cache)
        execution = super().run(request, first_view)
        filler = _allocate_filler()
        repetition = super().run(request, second_view)
        del filler
        record = ExecutionRecord(
            call_text(request.operation), result_text(execution, first_view.accesses)
        )
        repeated_result = result_text(repetition, second_view.accesses)
        if repeated_result != record.result:
            raise determinism_error(
                self.name, record, repeated_result, "executed again on the same state"
            )
        self._append(record)
        return execution

    def _append(self, record: ExecutionRecord) -> None:
        length = len(record.operation) + len(record.result)
        if length <= self._remaining_length:
            self._remaining_length -= length
            self.execution_log.append(record)
        else:
            self._remaining_length = 0  # the log stays a prefix, without gaps


class WarningSqlEngine:
    """SQL engine that collects warnings about the statements that it executes."""

    def __init__(self, engine: SqlEngine, warnings: dict[str, tuple[str, ...]]) -> None:
        self._engine = engine
        self._warnings = warnings
        self.version = engine.version
        self.open_session = engine.open_session
        self.close_session = engine.close_session
        self.describe_tables = engine.describe_tables
        self.find_warnings = engine.find_warnings

    def execute(
        self, session: Any, text: Any, parameters: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        if type(text) is str and text not in self._warnings:
            self._warnings[text] = self._engine.find_warnings(text)
        return self._engine.execute(session, text, parameters, named)


def first_difference(
    datatype: str,
    ours: Sequence[ExecutionRecord],
    theirs: Sequence[ExecutionRecord],
    variation: str,
) -> NotDeterministic | None:
    """Return an error for the first difference between two logs of the same run, or None.

    `variation` describes the circumstances of the second run.
    """
    for number, (our, their) in enumerate(zip_longest(ours, theirs), 1):
        if our == their:
            continue
        if our is not None and their is not None and our.operation == their.operation:
            return determinism_error(datatype, our, their.result, variation)
        first, second = ("missing" if each is None else each.operation for each in (our, their))
        return NotDeterministic(
            f"the run itself is not deterministic: execution {number} was {first}; {variation}, "
            f"it was {second}. No earlier operation differs, so this is a bug in Creek"
        )
    return None


def determinism_error(
    datatype: str, record: ExecutionRecord, result: str, variation: str
) -> NotDeterministic:
    first, second = _around_difference(record.result, result)
    return NotDeterministic(
        f"operation {record.operation} of {datatype} is not deterministic: it {first}; "
        f"{variation}, it {second}. An operation must depend only on its transaction and its "
        "arguments: use tx.timestamp for the clock, tx.random for random numbers and sorted(...) "
        "for the order of a set. Do not use id(), hash() or state that an earlier call left behind"
    )


def call_text(operation: Operation) -> str:
    arguments = ", ".join(map(repr, operation.arguments))
    text = f"{operation.name}({arguments})"
    return text if len(text) <= EXCERPT_LENGTH_MAX else f"{text[:EXCERPT_LENGTH_MAX]}…"


def result_text(execution: ExecutionResult, accesses: list[str]) -> str:
    outcome = execution.outcome
    if outcome.error is None:
        parts = [f"returned {outcome.value!r}"]
    else:
        parts = [f"raised {outcome.error}"]
    for key, value in execution.writes.items():
        parts.append(f"deleted {key!r}" if value is ABSENT else f"wrote {key!r} = {value!r}")
    parts += [f"added {amount} to {key!r}" for key, amount in execution.blind_adds.items()]
    return ", ".join(parts + accesses)


class RecordingView:
    """`View` that records its accesses. Views with a common `cache` read the same values."""

    __slots__ = ("_cache", "_view", "accesses")

    def __init__(self, view: View, cache: dict[tuple[Any, ...], Any]) -> None:
        self._view = view
        self._cache = cache
        self.accesses: list[str] = []

    def read(self, key: Key) -> Any:
        self.accesses.append(f"read {key!r}")
        return self._cached(self._view.read, key)

    def pick(self, key: Key, items: tuple[int | str, ...]) -> Any:
        self.accesses.append(f"picked {items!r} of {key!r}")
        return self._cached(self._view.pick, key, items)

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        self.accesses.append(f"scanned {start!r} to {stop!r}{' in reverse' if reverse else ''}")
        scan = self._view.keys, start, stop, reverse
        keys, self._cache[scan] = tee(self._cached(*scan))
        return keys

    def pick_range(
        self, scan: RangeScan, items: tuple[int | str, ...], limit: int
    ) -> list[tuple[Key, Any]]:
        text = f"{scan.start!r} to {scan.stop!r}{' in reverse' if scan.reverse else ''}"
        self.accesses.append(f"scanned {text} for {items!r} of {limit}")
        access = self._view.pick_range, text, items, limit
        if access not in self._cache:
            self._cache[access] = self._view.pick_range(scan, items, limit)
        found: list[tuple[Key, Any]] = self._cache[access]
        return found

    def is_addable(self, key: Key) -> bool:
        addable: bool = self._cached(self._view.is_addable, key)
        return addable

    def _cached(self, read: Callable[..., Any], *arguments: Any) -> Any:
        if (read, *arguments) not in self._cache:
            self._cache[read, *arguments] = read(*arguments)
        return self._cache[read, *arguments]


def _allocate_filler() -> list[Any]:
    """Return objects of every small size.

    They occupy the memory that the first execution freed. The second execution then gets other
    addresses, and a dependence on `id()` shows.
    """
    filler: list[Any] = [size.to_bytes(size, "big") for size in _SIZES]
    for number in range(10):
        filler += ([], {}, {number}, float(number), object())
    return filler


def _around_difference(left: str, right: str) -> tuple[str, str]:
    start = 0
    if max(len(left), len(right)) > EXCERPT_LENGTH_MAX:
        common_length = sum(1 for _ in takewhile(bool, map(eq, left, right)))
        start = max(0, common_length - EXCERPT_LENGTH_MAX // 3)
    return _excerpt(left, start), _excerpt(right, start)


def _excerpt(text: str, start: int) -> str:
    prefix = "…" if start else ""
    suffix = "…" if len(text) > start + EXCERPT_LENGTH_MAX else ""
    return f"{prefix}{text[start : start + EXCERPT_LENGTH_MAX]}{suffix}"
