"""Archie, a speculative state machine: what Section 6 compares Creek with, on the same broadcasts.

Every operation is ordered by indirect atomic broadcast. When a leader proposes it, that is the
*optimistic delivery*: as long as the leader stays the same, the order of proposals is the order of
decisions. From then on it is executed, concurrently and on the version store, at the place it will
probably get. Answers are withheld until the order is decided.
"""

from collections.abc import Iterator

from sortedcontainers import SortedList

from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.entry import Entry, Position, committed_position, optimistic_position
from creekdb.execution.mvcc.state_loader import Arrivals
from creekdb.protocol.effects import Speculated
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Batch, Request
from creekdb.protocol.settings import Settings
from creekdb.schemes.core.versioned import VersionedReplica


class ArchieReplica(VersionedReplica):
    orders_everything = True
    answers_tentatively = False

    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        super().__init__(index, settings, datatype)
        self._optimistic: SortedList[Position] = SortedList()
        """Where the requests stand that are proposed and not decided."""
        self._promised: dict[Dot, Position] = {}
        """Places of requests that are proposed and not here yet."""

    def tick(self, now: int) -> None:
        self._forget_unkept()
        super().tick(now)

    # --- inputs -------------------------------------------------------------------------------

    def proposed(self, instance: int, batch: Batch) -> None:
        """The optimistic delivery."""
        for place, id in enumerate(batch):
            if id in self._entries or self.is_committed(id):
                continue
            position = optimistic_position(instance, place, id)
            request = self._order.find_tentative(id)
            if request is None:
                self._promised[id] = position
            else:
                self._speculate(request, position)

    # --- the order changes --------------------------------------------------------------------

    def _inserted(self, request: Request) -> None:
        position = self._promised.pop(request.id, None)
        if position is not None:
            self._speculate(request, position)

    def _speculate(self, request: Request, position: Position) -> None:
        self._optimistic.add(position)
        self._place(request, position)

    def _place(self, request: Request, position: Position) -> None:
        entry = self._entries[request.id] = Entry(request, position)
        self._scheduler.add(entry)

    def _committed(self, moved: list[Request]) -> None:
        (request,) = moved
        position = committed_position(self._order.length - 1)
        entry = self._entries.get(request.id)
        if entry is None:
            self.probes.hit(Probe.DECIDED_UNPROPOSED)
            self._place(request, position)
        else:
            self._confirm(entry, position)
        self._answer_stably(Probe.STABLE_FROM_COMMIT)

    def _confirm(self, entry: Entry, position: Position) -> None:
        """The order turned out as it was proposed, or the entry has to be looked at."""
        waited = self._scheduler.remove(entry)
        self._optimistic.remove(entry.position)
        if not self._optimistic or entry.position < self._optimistic[0]:
            self._store.rename(entry, position)
        else:
            self.probes.hit(Probe.DECIDED_OTHERWISE)
            self._store.move(entry, position)
        if waited:
            self._scheduler.add(entry)
        self._execute_withdrawn()

    def _forget_unkept(self) -> None:
        """What an instance that is delivered was to bring and did not, need not be waited for."""
        delivered = self._broadcasts.cab.learner.delivered
        for id in [id for id, place in self._promised.items() if place[1] < delivered]:
            del self._promised[id]

    # --- executing ----------------------------------------------------------------------------

    def _executed(self, entry: Entry) -> None:
        request = entry.request
        if request.id in self._answers.awaiting and not self.is_committed(request.id):
            assert entry.outcome is not None
            self._outbox.events.append(Speculated(request.id, entry.outcome))

    def _withdrawn(self, entry: Entry) -> None:
        self.probes.hit(Probe.ROLLED_BACK)
        self._execute_again(entry)

    # --- what is settled ----------------------------------------------------------------------

    def _executed_before(self, request: Request) -> Iterator[Dot]:
        raise AssertionError("nothing is answered before its order is decided")

    def _load(self, arrived: Arrivals) -> None:
        before = self._entries
        super()._load(arrived)
        self._optimistic.clear()
        for id, entry in before.items():
            if self._order.find_tentative(id) is not None:
                self._speculate(entry.request, entry.position)
        for id in [id for id in self._promised if self.is_committed(id)]:
            del self._promised[id]
