"""Index of requests by the key prefixes that they may write.

The cost of a search depends on the footprint that is searched for, not on the number of requests.
The prefixes of a prefix are looked up one by one. Its extensions are neighbours in sorted order.

The footprint of a request is computed when a search needs it first. Most requests leave the index
before that.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from typing import Any

from sortedcontainers import SortedKeyList

from creekdb.execution.footprint import Footprint, is_reserved
from creekdb.execution.keys import collation_key, prefix_range
from creekdb.execution.mvcc.entry import Position, RequestEntry, position_of
from creekdb.protocol.request import Operation
from creekdb.protocol.values import Key


class FootprintIndex:
    """Entries that may write, by the prefixes of their footprints. Their positions never change."""

    def __init__(self, footprint_of: Callable[[Operation], Footprint | None]) -> None:
        self._footprint_of = footprint_of
        self._entries: list[RequestEntry] = []
        """All entries, in the order of their positions, like every list below."""
        self._unindexed: dict[RequestEntry, None] = {}
        """Entries since the last search."""
        self._footprints: dict[RequestEntry, Footprint | None] = {}
        """Footprints of all other entries."""
        self._unlimited: list[RequestEntry] = []
        """Entries that may write to every register."""
        self._by_prefix: dict[Key, list[RequestEntry]] = {}
        self._prefixes: SortedKeyList[Any, Any] = SortedKeyList(key=collation_key)
        """Keys of `_by_prefix`, sorted."""
        self._str_lengths: dict[int, int] = {}
        """Number of str prefixes of each length."""

    def add(self, entry: RequestEntry) -> None:
        """Add an entry that is not in the index."""
        self._unindexed[entry] = None
        _insert(self._entries, entry)

    def remove(self, entry: RequestEntry) -> None:
        """Remove an entry of the index."""
        if entry in self._unindexed:
            del self._unindexed[entry]
        else:
            footprint = self._footprints.pop(entry)
            if footprint is None:
                _delete(self._unlimited, entry)
            elif not footprint.touches:
                return
            else:
                for prefix in dict.fromkeys(footprint.touches):
                    self._remove_prefix(prefix, entry)
        _delete(self._entries, entry)

    def has_before(self, position: Position) -> bool:
        """True if an entry precedes the position. Its footprint may still turn out to be empty."""
        return bool(self._entries) and self._entries[0].position < position

    def find_overlap(self, entry: RequestEntry) -> RequestEntry | None:
        """Return an entry before `entry` that may write what `entry` may touch, or None."""
        position = entry.position
        if not self.has_before(position):
            return None
        if self._unindexed:
            for each in self._unindexed:
                self._index(each)
            self._unindexed.clear()
        if entry in self._footprints:
            footprint = self._footprints[entry]
        else:
            footprint = self._footprint_of(entry.request.operation)
        if footprint is None:
            return _last_before(self._entries, position)
        found = _last_before(self._unlimited, position)
        if found is not None and (footprint.touches or footprint.reads):
            return found
        for prefixes in (footprint.touches, footprint.reads):
            for prefix in prefixes:
                for overlapping in self._overlapping(prefix):
                    found = _last_before(self._by_prefix[overlapping], position)
                    if found is not None:
                        return found
        return None

    def clear(self) -> None:
        self._entries.clear()
        self._unindexed.clear()
        self._footprints.clear()
        self._unlimited.clear()
        self._by_prefix.clear()
        self._prefixes.clear()
        self._str_lengths.clear()

    def _index(self, entry: RequestEntry) -> None:
        footprint = self._footprints[entry] = self._footprint_of(entry.request.operation)
        if footprint is None:
            _insert(self._unlimited, entry)
        elif not footprint.touches:
            _delete(self._entries, entry)  # it writes nothing
        else:
            for prefix in dict.fromkeys(footprint.touches):
                self._add_prefix(prefix, entry)

    def _add_prefix(self, prefix: Key, entry: RequestEntry) -> None:
        entries = self._by_prefix.get(prefix)
        if entries is not None:
            _insert(entries, entry)
            return
        self._by_prefix[prefix] = [entry]
        self._prefixes.add(prefix)
        if isinstance(prefix, str):
            self._str_lengths[len(prefix)] = self._str_lengths.get(len(prefix), 0) + 1

    def _remove_prefix(self, prefix: Key, entry: RequestEntry) -> None:
        entries = self._by_prefix[prefix]
        if len(entries) > 1:
            _delete(entries, entry)
            return
        del self._by_prefix[prefix]
        self._prefixes.remove(prefix)
        if isinstance(prefix, str):
            self._str_lengths[len(prefix)] -= 1
            if not self._str_lengths[len(prefix)]:
                del self._str_lengths[len(prefix)]

    def _overlapping(self, prefix: Key) -> Iterator[Key]:
        """Yield the prefixes in the index that cover a key which `prefix` covers, too."""
        by_prefix = self._by_prefix
        if isinstance(prefix, int):
            if prefix in by_prefix:
                yield prefix
            return
        if isinstance(prefix, tuple):
            for length in range(1 if is_reserved(prefix) else 0, len(prefix) + 1):
                if prefix[:length] in by_prefix:
                    yield prefix[:length]
        else:
            for length in self._str_lengths:
                if length <= len(prefix) and prefix[:length] in by_prefix:
                    yield prefix[:length]
        start, stop = prefix_range(prefix)
        yield from self._prefixes.irange_key(start, stop, (False, False))


def _insert(entries: list[RequestEntry], entry: RequestEntry) -> None:
    if not entries or entries[-1].position < entry.position:
        entries.append(entry)
    else:
        insort(entries, entry, key=position_of)


def _delete(entries: list[RequestEntry], entry: RequestEntry) -> None:
    del entries[bisect_left(entries, entry.position, key=position_of)]


def _last_before(entries: list[RequestEntry], position: Position) -> RequestEntry | None:
    """Return the last entry before the position.

    When the last entry is removed, most earlier ones are gone already, so few requests that wait
    must search again.
    """
    if not entries or entries[0].position >= position:
        return None
    if entries[-1].position < position:
        return entries[-1]
    return entries[bisect_left(entries, position, key=position_of) - 1]
