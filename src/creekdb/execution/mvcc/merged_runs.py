"""Many requests as one, when `tentative` grows long (Section 4.4: "complete snapshots").

A stretch stands for requests that were executed one after the other: it has read what they read
from before them, and wrote what they left behind. What lay between need not be kept. When something
changes before it, or inside, it is withdrawn like any other entry, and its members are executed
again, each for itself: that recreates their versions.

This module merges, and knows which stretches are whole. What is withdrawn is decided in `versions`.
"""

from bisect import bisect_right, insort

from creekdb.execution.mvcc.entry import Entry, Phase, Position, Stretch
from creekdb.execution.mvcc.read_index import Readership, united
from creekdb.execution.mvcc.register_table import Contents
from creekdb.execution.mvcc.version_chain import united_items
from creekdb.execution.result import Execution


class Stretches:
    __slots__ = ("_contents", "_readership", "whole")

    def __init__(self, contents: Contents, readership: Readership) -> None:
        self._contents = contents
        self._readership = readership
        self.whole: list[Stretch] = []
        """In their order."""

    def merge(self, members: list[Entry]) -> Stretch:
        """Let one entry stand for these. All are executed and sure, and no other is among them."""
        self._contents.note_upheaval()
        stretch = Stretch(members)
        stretch.phase = Phase.EXECUTED
        stretch.reads, stretch.picks, stretch.versions = {}, {}, {}
        inside = set(members)
        for entry in members:
            self._take_over_reads(entry, stretch, inside)
            stretch.versions.update(entry.versions)
        for key, version in stretch.versions.items():
            self._contents.chain(key).merge(version, stretch, inside)
        adds = {key: None for entry in members for key in entry.adds}
        ranges = united(passed for entry in members for passed in entry.ranges)
        self._readership.note_adds(stretch, adds)
        self._readership.note_ranges(stretch, ranges)
        for entry in members:
            self._readership.disturb(entry)
            self._readership.forget(entry)
            entry.phase = Phase.MERGED
            entry.stretch = stretch
        insort(self.whole, stretch, key=_position)
        return stretch

    def disturbed_by(self, entry: Entry, execution: Execution) -> Stretch | None:
        """In the midst of which one did it read or write what that wrote? Additions change nothing
        for a stretch that only added as well, and did not look at the sum."""
        index = bisect_right(self.whole, entry.position, key=_position)
        if index == len(self.whole) or self.whole[index].start > entry.position:
            return None
        stretch = self.whole[index]
        touched = (*execution.seen.reads, *execution.writes)
        written = stretch.versions
        if not any(key in written for key in touched) and not any(
            key in written and (key in stretch.reads or not written[key].delta)
            for key in execution.adds
        ):
            return None
        return stretch

    def _take_over_reads(self, entry: Entry, stretch: Stretch, inside: set[Entry]) -> None:
        for key, (version, value) in entry.all_reads().items():
            if version is not None and version.writer in inside:
                if not version.delta:
                    continue
                # A sum that stands on what came before the stretch, for all one knows.
                version, value = self._contents.at(key, stretch.start)
            items = entry.picks.get(key)
            if key not in stretch.reads:
                self._readership.note(stretch, key, version, value)
                if items is not None:
                    stretch.picks[key] = items
            elif key in stretch.picks:
                if items is None:
                    del stretch.picks[key]
                else:
                    stretch.picks[key] = united_items(stretch.picks[key], items)


def _position(entry: Entry) -> Position:
    return entry.position
