"""Basic Creek: Algorithm 1 of the paper, with Algorithm 2 as its `state`.

Every method that implements lines of the paper names them. Lines 1-7, 10-40 and 48-53 are in
`ordering`, lines 8, 41-47, 54 and 58-64 in `sequential`.
"""

from collections.abc import Iterable
from typing import Final

from creekdb.execution.datatype import DataType
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
from creekdb.schemes.core.ordering import Ordering
from creekdb.schemes.core.sequential import SequentialExecution
from creekdb.schemes.core.spec import OPTIMISTIC_DELIVERY, VERSION_STORE, SchemeChart, SchemeSpec
from creekdb.schemes.core.stable_prefix import StablePrefix
from creekdb.schemes.core.view import ReplicaView

GUARANTEES: Final = SchemeGuarantees(sequential=True)


class BasicReplica:
    def __init__(
        self,
        index: int,
        settings: Settings,
        datatype: DataType,
        guarantees: SchemeGuarantees = GUARANTEES,
    ) -> None:
        """Without tentative responses, requests are executed once their positions are final."""
        variables = ReplicaVariables(index, settings)
        self.index = index
        self.guarantees = guarantees.with_voters(settings.voters)
        self.outbox = variables.outbox
        self._probes = variables.probes
        self._order = variables.order
        self._responses = variables.responses
        self._execution = SequentialExecution(variables, datatype, guarantees.tentative)
        self._stable_prefix = StablePrefix(variables, self._execution)
        self._ordering = Ordering(variables, guarantees, self._stable_prefix, self)
        self._stack = self._ordering.stack
        self.view = ReplicaView(variables, self._ordering, self._stable_prefix, self._execution)

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
        """Lines 15-25. `after` has no effect: all requests that have arrived precede."""
        request = self._ordering.issue(operation, strong, now)  # lines 16-19, 22-23, 36-40
        self.insert(request)
        awaits_stable = strong or not self.guarantees.tentative
        self._responses.expect(request.id, session, awaits_stable)  # line 25
        self._proceed()
        return request.id

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
        return self._execution.run(task)

    def completed(self, task: Task, execution: ExecutionResult, now: int) -> None:
        """Lines 58-76."""
        head = self._execution.completed(task, execution)  # lines 58-64, 75-76
        if head is not None:
            self._respond_executed(head, execution)  # lines 65-74
        self._proceed()

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
                self._execution.commit(moved)  # line 54
                self._respond_committed(moved[-1])  # lines 55-57
        self._ordering.finish_delivery(ids)

    def on_proposed(self, instance: int, batch: Batch) -> None:
        """Ignore the proposal: nothing is executed because of it."""

    def install(self, checkpoint: Checkpoint, loader: RegisterLoader | None = None) -> None:
        registers = self._execution.loader_of(checkpoint, loader)
        self._ordering.install(checkpoint, registers)
        self._execution.load(registers)
        self._stable_prefix.restart_from(checkpoint)

    # --- Algorithm 1 --------------------------------------------------------------------------

    def insert(self, request: Request) -> None:
        """Lines 20 and 41, for a request issued here or delivered."""
        if self.guarantees.tentative:
            self._execution.insert(request)  # line 41
        self._ordering.cab_cast(request)  # line 20

    def _respond_committed(self, request: Request) -> None:
        """Lines 55-57: the response to a strong request that was executed before its commit."""
        awaiting = self._responses.awaiting.get(request.id)
        if awaiting is not None and len(self._order.committed) <= len(self._execution.executed):
            assert awaiting.outcome is not None, "an executed strong request has no response"
            self._probes.hit(Probe.STABLE_FROM_COMMIT)
            self._responses.respond_stable(request.id, awaiting.outcome)

    def _respond_executed(self, head: Request, execution: ExecutionResult) -> None:
        """Lines 65-74."""
        awaiting = self._responses.awaiting.get(head.id)
        if awaiting is None:
            return
        if awaiting.strong and self._ordering.is_committed(head.id):
            self._probes.hit(Probe.STABLE_FROM_EXECUTION)
            self._responses.respond_stable(head.id, execution.outcome)  # lines 73-74
        else:
            observed = self._stable_prefix.observe(head)
            self._responses.respond_tentative(
                head.id, awaiting, execution.outcome, observed
            )  # lines 67-68, 70-71

    def _proceed(self) -> None:
        """Finish an input: deliver, stabilise and execute what can be."""
        self._ordering.proceed()
        self._execution.issue_tasks()


SPEC: Final = SchemeSpec(
    name="basic",
    create=BasicReplica,
    description="Algorithm 1 with the undo log of Algorithm 2",
    guarantees=GUARANTEES,
    unreachable_probes=(*VERSION_STORE, *OPTIMISTIC_DELIVERY),
    chart=SchemeChart(
        colours=("#2b7a4b", "#6cc795"),
    ),
)
