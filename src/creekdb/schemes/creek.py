"""Creek as in Section 4.4: a version store, rollbacks only if necessary, concurrent execution.

Every request is executed at its position in `committed · tentative`. It is executed again only if
a late request, or a commit that changed the order, invalidated its reads (`versioned`). A weak
read-only operation is executed on this replica alone (`local_reads`).

A tentative response waits until it depends on no rolled-back request (`tentative_responses`). A
stable response waits until every preceding request that may write is executed and committed. With
footprints, it waits only for those that may write what it touches (`finality`).
"""

from collections.abc import Iterable
from typing import Final

from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.entry import committed_position, tentative_position
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.checkpoint.stream import IncomingMessage, RegisterLoader
from creekdb.protocol.effects import Effects, Task
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Checkpoint, Record
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Batch, Operation, Request
from creekdb.protocol.settings import Settings
from creekdb.schemes.core.execution import ReplicaVariables
from creekdb.schemes.core.local_reads import LocalReads
from creekdb.schemes.core.ordering import Ordering, ReplicaObserver
from creekdb.schemes.core.run_merging import RunMerging
from creekdb.schemes.core.spec import OPTIMISTIC_DELIVERY, ChartLine, SchemeChart, SchemeSpec
from creekdb.schemes.core.stable_prefix import StablePrefix
from creekdb.schemes.core.tentative_responses import TentativeResponses
from creekdb.schemes.core.versioned import VersionedExecution
from creekdb.schemes.core.view import ReplicaView

GUARANTEES: Final = SchemeGuarantees()
_STABLE_FROM_EXECUTION: Final = Probe.STABLE_FROM_EXECUTION


