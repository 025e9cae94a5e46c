"""Index of the reads that a change may affect.

`RangeIndex` holds scanned ranges, to find the readers that a new key affects. A range is filed
under the common prefix of all keys inside it. A new key is therefore compared only with the ranges
filed under one of its own prefixes.

`ReadIndex` holds the readers of stable values, including those of the base, the scanned ranges, and
the registers that were added to without a read. A version refers to its own readers, but most
registers have no version. Readers of a stable value are indexed by register, with two exceptions:

- A request that has also written the register is found through its version, which directly
  follows the stable value.
- A small number of *recent* requests is not indexed; the reads of each are searched instead. If
  requests become stable soon after their execution, all are recent. Otherwise hardly any is
  recent, and few searches are in vain.
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
    position_of,
    readers_after,
    reads_version,
)
from creekdb.execution.mvcc.snapshot import StoreSnapshot
from creekdb.protocol.values import Key


class RangeIndex:
    """Scanned ranges by the common prefix of their keys."""

    def __init__(self) -> None:
        self._by_prefix: dict[CollationKey, dict[ScannedRange, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_prefix)

    def add(self, scanned: ScannedRange, reader: RequestEntry) -> None:
        scanned.reader = reader
        self._by_prefix.setdefault(_common_prefix(scanned), {})[scanned] = None

    def remove(self, scanned: ScannedRange) -> None:
        prefix = _common_prefix(scanned)
        ranges = self._by_prefix[prefix]
        del ranges[scanned]
        if not ranges:
            del self._by_prefix[prefix]

    def readers_at(self, collation: CollationKey) -> Iterator[RequestEntry]:
        """Yield the requests that scanned past this collation key."""
        for length in range(len(collation) + 1):
            for scanned in self._by_prefix.get(collation[:length], ()):
                if scanned.start <= collation < scanned.stop and scanned.reader is not None:
                    yield scanned.reader


def union_ranges(ranges: Iterable[ScannedRange]) -> list[ScannedRange]:
    """Return the smallest number of ranges that cover the same keys."""
    merged: list[ScannedRange] = []
    for each in sorted(ranges, key=lambda scanned: scanned.start):
        if merged and each.start <= merged[-1].stop:
            merged[-1].stop = max(merged[-1].stop, each.stop)
        else:
            merged.append(ScannedRange(each.start, each.stop))
    return merged


def _common_prefix(scanned: ScannedRange) -> CollationKey:
    """Return the common prefix of all keys inside the range."""
    length = 0
    for left, right in zip(scanned.start, scanned.stop, strict=False):
        if left != right:
            break
        length += 1
    return scanned.start[:length]


NO_READERS: Final[list[RequestEntry]] = []
"""Never modified."""

EAGER_INDEX_FACTOR: Final = 8
"""Number of entries that are indexed at once after an overflow of recent entries, as a multiple of
the maximum of recent entries."""


class ReadIndex:
    """Readers of stable values and ranges, and blind adders."""

    def __init__(self, recent_max: int) -> None:
        self._recent_max = recent_max
        self.stable_readers: dict[Key, RequestEntry | ReaderGroup] = {}
        """Readers of the stable value by register, as far as they are indexed."""
        self._recent: dict[RequestEntry, set[Key]] = {}
        """Recent entries, each with a superset of the registers that it read."""
        self._eager_count = 0
        """Number of coming entries that are indexed at once."""
        self.scanned_ranges = RangeIndex()
        """Ranges that scans passed."""
        self.blind_adders: dict[Key, dict[RequestEntry, None]] = {}
        """Entries that added without a read. They rely on registers holding small integers only."""

    def add(self, entry: RequestEntry, snapshot: StoreSnapshot) -> None:
        """Add an entry that was executed on this snapshot."""
        if snapshot.scanned_ranges:
            self.add_ranges(entry, snapshot.scanned_ranges)
        if snapshot.blind_adds:
            self.add_blind_adds(entry, snapshot.blind_adds)
        for key, (version, value) in entry.reads.items():
            if version is None:
                continue
            if version.writer is None:  # stable meanwhile
                entry.reads[key] = None, value
            elif version.readers is None:
                version.readers = entry
            else:
                version.readers = add_reader(version.readers, entry, key, version)
        if self._eager_count:
            self._eager_count -= 1
            self._index_reads(entry)
            return
        recent = self._recent
        recent[entry] = snapshot.read_keys()
        if len(recent) > self._recent_max:
            self._eager_count = EAGER_INDEX_FACTOR * self._recent_max
            for each in tuple(recent):
                self._index_recent(each)

    def add_ranges(self, entry: RequestEntry, ranges: Iterable[ScannedRange]) -> None:
        entry.scanned_ranges = tuple(ranges)
        for scanned in entry.scanned_ranges:
            self.scanned_ranges.add(scanned, entry)

    def add_blind_adds(self, entry: RequestEntry, keys: Iterable[Key]) -> None:
        entry.blind_adds = tuple(keys)
        for key in entry.blind_adds:
            self.blind_adders.setdefault(key, {})[entry] = None

    def record_read(
        self, entry: RequestEntry, key: Key, version: Version | None, value: Any
    ) -> None:
        """Record an additional read, or one that replaces another."""
        entry.reads[key] = version, value
        if version is not None:
            version.readers = add_reader(version.readers, entry, key, version)
        else:
            if entry in self._recent:
                self._index_recent(entry)
            self._add_stable_reader(key, entry)

    def mark_unsorted(self, entry: RequestEntry) -> None:
        """Record that the entry moved, or lost its reads."""
        reads = entry.base_reads | entry.reads if self.stable_readers else entry.reads
        for key, (version, _) in reads.items():
            self.mark_readers_unsorted(key, version)

    def mark_readers_unsorted(self, key: Key, version: Version | None) -> None:
        """Record that a reader of the version moved, or no longer reads it."""
        readers = self.stable_readers.get(key) if version is None else version.readers
        if isinstance(readers, ReaderGroup):
            readers.is_sorted = False

    def transfer_readers(self, key: Key, version: Version) -> None:
        """Make the readers of a version that became stable readers of the stable value.

        The readers of the previous stable value are stable themselves.
        """
        indexed: list[RequestEntry] = []
        for reader in readers_after(version.readers, key, version, ()):
            reader.reads[key] = None, version.value
            is_found_by_version = key in reader.versions and not isinstance(reader, MergedRun)
            if not is_found_by_version and reader not in self._recent:
                indexed.append(reader)
        if indexed:
            self.stable_readers[key] = indexed[0] if len(indexed) == 1 else ReaderGroup(*indexed)

    def remove(self, entry: RequestEntry) -> None:
        """Remove the entry, and clear its reads and versions."""
        for scanned in entry.scanned_ranges:
            self.scanned_ranges.remove(scanned)
        for key in entry.blind_adds:
            adders = self.blind_adders[key]
            adders.pop(entry, None)
            if not adders:
                del self.blind_adders[key]
        if entry in self._recent:
            del self._recent[entry]
            entry.clear()
            return
        base_reads, reads = entry.base_reads, entry.reads
        entry.clear()
        if self.stable_readers:
            for key, (version, _) in reads.items():
                if version is None:
                    self._remove_stable_reader(key, entry)
            for key in base_reads:
                if key not in reads:
                    self._remove_stable_reader(key, entry)

    def recent_readers_after(
        self, position: Position, keys: dict[Key, Version]
    ) -> list[RequestEntry]:
        """Return the recent entries after `position` that may have read one of these registers."""
        if not self._recent:
            return NO_READERS
        return [
            reader
            for reader, read_keys in self._recent.items()
            if reader.position > position and not read_keys.isdisjoint(keys)
        ]

    def stable_readers_after(
        self, key: Key, position: Position, recent: list[RequestEntry]
    ) -> list[RequestEntry]:
        """Return the readers of the stable value after `position`, in order.

        `recent` holds the recent entries that may have read it.
        """
        readers = readers_after(self.stable_readers.get(key), key, None, position)
        recent_readers = [reader for reader in recent if reads_version(reader, key, None)]
        if recent_readers:
            readers = sorted({*readers, *recent_readers}, key=position_of)
        return readers

    def _index_recent(self, entry: RequestEntry) -> None:
        """Index an entry, which is then no longer recent."""
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
        self.stable_readers[key] = add_reader(self.stable_readers.get(key), entry, key, None)

    def _remove_stable_reader(self, key: Key, entry: RequestEntry) -> None:
        """Remove a cleared reader of the stable value."""
        readers = self.stable_readers.get(key)
        if readers is entry or (isinstance(readers, ReaderGroup) and readers.drop_cleared()):
            del self.stable_readers[key]
