"""Creek as Section 4.4 has it: versions, rollbacks only if necessary, concurrent execution.

Every request is executed on a snapshot of its own place in `committed · tentative`, several at once
and in any order. An execution that no longer fits when it completes is thrown away; one that is
made wrong later, by a request that came late or by a commit that changed the order, is withdrawn
and executed again, and nothing else is.
"""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import msgspec

from creek.execution.chains import (
    Entry,
    Phase,
    committed_position,
    tentative_position,
)
from creek.execution.datatype import DataType
from creek.execution.scheduler import Scheduler
from creek.execution.transaction import Execution
from creek.execution.versions import Base, VersionStore
from creek.protocol.dots import Dot
from creek.protocol.effects import Kind, Task, Work
from creek.protocol.probes import Probe
from creek.protocol.request import Operation, Outcome, Request
from creek.protocol.settings import Settings
from creek.protocol.values import Key
from creek.schemes.ordering import OrderingReplica


class CreekReplica(OrderingReplica):
    def __init__(
        self, index: int, settings: Settings, datatype: DataType, base: Base | None = None
    ) -> None:
        super().__init__(index, settings)
        self._datatype = datatype
        self._store = VersionStore(base)
        self._scheduler = Scheduler(settings.parallelism)
        self._entries: dict[Dot, Entry] = {}
        self._done = 0
        """How many requests of `committed`, from `order.first` on, are executed: for good."""
        self._task_number = 0
        self._last_of_session: dict[int, Entry] = {}
        self._invoking: int | None = None

    # --- inputs -------------------------------------------------------------------------------

    def invoke(self, operation: Operation, strong: bool, session: int, now: int) -> Dot:
        self._invoking = session
        return super().invoke(operation, strong, session, now)

    def run(self, task: Task) -> Execution:
        entry = self._scheduler.running.get(task.number)
        if entry is None:
            return Execution(Outcome())
        snapshot = self._store.snapshot(entry.position)
        execution = self._datatype.run(task.request, snapshot)
        return msgspec.structs.replace(execution, seen=snapshot)

    def completed(self, task: Task, execution: Execution, now: int) -> None:
        entry = self._scheduler.finish(task.number)
        if entry is None:
            return  # handed out before a checkpoint was installed
        if self._store.install(entry, execution.seen, execution):
            if entry.outcome is not None:
                self.probes.hit(Probe.REEXECUTED)
            entry.outcome = execution.outcome
            self._answer_tentatively(entry)
            self._execute_withdrawn()
        else:
            self.probes.hit(Probe.EXECUTION_OVERTAKEN)
            entry.phase = Phase.WAITING
            entry.losses += 1
            self._scheduler.add(entry)
        self._answer_stably(Probe.STABLE_FROM_EXECUTION)
        self._proceed()

    # --- the order changes --------------------------------------------------------------------

    def _inserted(self, request: Request) -> None:
        entry = Entry(request, tentative_position(request))
        self._entries[request.id] = entry
        if self._invoking is not None:
            entry.after = self._last_of_session.get(self._invoking)
            self._last_of_session[self._invoking] = entry
            self._invoking = None
        self._scheduler.add(entry)

    def _committed(self, moved: list[Request]) -> None:
        """Who comes before all that stays tentative keeps its place among the others: only its
        name changes. Who jumps over something that stays has to be looked at."""
        stays = next(self._order.tentative(), None)
        for index, request in enumerate(moved, self._order.length - len(moved)):
            entry = self._entries[request.id]
            waited = self._scheduler.remove(entry)
            if stays is None or request.key < stays.key:
                entry.position = committed_position(index)
            else:
                self._store.move(entry, committed_position(index))
            if waited:
                self._scheduler.add(entry)
            self._execute_withdrawn()
        self._answer_stably(Probe.STABLE_FROM_COMMIT)

    def _execute_withdrawn(self) -> None:
        for entry in self._store.take_withdrawn():
            self.probes.hit(Probe.ROLLED_BACK)
            entry.losses += 1
            self._scheduler.add(entry)

    def _hand_out(self) -> None:
        while (entry := self._scheduler.start(self._task_number + 1)) is not None:
            self._task_number += 1
            self._outbox.tasks.append(Task(self._task_number, Work.EXECUTE, entry.request))

    # --- answers ------------------------------------------------------------------------------

    def _answer_tentatively(self, entry: Entry) -> None:
        request = entry.request
        awaiting = self._awaiting.get(request.id)
        if awaiting is None or (request.strong and self.is_committed(request.id)):
            return
        assert entry.outcome is not None
        self._respond_tentatively(request, awaiting, entry.outcome)

    def _answer_stably(self, probe: Probe) -> None:
        """What is committed, and executed like all before it, can be answered for good."""
        committed = self._order.committed
        while self._done < len(committed):
            request = committed[self._done]
            entry = self._entries[request.id]
            if entry.phase is not Phase.EXECUTED:
                return
            self._done += 1
            awaiting = self._awaiting.pop(request.id, None) if request.strong else None
            if awaiting is not None:
                assert entry.outcome is not None
                self.probes.hit(probe)
                self._respond(request.id, awaiting.session, Kind.STABLE, entry.outcome)

    # --- what is settled ----------------------------------------------------------------------

    def _executed_length(self) -> int:
        return self._order.first + self._done

    def _settle_request(self, request: Request) -> Outcome:
        entry = self._entries.pop(request.id)
        self._store.settle(entry)
        assert entry.outcome is not None
        return entry.outcome

    def _sum_up(self, length: int) -> None:
        self._done -= length - self._order.first

    def _settled_state(self) -> Iterator[tuple[Key, Any]]:
        return self._store.settled_items()

    def _register_count(self) -> int:
        return self._store.register_count()

    def _executed_before(self, request: Request) -> Iterator[Dot]:
        committed = islice(self._order.committed, self._settled.length - self._order.first, None)
        for each in chain(committed, self._order.tentative()):
            if each.id == request.id:
                return
            if self._entries[each.id].phase is Phase.EXECUTED:
                yield each.id

    def _load(self, state: tuple[tuple[Key, Any], ...]) -> None:
        self._store.load(state)
        self._scheduler.clear()
        self._done = 0
        self._last_of_session.clear()
        self._entries = {}
        for request in self._order.tentative():
            self._inserted(request)

    # --- for those who look on ----------------------------------------------------------------

    def state(self) -> dict[Key, Any]:
        return dict(self._store.items())

    def idle(self) -> bool:
        return self._scheduler.idle()