class CreekReplica:
    def __init__(
        self,
        index: int,
        settings: Settings,
        datatype: DataType,
        observer: ReplicaObserver | None = None,
    ) -> None:
        variables = ReplicaVariables(index, settings)
        self.index = index
        self.guarantees = GUARANTEES.with_voters(settings.voters)
        self.outbox = variables.outbox
        self._order = variables.order
        self._responses = variables.responses
        self._execution = VersionedExecution(
            variables,
            datatype,
            with_estimates=bool(settings.estimates),
            with_footprints=bool(settings.footprints),
        )
        self._stable_prefix = StablePrefix(variables, self._execution)
        self._ordering = Ordering(variables, GUARANTEES, self._stable_prefix, self, observer)
        self._stack = self._ordering.stack
        self._tentative_responses = TentativeResponses(
            variables, self._execution, self._stable_prefix
        )
        self._local_reads = LocalReads(
            variables, self._execution, self._tentative_responses, self._stable_prefix
        )
        self._runs = RunMerging(variables, self._execution, self._tentative_responses)
        self.view = ReplicaView(
            variables,
            self._ordering,
            self._stable_prefix,
            self._execution,
            blocked=self._tentative_responses.blocker_of,
            local_reads=self._execution.readonly if settings.local_reads else frozenset(),
        )
        self._observer = observer
        self._newly_committed: list[Request] = []
        """Newly committed requests, in commit order, that receive their positions together."""

    # --- inputs -------------------------------------------------------------------------------

    def recover(self, records: Iterable[Record]) -> None:
        self._stack.recover(records)
        self._proceed()

    def invoke(
        self,
        operation: Operation,
        strong: bool,
        session: int,
        now: int,
        after: tuple[Dot, ...] = (),
    ) -> Dot:
        """Lines 15-25."""
        if self.view.can_respond_locally(operation, strong):
            id = self._local_reads.invoke(operation, session, self._stack.clock.peek(now), after)
        else:
            request = self._ordering.issue(operation, strong, now)  # lines 16-19, 22-23, 36-40
            id = request.id
            self.insert(request, session, after)
            self._responses.expect(id, session, strong)  # line 25
        self._proceed()
        return id

    def receive(self, message: IncomingMessage, sender: int, now: int) -> None:
        if self._stack.receive(message, sender, now):
            self._proceed()

    def tick(self, now: int) -> None:
        noop = self._ordering.tick(now)
        if noop is not None:
            self.insert(noop)
        self._proceed()

    def wake(self, now: int) -> None:
        self._ordering.wake(now)
        self._proceed()

    def run(self, task: Task) -> ExecutionResult:
        return self._local_reads.observe(task, self._execution.run(task))

    def completed(self, task: Task, execution: ExecutionResult, now: int) -> None:
        """Lines 62-76, on the version store."""
        entry = self._execution.scheduler.finish(task.number)
        if entry is None:  # issued before a checkpoint was installed
            self._execution.issue_tasks()
        elif task.request.id in self._local_reads.entries:
            self._local_reads.complete(entry, execution)
            self._proceed()
            return
        else:
            if self._execution.install(entry, execution):
                self._runs.reschedule_rolled_back()
                self._tentative_responses.respond_after_execution(entry)
                self._runs.replace_member(entry)
                self._execution.respond_to_late_execution(entry)
            else:
                self._runs.reschedule_rolled_back()
            self._execution.respond_to_prefix(_STABLE_FROM_EXECUTION)
            self._proceed()
        self._runs.merge_oldest()

    def take_tasks(self) -> tuple[Task, ...]:
        return self.outbox.take_tasks()

    def take_effects(self) -> Effects:
        return self.outbox.take()

    # --- deliveries ---------------------------------------------------------------------------

    def rb_deliver(self, request: Request) -> None:
        """Lines 26-31."""
        self._ordering.deliver(request)  # lines 27-30, 36-40
        self.insert(request)

    def cab_deliver(self, ids: list[Dot], instance: int) -> None:
        """Lines 32-35, for each request in turn."""
        for id in ids:
            moved = self._ordering.commit(id, instance)  # lines 33-35, 48-53
            if moved:
                self._collect_committed(moved)
        if self._newly_committed:
            self._assign_positions(self._order.length)  # line 54
        self._execution.respond_to_prefix(Probe.STABLE_FROM_COMMIT)  # lines 55-57
        self._ordering.finish_delivery(ids)

    def on_proposed(self, instance: int, batch: Batch) -> None:
        """Ignore the proposal: nothing is executed because of it."""

    def install(self, checkpoint: Checkpoint, loader: RegisterLoader | None = None) -> None:
        registers = self._execution.loader_of(checkpoint, loader)
        self._ordering.install(checkpoint, registers)
        previous_entries = self._execution.load(registers)
        self._tentative_responses.clear()
        self._runs.clear()
        for request in self._order.tentative:
            entry = previous_entries.get(request.id)
            if entry is None:
                self._add_entry(request, None, ())
            else:
                dependencies = tuple([each.request.id for each in entry.dependencies])
                self._add_entry(request, entry.session, dependencies)
        self._local_reads.reload()
        self._stable_prefix.restart_from(checkpoint)

    # --- positions ----------------------------------------------------------------------------

    def insert(
        self, request: Request, session: int | None = None, after: tuple[Dot, ...] = ()
    ) -> None:
        """Lines 20 and 41, for a request issued here or delivered."""
        self._add_entry(request, session, after)  # line 41
        self._ordering.cab_cast(request)  # line 20

    def _add_entry(self, request: Request, session: int | None, after: tuple[Dot, ...]) -> None:
        """Execute the request at its position on `tentative`."""
        execution = self._execution
        entry = execution.add(request, tentative_position(request), session)
        if after:
            entry.dependencies = execution.entries_of(after)
        if session is not None:
            entry.session_predecessor = execution.last_by_session.get(session)
            execution.last_by_session[session] = entry
            self._tentative_responses.count_pending(entry)
        execution.scheduler.add(entry)

    def _collect_committed(self, moved: list[Request]) -> None:
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

    def _assign_positions(self, end: int, overtaken: Request | None = None) -> None:
        """Move the newly committed requests to `committed`, up to position `end` (exclusive).

        `overtaken` is the first request that preceded some of them and will be committed after
        them. A request ahead of all requests that stay behind keeps its relative order, so its
        entry is only renumbered. A request that passes one of them moves, and its reads are
        validated again.
        """
        moved, self._newly_committed = self._newly_committed, []
        barrier = self._order.tentative.first()
        if overtaken is not None and (barrier is None or _is_before(overtaken, barrier)):
            barrier = overtaken
        all_in_order = barrier is None or _is_before(moved[-1], barrier)
        for index, request in enumerate(moved, end - len(moved)):
            entry = self._execution.entries[request.id]
            if entry.merged_run is not None:
                self._runs.commit_member(entry, entry.merged_run, index, barrier)
            in_order = all_in_order or (barrier is not None and _is_before(request, barrier))
            self._execution.move(entry, committed_position(index), in_order)
            self._runs.reschedule_rolled_back()
        self._tentative_responses.respond_after_commit(moved)

    def _proceed(self) -> None:
        """Finish an input: deliver, stabilise and execute what can be."""
        self._ordering.proceed()
        self._execution.issue_tasks()
        if self._observer is not None:
            self._observer.proceeded(self.outbox.responses, self.view)


def _is_before(one: Request, other: Request) -> bool:
    """Line 3. Equivalent to `one.key < other.key`, which is not compiled."""
    at, other_at = one.timestamp, other.timestamp
    return at < other_at if at != other_at else one.id < other.id


SPEC: Final = SchemeSpec(
    name="creek",
    create=CreekReplica,
    description="Creek with the version store and concurrent execution of Section 4.4",
    guarantees=GUARANTEES,
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
