"""Estimates of what a pending request will read and write, from earlier executions.

An execution is in vain if an earlier request writes a register after the execution has read it. The
scheduler therefore delays a request while an earlier pending one is expected to write a register
that the request is expected to read. The ESTIMATE marks of Block-STM do the same.

Rules:
- The estimate of a request has the registers that its own last execution accessed. For a first
  execution, it has those of the last one of the same operation with the same leading arguments.
- A request waits only for requests at earlier positions. The earliest pending request therefore
  never waits, and no set of requests waits in a circle.
- A wrong estimate costs time only. Every execution is validated as if there were no estimates.
- The memory is bounded: by the requests that are not stable, and by `KEYS_MAX` for operations.
- The registers in which Creek itself keeps the calls of clients are left out. Each belongs to one
  call, and does not predict the accesses of another one.

The arguments of an operation select its estimate only if they are small. Otherwise the operation
has no estimate before its first execution.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, TypeAlias

from creekdb.execution.keys import RESERVED_KIND, kind_of
from creekdb.execution.mvcc.entry import END_POSITION, AccessEstimate, RequestEntry
from creekdb.execution.mvcc.snapshot import StoreSnapshot
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.request import Operation
from creekdb.protocol.values import Key

LEADING_ARGUMENTS: Final = 2
"""Number of arguments that select an estimate for a first execution."""
KEYS_MAX: Final = 65_536
"""Upper bound for the keys and operations in all estimates for first executions."""
ARGUMENT_LENGTH_MAX: Final = 64
"""Length of a str that can select an estimate. Longer ones would need much memory."""

_SCALAR_TYPES: Final = frozenset((int, bool, float, type(None)))

OperationPattern: TypeAlias = Hashable
"""Name and leading arguments of an operation."""


class AccessEstimates:
    """Estimates of operations, and index of the pending requests by their expected writes."""

    def __init__(
        self,
        keys_max: int = KEYS_MAX,
        called_operation: Callable[[Operation], Operation] | None = None,
    ) -> None:
        """`called_operation` returns the operation that a client called, if a request holds it in
        another one."""
        self._keys_max = keys_max
        self._called_operation = called_operation
        self._by_pattern: OrderedDict[OperationPattern, AccessEstimate] = OrderedDict()
        """Last execution of each pattern. The least recently executed pattern is first."""
        self._key_count = 0
        self._unindexed: dict[RequestEntry, None] = {}
        """Pending entries since the last search. Most are executed before the next one."""
        self._indexed: dict[RequestEntry, AccessEstimate] = {}
        """Other pending entries, each with the estimate under which it is indexed."""
        self._writers: dict[Key, list[RequestEntry]] = {}

    def record(
        self, entry: RequestEntry, snapshot: StoreSnapshot, execution: ExecutionResult
    ) -> None:
        """Record the registers that an execution accessed, whether or not it was valid."""
        operation = entry.request.operation
        called = self._unwrap(operation)
        reads = tuple(snapshot.reads)
        if snapshot.base_reads:
            reads += tuple(snapshot.base_reads)
        writes = tuple(execution.writes)
        if execution.blind_adds:
            writes += tuple(execution.blind_adds)
        if called is not operation:
            reads, writes = _without_reserved(reads), _without_reserved(writes)
        estimate = AccessEstimate(reads, writes)
        entry.estimate = estimate
        pattern = operation_pattern(called)
        if pattern is None or estimate.size > self._keys_max:
            return
        by_pattern = self._by_pattern
        previous = by_pattern.pop(pattern, None)
        self._key_count += estimate.size - (0 if previous is None else previous.size)
        by_pattern[pattern] = estimate
        while self._key_count > self._keys_max:
            self._key_count -= by_pattern.popitem(last=False)[1].size

    def expect(self, entry: RequestEntry) -> None:
        """Add a pending entry, whose expected writes may delay others."""
        if entry.position < END_POSITION:  # otherwise a local read, which any state satisfies
            self._unindexed[entry] = None

    def settle(self, entry: RequestEntry) -> None:
        """Remove an entry from the index, because it is executed."""
        self._unindexed.pop(entry, None)
        if self._indexed:
            self._remove(entry)

    def find_expected_writer(self, entry: RequestEntry) -> RequestEntry | None:
        """Return the last pending entry before `entry` that is expected to write what it reads."""
        if self._unindexed:
            for pending in self._unindexed:
                self._index(pending)
            self._unindexed.clear()
        estimate = entry.estimate
        if estimate is None or entry.position >= END_POSITION:
            return None
        position, found = entry.position, None
        for key in estimate.reads:
            for writer in self._writers.get(key, ()):
                if writer.position < position and (
                    found is None or found.position < writer.position
                ):
                    found = writer
        return found

    def clear(self) -> None:
        """Drop all pending entries."""
        self._unindexed.clear()
        self._indexed.clear()
        self._writers.clear()

    def _index(self, entry: RequestEntry) -> None:
        estimate = entry.estimate
        if estimate is None:
            pattern = operation_pattern(self._unwrap(entry.request.operation))
            estimate = None if pattern is None else self._by_pattern.get(pattern)
            if estimate is None:
                return
            entry.estimate = estimate
        if self._indexed.get(entry) is estimate:
            return
        self._remove(entry)
        self._indexed[entry] = estimate
        for key in estimate.writes:
            writers = self._writers.get(key)
            if writers is None:
                self._writers[key] = [entry]
            else:
                writers.append(entry)

    def _remove(self, entry: RequestEntry) -> None:
        estimate = self._indexed.pop(entry, None)
        if estimate is None:
            return
        for key in estimate.writes:
            writers = self._writers[key]
            if len(writers) == 1:
                del self._writers[key]
            else:
                writers.remove(entry)

    def _unwrap(self, operation: Operation) -> Operation:
        return operation if self._called_operation is None else self._called_operation(operation)


def operation_pattern(operation: Operation) -> OperationPattern | None:
    """Return the key of an operation's estimate, or None if its arguments cannot be a key."""
    leading = operation.arguments[:LEADING_ARGUMENTS]
    for each in leading:
        if type(each) is str:
            if len(each) > ARGUMENT_LENGTH_MAX:
                return None
        elif type(each) not in _SCALAR_TYPES:
            return None
    return (operation.name, leading)


def _without_reserved(keys: tuple[Key, ...]) -> tuple[Key, ...]:
    return tuple([key for key in keys if kind_of(key) != RESERVED_KIND])
