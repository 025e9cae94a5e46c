"""Concurrent execution on the version store (Section 4.4).

Every request has a `RequestEntry` at its position, and is executed on a snapshot of that position.
Executions run concurrently and in any order. An execution whose reads are no longer valid when it
completes is discarded. One that becomes invalid later is rolled back and executed again. A
committed request gets its stable response once it and every preceding request that may write are
executed. With footprints, it waits only for requests that it may depend on (`finality`).

The scheme decides which position a request gets, when it gets that position, and which tentative
responses are sent.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any, Final

from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.entry import (
    NO_VERSIONS,
    ExecutionPhase,
    MergedRun,
    Position,
    RequestEntry,
    committed_position,
)
from creekdb.execution.mvcc.estimates import AccessEstimates
from creekdb.execution.mvcc.pinned_state import PinnedState
from creekdb.execution.mvcc.register_table import CheckpointCursor
from creekdb.execution.mvcc.scheduler import Scheduler
from creekdb.execution.mvcc.snapshot import StoreSnapshot
from creekdb.execution.mvcc.state_loader import StateDigest, StateLoader
from creekdb.execution.mvcc.version_store import RECENT_READERS_MAX, VersionStore
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.effects import Task, TaskKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.values import Key
from creekdb.schemes.core.execution import Execution, ReplicaVariables, StableWrites, UnstableWrites
from creekdb.schemes.core.finality import FinalityTracker

_EXECUTE: Final = TaskKind.EXECUTE
_STABLE_FROM_EXECUTION: Final = Probe.STABLE_FROM_EXECUTION
"""A constant costs compiled code a tenth of what the attribute of an enum costs."""


class VersionedExecution(Execution):
    def __init__(
        self,
        variables: ReplicaVariables,
        datatype: DataType,
        with_estimates: bool = False,
        with_footprints: bool = False,
    ) -> None:
        settings = variables.settings
        self._settings = settings
        self._order = variables.order
        self._outbox = variables.outbox
        self._probes = variables.probes
        self._responses = variables.responses
        self.datatype = datatype
        self._state_digest = StateDigest() if settings.digest_every else None
        recent_max = min(RECENT_READERS_MAX, settings.kept_apart // 4)
        self.store = VersionStore(
            datatype.base, self._state_digest, recent_max, with_cursors=bool(settings.drafts)
        )
        self._estimates: AccessEstimates | None = None
        if with_estimates and settings.parallelism > 1:  # otherwise no request overtakes another
            self._estimates = AccessEstimates(called_operation=datatype.called_operation)
        self.scheduler = Scheduler(
            settings.parallelism,
            self._estimates,
            on_delayed=partial(variables.probes.hit, Probe.EXECUTION_DELAYED),
        )
        self.entries: dict[Dot, RequestEntry] = {}
        self.last_by_session: dict[int, RequestEntry] = {}
        """Last request of each session with an entry."""
        self.readonly = frozenset(
            name for name in datatype.operations if datatype.is_readonly(name)
        )
        self.executed_count = 0
        """Number of finally executed requests of `committed`, from `first_position` on."""
        self._written_count = 0
        """Like `executed_count`, but read-only requests count without execution. No later request
        depends on them."""
        self.merged_count = 0
        """Number of requests in merged runs."""
        self._is_inside_run = False
        """True if the last stable request belongs to a merged run and is not its last entry."""
        self._task_number = 0
        self._finality: FinalityTracker | None = None
        if with_footprints:
            self._finality = FinalityTracker(
                self.store, datatype, self.readonly, self._respond_stable
            )
        self._tracked_count = 0
        """With footprints: number of tracked requests of `committed`, from `first_position` on."""

    # --- changes of the order -----------------------------------------------------------------

    def add(self, request: Request, position: Position, session: int | None) -> RequestEntry:
        """Add an entry. The caller schedules it."""
        entry = self.entries[request.id] = RequestEntry(request, position, session)
        return entry

    def entries_of(self, ids: tuple[Dot, ...]) -> tuple[RequestEntry, ...]:
        """Return the entries of the requests that have one. A request without an entry is
        stable."""
        entries = [self.entries.get(id) for id in ids]
        return tuple([each for each in entries if each is not None])

    def move(self, entry: RequestEntry, position: Position, in_order: bool) -> None:
        """Move the entry to its final position. If `in_order`, it passes no other entry."""
        was_queued = self.scheduler.remove(entry)
        if in_order:
            self.store.renumber(entry, position)
        else:
            self.store.move(entry, position)
        if was_queued:
            self.scheduler.add(entry)

    def load(self, loader: StateLoader) -> dict[Dot, RequestEntry]:
        """Restart from these registers, without entries. Return the previous entries, cleared."""
        self.store.load(loader)
        self.scheduler.clear()
        self.last_by_session.clear()
        self.executed_count = self._written_count = self.merged_count = self._tracked_count = 0
        self._is_inside_run = False
        if self._finality is not None:
            self._finality.clear()
        previous, self.entries = self.entries, {}
        for entry in previous.values():
            for each in (entry, entry.merged_run):
                if each is not None:  # otherwise its versions and reads would keep it alive
                    each.clear()
                    each.hidden_versions = NO_VERSIONS
            entry.session_predecessor = entry.merged_run = None
        return previous

    # --- tasks --------------------------------------------------------------------------------

    def issue_tasks(self) -> None:
        while (entry := self.scheduler.start(self._task_number + 1)) is not None:
            self._task_number += 1
            self._outbox.tasks.append(Task(self._task_number, _EXECUTE, entry.request))

    def run(self, task: Task) -> ExecutionResult:
        entry = self.scheduler.running.get(task.number)
        if entry is None:
            return ExecutionResult(Outcome())
        snapshot = self.store.snapshot(entry.position)
        execution = self.datatype.run(task.request, snapshot)
        if execution.read_set is snapshot:
            return execution
        return execution.with_read_set(snapshot)

    def install(self, entry: RequestEntry, execution: ExecutionResult) -> bool:
        """Install a completed execution. If its reads are no longer valid, schedule the entry
        again, and return False."""
        if self._estimates is not None and not self.scheduler.is_idle():
            # An execution beside which nothing waits has delayed nothing, and is not recorded.
            self._estimates.record(entry, execution.read_set, execution)
        if self.store.install(entry, execution.read_set, execution):
            self.scheduler.settle(entry)
            if entry.outcome is not None:
                self._probes.hit(Probe.REEXECUTED)
            entry.outcome = execution.outcome
            return True
        self._probes.hit(Probe.EXECUTION_OVERTAKEN)
        entry.phase = ExecutionPhase.WAITING
        self.reschedule(entry)
        return False

    def reschedule(self, entry: RequestEntry) -> None:
        entry.failed_attempts += 1
        self.schedule_again(entry)

    def schedule_again(self, entry: RequestEntry) -> None:
        if self._finality is not None and self._is_tracked(entry):
            self._finality.reopen(entry)
        self.scheduler.add(entry)

    # --- stable responses ---------------------------------------------------------------------

    def respond_to_late_execution(self, entry: RequestEntry) -> None:
        """Send the stable response to a request that the counted prefix of `committed` includes: a
        read-only one, or one that was executed again."""
        if self._finality is not None:
            self._finality.execute(entry, _STABLE_FROM_EXECUTION)
        elif entry.position < committed_position(self._order.first_position + self._written_count):
            self._respond_stable(entry, _STABLE_FROM_EXECUTION)

    def respond_to_prefix(self, probe: Probe) -> None:
        """Send stable responses to the committed requests that are executed, up to the first
        pending request that may write. With footprints, also to later ones."""
        committed, entries = self._order.committed, self.entries
        while (
            self.executed_count < len(committed)
            and entries[committed[self.executed_count].id].is_executed
        ):
            self.executed_count += 1
        if self._finality is not None:
            while self._tracked_count < len(committed):
                self._tracked_count += 1
                self._finality.commit(entries[committed[self._tracked_count - 1].id], probe)
            return
        while self._written_count < len(committed):
            request = committed[self._written_count]
            entry = entries[request.id]
            if entry.is_executed:
                self._respond_stable(entry, probe)
            elif request.operation.name not in self.readonly or entry.merged_run is not None:
                return  # readers of a split run are validated only after its last member
            self._written_count += 1

    def respond_after_split(self, run: MergedRun) -> None:
        """Send the stable responses that waited for the validation of a run's readers."""
        if self._finality is not None:
            self._finality.finish_split(run, _STABLE_FROM_EXECUTION)

    def count_again_from(self, position: Position) -> None:
        """Count requests from that position on again, because they will be executed again."""
        count = position[0] - self._order.first_position
        self.executed_count = min(self.executed_count, count)
        self._written_count = min(self._written_count, count)

    def _respond_stable(self, entry: RequestEntry, probe: Probe) -> None:
        request = entry.request
        if request.strong:
            assert entry.outcome is not None
            if self._responses.respond_stable(request.id, entry.outcome):
                self._probes.hit(probe)
                if self._finality is not None and self._finality.has_open_writer_before(entry):
                    self._probes.hit(Probe.STABLE_BEFORE_PREDECESSOR)

    def _is_tracked(self, entry: RequestEntry) -> bool:
        return entry.position < committed_position(self._order.first_position + self._tracked_count)

    # --- stable prefix ------------------------------------------------------------------------

    def executed_length(self) -> int:
        return self._order.first_position + self.executed_count

    def executed_before(self, request: Request, stable_length: int) -> Iterator[Dot]:
        order = self._order
        committed = islice(order.committed, stable_length - order.first_position, None)
        for each in chain(committed, order.tentative):
            if each.id == request.id:
                return
            entry = self.entries[each.id]
            if (
                entry.is_executed
                and self.store.pending_rollbacks.find_pending_writer(entry.effective_reads) is None
            ):
                yield each.id

    def stabilise_request(self, request: Request) -> Outcome:
        entry = self.entries.pop(request.id)
        if entry.session is not None and self.last_by_session.get(entry.session) is entry:
            del self.last_by_session[entry.session]
        entry.session_predecessor, entry.dependencies = None, ()
        if entry.phase is ExecutionPhase.MERGED:
            run = entry.merged_run
            assert run is not None
            self.merged_count -= 1
            self._is_inside_run = entry is not run.entries[-1]
            if not self._is_inside_run:
                self.store.stabilise(run)
                run.entries.clear()
        else:
            self.store.stabilise(entry)
        assert entry.outcome is not None
        return entry.outcome

    def stabilise_with_writes(self, request: Request, with_before: bool) -> StableWrites:
        entry, table = self.entries[request.id], self.store.table
        assert entry.phase is ExecutionPhase.EXECUTED, "a merged run has no writes per request"
        versions = entry.versions
        before = {key: table.stable_value(key) for key in versions} if with_before else None
        outcome = self.stabilise_request(request)  # computes the sums of deltas
        writes = {key: version.value for key, version in versions.items()}
        return outcome, writes, before

    def digest(self) -> int | None:
        if self._state_digest is None or self._is_inside_run:
            return None
        return self._state_digest.value

    def truncate_prefix(self, length: int) -> None:
        self.executed_count -= length - self._order.first_position
        self._written_count -= length - self._order.first_position
        self._tracked_count -= length - self._order.first_position

    def stable_items(self) -> Iterator[tuple[Key, Any]]:
        return self.store.table.stable_items()

    def checkpoint_cursor(self) -> CheckpointCursor | None:
        return self.store.table.open_cursor() if self._settings.drafts else None

    def pin_state(self) -> PinnedState | None:
        if not self._settings.drafts:
            return None
        pinned = PinnedState(self.store.table, self.store.table.key_list)
        self.store.table.add_cursor(pinned)
        return pinned

    def register_count(self) -> int:
        return len(self.store.table.registers)

    def new_state_loader(self) -> StateLoader:
        digested, ordered = self._state_digest is not None, bool(self._settings.drafts)
        return StateLoader(self.datatype.base, digested, ordered)

    # --- for observers ------------------------------------------------------------------------

    def unstable_writes(
        self, stable_length: int, has_key: Callable[[Key], bool]
    ) -> Iterator[UnstableWrites]:
        order = self._order
        committed = islice(order.committed, stable_length - order.first_position, None)
        for request in chain(committed, order.tentative):
            entry = self.entries.get(request.id)
            if entry is None or entry.phase is not ExecutionPhase.EXECUTED:
                yield UnstableWrites(request, None, {})
                continue
            keys = [key for key in entry.versions if has_key(key)]
            after = self.store.snapshot((*entry.position, 0)) if keys else None
            writes = {} if after is None else {key: after.read(key) for key in keys}
            yield UnstableWrites(request, entry.outcome, writes)

    def is_visible(self, id: Dot) -> bool:
        """True once everything up to the request is executed. With concurrent execution, a request
        can be executed later than one that follows it in the order."""
        entry = self.entries.get(id)
        if entry is None or self._settings.parallelism == 1:
            return True
        return self.scheduler.first_pending_up_to(entry.position) is None

    def readable_length(self, stable_length: int) -> int:
        return self.executed_length()

    def committed_view(self, length: int) -> StoreSnapshot:
        return self.store.snapshot(committed_position(length))

    def state(self) -> dict[Key, Any]:
        return self.datatype.changes(self.store.table.values())

    def is_idle(self) -> bool:
        return self.scheduler.is_idle()
