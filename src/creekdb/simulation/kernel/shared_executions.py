"""Cache of executions that the replicas of one simulation share.

In a simulation, most replicas execute a request on equal values. An operation is a deterministic
function of the values that it reads. If the snapshot of another replica shows every value (or every
picked item) that an earlier execution read, its result is reused and the operation is not run. The
simulated duration of the execution and the reads recorded in the snapshot are the same either way.
A comparison that fails leaves no trace in the snapshot.

Most values are identical objects, since replicas share written values and the initial data.
Operations that scan a range of registers always run. The cache is not used for debugging, where
running again is the purpose.
"""

from typing import Any, Final, NamedTuple

from creekdb.execution.datatype import DataType, DataTypeWrapper
from creekdb.execution.mvcc.snapshot import AddabilityCheck, RecordedReads, StoreSnapshot
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import View
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.request import Request
from creekdb.protocol.values import Key, is_same_state

CACHED_REQUESTS_MAX: Final = 16_384
"""Number of cached requests. Most replicas have executed a request before it is evicted."""
CACHED_VARIANTS_MAX: Final = 4
"""Number of cached executions of one request, each on different values."""


class CachedExecution(NamedTuple):
    """Values that an execution of a request read, and its result."""

    request: Request
    reads: RecordedReads
    execution: ExecutionResult


class ExecutionSharingDataType(DataTypeWrapper):
    """A data type whose executions are shared by all replicas of one simulation."""

    def __init__(self, datatype: DataType, requests_max: int = CACHED_REQUESTS_MAX) -> None:
        super().__init__(datatype)
        self._requests_max = requests_max
        self._cached: dict[Dot, list[CachedExecution]] = {}
        self._last_changes: tuple[dict[Key, Any], dict[Key, Any]] = {}, {}
        """Arguments and result of the last call of `changes`."""
        self.shared_count = 0
        """Number of executions that were not run."""

    def run(self, request: Request, view: View) -> ExecutionResult:
        if not isinstance(view, StoreSnapshot):
            return super().run(request, view)
        variants = self._cached.get(request.id)
        if variants is None:
            variants = self._cached[request.id] = []
            if len(self._cached) > self._requests_max:
                del self._cached[next(iter(self._cached))]
        for cached in variants:
            # A request that was lost in a crash may share its identifier with a later request.
            same_request = cached.request is request or cached.request == request
            if same_request and view.replay(cached.reads):
                self.shared_count += 1
                return cached.execution
        recorder = _AdditionRecorder(view)
        execution = super().run(request, recorder)
        if not view.scanned_ranges and len(variants) < CACHED_VARIANTS_MAX:
            variants.append(
                CachedExecution(request, RecordedReads(view, recorder.addable_results), execution)
            )
        return execution

    def changes(self, registers: dict[Key, Any]) -> dict[Key, Any]:
        """Return the changes; computed once for replicas that end with equal registers."""
        last_registers, last_changes = self._last_changes
        if not is_same_state(last_registers, registers):
            last_changes = super().changes(registers)
            self._last_changes = registers, last_changes
        return last_changes


class _AdditionRecorder:
    """Snapshot that also records the results of `is_addable`; reads are forwarded unchanged."""

    __slots__ = ("_view", "addable_results", "keys", "pick", "pick_range", "read")

    def __init__(self, view: StoreSnapshot) -> None:
        self._view = view
        self.read = view.read
        self.pick = view.pick
        self.keys = view.keys
        self.pick_range = view.pick_range
        self.addable_results: list[AddabilityCheck] = []

    def is_addable(self, key: Key) -> bool:
        is_addable = self._view.is_addable(key)
        self.addable_results.append((key, is_addable))
        return is_addable
