"""Differential test of `creek` against `basic`, for the fuzzer.

To its environment the replica is a `creek` replica. An embedded `basic` replica receives every
insertion, commit and checkpoint, executes immediately, and sends nothing. Whenever `creek` is idle,
both must have the same orders and the same state. Each stable or final response of `creek` must be
the outcome of `basic`.
"""

from typing import Any, Final

from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.protocol.checkpoint.stream import RegisterLoader
from creekdb.protocol.effects import Response, ResponseKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.messages import Checkpoint
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.values import is_same_value
from creekdb.schemes.basic import BasicReplica
from creekdb.schemes.core.spec import OPTIMISTIC_DELIVERY, SchemeSpec
from creekdb.schemes.creek import CreekReplica


class SchemeDivergence(Exception):
    """Different results of `creek` and `basic`."""


class DifferentialReplica(CreekReplica):
    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        super().__init__(index, settings, datatype)
        self._reference = _ReferenceReplica(index, settings, datatype)
        self._has_changed = False

    def install(self, checkpoint: Checkpoint, loader: RegisterLoader | None = None) -> None:
        if loader is None:
            loader = self.new_state_loader()
            loader.add(checkpoint.state, checkpoint.deleted)
        self._reference.follow_install(checkpoint, loader)
        self._has_changed = True
        super().install(checkpoint, loader)

    def _on_inserted(self, request: Request) -> None:
        super()._on_inserted(request)
        self._reference.follow_insert(request)
        self._has_changed = True

    def _on_committed(self, moved: list[Request]) -> None:
        self._reference.follow_commit(moved[-1].id)
        self._has_changed = True
        super()._on_committed(moved)

    def _proceed(self) -> None:
        super()._proceed()
        for response in self._outbox.responses:
            self._compare_response(response)
        if self._has_changed and self.is_idle():
            self._has_changed = False
            self._compare("committed", self.committed_ids(), self._reference.committed_suffix(self))
            self._compare("tentative", self.tentative_ids(), self._reference.tentative_ids())
            self._compare("the state", self.state(), self._reference.state())

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


class _ReferenceReplica(BasicReplica):
    """Basic Creek without messages and responses."""

    def follow_insert(self, request: Request) -> None:
        self._order.insert(request)
        self._on_inserted(request)
        self._execute_all()

    def follow_commit(self, id: Dot) -> None:
        request = self._order.find_tentative(id)
        assert request is not None
        self._on_committed(self._order.commit(request))
        self._execute_all()

    def follow_install(self, checkpoint: Checkpoint, loader: RegisterLoader) -> None:
        assert isinstance(loader, StateLoader)
        self._order.install(checkpoint.length, checkpoint.ids)
        self._load(loader)
        self._execute_all()

    def outcome(self, id: Dot) -> Outcome | None:
        """Return the outcome of an executed request; None if a checkpoint covers the request."""
        return self._outcomes.get(id)

    def committed_suffix(self, other: CreekReplica) -> tuple[Dot, ...]:
        """Return the end of `committed`, as long as the other replica's list of identifiers."""
        ids = self.committed_ids()
        surplus = self.committed_length() - other.committed_length()
        return ids[len(ids) - len(other.committed_ids()) :] if not surplus else ids

    def _execute_all(self) -> None:
        while True:
            self._issue_tasks()
            tasks = self._outbox.take().tasks
            if not tasks:
                return
            for task in tasks:
                self.completed(task, self.run(task), 0)


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
