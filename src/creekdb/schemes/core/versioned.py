"""Executing on the version store: what schemes that do so concurrently share (Section 4.4).

Every request has an `Entry` at the place where it stands, and is executed on a snapshot of that
place, several at once and in any order. An execution that no longer fits when it completes is
thrown away; one that is made wrong later is withdrawn and executed again. What is committed, and
executed like everything before it that may write, is answered for good.

Which place a request gets, when, and who is answered before it is committed, is up to the scheme.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import msgspec

from creekdb.execution.datatype import DataType
from creekdb.execution.keys import Place
from creekdb.execution.mvcc.entry import NO_VERSIONS, Entry, Phase, committed_position
from creekdb.execution.mvcc.register_table import SettledImage
from creekdb.execution.mvcc.scheduler import Scheduler
from creekdb.execution.mvcc.state_loader import Arrivals, StateDigest
from creekdb.execution.mvcc.version_store import FRESH_MAX, VersionStore
from creekdb.execution.result import Execution
from creekdb.protocol.effects import Task, Work
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Outcome, Request
from creekdb.protocol.settings import Settings
from creekdb.protocol.values import Key
from creekdb.schemes.core.ordering import OrderingReplica


class VersionedReplica(OrderingReplica):
    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        super().__init__(index, settings)
        self._datatype = datatype
        self._state_digest = StateDigest() if settings.digest_every else None
        fresh_max = min(FRESH_MAX, settings.kept_apart // 4)
        self._store = VersionStore(
            datatype.base, self._state_digest, fresh_max, images=bool(settings.drafts)
        )
        self._scheduler = Scheduler(settings.parallelism)
        self._entries: dict[Dot, Entry] = {}
        self._readonly = frozenset(
            name for name in datatype.operations if datatype.is_readonly(name)
        )
        self._done = 0
        """How many requests of `committed`, from `order.first` on, are executed: for good."""
        self._written = 0
        """The same, whether or not those among them that only read are executed: nothing after
        them depends on it."""
        self._task_number = 0

    # --- what a scheme adds -------------------------------------------------------------------

    @abstractmethod
    def _executed(self, entry: Entry) -> None:
        """It has just been executed, and is valid."""

    @abstractmethod
    def _withdrawn(self, entry: Entry) -> None:
        """It is no longer valid: to be executed again."""

    # --- executing ----------------------------------------------------------------------------

    def run(self, task: Task) -> Execution:
        entry = self._scheduler.running.get(task.number)
        if entry is None:
            return Execution(Outcome())
        snapshot = self._store.snapshot(entry.position)
        execution = self._datatype.run(task.request, snapshot)
        if execution.seen is snapshot:
            return execution
        return msgspec.structs.replace(execution, seen=snapshot)

    def completed(self, task: Task, execution: Execution, now: int) -> None:
        entry = self._scheduler.finish(task.number)
        if entry is None:  # handed out before a checkpoint was installed
            self._hand_out()
            return
        if self._store.install(entry, execution.seen, execution):
            if entry.outcome is not None:
                self.probes.hit(Probe.REEXECUTED)
            entry.outcome = execution.outcome
            self._execute_withdrawn()
            self._executed(entry)
            if entry.position < committed_position(self._order.first + self._written):
                self._answer_for_good(entry, Probe.STABLE_FROM_EXECUTION)
        else:
            self.probes.hit(Probe.EXECUTION_OVERTAKEN)
            entry.phase = Phase.WAITING
            self._execute_again(entry)
            self._execute_withdrawn()
        self._answer_stably(Probe.STABLE_FROM_EXECUTION)
        self._proceed()

    def _execute_withdrawn(self) -> None:
        for entry in self._store.take_withdrawn():
            self._withdrawn(entry)

    def _execute_again(self, entry: Entry) -> None:
        entry.losses += 1
        self._scheduler.add(entry)

    def _hand_out(self) -> None:
        while (entry := self._scheduler.start(self._task_number + 1)) is not None:
            self._task_number += 1
            self._outbox.tasks.append(Task(self._task_number, Work.EXECUTE, entry.request))

    def _answer_stably(self, probe: Probe) -> None:
        """What is committed, and executed like all before it that may write, can be answered for
        good."""
        committed, entries = self._order.committed, self._entries
        while self._done < len(committed) and entries[committed[self._done].id].is_executed:
            self._done += 1
        while self._written < len(committed):
            request = committed[self._written]
            entry = entries[request.id]
            if entry.is_executed:
                self._answer_for_good(entry, probe)
            elif request.operation.name not in self._readonly:
                return
            self._written += 1

    def _answer_for_good(self, entry: Entry, probe: Probe) -> None:
        request = entry.request
        if request.strong:
            assert entry.outcome is not None
            if self._answers.stably(request.id, entry.outcome):
                self.probes.hit(probe)

    # --- what is settled ----------------------------------------------------------------------

    def executed_length(self) -> int:
        return self._order.first + self._done

    def settle_request(self, request: Request) -> Outcome:
        entry = self._entries.pop(request.id)
        self._store.settle(entry)
        assert entry.outcome is not None
        return entry.outcome

    def digest(self) -> int | None:
        return None if self._state_digest is None else self._state_digest.value

    def sum_up(self, length: int) -> None:
        self._done -= length - self._order.first
        self._written -= length - self._order.first

    def settled_state(self) -> Iterator[tuple[Key, Any]]:
        return self._store.settled_items()

    def registers(self) -> SettledImage | None:
        return self._store.image() if self._settings.drafts else None

    def register_count(self) -> int:
        return self._store.register_count()

    def intake(self) -> Arrivals:
        digested, ordered = self._state_digest is not None, bool(self._settings.drafts)
        return Arrivals(self._datatype.base, digested, ordered)

    def _load(self, arrived: Arrivals) -> None:
        self._store.load(arrived)
        self._scheduler.clear()
        self._done = self._written = 0
        for entry in self._entries.values():
            for each in (entry, entry.stretch):
                if each is not None:  # or it would be kept alive by what it wrote and read
                    each.forget()
                    each.hidden = NO_VERSIONS
            entry.after = entry.stretch = None
        self._entries = {}

    # --- for those who look on ----------------------------------------------------------------

    def is_seen(self, id: Dot) -> bool:
        """Where several are executed at once, what has its place may be executed later than what
        comes behind it."""
        entry = self._entries.get(id)
        if entry is None or self._settings.parallelism == 1:
            return self.has(id)
        return self._scheduler.is_done_up_to(entry.position)

    def readable_lengths(self) -> range:
        return range(self._settled.length, self.executed_length() + 1)

    def committed_items(self, length: int, start: Place, stop: Place) -> Iterator[tuple[Key, Any]]:
        view = self._store.snapshot(committed_position(length))
        return ((key, view.read(key)) for key in view.keys(start, stop, reverse=False))

    def state(self) -> dict[Key, Any]:
        return self._datatype.changes(self._store.values())

    def idle(self) -> bool:
        return self._scheduler.idle()
