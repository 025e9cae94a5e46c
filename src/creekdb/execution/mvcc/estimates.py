"""Estimates of what a pending request will read and write, from earlier executions.

A request that runs while an earlier one is about to write what it reads runs in vain. The scheduler
therefore delays a request while an earlier pending one is expected to write what it is expected to
read, as the ESTIMATE marks of Block-STM do.

Rules:
- The estimate of a request is what its own last execution accessed. For a first execution, it is
  what the last execution of the same operation with the same leading arguments accessed.
- A request waits only for requests at earlier positions. The earliest pending request therefore
  never waits, and no set of requests waits in a circle.
- A wrong estimate costs time only. Every execution is validated as if there were no estimates.
"""

from collections.abc import Hashable
from typing import Final, TypeAlias

from creekdb.execution.mvcc.entry import END_POSITION, AccessEstimate, RequestEntry
from creekdb.execution.mvcc.snapshot import StoreSnapshot
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.request import Operation
from creekdb.protocol.values import Key

LEADING_ARGUMENTS: Final = 2
"""Number of arguments that select an estimate for a first execution."""
KEYS_MAX: Final = 65_536
"""Upper bound for the keys in all estimates for first executions."""

OperationPattern: TypeAlias = Hashable
"""Name and leading arguments of an operation."""


class AccessEstimates:
    """Estimates of operations, and index of the pending requests by their expected writes."""

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._by_pattern: dict[OperationPattern, AccessEstimate] = {}
        """Last execution of each pattern. The least recently executed pattern is first."""
        self._key_count = 0
        self._indexed: dict[RequestEntry, AccessEstimate] = {}
        """Pending entries, each with the estimate under which it is indexed."""
        self._writers: dict[Key, list[RequestEntry]] = {}

    def record(
        self, entry: RequestEntry, snapshot: StoreSnapshot, execution: ExecutionResult
    ) -> None:
        """Remember the registers that an execution accessed, whether or not it was valid."""
        estimate = AccessEstimate(
            (*snapshot.reads, *snapshot.base_reads), (*execution.writes, *execution.blind_adds)
        )
        entry.estimate = estimate
        pattern = operation_pattern(entry.request.operation)
        if pattern is None or estimate.size > self._keys_max:
            return
        by_pattern = self._by_pattern
        previous = by_pattern.pop(pattern, None)
        self._key_count += estimate.size - (0 if previous is None else previous.size)
        by_pattern[pattern] = estimate
        while self._key_count > self._keys_max:
            oldest = next(iter(by_pattern))
            self._key_count -= by_pattern.pop(oldest).size

    def expect(self, entry: RequestEntry) -> None:
        """Index a pending entry by its expected writes."""
        if entry.position >= END_POSITION:
            return  # a local read, which any state satisfies
        estimate = entry.estimate
        if estimate is None:
            pattern = operation_pattern(entry.request.operation)
            estimate = None if pattern is None else self._by_pattern.get(pattern)
            if estimate is None:
                return
            entry.estimate = estimate
        if self._indexed.get(entry) is estimate:
            return
        self.settle(entry)
        self._indexed[entry] = estimate
        for key in estimate.writes:
            writers = self._writers.get(key)
            if writers is None:
                self._writers[key] = [entry]
            else:
                writers.append(entry)

    def settle(self, entry: RequestEntry) -> None:
        """Remove an entry from the index, because it is executed."""
        estimate = self._indexed.pop(entry, None)
        if estimate is None:
            return
        for key in estimate.writes:
            writers = self._writers[key]
            if len(writers) == 1:
                del self._writers[key]
            else:
                writers.remove(entry)

    def find_expected_writer(self, entry: RequestEntry) -> RequestEntry | None:
        """Return the last pending entry before `entry` that is expected to write what it reads."""
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
        """Forget all pending entries."""
        self._indexed.clear()
        self._writers.clear()


def operation_pattern(operation: Operation) -> OperationPattern | None:
    """Return the key of an operation's estimate, or None if its arguments cannot be a key."""
    pattern = (operation.name, operation.arguments[:LEADING_ARGUMENTS])
    try:
        hash(pattern)
    except TypeError:
        return None
    return pattern
