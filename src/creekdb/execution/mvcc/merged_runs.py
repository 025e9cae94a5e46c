"""Merged runs: one entry for many requests, when `tentative` grows long.

Section 4.4 calls them "complete snapshots". A merged run replaces requests that were executed one
after another. It holds their reads from before the run, and the versions that they left; versions
in between are dropped. A change before or inside the run rolls it back like any other entry. Its
members are then executed again one by one, which recreates their versions.

This module merges, and keeps an index of the intact runs. `version_store` decides on rollbacks.
"""

from bisect import bisect_right, insort

from creekdb.execution.mvcc.entry import ExecutionPhase, MergedRun, RequestEntry, position_of
from creekdb.execution.mvcc.read_index import ReadIndex, union_ranges
from creekdb.execution.mvcc.register_table import RegisterTable
from creekdb.execution.mvcc.version_chain import union_items
from creekdb.execution.result import ExecutionResult


class MergedRuns:
    """Intact merged runs of a version store."""

    def __init__(self, table: RegisterTable, read_index: ReadIndex) -> None:
        self._table = table
        self._read_index = read_index
        self.intact_runs: list[MergedRun] = []
        """Intact runs in the order of their positions."""

    def merge(self, members: list[RequestEntry]) -> MergedRun:
        """Replace consecutive entries, all executed and without pending rollbacks, by one."""
        self._table.record_full_change()
        run = MergedRun(members)
        run.phase = ExecutionPhase.EXECUTED
        run.reads, run.picks, run.versions = {}, {}, {}
        member_set = set(members)
        for entry in members:
            self._absorb_reads(entry, run, member_set)
            run.versions.update(entry.versions)
        for key, version in run.versions.items():
            self._table.chain(key).merge(version, run, member_set)
        adds = {key: None for entry in members for key in entry.blind_adds}
        ranges = union_ranges(scanned for entry in members for scanned in entry.scanned_ranges)
        self._read_index.add_blind_adds(run, adds)
        self._read_index.add_ranges(run, ranges)
        for entry in members:
            self._read_index.mark_unsorted(entry)
            self._read_index.remove(entry)
            entry.phase = ExecutionPhase.MERGED
            entry.merged_run = run
        insort(self.intact_runs, run, key=position_of)
        return run

    def find_conflict(self, entry: RequestEntry, execution: ExecutionResult) -> MergedRun | None:
        """Return the run around `entry` that wrote a register which `entry` read or wrote.

        Return None if there is no such run. Additions do not conflict with a run that only added
        to the register as well, and did not read the sum.
        """
        index = bisect_right(self.intact_runs, entry.position, key=position_of)
        if (
            index == len(self.intact_runs)
            or self.intact_runs[index].start_position > entry.position
        ):
            return None
        run = self.intact_runs[index]
        touched = (*execution.read_set.reads, *execution.writes)
        written = run.versions
        has_conflict = any(key in written for key in touched) or any(
            key in written and (key in run.reads or not written[key].is_delta)
            for key in execution.blind_adds
        )
        return run if has_conflict else None

    def _absorb_reads(
        self, entry: RequestEntry, run: MergedRun, member_set: set[RequestEntry]
    ) -> None:
        for key, (version, value) in (entry.base_reads | entry.reads).items():
            if version is not None and version.writer in member_set:
                if not version.is_delta:
                    continue
                # The sum may include a value from before the run.
                version, value = self._table.read_at(key, run.start_position)
            items = entry.picks.get(key)
            if key not in run.reads:
                self._read_index.record_read(run, key, version, value)
                if items is not None:
                    run.picks[key] = items
            elif key in run.picks:
                if items is None:
                    del run.picks[key]
                else:
                    run.picks[key] = union_items(run.picks[key], items)
