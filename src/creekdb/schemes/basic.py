"""Basic Creek: Algorithm 1 of the paper, with Algorithm 2 as its `state`.

Every method that implements lines of the paper names them; lines 1-7, 10-41 and 48-54 are in
`ordering`. The lists are maintained incrementally. `executed` is truncated together with the
committed prefix. `toBeExecuted` is the part of the order after `executed`, computed on demand.
`toBeRolledBack` is a queue.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from creekdb.execution.base_state import changes, merge_sorted_keys
from creekdb.execution.datatype import DataType
from creekdb.execution.keys import CollationKey, collation_key
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.execution.result import ExecutionResult
from creekdb.execution.transaction import ABSENT
from creekdb.execution.undo import StateObject
from creekdb.protocol.effects import Task, TaskKind
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.values import Key
from creekdb.schemes.core.ordering import OrderingReplica
from creekdb.schemes.core.replica import ReplicaView
from creekdb.schemes.core.spec import OPTIMISTIC_DELIVERY, VERSION_STORE, SchemeChart, SchemeSpec


class BasicReplica(OrderingReplica):
    is_sequential = True

    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        super().__init__(index, settings)
        self._state = StateObject(datatype)  # line 4
        self._executed: list[Request] = []  # line 8, from `first_position` on
        self._to_be_rolled_back: deque[Request] = deque()  # line 8
        self._running: Task | None = None
        self._task_number = 0
        self._outcomes: dict[Dot, Outcome] = {}
        """Outcome of each request in `executed`, until the request is stable."""

    # --- inputs -------------------------------------------------------------------------------

    def run(self, task: Task) -> ExecutionResult:
        """Compute the reads and writes of line 64; for a rollback, the values it will restore."""
        if task.kind is TaskKind.EXECUTE:
            return self._state.run(task.request)
        return ExecutionResult(Outcome(), self._state.undo_log.get(task.request.id, {}))

    def completed(self, task: Task, execution: ExecutionResult, now: int) -> None:
        """Apply the transitions of lines 58-61 and 62-76, at the end of their execution time."""
        running = self._running
        if running is None or running.number != task.number:
            return  # issued before a checkpoint was installed
        self._running = None
        if running.kind is TaskKind.ROLLBACK:
            self._rollback(running.request)
        elif self._to_be_rolled_back or self._next_to_execute() is not running.request:
            self.probes.hit(Probe.EXECUTION_OVERTAKEN)
        else:
            self._execute(running.request, execution)
        self._proceed()

    # --- Algorithm 1 --------------------------------------------------------------------------

    def _on_inserted(self, request: Request) -> None:
        """Line 41: executed requests that follow the inserted one are out of order."""
        in_order = len(self._executed)
        while (
            in_order > len(self._order.committed) and request.key < self._executed[in_order - 1].key
        ):
            in_order -= 1
        self._adjust_execution(in_order)

    def _adjust_execution(self, in_order: int) -> None:
        """Lines 42-47, from the first changed position on: `executed[:in_order]` is `inOrder`."""
        out_of_order = self._executed[in_order:]
        del self._executed[in_order:]
        self._to_be_rolled_back.extend(reversed(out_of_order))

    def _on_committed(self, moved: list[Request]) -> None:
        """Lines 54-57."""
        in_order = len(self._order.committed) - len(moved)
        for each in moved:
            if in_order >= len(self._executed) or self._executed[in_order] is not each:
                self._adjust_execution(min(in_order, len(self._executed)))
                break
            in_order += 1
        request = moved[-1]
        awaiting = self._responses.awaiting.get(request.id)
        if awaiting is not None and len(self._order.committed) <= len(self._executed):
            assert awaiting.outcome is not None, "an executed strong request has no response"
            self.probes.hit(Probe.STABLE_FROM_COMMIT)
            self._responses.respond_stable(request.id, awaiting.outcome)  # lines 56-57

    def _rollback(self, head: Request) -> None:
        """Lines 58-61."""
        assert self._to_be_rolled_back[0] is head
        self.probes.hit(Probe.ROLLED_BACK)
        self._state.rollback(head)
        self._to_be_rolled_back.popleft()

    def _execute(self, head: Request, execution: ExecutionResult) -> None:
        """Lines 62-76."""
        self._state.install(head, execution)
        outcome = execution.outcome
        if head.id in self._outcomes:
            self.probes.hit(Probe.REEXECUTED)
        self._outcomes[head.id] = outcome
        responses = self._responses
        awaiting = responses.awaiting.get(head.id)
        if awaiting is not None:
            if not awaiting.strong:
                responses.respond_tentative(
                    head.id, awaiting, outcome, self._observe(head)
                )  # lines 67-68
            elif len(self._executed) >= len(self._order.committed):  # head ∈ tentative
                responses.respond_tentative(
                    head.id, awaiting, outcome, self._observe(head)
                )  # lines 70-71
            else:  # head ∈ committed
                self.probes.hit(Probe.STABLE_FROM_EXECUTION)
                responses.respond_stable(head.id, outcome)  # lines 73-74
        self._executed.append(head)  # line 75

    def _next_to_execute(self) -> Request | None:
        """The head of `toBeExecuted` (lines 46 and 63)."""
        done = len(self._executed)
        if done == len(self._order.committed) + self._order.tentative_length:
            return None
        if done < len(self._order.committed):
            return self._order.committed[done]
        last = self._executed[-1].key if done > len(self._order.committed) else None
        return next(self._order.tentative_after(last), None)

    def _issue_tasks(self) -> None:
        """Issue the next step of lines 58 and 62. A sequential replica runs one task at a time."""
        if self._running is not None:
            return
        if self._to_be_rolled_back:
            kind, request = TaskKind.ROLLBACK, self._to_be_rolled_back[0]
        else:
            head = self._next_to_execute()
            if head is None:
                return
            kind, request = TaskKind.EXECUTE, head
        self._task_number += 1
        self._running = Task(self._task_number, kind, request)
        self._outbox.tasks.append(self._running)

    # --- stable prefix ------------------------------------------------------------------------

    def executed_length(self) -> int:
        return self._order.first_position + len(self._executed)

    def stabilise_request(self, request: Request) -> Outcome:
        self._state.truncate(request)
        return self._outcomes.pop(request.id)

    def truncate_prefix(self, length: int) -> None:
        del self._executed[: length - self._order.first_position]

    def stable_items(self) -> list[tuple[Key, Any]]:
        return sorted(self._state.committed_state().items(), key=_item_collation_key)

    def register_count(self) -> int:
        return len(self._state.db)

    def _executed_before(self, request: Request) -> Iterator[Dot]:
        """Called during the execution, before the request is appended to `executed`."""
        stable_count = self._stable_prefix.length - self._order.first_position
        return (each.id for each in islice(self._executed, stable_count, None))

    def new_state_loader(self) -> StateLoader:
        return StateLoader(self._state.datatype.base, with_digest=False)

    def _load(self, loader: StateLoader) -> None:
        self._state.load(loader.registers)
        self._executed = []
        self._to_be_rolled_back.clear()
        self._outcomes.clear()
        self._running = None

    # --- inspection ---------------------------------------------------------------------------

    @property
    def view(self) -> ReplicaView:
        return self

    def committed_items(
        self, length: int, start: CollationKey, stop: CollationKey
    ) -> Iterator[tuple[Key, Any]]:
        base = self._state.datatype.base
        stable_state = self._state.committed_state()
        written_keys = (
            key
            for key in sorted(stable_state, key=collation_key)
            if start <= collation_key(key) < stop
        )
        for key in merge_sorted_keys(written_keys, base.keys(start, stop, False), reverse=False):
            value = stable_state[key] if key in stable_state else base.read(key)
            if value is not ABSENT:
                yield key, value

    def state(self) -> dict[Key, Any]:
        return changes(self._state.items(), self._state.datatype.base)

    def is_idle(self) -> bool:
        return not self._to_be_rolled_back and self._next_to_execute() is None


def _item_collation_key(item: tuple[Key, Any]) -> CollationKey:
    return collation_key(item[0])


SPEC: Final = SchemeSpec(
    name="basic",
    create=BasicReplica,
    description="Algorithm 1 with the undo log of Algorithm 2",
    guarantees=SchemeGuarantees(sequential=True),
    unreachable_probes=(*VERSION_STORE, *OPTIMISTIC_DELIVERY),
    chart=SchemeChart(
        colours=("#2b7a4b", "#6cc795"),
    ),
)
