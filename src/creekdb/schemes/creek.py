"""Creek as in Section 4.4: a version store, rollbacks only if necessary, concurrent execution.

Every request is executed at its position in `committed · tentative`. It is executed again only if
a late request, or a commit that changed the order, invalidated its reads (`versioned`). A weak
read-only operation is executed at the end of the order, on this replica alone, and is not recorded.

Conditions for sending a response:

- A tentative response must not depend on a rolled-back request that awaits re-execution. The same
  holds for the session's earlier requests and for the declared dependencies of the call.
- A stable response waits until every preceding request that may write is executed and committed.
"""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final, NamedTuple

import msgspec

from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.entry import (
    END_POSITION,
    ExecutionPhase,
    MergedRun,
    Read,
    RequestEntry,
    committed_position,
    local_position,
    tentative_position,
)
from creekdb.execution.mvcc.scheduler import QueueDelay
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.effects import ObservedOrder, Task
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Operation, OrderKey, Outcome, Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.values import Key
from creekdb.schemes.core.spec import OPTIMISTIC_DELIVERY, ChartLine, SchemeChart, SchemeSpec
from creekdb.schemes.core.versioned import VersionedReplica

MERGED_RUN_MAX = 256
"""Number of requests in one merged run, at most."""


class _LocalReadSet(NamedTuple):
    """Reads of a local read-only operation at the time of its execution."""

    blocker: RequestEntry | None
    """Pending request that the reads depend on."""
    observed: ObservedOrder | None


