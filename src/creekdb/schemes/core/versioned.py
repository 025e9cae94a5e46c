"""Concurrent execution on the version store (Section 4.4), shared by the schemes that use it.

Every request has a `RequestEntry` at its position, and is executed on a snapshot of that position.
Executions run concurrently and in any order. An execution whose reads are no longer valid when it
completes is discarded. One that becomes invalid later is rolled back and executed again. A
committed request gets its stable response once it and every preceding request that may write are
executed.

The scheme decides which position a request gets, when it gets that position, and which tentative
responses are sent.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import msgspec

from creekdb.execution.datatype import DataType
from creekdb.execution.keys import CollationKey
from creekdb.execution.mvcc.entry import (
    NO_VERSIONS,
    ExecutionPhase,
    RequestEntry,
    committed_position,
)
from creekdb.execution.mvcc.register_table import CheckpointCursor
from creekdb.execution.mvcc.scheduler import Scheduler
from creekdb.execution.mvcc.state_loader import StateDigest, StateLoader
from creekdb.execution.mvcc.version_store import RECENT_READERS_MAX, VersionStore
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.effects import Task, TaskKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.values import Key
from creekdb.schemes.core.ordering import OrderingReplica
from creekdb.schemes.core.replica import ReplicaView


class VersionedReplica(OrderingReplica):
    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        super().__init__(index, settings)
        self._datatype = datatype
        self._state_digest = StateDigest() if settings.digest_every else None
        recent_max = min(RECENT_READERS_MAX, settings.kept_apart // 4)
        self._store = VersionStore(
            datatype.base, self._state_digest, recent_max, with_cursors=bool(settings.drafts)
        )
        self._scheduler = Scheduler(settings.parallelism)
        self._entries: dict[Dot, RequestEntry] = {}
        self._readonly = frozenset(
            name for name in datatype.operations if datatype.is_readonly(name)
        )
        self._executed_count = 0
        """Number of finally executed requests of `committed`, from `first_position` on."""
        self._written_count = 0
        """Like `_executed_count`, but read-only requests count without execution. No later request
        depends on them."""
        self._task_number = 0

    # --- hooks for schemes --------------------------------------------------------------------

    @abstractmethod
    def _on_executed(self, entry: RequestEntry) -> None:
        """Handle a valid execution that has just completed."""

    @abstractmethod
    def _on_rolled_back(self, entry: RequestEntry) -> None:
        """Schedule the entry, whose execution is no longer valid, for re-execution."""

    # --- execution ----------------------------------------------------------------------------

    def run(self, task: Task) -> ExecutionResult:
        entry = self._scheduler.running.get(task.number)
        if entry is None:
            return ExecutionResult(Outcome())
        snapshot = self._store.snapshot(entry.position)
        execution = self._datatype.run(task.request, snapshot)
        if execution.read_set is snapshot:
            return execution
        return msgspec.structs.replace(execution, read_set=snapshot)

    def completed(self, task: Task, execution: ExecutionResult, now: int) -> None:
        entry = self._scheduler.finish(task.number)
        if entry is None:  # issued before a checkpoint was installed
            self._issue_tasks()
            return
        if self._store.install(entry, execution.read_set, execution):
            if entry.outcome is not None:
                self.probes.hit(Probe.REEXECUTED)
            entry.outcome = execution.outcome
            self._handle_rollbacks()
            self._on_executed(entry)
            if entry.position < committed_position(
                self._order.first_position + self._written_count
            ):
                self._respond_stable(entry, Probe.STABLE_FROM_EXECUTION)
        else:
            self.probes.hit(Probe.EXECUTION_OVERTAKEN)
            entry.phase = ExecutionPhase.WAITING
            self._reschedule(entry)
            self._handle_rollbacks()
        self._respond_to_stable_prefix(Probe.STABLE_FROM_EXECUTION)
        self._proceed()

    def _handle_rollbacks(self) -> None:
        for entry in self._store.take_rolled_back():
            self._on_rolled_back(entry)

    def _reschedule(self, entry: RequestEntry) -> None:
        entry.failed_attempts += 1
        self._scheduler.add(entry)

    def _issue_tasks(self) -> None:
        while (entry := self._scheduler.start(self._task_number + 1)) is not None:
            self._task_number += 1
            self._outbox.tasks.append(Task(self._task_number, TaskKind.EXECUTE, entry.request))

    def _respond_to_stable_prefix(self, probe: Probe) -> None:
        """Send stable responses to the committed requests that are executed, up to the first
        pending request that may write."""
        committed, entries = self._order.committed, self._entries
        while (
            self._executed_count < len(committed)
            and entries[committed[self._executed_count].id].is_executed
        ):
            self._executed_count += 1
        while self._written_count < len(committed):
            request = committed[self._written_count]
            entry = entries[request.id]
            if entry.is_executed:
                self._respond_stable(entry, probe)
            elif request.operation.name not in self._readonly or entry.merged_run is not None:
                return  # readers of a split run are validated only after its last member
            self._written_count += 1

    def _respond_stable(self, entry: RequestEntry, probe: Probe) -> None:
        request = entry.request
        if request.strong:
            assert entry.outcome is not None
            if self._responses.respond_stable(request.id, entry.outcome):
                self.probes.hit(probe)

    # --- stable prefix ------------------------------------------------------------------------

    def executed_length(self) -> int:
        return self._order.first_position + self._executed_count

    def stabilise_request(self, request: Request) -> Outcome:
        entry = self._entries.pop(request.id)
        self._store.stabilise(entry)
        assert entry.outcome is not None
        return entry.outcome

    def digest(self) -> int | None:
        return None if self._state_digest is None else self._state_digest.value

    def truncate_prefix(self, length: int) -> None:
        self._executed_count -= length - self._order.first_position
        self._written_count -= length - self._order.first_position

    def stable_items(self) -> Iterator[tuple[Key, Any]]:
        return self._store.stable_items()

    def checkpoint_cursor(self) -> CheckpointCursor | None:
        return self._store.open_cursor() if self._settings.drafts else None

    def register_count(self) -> int:
        return self._store.register_count()

    def new_state_loader(self) -> StateLoader:
        digested, ordered = self._state_digest is not None, bool(self._settings.drafts)
        return StateLoader(self._datatype.base, digested, ordered)

    def _load(self, loader: StateLoader) -> None:
        self._store.load(loader)
        self._scheduler.clear()
        self._executed_count = self._written_count = 0
        for entry in self._entries.values():
            for each in (entry, entry.merged_run):
                if each is not None:  # otherwise its versions and reads would keep it alive
                    each.clear()
                    each.hidden_versions = NO_VERSIONS
            entry.session_predecessor = entry.merged_run = None
        self._entries = {}

    # --- inspection ---------------------------------------------------------------------------

    @property
    def view(self) -> ReplicaView:
        return self

    def is_visible(self, id: Dot) -> bool:
        """True once everything up to the request is executed. With concurrent execution, a request
        can be executed later than one that follows it in the order."""
        entry = self._entries.get(id)
        if entry is None or self._settings.parallelism == 1:
            return self.has_request(id)
        return self._scheduler.has_executed_up_to(entry.position)

    def readable_lengths(self) -> range:
        return range(self._stable_prefix.length, self.executed_length() + 1)

    def committed_items(
        self, length: int, start: CollationKey, stop: CollationKey
    ) -> Iterator[tuple[Key, Any]]:
        snapshot = self._store.snapshot(committed_position(length))
        return ((key, snapshot.read(key)) for key in snapshot.keys(start, stop, reverse=False))

    def state(self) -> dict[Key, Any]:
        return self._datatype.changes(self._store.values())

    def is_idle(self) -> bool:
        return self._scheduler.is_idle()
