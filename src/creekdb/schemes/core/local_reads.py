"""Weak read-only operations, executed at the end of the order on one replica alone (Section 4.4).

They are not recorded, and no other replica receives them.
"""

from typing import NamedTuple

from creekdb.execution.mvcc.entry import (
    ExecutionPhase,
    MergedRun,
    Read,
    RequestEntry,
    local_position,
)
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.effects import ObservedOrder, Task
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Operation, Request
from creekdb.protocol.values import Key
from creekdb.schemes.core.execution import ReplicaVariables
from creekdb.schemes.core.stable_prefix import StablePrefix
from creekdb.schemes.core.tentative_responses import TentativeResponses
from creekdb.schemes.core.versioned import VersionedExecution


class _LocalReadSet(NamedTuple):
    """Reads of a local read-only operation at the time of its execution."""

    blocker: RequestEntry | None
    """Pending request that the reads depend on."""
    observed: ObservedOrder | None


class LocalReads:
    def __init__(
        self,
        variables: ReplicaVariables,
        execution: VersionedExecution,
        tentative_responses: TentativeResponses,
        stable_prefix: StablePrefix,
    ) -> None:
        self._index = variables.index
        self._probes = variables.probes
        self._responses = variables.responses
        self._execution = execution
        self._tentative_responses = tentative_responses
        self._stable_prefix = stable_prefix
        self.entries: dict[Dot, RequestEntry] = {}
        """Local reads without a response."""
        self._number = 0

    def invoke(
        self, operation: Operation, session: int, timestamp: int, after: tuple[Dot, ...]
    ) -> Dot:
        self._number += 1
        id = Dot(self._index, -self._number)
        self._responses.expect(id, session, strong=False)
        self._add(Request(timestamp, id, operation, strong=False), session, after)
        return id

    def observe(self, task: Task, execution: ExecutionResult) -> ExecutionResult:
        """Add the requests to the result of a local read that it depends on at this time."""
        entry = self.entries.get(task.request.id)
        if entry is None or execution.read_set is None:
            return execution
        reads: dict[Key, Read] = execution.read_set.reads
        blocker = self._tentative_responses.find_blocker(entry, reads)
        observed = self._stable_prefix.observe(task.request)
        if observed is not None:
            timestamp = task.request.timestamp
            observed = ObservedOrder(observed.settled, observed.ids, timestamp)
        read_set = _LocalReadSet(blocker, observed)
        return execution.with_read_set(read_set)

    def complete(self, entry: RequestEntry, execution: ExecutionResult) -> None:
        """Respond with the outcome, unless the reads depend on a pending request. The reads were
        the state at execution time, so later changes do not matter."""
        read_set: _LocalReadSet = execution.read_set
        id = entry.request.id
        if read_set.blocker is not None:
            self._retry(entry, read_set.blocker)
            return
        self._probes.hit(Probe.LOCAL_READ)
        del self.entries[id]
        self._responses.respond_local(id, execution.outcome, read_set.observed)

    def reload(self) -> None:
        """Execute all local reads again, after a checkpoint has been loaded."""
        for entry in list(self.entries.values()):
            dependencies = tuple([each.request.id for each in entry.dependencies])
            assert entry.session is not None
            self._add(entry.request, entry.session, dependencies)

    def _retry(self, entry: RequestEntry, blocker: RequestEntry) -> None:
        entry.phase = ExecutionPhase.WAITING
        is_pending = not isinstance(blocker, MergedRun) and not blocker.is_executed
        if is_pending or blocker.hidden_versions:
            self._tentative_responses.block(entry, blocker)
        else:
            self._execution.scheduler.add(entry)

    def _add(self, request: Request, session: int, dependencies: tuple[Dot, ...]) -> None:
        entry = RequestEntry(request, local_position(-request.id.event), session)
        entry.session_predecessor = self._execution.last_by_session.get(session)
        if dependencies:
            entry.dependencies = self._execution.entries_of(dependencies)
        self._execution.scheduler.add(entry)
        self.entries[request.id] = entry
