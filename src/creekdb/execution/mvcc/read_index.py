"""What scans went through: who has to be told of a key that is new to the store.

A range is filed under what every key inside it starts with, so that a new key is held against the
ranges around it only: those filed under one of its own beginnings.

Who relies on what: on settled ground, be it the base's, that was read; on ranges that were
scanned; on registers that were added to without a look.

Who has read a version is noted there; for most registers there is none. Who has read the ground is
noted by register, unless
- it has written there as well: then its version stands right on the ground, and is found there;
- those who may be asked are few: these, the *fresh* ones, are asked one by one what they read.
  Where requests are settled soon after they are executed, that is all there are; where they are
  not, hardly anybody is fresh, and hardly anybody is asked in vain.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from creekdb.execution.keys import Place
from creekdb.execution.mvcc.entry import (
    Crowd,
    Entry,
    Position,
    Range,
    Stretch,
    Version,
    disturb,
    joined,
    readers_after,
    reads_version,
)
from creekdb.execution.mvcc.snapshot import Snapshot
from creekdb.protocol.values import Key


class Ranges:
    __slots__ = ("_filed",)

    def __init__(self) -> None:
        self._filed: dict[Place, dict[Range, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._filed)

    def add(self, passed: Range, reader: Entry) -> None:
        passed.reader = reader
        self._filed.setdefault(_common(passed), {})[passed] = None

    def remove(self, passed: Range) -> None:
        common = _common(passed)
        filed = self._filed[common]
        del filed[passed]
        if not filed:
            del self._filed[common]

    def readers(self, here: Place) -> Iterator[Entry]:
        """Who scanned past this place."""
        for length in range(len(here) + 1):
            for passed in self._filed.get(here[:length], ()):
                if passed.start <= here < passed.stop and passed.reader is not None:
                    yield passed.reader


def united(ranges: Iterable[Range]) -> list[Range]:
    """As few ranges as possible that cover the same places."""
    whole: list[Range] = []
    for each in sorted(ranges, key=_start):
        if whole and each.start <= whole[-1].stop:
            whole[-1].stop = max(whole[-1].stop, each.stop)
        else:
            whole.append(Range(each.start, each.stop))
    return whole


def _start(passed: Range) -> Place:
    return passed.start


def _common(passed: Range) -> Place:
    """What every key inside the range starts with."""
    length = 0
    for left, right in zip(passed.start, passed.stop, strict=False):
        if left != right:
            break
        length += 1
    return passed.start[:length]


NOBODY: Final[list[Entry]] = []
"""Never written to."""

NOTED_AT_ONCE: Final = 8
"""When there were too many fresh ones, so many times as many that come next are not fresh."""


class Readership:
    __slots__ = ("_fresh", "_fresh_max", "_to_note", "adders", "of_ground", "ranges")

    def __init__(self, fresh_max: int) -> None:
        self._fresh_max = fresh_max
        self.of_ground: dict[Key, Entry | Crowd] = {}
        """By register, who has read what stands on settled ground, as far as it is noted."""
        self._fresh: dict[Entry, set[Key]] = {}
        """With what they read, and perhaps more."""
        self._to_note = 0
        """So many that come next are not fresh."""
        self.ranges = Ranges()
        """What scans passed."""
        self.adders: dict[Key, dict[Entry, None]] = {}
        """Who added without reading: they rely on the register holding small integers only."""

    def clear(self) -> None:
        self.of_ground = {}
        self._fresh = {}
        self._to_note = 0
        self.ranges = Ranges()
        self.adders = {}

    def add(self, entry: Entry, snapshot: Snapshot) -> None:
        """It was executed, on this snapshot."""
        if snapshot.ranges:
            self.note_ranges(entry, snapshot.ranges)
        if snapshot.adds:
            self.note_adds(entry, snapshot.adds)
        for key, (version, value) in entry.reads.items():
            if version is None:
                continue
            if version.writer is None:  # settled meanwhile
                entry.reads[key] = None, value
            elif version.readers is None:
                version.readers = entry
            else:
                version.readers = joined(version.readers, entry, key, version)
        if self._to_note:
            self._to_note -= 1
            self._note(entry)
            return
        fresh = self._fresh
        fresh[entry] = snapshot.looked_at()
        if len(fresh) > self._fresh_max:
            self._to_note = NOTED_AT_ONCE * self._fresh_max
            for each in tuple(fresh):
                self._note_reads_of_ground(each)

    def note_ranges(self, entry: Entry, ranges: Iterable[Range]) -> None:
        entry.ranges = tuple(ranges)
        for passed in entry.ranges:
            self.ranges.add(passed, entry)

    def note_adds(self, entry: Entry, keys: Iterable[Key]) -> None:
        entry.adds = tuple(keys)
        for key in entry.adds:
            self.adders.setdefault(key, {})[entry] = None

    def note(self, entry: Entry, key: Key, version: Version | None, value: Any) -> None:
        """It has read this as well, or instead of something else."""
        entry.reads[key] = version, value
        if version is not None:
            version.readers = joined(version.readers, entry, key, version)
        else:
            if entry in self._fresh:
                self._note_reads_of_ground(entry)
            self.of_ground[key] = joined(self.of_ground.get(key), entry, key, None)

    def disturb(self, entry: Entry) -> None:
        """It has moved, or has read nothing any more."""
        reads = entry.all_reads() if self.of_ground else entry.reads
        for key, (version, _) in reads.items():
            self.disturb_of(key, version)

    def disturb_of(self, key: Key, version: Version | None) -> None:
        """One of those who read this has moved, or reads it no longer."""
        disturb(self.of_ground.get(key) if version is None else version.readers)

    def take_over(self, key: Key, version: Version) -> None:
        """The version is settled: who has read it has read the ground. Who had read what was the
        ground until now, is settled as well."""
        noted: list[Entry] = []
        for reader in readers_after(version.readers, key, version, ()):
            reader.reads[key] = None, version.value
            is_found = key in reader.versions and not isinstance(reader, Stretch)
            if not is_found and reader not in self._fresh:
                noted.append(reader)
        if noted:
            self.of_ground[key] = noted[0] if len(noted) == 1 else Crowd(*noted)

    def forget(self, entry: Entry) -> None:
        """What it read and wrote is no longer its own."""
        if entry.ranges or entry.adds:
            self._forget_ranges_and_adds(entry)
        if entry in self._fresh:
            del self._fresh[entry]
            entry.forget()
            return
        initial, reads = entry.initial, entry.reads
        entry.forget()
        if self.of_ground:
            for key, (version, _) in reads.items():
                if version is None:
                    self._leave(key, entry)
            for key in initial:
                if key not in reads:
                    self._leave(key, entry)

    def _forget_ranges_and_adds(self, entry: Entry) -> None:
        for passed in entry.ranges:
            self.ranges.remove(passed)
        for key in entry.adds:
            adders = self.adders[key]
            adders.pop(entry, None)
            if not adders:
                del self.adders[key]

    def fresh_after(self, position: Position, keys: dict[Key, Version]) -> list[Entry]:
        """The fresh ones after `position` that may have read any of these registers."""
        if not self._fresh:
            return NOBODY
        return [
            reader
            for reader, read in self._fresh.items()
            if reader.position > position and not read.isdisjoint(keys)
        ]

    def of_ground_after(self, key: Key, position: Position, fresh: list[Entry]) -> list[Entry]:
        """Who has read the ground, and stands after `position`, in their order. `fresh`: which of
        the fresh ones may have."""
        readers = readers_after(self.of_ground.get(key), key, None, position)
        asked = [reader for reader in fresh if reads_version(reader, key, None)]
        if asked:
            readers = sorted({*readers, *asked}, key=_position)
        return readers

    def _note_reads_of_ground(self, entry: Entry) -> None:
        """It is not fresh any more."""
        del self._fresh[entry]
        self._note(entry)

    def _note(self, entry: Entry) -> None:
        reads, written = entry.reads, entry.versions
        for key, (version, _) in reads.items():
            if version is None and key not in written:
                self._join(key, entry)
        for key in entry.initial:
            if key not in reads and key not in written:
                self._join(key, entry)

    def _join(self, key: Key, entry: Entry) -> None:
        readers = self.of_ground.get(key)
        self.of_ground[key] = entry if readers is None else joined(readers, entry, key, None)

    def _leave(self, key: Key, entry: Entry) -> None:
        """One who has read the ground there is forgotten."""
        readers = self.of_ground.get(key)
        if readers is entry or (isinstance(readers, Crowd) and readers.is_left()):
            del self.of_ground[key]


def _position(entry: Entry) -> Position:
    return entry.position
