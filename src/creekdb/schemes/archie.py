"""Archie, a speculative state machine that Section 6 compares Creek with, on the same broadcasts.

Every operation is ordered by indirect atomic broadcast. A leader's proposal is the *optimistic
delivery* of an operation: as long as the leader stays the same, operations are decided in the order
of their proposals. From then on the operation is executed, concurrently and on the version store,
at its expected position. Responses are withheld until the order is decided.
"""

from collections.abc import Iterable
from typing import Final

from sortedcontainers import SortedList

from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.entry import (
    Position,
    RequestEntry,
    committed_position,
    optimistic_position,
)
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.checkpoint.stream import IncomingMessage, RegisterLoader
from creekdb.protocol.effects import Effects, SpeculativelyExecuted, Task
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Checkpoint, Record
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Batch, Operation, Request
from creekdb.protocol.settings import Settings
from creekdb.schemes.core.execution import ReplicaVariables
from creekdb.schemes.core.ordering import Ordering
from creekdb.schemes.core.spec import (
    CAUSAL_CONTEXTS,
    TENTATIVE_RESPONSES,
    VERSION_STORE,
    ChartLine,
    SchemeChart,
    SchemeSpec,
)
from creekdb.schemes.core.stable_prefix import StablePrefix
from creekdb.schemes.core.versioned import VersionedExecution
from creekdb.schemes.core.view import ReplicaView

GUARANTEES: Final = SchemeGuarantees(contexts=False, tentative=False)


