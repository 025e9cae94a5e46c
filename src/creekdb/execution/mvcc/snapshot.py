"""What one execution sees: the state as all requests before it left it, and what it looked at.

Whether it would see the same again is asked when the execution is over. Then only registers that
were changed meanwhile have to be looked at once more. What is equal is taken for the same, and of a
value of which some items were picked, so are these.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from creekdb.execution.keys import Place, place
from creekdb.execution.mvcc.entry import NO_PICKS, NO_READS, Picks, Position, Range, Read, Version
from creekdb.execution.mvcc.register_table import Contents
from creekdb.execution.mvcc.version_chain import INITIAL, Chain, looks_the_same, united_items
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key

Told: TypeAlias = tuple[Key, bool]
"""Of a register it was asked whether one can add to it; and what it was told."""

NO_RANGES: Final[list[Range]] = []
NO_ADDS: Final[dict[Key, None]] = {}
"""Shared by all snapshots that have none, and never written to."""


class Seen:
    """What an execution looked at, for another one that may see the same elsewhere."""

    __slots__ = ("initial", "keys", "picks", "reads", "told")

    def __init__(self, snapshot: "Snapshot", told: list[Told]) -> None:
        self.initial = snapshot.initial
        self.reads: list[tuple[Key, Any]] = [(key, read[1]) for key, read in snapshot.reads.items()]
        self.picks = snapshot.picks
        self.told = told
        self.keys = snapshot.looked_at()


class Snapshot:
    """What one execution sees, and a record of what it looked at. A `View`."""

    __slots__ = (
        "_contents",
        "_keys",
        "_position",
        "adds",
        "changes",
        "initial",
        "picks",
        "ranges",
        "reads",
    )

    def __init__(self, contents: Contents, position: Position) -> None:
        self._contents = contents
        self._position = position
        self.changes = contents.changes
        self.initial: dict[Key, Read] = NO_READS
        """What it read of registers that nobody had written to."""
        self.reads: dict[Key, Read] = {}
        """What else it read."""
        self.ranges: list[Range] = NO_RANGES
        self.adds: dict[Key, None] = NO_ADDS
        self.picks: Picks = NO_PICKS
        self._keys: set[Key] | None = None

    # --- as a view -------------------------------------------------------------------------------

    def read(self, key: Key) -> Any:
        known = self.reads.get(key) or self.initial.get(key) or self._look_up(key)
        if self.picks and key in self.picks:
            del self.picks[key]
        return known[1]

    def pick(self, key: Key, items: tuple[int | str, ...]) -> Any:
        known = self.reads.get(key) or self.initial.get(key)
        if known is None:
            if self.picks is NO_PICKS:
                self.picks = {}
            self.picks[key] = items
            known = self._look_up(key)
        elif key in self.picks:
            self.picks[key] = united_items(self.picks[key], items)
        return known[1]

    def keys(self, start: Place, stop: Place, reverse: bool) -> Iterator[Key]:
        """Only what the operation really went through counts as read."""
        passed = Range(stop, stop) if reverse else Range(start, start)
        if self.ranges is NO_RANGES:
            self.ranges = []
        self.ranges.append(passed)
        for key in self._contents.known_keys(start, stop, reverse):
            here = place(key)
            if reverse:
                passed.start = here
            else:
                passed.stop = (*here, -1)  # right behind the key, before any other
            if self.read(key) is not ABSENT:
                yield key
        passed.start, passed.stop = start, stop

    def addable(self, key: Key) -> bool:
        if not self._contents.is_addable(key):
            return False
        if self.adds is NO_ADDS:
            self.adds = {}
        self.adds[key] = None
        return True

    def _look_up(self, key: Key) -> Read:
        contents = self._contents
        found = contents.held.get(key, INITIAL)
        if isinstance(found, Version) or isinstance(found, Chain):  # noqa: SIM101 - compiled
            read = self.reads[key] = contents.at(key, self._position)
            return read
        if found is not INITIAL:
            read = self.reads[key] = None, found
            return read
        if self.initial is NO_READS:
            self.initial = {}
        read = self.initial[key] = None, contents.base.read(key)
        return read

    # --- what was looked at ----------------------------------------------------------------------

    def looked_at(self) -> set[Key]:
        """The registers that were looked at one by one: not to be changed."""
        keys = self._keys
        if keys is None:
            keys = set(self.reads)
            keys.update(self.initial)
            keys.update(self.adds)
            self._keys = keys
        return keys

    def begin_again(self) -> None:
        """As if nothing had been looked at."""
        self.changes = self._contents.changes
        self.initial, self.reads, self.ranges = NO_READS, {}, NO_RANGES
        self.adds, self.picks = NO_ADDS, NO_PICKS
        self._keys = None

    def repeat(self, seen: Seen) -> bool:
        """Does one see here, too, what another snapshot showed: initial data, other values, picked
        items of either, and whether one can add? Then all of it has been looked at; otherwise
        nothing has."""
        contents, position, picks = self._contents, self._position, seen.picks
        reads: dict[Key, Read] = {}
        for key, value in seen.reads:
            read = contents.at(key, position)
            reads[key] = read
            if read[1] is not value and not looks_the_same(read[1], value, picks.get(key)):
                return False
        initial = seen.initial
        for key in contents.written_of(initial):
            read = reads[key] = contents.at(key, position)
            if not looks_the_same(read[1], initial[key][1], picks.get(key)):
                return False
        for key, answer in seen.told:
            if contents.is_addable(key) is not answer:
                return False
        self.initial, self.reads, self.picks = initial, reads, picks
        if seen.told:
            self.adds = {key: None for key, answer in seen.told if answer}
        self._keys = seen.keys
        return True

    # --- is it still so? -------------------------------------------------------------------------

    def is_current(self) -> bool:
        """Would one see the same again?"""
        return self.holds_at(self._position, jumped=False)

    def holds_at(self, position: Position, jumped: bool) -> bool:
        """Would every read give the same again, at what is its position now? `jumped`: does it
        stand before others that it used to follow?"""
        contents = self._contents
        if not jumped:
            if contents.changes == self.changes:
                return True
            changed = contents.changed_since(self.changes)
            if changed is not None and not self.ranges:
                return self._look_again(changed, position)
        return self._look_at_all(position)

    def _look_again(self, changed: list[set[Key]], position: Position) -> bool:
        keys = self.looked_at()
        touched: set[Key] = set()
        for each in changed:
            if not keys.isdisjoint(each):
                touched.update(keys & each)
        if not touched:
            return True
        reads, initial, picks = self.reads, self.initial, self.picks
        contents = self._contents
        found = 0
        for key in touched:
            read = reads.get(key)
            if read is None:
                continue
            found += 1
            now = contents.at(key, position)
            if now[0] is not read[0] or now[1] is not read[1]:
                if not looks_the_same(now[1], read[1], picks.get(key)):
                    return False
                reads[key] = now
        if found == len(touched):
            return not self.adds or self._can_add()
        for key in [key for key in initial if key in touched]:
            now = reads[key] = contents.at(key, position)
            if not looks_the_same(now[1], initial[key][1], picks.get(key)):
                return False
        return self._can_add()

    def _look_at_all(self, position: Position) -> bool:
        contents, reads, initial, picks = self._contents, self.reads, self.initial, self.picks
        for key, (version, value) in reads.items():
            now_version, now = contents.at(key, position)
            if now_version is not version or now is not value:
                if not looks_the_same(now, value, picks.get(key)):
                    return False
                reads[key] = now_version, now
        for key in contents.written_of(initial):
            read = reads[key] = contents.at(key, position)
            if not looks_the_same(read[1], initial[key][1], picks.get(key)):
                return False
        for passed in self.ranges:
            for key in contents.known_keys(passed.start, passed.stop, False):
                if key not in reads and key not in initial:  # new since then
                    read = reads[key] = contents.at(key, position)
                    if read[1] is not ABSENT:
                        return False
                    self._keys = None
        return self._can_add()

    def _can_add(self) -> bool:
        return all(self._contents.is_addable(key) for key in self.adds)
