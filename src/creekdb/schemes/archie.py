"""Archie, a speculative state machine that Section 6 compares Creek with, on the same broadcasts.

Every operation is ordered by indirect atomic broadcast. A leader's proposal is the *optimistic
delivery* of an operation: as long as the leader stays the same, operations are decided in the order
of their proposals. From then on the operation is executed, concurrently and on the version store,
at its expected position. Responses are withheld until the order is decided.
"""

from collections.abc import Iterator
from typing import Final

from sortedcontainers import SortedList

from creekdb.execution.datatype import DataType
from creekdb.execution.mvcc.entry import (
    Position,
    RequestEntry,
    committed_position,
    optimistic_position,
)
from creekdb.execution.mvcc.state_loader import StateLoader
from creekdb.protocol.effects import SpeculativelyExecuted
from creekdb.protocol.guarantees import SchemeGuarantees
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import Batch, Request
from creekdb.protocol.settings import Settings
from creekdb.schemes.core.spec import (
    CAUSAL_CONTEXTS,
    TENTATIVE_RESPONSES,
    VERSION_STORE,
    ChartLine,
    SchemeChart,
    SchemeSpec,
)
from creekdb.schemes.core.versioned import VersionedReplica


class ArchieReplica(VersionedReplica):
    has_total_order = True
    has_tentative_responses = False

    def __init__(self, index: int, settings: Settings, datatype: DataType) -> None:
        super().__init__(index, settings, datatype)
        self._optimistic_positions: SortedList[Position] = SortedList()
        """Positions of the entries that are proposed and not decided, ascending."""
        self._proposed_positions: dict[Dot, Position] = {}
        """Positions of requests that are proposed and have not arrived."""

    def tick(self, now: int) -> None:
        self._expire_proposals()
        super().tick(now)

    # --- inputs -------------------------------------------------------------------------------

    def on_proposed(self, instance: int, batch: Batch) -> None:
        """Execute the batch at its expected positions: the optimistic delivery."""
        for offset, id in enumerate(batch):
            if id in self._entries or self.is_committed(id):
                continue
            position = optimistic_position(instance, offset, id)
            request = self._order.find_tentative(id)
            if request is None:
                self._proposed_positions[id] = position
            else:
                self._speculate(request, position)

    # --- the order changes --------------------------------------------------------------------

    def _on_inserted(self, request: Request) -> None:
        position = self._proposed_positions.pop(request.id, None)
        if position is not None:
            self._speculate(request, position)

    def _speculate(self, request: Request, position: Position) -> None:
        self._optimistic_positions.add(position)
        self._add_entry(request, position)

    def _add_entry(self, request: Request, position: Position) -> None:
        entry = self._entries[request.id] = RequestEntry(request, position)
        self._scheduler.add(entry)

    def _on_committed(self, moved: list[Request]) -> None:
        (request,) = moved
        position = committed_position(self._order.length - 1)
        entry = self._entries.get(request.id)
        if entry is None:
            self.probes.hit(Probe.DECIDED_UNPROPOSED)
            self._add_entry(request, position)
        else:
            self._confirm(entry, position)
        self._respond_to_stable_prefix(Probe.STABLE_FROM_COMMIT)

    def _confirm(self, entry: RequestEntry, position: Position) -> None:
        """Renumber the entry if the decided order is the proposed one; otherwise move it."""
        was_queued = self._scheduler.remove(entry)
        self._optimistic_positions.remove(entry.position)
        if not self._optimistic_positions or entry.position < self._optimistic_positions[0]:
            self._store.renumber(entry, position)
        else:
            self.probes.hit(Probe.DECIDED_OUT_OF_PROPOSED_ORDER)
            self._store.move(entry, position)
        if was_queued:
            self._scheduler.add(entry)
        self._handle_rollbacks()

    def _expire_proposals(self) -> None:
        """Drop the positions of requests that their instances, now delivered, did not contain."""
        delivered = self._stack.cab.learner.delivered
        for id in [
            id for id, position in self._proposed_positions.items() if position[1] < delivered
        ]:
            del self._proposed_positions[id]

    # --- execution ----------------------------------------------------------------------------

    def _on_executed(self, entry: RequestEntry) -> None:
        request = entry.request
        if request.id in self._responses.awaiting and not self.is_committed(request.id):
            assert entry.outcome is not None
            self._outbox.events.append(SpeculativelyExecuted(request.id, entry.outcome))

    def _on_rolled_back(self, entry: RequestEntry) -> None:
        self.probes.hit(Probe.ROLLED_BACK)
        self._reschedule(entry)

    # --- stable prefix ------------------------------------------------------------------------

    def _executed_before(self, request: Request) -> Iterator[Dot]:
        raise AssertionError("Archie sends no response before the order is decided")

    def _load(self, loader: StateLoader) -> None:
        previous_entries = self._entries
        super()._load(loader)
        self._optimistic_positions.clear()
        for id, entry in previous_entries.items():
            if self._order.find_tentative(id) is not None:
                self._speculate(entry.request, entry.position)
        for id in [id for id in self._proposed_positions if self.is_committed(id)]:
            del self._proposed_positions[id]


SPEC: Final = SchemeSpec(
    name="archie",
    create=ArchieReplica,
    description="speculative state machine: executes proposals, responds to decisions",
    guarantees=SchemeGuarantees(contexts=False, tentative=False),
    unreachable_probes=(*VERSION_STORE, *CAUSAL_CONTEXTS, *TENTATIVE_RESPONSES),
    label="Archie",
    chart=SchemeChart(
        colours=("#b04a0c", "#f0975a"),
        shape="square",
        lines=(
            ChartLine("weak stable", "weak_tentative", "solid", "circle"),
            ChartLine("weak would-be tentative", "weak_speculated", "dotted", "circle"),
            ChartLine("strong stable", "strong_stable", "solid", "square"),
            ChartLine(
                "strong would-be tentative", "strong_speculated", "dotted", "square", shown=False
            ),
        ),
    ),
)
