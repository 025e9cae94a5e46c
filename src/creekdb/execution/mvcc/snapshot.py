"""Snapshot of one execution: the state after all requests before it, and a record of its reads.

The store validates a snapshot when the execution ends. A snapshot is valid if every read would
return the same again. Only registers that changed meanwhile are read again. Equal values count as
the same. Where a read picked some items of a value, only these are compared.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from creekdb.execution.keys import CollationKey, collation_key
from creekdb.execution.mvcc.entry import (
    NO_PICKS,
    NO_READS,
    Picks,
    Position,
    Read,
    ScannedRange,
    Version,
)
from creekdb.execution.mvcc.register_table import RegisterTable
from creekdb.execution.mvcc.version_chain import FROM_BASE, VersionChain, is_same_read, union_items
from creekdb.execution.transaction import ABSENT, RangeScan
from creekdb.protocol.values import Key

AddabilityCheck: TypeAlias = tuple[Key, bool]
"""Register whose addability was checked, and the result of the check."""

NO_RANGES: Final[list[ScannedRange]] = []
NO_ADDS: Final[dict[Key, None]] = {}
"""Shared by all snapshots that have none, and never modified."""


class RecordedReads:
    """Reads of one execution, for another one that may read the same values elsewhere."""

    __slots__ = ("addability_checks", "base_reads", "keys", "picks", "reads")

    def __init__(self, snapshot: "StoreSnapshot", addability_checks: list[AddabilityCheck]) -> None:
        self.base_reads = snapshot.base_reads
        self.reads: list[tuple[Key, Any]] = [(key, read[1]) for key, read in snapshot.reads.items()]
        self.picks = snapshot.picks
        self.addability_checks = addability_checks
        self.keys = snapshot.read_keys()


class StoreSnapshot:
    """State that one execution reads, with a record of its reads. A `View`."""

    __slots__ = (
        "_position",
        "_read_keys",
        "_table",
        "base_reads",
        "blind_adds",
        "change_count",
        "picks",
        "reads",
        "scanned_ranges",
    )

    def __init__(self, table: RegisterTable, position: Position) -> None:
        self._table = table
        self._position = position
        self.change_count = table.change_count
        self.base_reads: dict[Key, Read] = NO_READS
        """Reads of registers that were never written."""
        self.reads: dict[Key, Read] = {}
        """All other reads."""
        self.scanned_ranges: list[ScannedRange] = NO_RANGES
        self.blind_adds: dict[Key, None] = NO_ADDS
        self.picks: Picks = NO_PICKS
        self._read_keys: set[Key] | None = None

    # --- as a view -------------------------------------------------------------------------------

    def read(self, key: Key) -> Any:
        read = self.reads.get(key) or self.base_reads.get(key) or self._look_up(key)
        if self.picks and key in self.picks:
            del self.picks[key]
        return read[1]

    def pick(self, key: Key, items: tuple[int | str, ...]) -> Any:
        read = self.reads.get(key) or self.base_reads.get(key)
        if read is None:
            if self.picks is NO_PICKS:
                self.picks = {}
            self.picks[key] = items
            read = self._look_up(key)
        elif key in self.picks and self.picks[key] != items:
            self.picks[key] = union_items(self.picks[key], items)
        return read[1]

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        """Yield keys. Only the part of the range that the operation iterates counts as read."""
        scanned = ScannedRange(stop, stop) if reverse else ScannedRange(start, start)
        if self.scanned_ranges is NO_RANGES:
            self.scanned_ranges = []
        self.scanned_ranges.append(scanned)
        for key in self._table.known_keys(start, stop, reverse):
            current = collation_key(key)
            if reverse:
                scanned.start = current
            else:
                scanned.stop = (*current, -1)  # directly after the key, before any other
            if self.read(key) is not ABSENT:
                yield key
        scanned.start, scanned.stop = start, stop

    def pick_range(
        self, scan: RangeScan, items: tuple[int | str, ...], limit: int
    ) -> list[tuple[Key, Any]]:
        """Return the next keys of a scan. The range up to the last one counts as read."""
        start, stop, reverse = scan.start, scan.stop, scan.reverse
        found: list[tuple[Key, Any]] = []
        for key in self._table.known_keys(start, stop, reverse):
            value = self.pick(key, items)
            if value is not ABSENT:
                found.append((key, value))
                if len(found) == limit:
                    rest = scan.after(key)
                    start, stop = (rest.stop, stop) if reverse else (start, rest.start)
                    break
        ranges = self.scanned_ranges
        if ranges and not reverse and ranges[-1].stop == start:
            ranges[-1].stop = stop
        elif ranges and reverse and ranges[-1].start == stop:
            ranges[-1].start = start
        elif ranges:
            ranges.append(ScannedRange(start, stop))
        else:
            self.scanned_ranges = [ScannedRange(start, stop)]
        return found

    def is_addable(self, key: Key) -> bool:
        if not self._table.is_addable(key):
            return False
        if self.blind_adds is NO_ADDS:
            self.blind_adds = {}
        self.blind_adds[key] = None
        return True

    def _look_up(self, key: Key) -> Read:
        table = self._table
        content = table.registers.get(key, FROM_BASE)
        if isinstance(content, Version) or isinstance(content, VersionChain):  # noqa: SIM101 - compiled
            read = self.reads[key] = table.read_at(key, self._position)
            return read
        if content is not FROM_BASE:
            read = self.reads[key] = None, content
            return read
        if self.base_reads is NO_READS:
            self.base_reads = {}
        read = self.base_reads[key] = None, table.base.read(key)
        return read

    # --- recorded reads --------------------------------------------------------------------------

    def read_keys(self) -> set[Key]:
        """Return the registers that were read one by one. The set must not be modified."""
        keys = self._read_keys
        if keys is None:
            keys = set(self.reads)
            keys.update(self.base_reads)
            keys.update(self.blind_adds)
            self._read_keys = keys
        return keys

    def reset(self) -> None:
        """Drop all recorded reads."""
        self.change_count = self._table.change_count
        self.base_reads, self.reads, self.scanned_ranges = NO_READS, {}, NO_RANGES
        self.blind_adds, self.picks = NO_ADDS, NO_PICKS
        self._read_keys = None

    def replay(self, recorded: RecordedReads) -> bool:
        """Return True if all reads of another snapshot return the same here, and record them.

        This covers initial data, other values, picked items of either, and addability checks. If
        any differs, nothing is recorded.
        """
        table, position, picks = self._table, self._position, recorded.picks
        reads: dict[Key, Read] = {}
        for key, value in recorded.reads:
            read = table.read_at(key, position)
            reads[key] = read
            if read[1] is not value and not is_same_read(read[1], value, picks.get(key)):
                return False
        base_reads = recorded.base_reads
        for key in table.written_keys(base_reads):
            read = reads[key] = table.read_at(key, position)
            if not is_same_read(read[1], base_reads[key][1], picks.get(key)):
                return False
        for key, addable in recorded.addability_checks:
            if table.is_addable(key) is not addable:
                return False
        self.base_reads, self.reads, self.picks = base_reads, reads, picks
        if recorded.addability_checks:
            self.blind_adds = {key: None for key, addable in recorded.addability_checks if addable}
        self._read_keys = recorded.keys
        return True

    # --- validation ------------------------------------------------------------------------------

    def is_current(self) -> bool:
        """True if every read would return the same again."""
        return self.is_valid_at(self._position, moved_ahead=False)

    def is_valid_at(self, position: Position, moved_ahead: bool) -> bool:
        """True if every read would return the same at `position`, the current one of the entry.

        `moved_ahead` is True if the entry now precedes others that it used to follow.
        """
        table = self._table
        if not moved_ahead:
            if table.change_count == self.change_count:
                return True
            changed = table.changed_since(self.change_count)
            if changed is not None and not self.scanned_ranges:
                return self._revalidate_changed(changed, position)
        return self._revalidate_all(position)

    def _revalidate_changed(self, changed: list[set[Key]], position: Position) -> bool:
        keys = self.read_keys()
        touched: set[Key] = set()
        for changed_keys in changed:
            if not keys.isdisjoint(changed_keys):
                touched.update(keys & changed_keys)
        return not touched or (self._revalidate(touched, position) and self._can_still_add())

    def _revalidate_all(self, position: Position) -> bool:
        table, reads, base_reads = self._table, self.reads, self.base_reads
        if not self._revalidate((*reads, *table.written_keys(base_reads)), position):
            return False
        for scanned in self.scanned_ranges:
            for key in table.known_keys(scanned.start, scanned.stop, False):
                if key not in reads and key not in base_reads:  # new since the scan
                    read = reads[key] = table.read_at(key, position)
                    if read[1] is not ABSENT:
                        return False
                    self._read_keys = None
        return self._can_still_add()

    def _revalidate(self, keys: Iterable[Key], position: Position) -> bool:
        """True if the reads among these registers would return the same. Record the versions."""
        table, reads, base_reads, picks = self._table, self.reads, self.base_reads, self.picks
        for key in keys:
            read = reads.get(key) or base_reads.get(key)
            if read is None:
                continue  # only added to
            current = table.read_at(key, position)
            if current[0] is not read[0] or current[1] is not read[1]:
                if not is_same_read(current[1], read[1], picks.get(key)):
                    return False
                reads[key] = current
        return True

    def _can_still_add(self) -> bool:
        return all(self._table.is_addable(key) for key in self.blind_adds)
