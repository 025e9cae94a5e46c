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

from creekdb.execution.keys import CollationKey
from creekdb.execution.mvcc.entry import (
    MergedRun,
    Position,
    ReaderGroup,
    RequestEntry,
    ScannedRange,
    Version,
    add_reader,
    mark_unsorted,
    readers_after,
    reads_version,
)
from creekdb.execution.mvcc.snapshot import StoreSnapshot
from creekdb.protocol.values import Key


class RangeIndex:
    __slots__ = ("_by_prefix",)

    def __init__(self) -> None:
        self._by_prefix: dict[CollationKey, dict[ScannedRange, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_prefix)

    def add(self, passed: ScannedRange, reader: RequestEntry) -> None:
        passed.reader = reader
        self._by_prefix.setdefault(_common_prefix(passed), {})[passed] = None

    def remove(self, passed: ScannedRange) -> None:
        common = _common_prefix(passed)
        filed = self._by_prefix[common]
        del filed[passed]
        if not filed:
            del self._by_prefix[common]

    def readers_at(self, here: CollationKey) -> Iterator[RequestEntry]:
        """Who scanned past this place."""
        for length in range(len(here) + 1):
            for passed in self._by_prefix.get(here[:length], ()):
                if passed.start <= here < passed.stop and passed.reader is not None:
                    yield passed.reader


def union_ranges(ranges: Iterable[ScannedRange]) -> list[ScannedRange]:
    """As few ranges as possible that cover the same places."""
    whole: list[ScannedRange] = []
    for each in sorted(ranges, key=_start):
        if whole and each.start <= whole[-1].stop:
            whole[-1].stop = max(whole[-1].stop, each.stop)
        else:
            whole.append(ScannedRange(each.start, each.stop))
    return whole


def _start(passed: ScannedRange) -> CollationKey:
    return passed.start


def _common_prefix(passed: ScannedRange) -> CollationKey:
    """What every key inside the range starts with."""
    length = 0
    for left, right in zip(passed.start, passed.stop, strict=False):
        if left != right:
            break
        length += 1
    return passed.start[:length]


NO_READERS: Final[list[RequestEntry]] = []
"""Never written to."""

EAGER_INDEX_FACTOR: Final = 8
"""When there were too many fresh ones, so many times as many that come next are not fresh."""


class ReadIndex:
    __slots__ = (
        "_eager_count",
        "_recent",
        "_recent_max",
        "blind_adders",
        "scanned_ranges",
        "stable_readers",
    )

    def __init__(self, fresh_max: int) -> None:
        self._recent_max = fresh_max
        self.stable_readers: dict[Key, RequestEntry | ReaderGroup] = {}
        """By register, who has read what stands on settled ground, as far as it is noted."""
        self._recent: dict[RequestEntry, set[Key]] = {}
        """With what they read, and perhaps more."""
        self._eager_count = 0
        """So many that come next are not fresh."""
        self.scanned_ranges = RangeIndex()
        """What scans passed."""
        self.blind_adders: dict[Key, dict[RequestEntry, None]] = {}
        """Who added without reading: they rely on the register holding small integers only."""

    def clear(self) -> None:
        self.stable_readers = {}
        self._recent = {}
        self._eager_count = 0
        self.scanned_ranges = RangeIndex()
        self.blind_adders = {}

    def add(self, entry: RequestEntry, snapshot: StoreSnapshot) -> None:
        """It was executed, on this snapshot."""
        if snapshot.scanned_ranges:
            self.add_ranges(entry, snapshot.scanned_ranges)
        if snapshot.blind_adds:
            self.add_blind_adds(entry, snapshot.blind_adds)
        for key, (version, value) in entry.reads.items():
            if version is None:
                continue
            if version.writer is None:  # settled meanwhile
                entry.reads[key] = None, value
            elif version.readers is None:
                version.readers = entry
            else:
                version.readers = add_reader(version.readers, entry, key, version)
        if self._eager_count:
            self._eager_count -= 1
            self._index_reads(entry)
            return
        fresh = self._recent
        fresh[entry] = snapshot.read_keys()
        if len(fresh) > self._recent_max:
            self._eager_count = EAGER_INDEX_FACTOR * self._recent_max
            for each in tuple(fresh):
                self._index_recent(each)

    def add_ranges(self, entry: RequestEntry, ranges: Iterable[ScannedRange]) -> None:
        entry.scanned_ranges = tuple(ranges)
        for passed in entry.scanned_ranges:
            self.scanned_ranges.add(passed, entry)

    def add_blind_adds(self, entry: RequestEntry, keys: Iterable[Key]) -> None:
        entry.blind_adds = tuple(keys)
        for key in entry.blind_adds:
            self.blind_adders.setdefault(key, {})[entry] = None

    def record_read(
        self, entry: RequestEntry, key: Key, version: Version | None, value: Any
    ) -> None:
        """It has read this as well, or instead of something else."""
        entry.reads[key] = version, value
        if version is not None:
            version.readers = add_reader(version.readers, entry, key, version)
        else:
            if entry in self._recent:
                self._index_recent(entry)
            self.stable_readers[key] = add_reader(self.stable_readers.get(key), entry, key, None)

    def mark_unsorted(self, entry: RequestEntry) -> None:
        """It has moved, or has read nothing any more."""
        reads = entry.all_reads() if self.stable_readers else entry.reads
        for key, (version, _) in reads.items():
            self.mark_readers_unsorted(key, version)

    def mark_readers_unsorted(self, key: Key, version: Version | None) -> None:
        """One of those who read this has moved, or reads it no longer."""
        mark_unsorted(self.stable_readers.get(key) if version is None else version.readers)

    def transfer_readers(self, key: Key, version: Version) -> None:
        """The version is settled: who has read it has read the ground. Who had read what was the
        ground until now, is settled as well."""
        noted: list[RequestEntry] = []
        for reader in readers_after(version.readers, key, version, ()):
            reader.reads[key] = None, version.value
            is_found = key in reader.versions and not isinstance(reader, MergedRun)
            if not is_found and reader not in self._recent:
                noted.append(reader)
        if noted:
            self.stable_readers[key] = noted[0] if len(noted) == 1 else ReaderGroup(*noted)

    def remove(self, entry: RequestEntry) -> None:
        """What it read and wrote is no longer its own."""
        if entry.scanned_ranges or entry.blind_adds:
            self._remove_ranges_and_adds(entry)
        if entry in self._recent:
            del self._recent[entry]
            entry.clear()
            return
        initial, reads = entry.base_reads, entry.reads
        entry.clear()
        if self.stable_readers:
            for key, (version, _) in reads.items():
                if version is None:
                    self._remove_stable_reader(key, entry)
            for key in initial:
                if key not in reads:
                    self._remove_stable_reader(key, entry)

    def _remove_ranges_and_adds(self, entry: RequestEntry) -> None:
        for passed in entry.scanned_ranges:
            self.scanned_ranges.remove(passed)
        for key in entry.blind_adds:
            adders = self.blind_adders[key]
            adders.pop(entry, None)
            if not adders:
                del self.blind_adders[key]

    def recent_readers_after(
        self, position: Position, keys: dict[Key, Version]
    ) -> list[RequestEntry]:
        """The fresh ones after `position` that may have read any of these registers."""
        if not self._recent:
            return NO_READERS
        return [
            reader
            for reader, read in self._recent.items()
            if reader.position > position and not read.isdisjoint(keys)
        ]

    def stable_readers_after(
        self, key: Key, position: Position, fresh: list[RequestEntry]
    ) -> list[RequestEntry]:
        """Who has read the ground, and stands after `position`, in their order. `fresh`: which of
        the fresh ones may have."""
        readers = readers_after(self.stable_readers.get(key), key, None, position)
        asked = [reader for reader in fresh if reads_version(reader, key, None)]
        if asked:
            readers = sorted({*readers, *asked}, key=_position)
        return readers

    def _index_recent(self, entry: RequestEntry) -> None:
        """It is not fresh any more."""
        del self._recent[entry]
        self._index_reads(entry)

    def _index_reads(self, entry: RequestEntry) -> None:
        reads, written = entry.reads, entry.versions
        for key, (version, _) in reads.items():
            if version is None and key not in written:
                self._add_stable_reader(key, entry)
        for key in entry.base_reads:
            if key not in reads and key not in written:
                self._add_stable_reader(key, entry)

    def _add_stable_reader(self, key: Key, entry: RequestEntry) -> None:
        readers = self.stable_readers.get(key)
        self.stable_readers[key] = (
            entry if readers is None else add_reader(readers, entry, key, None)
        )

    def _remove_stable_reader(self, key: Key, entry: RequestEntry) -> None:
        """One who has read the ground there is forgotten."""
        readers = self.stable_readers.get(key)
        if readers is entry or (isinstance(readers, ReaderGroup) and readers.drop_cleared()):
            del self.stable_readers[key]


def _position(entry: RequestEntry) -> Position:
    return entry.position