class ArchieReplica:
    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        variables = ReplicaVariables(index, settings)
        self.index = index
        self.guarantees = GUARANTEES.with_voters(settings.voters)
        self.outbox = variables.outbox
        self._probes = variables.probes
        self._order = variables.order
        self._responses = variables.responses
        self._execution = VersionedExecution(variables, datatype)
        self._stable_prefix = StablePrefix(variables, self._execution)
        self._ordering = Ordering(variables, GUARANTEES, self._stable_prefix, self)
        self._stack = self._ordering.stack
        self.view = ReplicaView(variables, self._ordering, self._stable_prefix, self._execution)
        self._optimistic_positions: SortedList[Position] = SortedList()
        """Positions of the entries that are proposed and not decided, ascending."""
        self._proposed_positions: dict[Dot, Position] = {}
        """Positions of requests that are proposed and have not arrived."""

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
        """`after` has no effect: the response reflects all requests that precede."""
        request = self._ordering.issue(operation, strong, now)
        self.insert(request)
        self._responses.expect(request.id, session, strong=True)
        self._proceed()
        return request.id

    def receive(self, message: IncomingMessage, sender: int, now: int) -> None:
        if self._stack.receive(message, sender, now):
            self._proceed()

    def tick(self, now: int) -> None:
        self._expire_proposals()
        noop = self._ordering.tick(now)
        if noop is not None:
            self.insert(noop)
        self._proceed()

    def wake(self, now: int) -> None:
        """Ignore the wake: no request is held."""

    def run(self, task: Task) -> ExecutionResult:
        return self._execution.run(task)

    def completed(self, task: Task, execution: ExecutionResult, now: int) -> None:
        entry = self._execution.scheduler.finish(task.number)
        if entry is None:  # issued before a checkpoint was installed
            self._execution.issue_tasks()
            return
        if self._execution.install(entry, execution):
            self._reschedule_rolled_back()
            self._record_speculation(entry)
            self._execution.respond_to_late_execution(entry)
        else:
            self._reschedule_rolled_back()
        self._execution.respond_to_prefix(Probe.STABLE_FROM_EXECUTION)
        self._proceed()

    def take_tasks(self) -> tuple[Task, ...]:
        return self.outbox.take_tasks()

    def take_effects(self) -> Effects:
        return self.outbox.take()

    # --- deliveries ---------------------------------------------------------------------------

    def on_proposed(self, instance: int, batch: Batch) -> None:
        """Execute the batch at its expected positions: the optimistic delivery."""
        for offset, id in enumerate(batch):
            if id in self._execution.entries or self._ordering.is_committed(id):
                continue
            position = optimistic_position(instance, offset, id)
            request = self._order.find_tentative(id)
            if request is None:
                self._proposed_positions[id] = position
            else:
                self._speculate(request, position)

    def rb_deliver(self, request: Request) -> None:
        self._ordering.deliver(request)
        self.insert(request)

    def cab_deliver(self, ids: list[Dot], instance: int) -> None:
        for id in ids:
            (request,) = self._ordering.commit(id, instance)
            self._confirm(request, committed_position(self._order.length - 1))
            self._execution.respond_to_prefix(Probe.STABLE_FROM_COMMIT)
        self._ordering.finish_delivery(ids)

    def install(self, checkpoint: Checkpoint, loader: RegisterLoader | None = None) -> None:
        registers = self._execution.loader_of(checkpoint, loader)
        self._ordering.install(checkpoint, registers)
        previous_entries = self._execution.load(registers)
        self._optimistic_positions.clear()
        for id, entry in previous_entries.items():
            if self._order.find_tentative(id) is not None:
                self._speculate(entry.request, entry.position)
        for id in [id for id in self._proposed_positions if self._ordering.is_committed(id)]:
            del self._proposed_positions[id]
        self._stable_prefix.restart_from(checkpoint)

    # --- speculation --------------------------------------------------------------------------

    def insert(self, request: Request) -> None:
        position = self._proposed_positions.pop(request.id, None)
        if position is not None:
            self._speculate(request, position)
        self._ordering.cab_cast(request)

    def _speculate(self, request: Request, position: Position) -> None:
        self._optimistic_positions.add(position)
        self._add_entry(request, position)

    def _add_entry(self, request: Request, position: Position) -> None:
        self._execution.scheduler.add(self._execution.add(request, position, None))

    def _confirm(self, request: Request, position: Position) -> None:
        """Renumber the entry if the decided order is the proposed one; otherwise move it."""
        entry = self._execution.entries.get(request.id)
        if entry is None:
            self._probes.hit(Probe.DECIDED_UNPROPOSED)
            self._add_entry(request, position)
            return
        proposed = self._optimistic_positions
        proposed.remove(entry.position)
        in_order = not proposed or entry.position < proposed[0]
        if not in_order:
            self._probes.hit(Probe.DECIDED_OUT_OF_PROPOSED_ORDER)
        self._execution.move(entry, position, in_order)
        self._reschedule_rolled_back()

    def _expire_proposals(self) -> None:
        """Drop the positions of requests that their instances, now delivered, did not contain."""
        delivered = self._stack.cab.learner.delivered
        for id in [
            id for id, position in self._proposed_positions.items() if position[1] < delivered
        ]:
            del self._proposed_positions[id]

    def _record_speculation(self, entry: RequestEntry) -> None:
        request = entry.request
        if request.id in self._responses.awaiting and not self._ordering.is_committed(request.id):
            assert entry.outcome is not None
            self.outbox.events.append(SpeculativelyExecuted(request.id, entry.outcome))

    def _reschedule_rolled_back(self) -> None:
        for entry in self._execution.store.take_rolled_back():
            self._probes.hit(Probe.ROLLED_BACK)
            self._execution.reschedule(entry)

    def _proceed(self) -> None:
        self._ordering.proceed()
        self._execution.issue_tasks()


SPEC: Final = SchemeSpec(
    name="archie",
    create=ArchieReplica,
    description="speculative state machine: executes proposals, responds to decisions",
    guarantees=GUARANTEES,
    unreachable_probes=(*VERSION_STORE, *CAUSAL_CONTEXTS, *TENTATIVE_RESPONSES),
    label="Archie",
    chart=SchemeChart(
        colours=("#b04a0c", "#f0975a"),
        shape="square",
        lines=(
            ChartLine("weak stable", "weak_tentative", "solid", "circle"),
            ChartLine("weak would-be tentative", "weak_speculated", "dotted", "circle"),
            ChartLine("strong stable", "strong_stable", "solid", "square"),
            ChartLine(
                "strong would-be tentative", "strong_speculated", "dotted", "square", shown=False
            ),
        ),
    ),
)
