"""Differential test of `creek` against `basic`, for the fuzzer.

The replica is a `creek` replica. A sequential execution as in `basic` follows every insertion,
commit and checkpoint, executes immediately, and sends nothing. Whenever `creek` is idle, both must
have the same orders and the same state. Each stable or final response of `creek` must be the
outcome of `basic`.
"""

from typing import Any, Final

from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.protocol.effects import Response, ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.values import is_same_state
from creekdb.schemes.core.execution import ReplicaVariables
from creekdb.schemes.core.sequential import SequentialExecution
from creekdb.schemes.core.spec import OPTIMISTIC_DELIVERY, SchemeSpec
from creekdb.schemes.core.view import ReplicaView
from creekdb.schemes.creek import CreekReplica


class SchemeDivergence(Exception):
    """Different results of `creek` and `basic`."""


def create_replica(index: int, settings: Settings, datatype: DataType) -> CreekReplica:
    return CreekReplica(index, settings, datatype, BasicReference(index, settings, datatype))


class BasicReference:
    """Order and execution of Basic Creek, without messages and responses."""

    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        variables = ReplicaVariables(index, settings)
        self._index = index
        self._order = variables.order
        self._outbox = variables.outbox
        self._execution = SequentialExecution(variables, datatype, speculates=True)
        self._has_changed = False
        """True if the order has changed since the last comparison."""

    # --- `ReplicaObserver` --------------------------------------------------------------------

    def inserted(self, request: Request) -> None:
        self._order.insert(request)
        self._execution.insert(request)
        self._execute_all()

    def committed(self, request: Request, cut: tuple[Dot, ...]) -> None:
        self._execution.commit(self._order.commit(request, cut))
        self._execute_all()

    def installed(self, checkpoint: Checkpoint, loader: StateLoader) -> None:
        self._order.install(checkpoint.length, checkpoint.ids)
        self._execution.load(loader)
        self._execute_all()

    def proceeded(self, responses: list[Response], creek: ReplicaView) -> None:
        for response in responses:
            self._compare_response(response)
        if self._has_changed and creek.is_idle():
            self._has_changed = False
            self._compare("committed", creek.committed_ids(), self._committed_suffix(creek))
            tentative_ids = tuple(request.id for request in self._order.tentative)
            self._compare("tentative", creek.tentative_ids(), tentative_ids)
            self._compare("the state", creek.state(), self._execution.state())

    # --- comparison ---------------------------------------------------------------------------

    def _compare_response(self, response: Response) -> None:
        if response.kind is not ResponseKind.TENTATIVE:
            expected = self._execution.outcomes.get(response.id)
            if expected is not None:  # otherwise a checkpoint covers the request
                self._compare(f"the response to {response.id}", response.outcome, expected)

    def _compare(self, subject: str, actual: Any, expected: Any) -> None:
        if not _is_equal(actual, expected):
            raise SchemeDivergence(
                f"{subject} at replica {self._index}: creek {actual}, basic {expected}"
            )

    def _committed_suffix(self, other: ReplicaView) -> tuple[Dot, ...]:
        """Return the end of `committed`, as long as the other replica's list of identifiers."""
        ids = tuple(request.id for request in self._order.committed)
        surplus = self._order.length - other.committed_length()
        return ids[len(ids) - len(other.committed_ids()) :] if not surplus else ids

    def _execute_all(self) -> None:
        self._has_changed = True
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
        return is_same_state(actual, expected)
    return bool(actual == expected)


SPEC: Final = SchemeSpec(
    name="differential",
    create=create_replica,
    description="creek, compared with basic after every input",
    unreachable_probes=OPTIMISTIC_DELIVERY,
)
