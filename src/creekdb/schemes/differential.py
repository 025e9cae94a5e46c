"""Differential test of `creek` against `basic`, for the fuzzer.

To its environment the replica is a `creek` replica. A sequential execution as in `basic` follows
every insertion, commit and checkpoint, executes immediately, and sends nothing. Whenever `creek` is
idle, both must have the same orders and the same state. Each stable or final response of `creek`
must be the outcome of `basic`.
"""

from collections.abc import Iterable
from typing import Any, Final

from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.execution.result import ExecutionResult
from creekdb.protocol.checkpoint.stream import IncomingMessage, LazyCheckpoint, RegisterLoader
from creekdb.protocol.effects import Effects, Response, ResponseKind, Task
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Checkpoint, Record
from creekdb.protocol.request import Operation, Outcome, Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.values import is_same_value
from creekdb.schemes.core.execution import ReplicaVariables
from creekdb.schemes.core.replica import ReplicaView
from creekdb.schemes.core.sequential import SequentialExecution
from creekdb.schemes.core.spec import OPTIMISTIC_DELIVERY, SchemeSpec
from creekdb.schemes.creek import CreekReplica


class SchemeDivergence(Exception):
    """Different results of `creek` and `basic`."""


class DifferentialReplica:
    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        self._reference = _Reference(index, settings, datatype)
        self.creek = CreekReplica(index, settings, datatype, observer=self._reference)
        self.index = index
        self.guarantees = self.creek.guarantees
        self.view: ReplicaView = self.creek.view

    # --- inputs -------------------------------------------------------------------------------

    def recover(self, records: Iterable[Record]) -> None:
        self.creek.recover(records)
        self._compare_both()

    def invoke(
        self,
        operation: Operation,
        strong: bool,
        session: int,
        now: int,
        after: tuple[Dot, ...] = (),
    ) -> Dot:
        id = self.creek.invoke(operation, strong, session, now, after)
        self._compare_both()
        return id

    def can_respond_locally(self, operation: Operation, strong: bool) -> bool:
        return self.creek.can_respond_locally(operation, strong)

    def receive(self, message: IncomingMessage, sender: int, now: int) -> None:
        self.creek.receive(message, sender, now)
        self._compare_both()

    def tick(self, now: int) -> None:
        self.creek.tick(now)
        self._compare_both()

    def run(self, task: Task) -> ExecutionResult:
        return self.creek.run(task)

    def completed(self, task: Task, execution: ExecutionResult, now: int) -> None:
        self.creek.completed(task, execution, now)
        self._compare_both()

    def take_tasks(self) -> tuple[Task, ...]:
        return self.creek.take_tasks()

    def take_effects(self) -> Effects:
        return self.creek.take_effects()

    def new_state_loader(self) -> RegisterLoader:
        return self.creek.new_state_loader()

    def lazy_checkpoint(self) -> LazyCheckpoint:
        return self.creek.lazy_checkpoint()

    # --- comparison ---------------------------------------------------------------------------

    def _compare_both(self) -> None:
        reference, view = self._reference, self.view
        for response in self.creek.outbox.responses:
            self._compare_response(response)
        if reference.has_changed and view.is_idle():
            reference.has_changed = False
            self._compare("committed", view.committed_ids(), reference.committed_suffix(view))
            self._compare("tentative", view.tentative_ids(), reference.tentative_ids())
            self._compare("the state", view.state(), reference.state())

    def _compare_response(self, response: Response) -> None:
        if response.kind is not ResponseKind.TENTATIVE:
            expected = self._reference.outcome(response.id)
            if expected is not None:
                self._compare(f"the response to {response.id}", response.outcome, expected)

    def _compare(self, subject: str, actual: Any, expected: Any) -> None:
        if not _is_equal(actual, expected):
            raise SchemeDivergence(
                f"{subject} at replica {self.index}: creek {actual}, basic {expected}"
            )


class _Reference:
    """Order and execution of Basic Creek, without messages and responses."""

    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        variables = ReplicaVariables(index, settings)
        self._order = variables.order
        self._outbox = variables.outbox
        self._execution = SequentialExecution(variables, datatype, speculates=True)
        self.has_changed = False
        """True if the order has changed since the last comparison."""

    def inserted(self, request: Request) -> None:
        self._order.insert(request)
        self._execution.insert(request)
        self._execute_all()

    def committed(self, request: Request) -> None:
        self._execution.commit(self._order.commit(request))
        self._execute_all()

    def installed(self, checkpoint: Checkpoint, loader: StateLoader) -> None:
        self._order.install(checkpoint.length, checkpoint.ids)
        self._execution.load(loader)
        self._execute_all()

    def outcome(self, id: Dot) -> Outcome | None:
        """Return the outcome of an executed request; None if a checkpoint covers the request."""
        return self._execution.outcomes.get(id)

    def committed_suffix(self, other: ReplicaView) -> tuple[Dot, ...]:
        """Return the end of `committed`, as long as the other replica's list of identifiers."""
        ids = tuple(request.id for request in self._order.committed)
        surplus = self._order.length - other.committed_length()
        return ids[len(ids) - len(other.committed_ids()) :] if not surplus else ids

    def tentative_ids(self) -> tuple[Dot, ...]:
        return tuple(request.id for request in self._order.tentative())

    def state(self) -> dict[Any, Any]:
        return self._execution.state()

    def _execute_all(self) -> None:
        self.has_changed = True
        self._execution.issue_tasks()
        while tasks := self._outbox.take_tasks():
            for task in tasks:
                self._execution.completed(task, self._execution.run(task))
            self._execution.issue_tasks()


def _is_equal(actual: Any, expected: Any) -> bool:
    """True if both have the same encoding: 1, 1.0 and True are three values."""
    if isinstance(actual, Outcome):
        return actual.same_as(expected)
    if isinstance(actual, dict):
        return actual.keys() == expected.keys() and all(
            is_same_value(actual[key], expected[key]) for key in actual
        )
    return bool(actual == expected)


SPEC: Final = SchemeSpec(
    name="both",
    create=DifferentialReplica,
    description="creek, compared with basic after every input",
    unreachable_probes=OPTIMISTIC_DELIVERY,
)
