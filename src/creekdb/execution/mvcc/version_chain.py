"""The versions of one register, in the order of the requests that wrote them.

A chain stands on its *ground*: the value that the settled requests left, which no request can get
behind any more. Each version belongs to the request that wrote it, and stands where that request
stands. A version is a value, or a *delta*: an integer to be added to whatever comes before it.
Versions stand in the order of their writers' positions, at all times.

This module finds who may be affected by a change (`doubts`). Whether they are, the store decides;
it also knows who has read the ground, for most registers have no chain at all.
"""

from bisect import bisect_left
from typing import Any, Final, TypeAlias

from creekdb.execution.mvcc.entry import (
    MergedRun,
    Position,
    Read,
    RequestEntry,
    Version,
    readers_after,
)
from creekdb.execution.transaction import ABSENT, pick_item
from creekdb.protocol.values import Key, is_same_value

FROM_BASE: Final = object()
"""In place of a value that the base holds."""

ADDABLE_MAX: Final = 2**61
"""While no sum can exceed this, adding can neither fail nor overflow, whatever comes before it."""

_LONG_CHAIN_MIN: Final = 1024
"""Versions of a chain that is not moved as a whole each time its base changes."""
_SPARE_MAX: Final = 64


SuspectReads: TypeAlias = list[tuple[RequestEntry, Key]]
"""Readers whose read of a key may have to be answered otherwise now."""


class VersionChain:
    __slots__ = ("is_on_base", "key", "magnitude_bound", "spare_count", "stable_value", "versions")

    def __init__(self, key: Key, ground: Any) -> None:
        self.key = key
        self.stable_value = ground
        self.is_on_base = False
        """Is the ground the base's, and nothing settled yet?"""
        self.versions: list[Version] = []
        self.spare_count = 0
        """How many of the versions, from the first on, are settled: room to spare."""
        self.magnitude_bound = _magnitude(ground)
        """No integer in this chain, nor any sum, is greater; None: it holds something else."""

    @property
    def is_addable(self) -> bool:
        return self.magnitude_bound is not None and self.magnitude_bound < ADDABLE_MAX

    @property
    def is_empty(self) -> bool:
        """Is there nothing but the ground?"""
        return len(self.versions) == self.spare_count

    def read_at(self, position: Position) -> Read:
        """What a request at `position` reads."""
        versions = self.versions
        index = len(versions) - 1
        if index >= self.spare_count and _position_of_version(versions[index]) >= position:
            index = self._find(position, index) - 1
        if index < self.spare_count:
            return None, self.stable_value
        version = versions[index]
        return version, self._total_at(index) if version.is_delta else version.value

    def insert(self, version: Version, doubts: SuspectReads) -> bool:
        """Does it stand right on the ground? Then its readers may have to be looked at, too."""
        versions = self.versions
        position = _position_of_version(version)
        if self.magnitude_bound is not None:
            self._extend_magnitude_bound(version)
        end = len(versions)
        if end == self.spare_count:
            versions.append(version)
            return True
        last = versions[-1]
        if _position_of_version(last) < position:
            versions.append(version)
            if last.readers is not None:
                self._suspect_readers(last, position, doubts)
            return False
        index = self._insert_at(self._find(position, end), version)
        if index > self.spare_count:
            self._suspect_readers(versions[index - 1], position, doubts)
        self._suspect_deltas(index + 1, doubts)
        return index == self.spare_count

    def remove(self, version: Version, doubts: SuspectReads) -> bool:
        """Was it read? Its readers are not in doubt yet: its writer may well write it again. But
        whoever read a sum that it is a part of, is."""
        index = self.index_of(version)
        del self.versions[index]
        self._suspect_deltas(index, doubts)
        return bool(readers_after(version.readers, self.key, version, ()))

    def reposition(self, old: int, doubts: SuspectReads) -> bool:
        """The writer of the version at index `old` has just moved to an earlier position. Does it
        stand right on the ground now?"""
        versions = self.versions
        version = versions[old]
        position = _position_of_version(version)
        new = self._find(position, old)
        if new != old:
            del versions[old]
            follower = old + 1
            if self._insert_at(new, version) < new:
                new, follower = new - 1, old
            self._suspect_readers(version, (), doubts)
            self._suspect_deltas(follower, doubts)
        if new > self.spare_count:
            self._suspect_readers(versions[new - 1], position, doubts)
        version.running_total = None
        self._suspect_deltas(new + 1, doubts)
        return new == self.spare_count

    def stabilise(self, version: Version) -> None:
        """Nothing can come before this version any more: let its value be the ground."""
        versions = self.versions
        index = self.index_of(version)
        if version.is_delta:
            _resolve_delta(version, self._total_at(index))
        self.stable_value, self.is_on_base = version.value, False
        settled = index + 1
        if settled <= _SPARE_MAX and len(versions) > _LONG_CHAIN_MIN:
            self.spare_count = settled
        else:
            del versions[:settled]
            self.spare_count = 0
        if not versions:
            self.magnitude_bound = _magnitude(self.stable_value)

    def merge(self, last: Version, stretch: MergedRun, members: set[RequestEntry]) -> None:
        """Let `last`, and the members' versions right before it, be one version of the stretch."""
        versions = self.versions
        end = self.index_of(last)
        begin = end
        while begin > self.spare_count and versions[begin - 1].writer in members:
            begin -= 1
        if last.is_delta:
            if all(version.is_delta for version in versions[begin : end + 1]):
                last.value = sum(version.value for version in versions[begin : end + 1])
            else:
                _resolve_delta(last, self._total_at(end))
        last.writer = stretch
        del versions[begin:end]

    def index_of(self, version: Version) -> int:
        versions = self.versions
        last = len(versions) - 1
        if versions[last] is version:
            return last
        found = self._find(_position_of_version(version), last)
        assert versions[found] is version
        return found

    def second_writer(self) -> RequestEntry | None:
        """Who wrote the version after the one that stands right on the ground, if there is one."""
        second = self.spare_count + 1
        return self.versions[second].writer if second < len(self.versions) else None

    def summands(self, version: Version) -> list[Version]:
        """The versions whose values, on the ground perhaps, its value is the sum of."""
        begin = end = self.index_of(version)
        while begin > self.spare_count and self.versions[begin].is_delta:
            begin -= 1
        return self.versions[begin : end + 1]

    def _find(self, position: Position, end: int) -> int:
        """Where a version of this position stands, or would stand, before `end`."""
        return bisect_left(self.versions, position, self.spare_count, end, key=_position_of_version)

    def _insert_at(self, index: int, version: Version) -> int:
        """Put it before the version at `index`. Answers its index: one less, if there is room."""
        versions = self.versions
        if self.spare_count and index == self.spare_count:
            self.spare_count = index - 1
            versions[index - 1] = version
            return index - 1
        versions[index:index] = (version,)  # moves what follows faster than `insert` does
        return index

    def _total_at(self, index: int) -> int:
        """The sum of the deltas that end at `index` and the value that they stand on."""
        versions, spare = self.versions, self.spare_count
        first = index
        while first >= spare and versions[first].is_delta and versions[first].running_total is None:
            first -= 1
        total: Any = self.stable_value
        if first >= spare:
            total = (
                versions[first].running_total if versions[first].is_delta else versions[first].value
            )
        sum_so_far: int = 0 if total is ABSENT else total
        for version in versions[first + 1 : index + 1]:
            sum_so_far += version.value
            version.running_total = sum_so_far
        return sum_so_far

    def _extend_magnitude_bound(self, version: Version) -> None:
        magnitude = _magnitude(version.value)
        assert self.magnitude_bound is not None
        if magnitude is None:
            self.magnitude_bound = None
        else:
            self.magnitude_bound = (
                self.magnitude_bound + magnitude
                if version.is_delta
                else max(self.magnitude_bound, magnitude)
            )

    def _suspect_readers(self, version: Version, position: Position, doubts: SuspectReads) -> None:
        for reader in readers_after(version.readers, self.key, version, position):
            doubts.append((reader, self.key))

    def _suspect_deltas(self, index: int, doubts: SuspectReads) -> None:
        """The deltas from `index` on, up to the next value, stand on other ground now. Of those
        without a total nobody has read, nor of any behind them: that is where it ends."""
        versions = self.versions
        while index < len(versions) and versions[index].running_total is not None:
            versions[index].running_total = None
            self._suspect_readers(versions[index], (), doubts)
            index += 1


