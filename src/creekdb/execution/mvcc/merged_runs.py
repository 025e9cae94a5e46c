"""Many requests as one, when `tentative` grows long (Section 4.4: "complete snapshots").

A stretch stands for requests that were executed one after the other: it has read what they read
from before them, and wrote what they left behind. What lay between need not be kept. When something
changes before it, or inside, it is withdrawn like any other entry, and its members are executed
again, each for itself: that recreates their versions.

This module merges, and knows which stretches are whole. What is withdrawn is decided in `versions`.
"""

from bisect import bisect_right, insort

from creekdb.execution.mvcc.entry import ExecutionPhase, MergedRun, Position, RequestEntry
from creekdb.execution.mvcc.read_index import ReadIndex, union_ranges
from creekdb.execution.mvcc.register_table import RegisterTable
from creekdb.execution.mvcc.version_chain import union_items
from creekdb.execution.result import ExecutionResult


class MergedRuns:
    __slots__ = ("_read_index", "_table", "intact_runs")

    def __init__(self, contents: RegisterTable, readership: ReadIndex) -> None:
        self._table = contents
        self._read_index = readership
        self.intact_runs: list[MergedRun] = []
        """In their order."""

    def merge(self, members: list[RequestEntry]) -> MergedRun:
        """Let one entry stand for these. All are executed and sure, and no other is among them."""
        self._table.record_full_change()
        stretch = MergedRun(members)
        stretch.phase = ExecutionPhase.EXECUTED
        stretch.reads, stretch.picks, stretch.versions = {}, {}, {}
        inside = set(members)
        for entry in members:
            self._absorb_reads(entry, stretch, inside)
            stretch.versions.update(entry.versions)
        for key, version in stretch.versions.items():
            self._table.chain(key).merge(version, stretch, inside)
        adds = {key: None for entry in members for key in entry.blind_adds}
        ranges = union_ranges(passed for entry in members for passed in entry.scanned_ranges)
        self._read_index.add_blind_adds(stretch, adds)
        self._read_index.add_ranges(stretch, ranges)
        for entry in members:
            self._read_index.mark_unsorted(entry)
            self._read_index.remove(entry)
            entry.phase = ExecutionPhase.MERGED
            entry.merged_run = stretch
        insort(self.intact_runs, stretch, key=_position)
        return stretch

    def find_conflict(self, entry: RequestEntry, execution: ExecutionResult) -> MergedRun | None:
        """In the midst of which one did it read or write what that wrote? Additions change nothing
        for a stretch that only added as well, and did not look at the sum."""
        index = bisect_right(self.intact_runs, entry.position, key=_position)
        if (
            index == len(self.intact_runs)
            or self.intact_runs[index].start_position > entry.position
        ):
            return None
        stretch = self.intact_runs[index]
        touched = (*execution.read_set.reads, *execution.writes)
        written = stretch.versions
        if not any(key in written for key in touched) and not any(
            key in written and (key in stretch.reads or not written[key].is_delta)
            for key in execution.blind_adds
        ):
            return None
        return stretch

    def _absorb_reads(
        self, entry: RequestEntry, stretch: MergedRun, inside: set[RequestEntry]
    ) -> None:
        for key, (version, value) in entry.all_reads().items():
            if version is not None and version.writer in inside:
                if not version.is_delta:
                    continue
                # A sum that stands on what came before the stretch, for all one knows.
                version, value = self._table.read_at(key, stretch.start_position)
            items = entry.picks.get(key)
            if key not in stretch.reads:
                self._read_index.record_read(stretch, key, version, value)
                if items is not None:
                    stretch.picks[key] = items
            elif key in stretch.picks:
                if items is None:
                    del stretch.picks[key]
                else:
                    stretch.picks[key] = union_items(stretch.picks[key], items)


def _position(entry: RequestEntry) -> Position:
    return entry.position
