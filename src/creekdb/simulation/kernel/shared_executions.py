"""Executing a request once for all replicas that see the same.

In a simulation, most replicas execute a request on equal values. An operation is a deterministic
function of what it reads; so where another replica's snapshot shows every value that an earlier
execution read, or the same items where it looked at no others, its result is taken, and the
operation is not run again. What it took, in simulated time, is the same either way, and so is what
the snapshot remembers of it: what was compared in vain leaves no trace.

Most values are the same objects, since replicas share what executions wrote, and the initial data.
What goes through a range of registers is always run. Not for debugging: there, running again is the
point.
"""

from typing import Any, Final

from creekdb.execution.datatype import DataType, DataTypeWrapper
from creekdb.execution.mvcc.snapshot import AddabilityCheck, RecordedReads, StoreSnapshot
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import View
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key, is_same_value

CACHED_REQUESTS_MAX: Final = 16_384
"""Requests; by then every replica has mostly executed them."""
CACHED_VARIANTS_MAX: Final = 4
"""Executions of one request on different values."""

_MISSING: Final = object()


class CachedExecution:
    """What an execution of a request saw, and what came out."""

    __slots__ = ("execution", "reads", "request")

    def __init__(self, request: Request, seen: RecordedReads, execution: ExecutionResult) -> None:
        self.request = request
        self.reads = seen
        self.execution = execution


class ExecutionSharingDataType(DataTypeWrapper):
    """A data type, for all replicas of one simulation."""

    def __init__(self, datatype: DataType) -> None:
        super().__init__(datatype)
        self._cached: dict[Dot, list[CachedExecution]] = {}
        self._last_changes: tuple[dict[Key, Any], dict[Key, Any]] = {}, {}
        """Of which registers it was asked last what differs from the base, and the answer."""
        self.shared_count = 0
        """Executions that were not run."""

    def run(self, request: Request, view: View) -> ExecutionResult:
        if not isinstance(view, StoreSnapshot):
            return super().run(request, view)
        variants = self._cached.get(request.id)
        if variants is None:
            variants = self._cached[request.id] = []
            if len(self._cached) > CACHED_REQUESTS_MAX:
                del self._cached[next(iter(self._cached))]
        for known in variants:
            # A request that was lost in a crash may share its identifier with a later one.
            same_request = known.request is request or known.request == request
            if same_request and view.replay(known.reads):
                self.shared_count += 1
                return known.execution
        witness = _AdditionRecorder(view)
        execution = super().run(request, witness)
        if not view.scanned_ranges and len(variants) < CACHED_VARIANTS_MAX:
            variants.append(
                CachedExecution(request, RecordedReads(view, witness.addable_results), execution)
            )
        return execution

    def changes(self, registers: dict[Key, Any]) -> dict[Key, Any]:
        """Of replicas that end with the same values in the same registers, once."""
        last, changed = self._last_changes
        if not _equal_registers(last, registers):
            changed = super().changes(registers)
            self._last_changes = registers, changed
        return changed


def _equal_registers(some: dict[Key, Any], others: dict[Key, Any]) -> bool:
    if len(some) != len(others):
        return False
    for key, value in some.items():
        other = others.get(key, _MISSING)
        if other is not value and not is_same_value(other, value):
            return False
    return True


class _AdditionRecorder:
    """A snapshot that also remembers what it said about additions. Reads go straight through."""

    __slots__ = ("_view", "addable_results", "keys", "pick", "read")

    def __init__(self, view: StoreSnapshot) -> None:
        self._view = view
        self.read = view.read
        self.pick = view.pick
        self.keys = view.keys
        self.addable_results: list[AddabilityCheck] = []

    def is_addable(self, key: Key) -> bool:
        answer = self._view.is_addable(key)
        self.addable_results.append((key, answer))
        return answer
