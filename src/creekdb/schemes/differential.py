"""`creek` with `basic` beside it: fed the same requests and deliveries, they must agree.

For the fuzzer. To the rest of the world this is `creek`; the replica of `basic` hears of every
insertion, commit and checkpoint, executes at once, and says nothing. Whenever `creek` has nothing
left to do, both have the same orders and the same state; and what `creek` answers for good is what
`basic` answers.
"""

from typing import Any

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
from creekdb.schemes.creek import CreekReplica


class SchemeDivergence(Exception):
    """`creek` and `basic` gave different results."""


class DifferentialReplica(CreekReplica):
    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        super().__init__(index, settings, datatype)
        self._reference = _ReferenceReplica(index, settings, datatype)
        self._has_changed = False

    def install(self, checkpoint: Checkpoint, intake: RegisterLoader | None = None) -> None:
        if intake is None:
            intake = self.new_state_loader()
            intake.add(checkpoint.state, checkpoint.deleted)
        self._reference.follow_install(checkpoint, intake)
        self._has_changed = True
        super().install(checkpoint, intake)

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
                self._compare(f"the answer to {response.id}", response.outcome, expected)

    def _compare(self, what: str, ours: Any, theirs: Any) -> None:
        if not _same(ours, theirs):
            raise SchemeDivergence(f"{what} at replica {self.index}: creek {ours}, basic {theirs}")


class _ReferenceReplica(BasicReplica):
    """Basic Creek without a voice."""

    def follow_insert(self, request: Request) -> None:
        self._order.insert(request)
        self._on_inserted(request)
        self._execute_all()

    def follow_commit(self, id: Dot) -> None:
        request = self._order.find_tentative(id)
        assert request is not None
        self._on_committed(self._order.commit(request))
        self._execute_all()

    def follow_install(self, checkpoint: Checkpoint, intake: RegisterLoader) -> None:
        assert isinstance(intake, StateLoader)
        self._order.install(checkpoint.length, checkpoint.ids)
        self._load(intake)
        self._execute_all()

    def outcome(self, id: Dot) -> Outcome | None:
        """None for what a checkpoint holds."""
        return self._outcomes.get(id)

    def committed_suffix(self, other: CreekReplica) -> tuple[Dot, ...]:
        """The end of `committed`, as far as the other one has it one by one."""
        ids = self.committed_ids()
        spare = self.committed_length() - other.committed_length()
        return ids[len(ids) - len(other.committed_ids()) :] if not spare else ids

    def _execute_all(self) -> None:
        while True:
            self._issue_tasks()
            tasks = self._outbox.take().tasks
            if not tasks:
                return
            for task in tasks:
                self.completed(task, self.run(task), 0)


def _same(ours: Any, theirs: Any) -> bool:
    """Equal as they travel: 1, 1.0 and True are three values."""
    if isinstance(ours, Outcome):
        return ours.same_as(theirs)
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(
            is_same_value(ours[key], theirs[key]) for key in ours
        )
    return bool(ours == theirs)
