"""What one execution sees: the state as all requests before it left it, and what it looked at.

Whether it would see the same again is asked when the execution is over. Then only registers that
were changed meanwhile have to be looked at once more. What is equal is taken for the same, and of a
value of which some items were picked, so are these.
"""

from collections.abc import Iterator
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
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key

AddabilityCheck: TypeAlias = tuple[Key, bool]
"""Of a register it was asked whether one can add to it; and what it was told."""

NO_RANGES: Final[list[ScannedRange]] = []
NO_ADDS: Final[dict[Key, None]] = {}
"""Shared by all snapshots that have none, and never written to."""


class RecordedReads:
    """What an execution looked at, for another one that may see the same elsewhere."""

    __slots__ = ("addability_checks", "base_reads", "keys", "picks", "reads")

    def __init__(self, snapshot: "StoreSnapshot", told: list[AddabilityCheck]) -> None:
        self.base_reads = snapshot.base_reads
        self.reads: list[tuple[Key, Any]] = [(key, read[1]) for key, read in snapshot.reads.items()]
        self.picks = snapshot.picks
        self.addability_checks = told
        self.keys = snapshot.read_keys()


class StoreSnapshot:
    """What one execution sees, and a record of what it looked at. A `View`."""

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

    def __init__(self, contents: RegisterTable, position: Position) -> None:
        self._table = contents
        self._position = position
        self.change_count = contents.change_count
        self.base_reads: dict[Key, Read] = NO_READS
        """What it read of registers that nobody had written to."""
        self.reads: dict[Key, Read] = {}
        """What else it read."""
        self.scanned_ranges: list[ScannedRange] = NO_RANGES
        self.blind_adds: dict[Key, None] = NO_ADDS
        self.picks: Picks = NO_PICKS
        self._read_keys: set[Key] | None = None

    # --- as a view -------------------------------------------------------------------------------

    def read(self, key: Key) -> Any:
        known = self.reads.get(key) or self.base_reads.get(key) or self._look_up(key)
        if self.picks and key in self.picks:
            del self.picks[key]
        return known[1]

    def pick(self, key: Key, items: tuple[int | str, ...]) -> Any:
        known = self.reads.get(key) or self.base_reads.get(key)
        if known is None:
            if self.picks is NO_PICKS:
                self.picks = {}
            self.picks[key] = items
            known = self._look_up(key)
        elif key in self.picks:
            self.picks[key] = union_items(self.picks[key], items)
        return known[1]

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        """Only what the operation really went through counts as read."""
        passed = ScannedRange(stop, stop) if reverse else ScannedRange(start, start)
        if self.scanned_ranges is NO_RANGES:
            self.scanned_ranges = []
        self.scanned_ranges.append(passed)
        for key in self._table.known_keys(start, stop, reverse):
            here = collation_key(key)
            if reverse:
                passed.start = here
            else:
                passed.stop = (*here, -1)  # right behind the key, before any other
            if self.read(key) is not ABSENT:
                yield key
        passed.start, passed.stop = start, stop

    def is_addable(self, key: Key) -> bool:
        if not self._table.is_addable(key):
            return False
        if self.blind_adds is NO_ADDS:
            self.blind_adds = {}
        self.blind_adds[key] = None
        return True

    def _look_up(self, key: Key) -> Read:
        contents = self._table
        found = contents.registers.get(key, FROM_BASE)
        if isinstance(found, Version) or isinstance(found, VersionChain):  # noqa: SIM101 - compiled
            read = self.reads[key] = contents.read_at(key, self._position)
            return read
        if found is not FROM_BASE:
            read = self.reads[key] = None, found
            return read
        if self.base_reads is NO_READS:
            self.base_reads = {}
        read = self.base_reads[key] = None, contents.base.read(key)
        return read

    # --- what was looked at ----------------------------------------------------------------------

    def read_keys(self) -> set[Key]:
        """The registers that were looked at one by one: not to be changed."""
        keys = self._read_keys
        if keys is None:
            keys = set(self.reads)
            keys.update(self.base_reads)
            keys.update(self.blind_adds)
            self._read_keys = keys
        return keys

    def reset(self) -> None:
        """As if nothing had been looked at."""
        self.change_count = self._table.change_count
        self.base_reads, self.reads, self.scanned_ranges = NO_READS, {}, NO_RANGES
        self.blind_adds, self.picks = NO_ADDS, NO_PICKS
        self._read_keys = None

    def replay(self, seen: RecordedReads) -> bool:
        """Does one see here, too, what another snapshot showed: initial data, other values, picked
        items of either, and whether one can add? Then all of it has been looked at; otherwise
        nothing has."""
        contents, position, picks = self._table, self._position, seen.picks
        reads: dict[Key, Read] = {}
        for key, value in seen.reads:
            read = contents.read_at(key, position)
            reads[key] = read
            if read[1] is not value and not is_same_read(read[1], value, picks.get(key)):
                return False
        initial = seen.base_reads
        for key in contents.written_keys(initial):
            read = reads[key] = contents.read_at(key, position)
            if not is_same_read(read[1], initial[key][1], picks.get(key)):
                return False
        for key, answer in seen.addability_checks:
            if contents.is_addable(key) is not answer:
                return False
        self.base_reads, self.reads, self.picks = initial, reads, picks
        if seen.addability_checks:
            self.blind_adds = {key: None for key, answer in seen.addability_checks if answer}
        self._read_keys = seen.keys
        return True

    # --- is it still so? -------------------------------------------------------------------------

    def is_current(self) -> bool:
        """Would one see the same again?"""
        return self.is_valid_at(self._position, jumped=False)

    def is_valid_at(self, position: Position, jumped: bool) -> bool:
        """Would every read give the same again, at what is its position now? `jumped`: does it
        stand before others that it used to follow?"""
        contents = self._table
        if not jumped:
            if contents.change_count == self.change_count:
                return True
            changed = contents.changed_since(self.change_count)
            if changed is not None and not self.scanned_ranges:
                return self._revalidate_changed(changed, position)
        return self._revalidate_all(position)

    def _revalidate_changed(self, changed: list[set[Key]], position: Position) -> bool:
        keys = self.read_keys()
        touched: set[Key] = set()
        for each in changed:
            if not keys.isdisjoint(each):
                touched.update(keys & each)
        if not touched:
            return True
        reads, initial, picks = self.reads, self.base_reads, self.picks
        contents = self._table
        found = 0
        for key in touched:
            read = reads.get(key)
            if read is None:
                continue
            found += 1
            now = contents.read_at(key, position)
            if now[0] is not read[0] or now[1] is not read[1]:
                if not is_same_read(now[1], read[1], picks.get(key)):
                    return False
                reads[key] = now
        if found == len(touched):
            return not self.blind_adds or self._can_still_add()
        for key in [key for key in initial if key in touched]:
            now = reads[key] = contents.read_at(key, position)
            if not is_same_read(now[1], initial[key][1], picks.get(key)):
                return False
        return self._can_still_add()

    def _revalidate_all(self, position: Position) -> bool:
        contents, reads, initial, picks = self._table, self.reads, self.base_reads, self.picks
        for key, (version, value) in reads.items():
            now_version, now = contents.read_at(key, position)
            if now_version is not version or now is not value:
                if not is_same_read(now, value, picks.get(key)):
                    return False
                reads[key] = now_version, now
        for key in contents.written_keys(initial):
            read = reads[key] = contents.read_at(key, position)
            if not is_same_read(read[1], initial[key][1], picks.get(key)):
                return False
        for passed in self.scanned_ranges:
            for key in contents.known_keys(passed.start, passed.stop, False):
                if key not in reads and key not in initial:  # new since then
                    read = reads[key] = contents.read_at(key, position)
                    if read[1] is not ABSENT:
                        return False
                    self._read_keys = None
        return self._can_still_add()

    def _can_still_add(self) -> bool:
        return all(self._table.is_addable(key) for key in self.blind_adds)