class CreekReplica(VersionedReplica):
    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        super().__init__(index, settings, datatype)
        self._last_by_session: dict[int, RequestEntry] = {}
        self._invoking_session: int | None = None
        self._invoking_dependencies: tuple[Dot, ...] = ()
        self._newly_committed: list[Request] = []
        """Newly committed requests, in commit order, that receive their positions together."""
        self._local_reads: dict[Dot, RequestEntry] = {}
        """Local reads without a response."""
        self._local_read_number = 0
        self._pending_by_session: dict[int, int] = {}
        """Number of requests of each session that are not executed, or are rolled back."""
        self._queue_delay = QueueDelay()
        """Queueing times of the requests issued here."""
        self._blocker_of: dict[RequestEntry, RequestEntry] = {}
        """Executed entries whose response waits, each with the entry that must execute first."""
        self._blocked_by: dict[RequestEntry, list[RequestEntry]] = {}
        """Inverse of `_blocker_of`. May still list entries that are no longer blocked."""
        self._merged_count = 0
        """Number of requests in merged runs."""
        self._merged_up_to: OrderKey | None = None
        self._merge_above = settings.kept_apart
        """Number of separate requests above which some are merged. It is raised after a split, so
        that the same requests are not merged and split repeatedly."""
        self._merge_pause = 0
        """Completed executions until the next attempt to merge."""
        self._is_inside_run = False
        """True if the last stable request belongs to a merged run and is not its last entry."""
        self._run_length = max(2, min(MERGED_RUN_MAX, settings.kept_apart // 2))

    # --- inputs -------------------------------------------------------------------------------

    def invoke(
        self,
        operation: Operation,
        strong: bool,
        session: int,
        now: int,
        after: tuple[Dot, ...] = (),
    ) -> Dot:
        if self.can_respond_locally(operation, strong):
            return self._invoke_locally(operation, session, now, after)
        self._invoking_session, self._invoking_dependencies = session, after
        return super().invoke(operation, strong, session, now)

    def tick(self, now: int) -> None:
        self._queue_delay.tick()
        super().tick(now)

    def can_respond_locally(self, operation: Operation, strong: bool) -> bool:
        local_reads = bool(self._settings.local_reads)
        return not strong and local_reads and operation.name in self._readonly

    def run(self, task: Task) -> ExecutionResult:
        execution = super().run(task)
        entry = self._local_reads.get(task.request.id)
        if entry is None or execution.read_set is None:
            return execution
        reads: dict[Key, Read] = execution.read_set.reads
        read_set = _LocalReadSet(self._find_blocker(entry, reads), self._observe(task.request))
        return msgspec.structs.replace(execution, read_set=read_set)

    def completed(self, task: Task, execution: ExecutionResult, now: int) -> None:
        self._queue_delay.record_execution()
        entry = self._scheduler.running.get(task.number)
        if entry is not None and task.request.id in self._local_reads:
            self._scheduler.finish(task.number)
            self._complete_locally(entry, execution)
            self._proceed()
            return
        super().completed(task, execution, now)
        self._merge_oldest()

    def _invoke_locally(
        self, operation: Operation, session: int, now: int, after: tuple[Dot, ...]
    ) -> Dot:
        """Execute a read-only operation on this replica alone (Section 4.4)."""
        self._local_read_number += 1
        id = Dot(self.index, -self._local_read_number)
        request = Request(self._stack.clock.peek(now), id, operation, strong=False)
        self._responses.expect(id, session, strong=False)
        self._local_reads[id] = self._add_local_read(request, session, after)
        self._proceed()
        return id

    def _complete_locally(self, entry: RequestEntry, execution: ExecutionResult) -> None:
        """Respond with the outcome, unless the reads depend on a pending request. The reads were
        the state at execution time, so later changes do not matter."""
        read_set: _LocalReadSet = execution.read_set
        request = entry.request
        if read_set.blocker is not None:
            self._retry_local_read(entry, read_set.blocker)
            return
        self.probes.hit(Probe.LOCAL_READ)
        del self._local_reads[request.id]
        self._responses.respond_local(request.id, execution.outcome, read_set.observed)

    def _retry_local_read(self, entry: RequestEntry, blocker: RequestEntry) -> None:
        entry.phase = ExecutionPhase.WAITING
        is_pending = not isinstance(blocker, MergedRun) and not blocker.is_executed
        if is_pending or blocker.hidden_versions:
            self._block(entry, blocker)
        else:
            self._scheduler.add(entry)

    def _add_local_read(
        self, request: Request, session: int | None, dependencies: tuple[Dot, ...]
    ) -> RequestEntry:
        assert session is not None
        entry = RequestEntry(request, local_position(-request.id.event), session)
        entry.session_predecessor = self._last_by_session.get(session)
        if dependencies:
            self._set_dependencies(entry, dependencies)
        self._scheduler.add(entry)
        return entry

    # --- the order changes --------------------------------------------------------------------

    def _on_inserted(self, request: Request) -> None:
        session, self._invoking_session = self._invoking_session, None
        dependencies, self._invoking_dependencies = self._invoking_dependencies, ()
        self._insert(request, session, dependencies)

    def _insert(self, request: Request, session: int | None, dependencies: tuple[Dot, ...]) -> None:
        entry = RequestEntry(request, tentative_position(request), session)
        self._entries[request.id] = entry
        if dependencies:
            self._set_dependencies(entry, dependencies)
        if session is not None:
            entry.session_predecessor = self._last_by_session.get(session)
            self._last_by_session[session] = entry
            self._pending_by_session[session] = self._pending_by_session.get(session, 0) + 1
            self._queue_delay.add(entry)
        self._scheduler.add(entry)

    def _set_dependencies(self, entry: RequestEntry, ids: tuple[Dot, ...]) -> None:
        """Set the dependencies that have an entry. A request without an entry is stable."""
        entries = [self._entries.get(id) for id in ids]
        entry.dependencies = tuple([each for each in entries if each is not None])

    def _on_committed(self, moved: list[Request]) -> None:
        """Collect the requests of one delivery. Those that are committed in their tentative order
        receive their positions together."""
        request, length = moved[-1], self._order.length
        if self._newly_committed and _is_before(moved[0], self._newly_committed[-1]):
            first = request if _is_before(request, moved[0]) else moved[0]
            self._assign_positions(length - len(moved), first)
        self._newly_committed += moved
        if len(moved) > 1 and _is_before(request, moved[-2]):  # its context has later requests
            self._newly_committed.pop()
            self._assign_positions(length - 1, request)
            self._newly_committed.append(request)

    def _on_delivered(self) -> None:
        self._assign_positions(self._order.length)
        self._respond_to_stable_prefix(Probe.STABLE_FROM_COMMIT)

    def _assign_positions(self, end: int, overtaken: Request | None = None) -> None:
        """Move the newly committed requests to `committed`, up to position `end` (exclusive).

        `overtaken` is the first request that preceded some of them and will be committed after
        them. A request ahead of all requests that stay behind keeps its relative order, so its
        entry is only renumbered. A request that passes one of them moves, and its reads are
        validated again.
        """
        moved, self._newly_committed = self._newly_committed, []
        barrier = self._order.first_tentative()
        if overtaken is not None and (barrier is None or _is_before(overtaken, barrier)):
            barrier = overtaken
        all_in_order = barrier is None or _is_before(moved[-1], barrier)
        for index, request in enumerate(moved, end - len(moved)):
            entry = self._entries[request.id]
            if entry.merged_run is not None:
                self._commit_in_run(entry, entry.merged_run, index, barrier)
            was_queued = self._scheduler.remove(entry)
            if all_in_order or (barrier is not None and _is_before(request, barrier)):
                self._store.renumber(entry, committed_position(index))
            else:
                self._store.move(entry, committed_position(index))
            if was_queued:
                self._scheduler.add(entry)
            self._handle_rollbacks()
        if self._blocker_of:
            for request in moved:
                if (entry := self._entries[request.id]) in self._blocker_of:
                    self._respond_or_block(entry)

    def _on_executed(self, entry: RequestEntry) -> None:
        if entry.session is not None:
            self._count_executed(entry)
            self._respond_or_block(entry)
        self._respond_blocked_by(entry)
        if entry.merged_run is not None:
            self._replace_in_run(entry.merged_run, entry)

    def _on_rolled_back(self, entry: RequestEntry) -> None:
        if isinstance(entry, MergedRun):
            self._split_run(entry)
        else:
            self.probes.hit(Probe.ROLLED_BACK)
            self._count_rolled_back(entry)
            self._reschedule(entry)

    # --- merged runs of tentative requests ----------------------------------------------------

    def _merge_oldest(self) -> None:
        """Merge the oldest requests, keeping only their final versions (Section 4.4: "snapshots
        that represent some prefix", from which versions can be recreated)."""
        if len(self._entries) - self._merged_count <= self._merge_above:
            return
        if self._merge_pause > 0:
            self._merge_pause -= 1
            return
        candidates: list[RequestEntry] = []
        for request in self._order.tentative_after(self._merged_up_to):
            entry = self._entries[request.id]
            if entry.phase is ExecutionPhase.MERGED:
                candidates.clear()  # too few requests between two merged runs: they stay separate
                self._merged_up_to = request.key
            elif entry.phase is ExecutionPhase.EXECUTED and len(candidates) < self._run_length:
                candidates.append(entry)
            else:
                break
        if len(candidates) == self._run_length and self._store.is_valid_up_to(
            candidates[-1].position
        ):
            self.probes.hit(Probe.RUN_MERGED)
            self._store.merge(candidates)
            self._merged_count += len(candidates)
            self._merged_up_to = candidates[-1].request.key
            self._merge_above = self._settings.kept_apart
        else:
            self._merge_pause = self._run_length

    def _split_run(self, run: MergedRun) -> None:
        """Execute the entries again: a request before the merged run, or inside it, changed."""
        self.probes.hit(Probe.RUN_SPLIT)
        self._merged_count -= len(run.entries)
        self._merge_above = len(self._entries) - self._merged_count + self._run_length
        # A merged run that was committed with a late request inside may have been counted already.
        begin = run.entries[0].position[0] - self._order.first_position
        self._executed_count, self._written_count = (
            min(self._executed_count, begin),
            min(self._written_count, begin),
        )
        first = run.entries[0].request
        before = OrderKey(first.timestamp, Dot(first.id.replica, first.id.event - 1))
        if self._merged_up_to is not None and before < self._merged_up_to:
            self._merged_up_to = before
        for entry in run.entries:
            entry.phase = ExecutionPhase.WAITING
            run.pending_entries[entry] = None
            self._count_rolled_back(entry)
            self._scheduler.add(entry)

    def _replace_in_run(self, run: MergedRun, entry: RequestEntry) -> None:
        entry.merged_run = None
        run.pending_entries.pop(entry, None)
        if not run.pending_entries:
            self._store.finish_split(run)
            self._handle_rollbacks()
            self._respond_blocked_by(run)

    def _commit_in_run(
        self, entry: RequestEntry, run: MergedRun, index: int, barrier: Request | None
    ) -> None:
        """Commit the merged run as a whole if it keeps its position; otherwise split it."""
        last = run.entries[-1]
        if run.phase is ExecutionPhase.EXECUTED and (
            barrier is None or last.request.key < barrier.key
        ):
            if entry is run.entries[0]:
                run.start_position = committed_position(index)
            if entry is last:
                self._store.renumber(run, committed_position(index))
            return
        if run.phase is ExecutionPhase.EXECUTED:
            self._store.split(run)
            self._handle_rollbacks()
        for member in run.pending_entries:
            member.merged_run = None
        self._store.finish_split(run)
        self._handle_rollbacks()
        self._respond_blocked_by(run)

    # --- responses ----------------------------------------------------------------------------

    def _respond_or_block(self, entry: RequestEntry) -> None:
        """Send the tentative response, or block it until its dependencies are executed."""
        self._blocker_of.pop(entry, None)
        if entry.request.id in self._local_reads:
            self._scheduler.add(entry)
            return
        blocker = self._find_blocker(entry, entry.effective_reads)
        if blocker is not None:
            self._block(entry, blocker)
        else:
            self._respond_tentatively(entry)

    def _block(self, entry: RequestEntry, blocker: RequestEntry) -> None:
        self._blocker_of[entry] = blocker
        self._blocked_by.setdefault(blocker, []).append(entry)

    def _respond_blocked_by(self, blocker: RequestEntry) -> None:
        for entry in self._blocked_by.pop(blocker, ()):
            if self._blocker_of.get(entry) is blocker:
                self._respond_or_block(entry)

    def _find_blocker(self, entry: RequestEntry, reads: dict[Key, Read]) -> RequestEntry | None:
        """Return a request that must be executed before the response is sent, or None."""
        assert entry.session is not None
        blocker = self._store.find_pending_writer(reads)
        for dependency in entry.dependencies:
            if blocker is None and dependency.position < entry.position:
                # The dependency's session is unknown here, so everything before it counts too.
                blocker = self._scheduler.first_pending_up_to(
                    dependency.position
                ) or self._find_predecessor_blocker(dependency, entry)
        if self._store.is_valid_up_to(END_POSITION) and not self._pending_by_session.get(
            entry.session
        ):
            return blocker
        predecessor = entry.session_predecessor
        while (
            blocker is None
            and predecessor is not None
            and predecessor.phase is not ExecutionPhase.STABLE
        ):
            blocker = self._find_predecessor_blocker(predecessor, entry)
            predecessor = predecessor.session_predecessor
        return blocker

    def _find_predecessor_blocker(
        self, predecessor: RequestEntry, entry: RequestEntry
    ) -> RequestEntry | None:
        """Return a request that must be executed before a response that depends on `predecessor`.

        Return None if `predecessor` has a later position than the entry by now.
        """
        if predecessor.position > entry.position:
            return None
        if not predecessor.is_executed:
            return predecessor
        return self._store.find_pending_writer(predecessor.effective_reads)

    def _count_executed(self, entry: RequestEntry) -> None:
        if entry.session is not None:
            self._pending_by_session[entry.session] -= 1
            if not self._pending_by_session[entry.session]:
                del self._pending_by_session[entry.session]

    def _count_rolled_back(self, entry: RequestEntry) -> None:
        self._blocker_of.pop(entry, None)
        if entry.session is not None:
            self._pending_by_session[entry.session] = (
                self._pending_by_session.get(entry.session, 0) + 1
            )

    def _respond_tentatively(self, entry: RequestEntry) -> None:
        request = entry.request
        awaiting = self._responses.awaiting.get(request.id)
        if awaiting is None or (request.strong and self.is_committed(request.id)):
            return
        assert entry.outcome is not None
        observed = self._observe(request)
        self._responses.respond_tentative(request.id, awaiting, entry.outcome, observed)

    # --- stable prefix ------------------------------------------------------------------------

    def stabilise_request(self, request: Request) -> Outcome:
        entry = self._entries[request.id]
        if entry.session is not None and self._last_by_session.get(entry.session) is entry:
            del self._last_by_session[entry.session]
        entry.session_predecessor, entry.dependencies = None, ()
        if entry.phase is ExecutionPhase.MERGED:
            return self._stabilise_in_run(entry)
        return super().stabilise_request(request)

    def digest(self) -> int | None:
        return None if self._is_inside_run else super().digest()

    def _stabilise_in_run(self, entry: RequestEntry) -> Outcome:
        del self._entries[entry.request.id]
        self._merged_count -= 1
        assert entry.merged_run is not None
        self._is_inside_run = entry is not entry.merged_run.entries[-1]
        if not self._is_inside_run:
            self._store.stabilise(entry.merged_run)
            entry.merged_run.entries.clear()
        assert entry.outcome is not None
        return entry.outcome

    def _executed_before(self, request: Request) -> Iterator[Dot]:
        committed = islice(
            self._order.committed, self._stable_prefix.length - self._order.first_position, None
        )
        for each in chain(committed, self._order.tentative()):
            if each.id == request.id:
                return
            entry = self._entries[each.id]
            if entry.is_executed and self._store.find_pending_writer(entry.effective_reads) is None:
                yield each.id

    def _load(self, loader: StateLoader) -> None:
        previous_entries = self._entries
        super()._load(loader)
        self._queue_delay.clear()
        self._blocker_of.clear()
        self._blocked_by.clear()
        self._pending_by_session.clear()
        self._merged_count, self._merged_up_to = 0, None
        self._is_inside_run = False
        self._merge_above, self._merge_pause = self._settings.kept_apart, 0
        self._last_by_session.clear()
        for request in self._order.tentative():
            entry = previous_entries.get(request.id)
            if entry is None:
                self._insert(request, None, ())
            else:
                self._insert(request, entry.session, _ids_of(entry.dependencies))
        for id, entry in self._local_reads.items():
            dependencies = _ids_of(entry.dependencies)
            self._local_reads[id] = self._add_local_read(entry.request, entry.session, dependencies)

    # --- inspection ---------------------------------------------------------------------------

    def queue_delay_ticks(self) -> int:
        return self._queue_delay.delay_ticks()

    def is_idle(self) -> bool:
        return super().is_idle() and not self._blocker_of


def _is_before(one: Request, other: Request) -> bool:
    """Line 3. Equivalent to `one.key < other.key`, which is not compiled."""
    at, other_at = one.timestamp, other.timestamp
    return at < other_at if at != other_at else one.id < other.id


def _ids_of(entries: tuple[RequestEntry, ...]) -> tuple[Dot, ...]:
    return tuple([each.request.id for each in entries])


SPEC: Final = SchemeSpec(
    name="creek",
    create=CreekReplica,
    description="Creek with the version store and concurrent execution of Section 4.4",
    unreachable_probes=OPTIMISTIC_DELIVERY,
    label="Creek",
    chart=SchemeChart(
        colours=("#0a67a3", "#62b9f2"),
        shape="circle",
        lines=(
            ChartLine("weak tentative", "weak_tentative", "dashed", "circle"),
            ChartLine("strong tentative", "strong_tentative", "dashed", "square"),
            ChartLine("strong stable", "strong_stable", "solid", "square"),
        ),
    ),
)