def stable_part(found: Any) -> Any:
    """What settled requests left in a register, `INITIAL` if there were none; of what is found
    there: just that, its only version, or its chain."""
    if isinstance(found, Version):
        return found.stable_value
    if isinstance(found, VersionChain):
        return FROM_BASE if found.is_on_base else found.stable_value
    return found


def is_same_read(left: Any, right: Any, items: tuple[int | str, ...] | None) -> bool:
    """To one who looked at these items, or at the whole."""
    if items is None or left is ABSENT or right is ABSENT:
        return is_same_value(left, right)
    return all(is_same_value(pick_item(left, item), pick_item(right, item)) for item in items)


def union_items(
    some: tuple[int | str, ...], others: tuple[int | str, ...]
) -> tuple[int | str, ...]:
    return tuple(dict.fromkeys((*some, *others)))


def _resolve_delta(version: Version, sum_: int) -> None:
    """Let a delta be the value that it amounts to."""
    version.value, version.is_delta, version.running_total = sum_, False, None


def is_addable(value: Any) -> bool:
    magnitude = _magnitude(value)
    return magnitude is not None and magnitude < ADDABLE_MAX


def _magnitude(value: Any) -> int | None:
    if value is ABSENT:
        return 0
    return abs(value) if type(value) is int else None


def _position_of_version(version: Version) -> Position:
    writer = version.writer
    assert writer is not None, "what is settled stands nowhere any more"
    return writer.position
