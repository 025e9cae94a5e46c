"""Merged runs: many old tentative requests as one entry of the version store.

Section 4.4: "snapshots that represent some prefix", from which versions can be recreated. Runs are
split again when a request before them, or inside, changes.
"""

from typing import Final

from creekdb.execution.mvcc.entry import (
    ExecutionPhase,
    MergedRun,
    RequestEntry,
    committed_position,
)
from creekdb.protocol.ids.version_vector import Dot
from creekdb.protocol.probes import Probe
from creekdb.protocol.request import OrderKey, Request
from creekdb.schemes.core.execution import ReplicaVariables
from creekdb.schemes.core.tentative_responses import TentativeResponses
from creekdb.schemes.core.versioned import VersionedExecution

MERGED_RUN_MAX: Final = 256
"""Number of requests in one merged run, at most."""


class RunMerging:
    def __init__(
        self,
        variables: ReplicaVariables,
        execution: VersionedExecution,
        tentative_responses: TentativeResponses,
    ) -> None:
        self._order = variables.order
        self._probes = variables.probes
        self._kept_apart = variables.settings.kept_apart
        self._reports_changes = bool(variables.settings.report_changes)
        self._execution = execution
        self._store = execution.store
        self._tentative_responses = tentative_responses
        self._run_length = max(2, min(MERGED_RUN_MAX, self._kept_apart // 2))
        self._merged_up_to: OrderKey | None = None
        self._merge_above = self._kept_apart
        """Number of separate requests above which some are merged. It is raised after a split, so
        that the same requests are not merged and split repeatedly."""
        self._merge_pause = 0
        """Completed executions until the next attempt to merge."""

    def clear(self) -> None:
        self._merged_up_to = None
        self._merge_above, self._merge_pause = self._kept_apart, 0

    def merge_oldest(self) -> None:
        """Merge the oldest requests, keeping only their final versions."""
        execution = self._execution
        if len(execution.entries) - execution.merged_count <= self._merge_above:
            return
        if self._merge_pause > 0:
            self._merge_pause -= 1
            return
        candidates: list[RequestEntry] = []
        for request in self._order.tentative_after(self._merged_up_to):
            entry = execution.entries[request.id]
            if entry.phase is ExecutionPhase.MERGED:
                candidates.clear()  # too few requests between two merged runs: they stay separate
                self._merged_up_to = request.key
            elif entry.phase is ExecutionPhase.EXECUTED and len(candidates) < self._run_length:
                candidates.append(entry)
            else:
                break
        if len(candidates) == self._run_length and self._store.is_valid_up_to(
            candidates[-1].position
        ):
            self._probes.hit(Probe.RUN_MERGED)
            self._store.merged_runs.merge(candidates)
            execution.merged_count += len(candidates)
            for entry in candidates:
                entry.estimate = None
            self._merged_up_to = candidates[-1].request.key
            self._merge_above = self._kept_apart
        else:
            self._merge_pause = self._run_length

    def reschedule_rolled_back(self) -> None:
        """Execute again what is no longer valid: a request, or all members of a merged run."""
        for entry in self._store.take_rolled_back():
            if isinstance(entry, MergedRun):
                self._split(entry)
            else:
                self._probes.hit(Probe.ROLLED_BACK)
                self._tentative_responses.count_pending(entry)
                self._execution.reschedule(entry)

    def replace_member(self, entry: RequestEntry) -> None:
        """Replace the entry's part of a split run by its new execution."""
        run = entry.merged_run
        if run is not None:
            entry.merged_run = None
            run.pending_entries.pop(entry, None)
            if not run.pending_entries:
                self._finish_split(run)

    def commit_member(
        self, entry: RequestEntry, run: MergedRun, index: int, barrier: Request | None
    ) -> None:
        """Commit the merged run as a whole if it keeps its position; otherwise split it.

        A replica that reports changes always splits it, to learn the writes of each request.
        """
        last = run.entries[-1]
        if (
            run.phase is ExecutionPhase.EXECUTED
            and not self._reports_changes
            and (barrier is None or last.request.key < barrier.key)
        ):
            if entry is run.entries[0]:
                run.start_position = committed_position(index)
            if entry is last:
                self._store.renumber(run, committed_position(index))
            return
        if run.phase is ExecutionPhase.EXECUTED:
            self._store.split(run)
            self.reschedule_rolled_back()
        for member in run.pending_entries:
            member.merged_run = None
        self._finish_split(run)

    def _split(self, run: MergedRun) -> None:
        """Execute the entries again: a request before the merged run, or inside it, changed."""
        self._probes.hit(Probe.RUN_SPLIT)
        execution = self._execution
        execution.merged_count -= len(run.entries)
        self._merge_above = len(execution.entries) - execution.merged_count + self._run_length
        # A merged run that was committed with a late request inside may have been counted already.
        execution.count_again_from(run.entries[0].position)
        first = run.entries[0].request
        before = OrderKey(first.timestamp, Dot(first.id.replica, first.id.event - 1))
        if self._merged_up_to is not None and before < self._merged_up_to:
            self._merged_up_to = before
        for entry in run.entries:
            entry.phase = ExecutionPhase.WAITING
            run.pending_entries[entry] = None
            self._tentative_responses.count_pending(entry)
            execution.schedule_again(entry)

    def _finish_split(self, run: MergedRun) -> None:
        self._store.finish_split(run)
        self.reschedule_rolled_back()
        self._tentative_responses.respond_blocked_by(run)
        self._execution.respond_after_split(run)
