"""Sequential execution of the order with rollbacks: lines 8, 41-47, 54 and 58-64 of Algorithm 1.

The lists of the paper are maintained incrementally. `executed` is truncated together with the
committed prefix. `toBeExecuted` is the part of the order after `executed`, computed on demand.
`toBeRolledBack` is a queue. The `state` of line 4 is Algorithm 2.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

from creekdb.execution.base_state import changes
from creekdb.execution.datatype import DataType
from creekdb.execution.keys import collation_key
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.execution.result import ExecutionResult
from creekdb.execution.undo import StateObject
from creekdb.protocol.effects import Task, TaskKind
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.values import Key
from creekdb.schemes.core.execution import (
    Execution,
    ReplicaVariables,
    StableWrites,
    UnstableWrites,
)


class SequentialExecution(Execution):
    def __init__(self, variables: ReplicaVariables, datatype: DataType, speculates: bool) -> None:
        """`speculates`: execute requests before their positions are final."""
        self._order = variables.order
        self._outbox = variables.outbox
        self._probes = variables.probes
        self._speculates = speculates
        self._state = StateObject(datatype)  # line 4
        self.executed: list[Request] = []  # line 8, from `first_position` on
        self.to_be_rolled_back: deque[Request] = deque()  # line 8
        self._running: Task | None = None
        self._task_number = 0
        self.outcomes: dict[Dot, Outcome] = {}
        """Outcome of each request in `executed`, until the request is stable."""
        self._writes: dict[Dot, dict[Key, Any]] | None = (
            {} if variables.settings.report_changes else None
        )
        """Writes of each request in `executed`, if the replica reports changes."""

    # --- changes of the order -----------------------------------------------------------------

    def insert(self, request: Request) -> None:
        """Line 41: executed requests that follow the inserted one are out of order."""
        in_order = len(self.executed)
        while (
            in_order > len(self._order.committed) and request.key < self.executed[in_order - 1].key
        ):
            in_order -= 1
        self._adjust_execution(in_order)

    def commit(self, moved: list[Request]) -> None:
        """Line 54."""
        in_order = len(self._order.committed) - len(moved)
        for each in moved:
            if in_order >= len(self.executed) or self.executed[in_order] is not each:
                self._adjust_execution(min(in_order, len(self.executed)))
                return
            in_order += 1

    def _adjust_execution(self, in_order: int) -> None:
        """Lines 42-47, from the first changed position on: `executed[:in_order]` is `inOrder`."""
        out_of_order = self.executed[in_order:]
        del self.executed[in_order:]
        self.to_be_rolled_back.extend(reversed(out_of_order))

    def load(self, loader: StateLoader) -> None:
        """Restart from these registers: no request in the order counts as executed."""
        self._state.load(loader.registers)
        self.executed = []
        self.to_be_rolled_back.clear()
        self.outcomes.clear()
        if self._writes is not None:
            self._writes.clear()
        self._running = None

    # --- tasks --------------------------------------------------------------------------------

    def next_to_execute(self) -> Request | None:
        """The head of `toBeExecuted` (lines 46 and 63)."""
        order, done = self._order, len(self.executed)
        if done < len(order.committed):
            return order.committed[done]
        if not self._speculates or done == len(order.committed) + len(order.tentative):
            return None
        last = self.executed[-1].key if done > len(order.committed) else None
        return next(order.tentative_after(last), None)

    def issue_tasks(self) -> None:
        """Issue the next step of lines 58 and 62. A sequential replica runs one task at a time."""
        if self._running is not None:
            return
        if self.to_be_rolled_back:
            kind, request = TaskKind.ROLLBACK, self.to_be_rolled_back[0]
        else:
            head = self.next_to_execute()
            if head is None:
                return
            kind, request = TaskKind.EXECUTE, head
        self._task_number += 1
        self._running = Task(self._task_number, kind, request)
        self._outbox.tasks.append(self._running)

    def run(self, task: Task) -> ExecutionResult:
        """Compute the reads and writes of line 64; for a rollback, the values it will restore."""
        if task.kind is TaskKind.EXECUTE:
            return self._state.run(task.request)
        return ExecutionResult(Outcome(), self._state.undo_log.get(task.request.id, {}))

    def completed(self, task: Task, execution: ExecutionResult) -> Request | None:
        """Apply the transition of a completed task, at the end of its execution time.

        Return the request that was executed, or None.
        """
        running = self._running
        if running is None or running.number != task.number:
            return None  # issued before a checkpoint was installed
        self._running = None
        if running.kind is TaskKind.ROLLBACK:
            self._rollback(running.request)
        elif self.to_be_rolled_back or self.next_to_execute() is not running.request:
            self._probes.hit(Probe.EXECUTION_OVERTAKEN)
        else:
            self._execute(running.request, execution)
            return running.request
        return None

    def _rollback(self, head: Request) -> None:
        """Lines 58-61."""
        assert self.to_be_rolled_back[0] is head
        self._probes.hit(Probe.ROLLED_BACK)
        self._state.rollback(head)
        self.to_be_rolled_back.popleft()

    def _execute(self, head: Request, execution: ExecutionResult) -> None:
        """Lines 62-64 and 75-76."""
        self._state.install(head, execution)
        if head.id in self.outcomes:
            self._probes.hit(Probe.REEXECUTED)
        self.outcomes[head.id] = execution.outcome
        if self._writes is not None:
            self._writes[head.id] = execution.writes
        self.executed.append(head)  # line 75

    # --- stable prefix ------------------------------------------------------------------------

    def executed_length(self) -> int:
        return self._order.first_position + len(self.executed)

    def executed_before(self, request: Request, stable_length: int) -> Iterator[Dot]:
        """Called for the request that was executed last."""
        assert self.executed[-1] is request
        stable_count = stable_length - self._order.first_position
        return (each.id for each in islice(self.executed, stable_count, len(self.executed) - 1))

    def stabilise_request(self, request: Request) -> Outcome:
        self._state.truncate(request)
        return self.outcomes.pop(request.id)

    def stabilise_with_writes(self, request: Request, with_before: bool) -> StableWrites:
        assert self._writes is not None
        before = self._state.undo_log[request.id] if with_before else None
        writes = self._writes.pop(request.id)
        return self.stabilise_request(request), writes, before

    def truncate_prefix(self, length: int) -> None:
        del self.executed[: length - self._order.first_position]

    def stable_items(self) -> list[tuple[Key, Any]]:
        return sorted(
            self._state.committed_state().items(), key=lambda item: collation_key(item[0])
        )

    def register_count(self) -> int:
        return len(self._state.db)

    def new_state_loader(self) -> StateLoader:
        return StateLoader(self._state.datatype.base, with_digest=False)

    # --- for observers ------------------------------------------------------------------------

    def unstable_writes(
        self, stable_length: int, has_key: Callable[[Key], bool]
    ) -> Iterator[UnstableWrites]:
        order = self._order
        first = stable_length - order.first_position
        committed = islice(order.committed, first, None)
        for number, request in enumerate(chain(committed, order.tentative), first):
            is_executed = number < len(self.executed) and self.executed[number] is request
            if not is_executed or self._writes is None:
                yield UnstableWrites(request, None, {})
                continue
            written = self._writes[request.id].items()
            writes = {key: value for key, value in written if has_key(key)}
            yield UnstableWrites(request, self.outcomes[request.id], writes)

    def committed_view(self, length: int) -> StateObject:
        return StateObject(self._state.datatype, self._state.committed_state())

    def state(self) -> dict[Key, Any]:
        return changes(self._state.items(), self._state.datatype.base)

    def is_idle(self) -> bool:
        return not self.to_be_rolled_back and self.next_to_execute() is None
