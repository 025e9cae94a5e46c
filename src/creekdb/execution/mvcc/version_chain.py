"""Versions of one register, in the order of the requests that wrote them.

A chain starts at its *stable value*, left by the stable requests; no request can precede it any
more. Each version belongs to the request that wrote it, and has its position. A version is a value,
or a *delta*: an integer to be added to the preceding value. Versions are always in the order of
their writers' positions.

A chain finds the reads that a change may affect (`suspects`); the store decides which are affected.
The store also indexes the readers of stable values, because most registers have no chain.
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
"""Placeholder for a value that the base holds."""

ADDABLE_MAX: Final = 2**61
"""Bound for all sums below which an addition can neither fail nor overflow, at any position."""

_LONG_CHAIN_MIN: Final = 1024
"""Length of a chain from which stable versions keep their slots, so that the rest does not move."""
_SPARE_MAX: Final = 64


SuspectReads: TypeAlias = list[tuple[RequestEntry, Key]]
"""Reads, as reader and key, that a change may have made invalid."""


class VersionChain:
    """Stable value and versions of one register."""

    __slots__ = ("is_on_base", "key", "magnitude_bound", "spare_count", "stable_value", "versions")

    def __init__(self, key: Key, stable_value: Any) -> None:
        self.key = key
        self.stable_value = stable_value
        self.is_on_base = False
        """True if the stable value is that of the base: no version is stable yet."""
        self.versions: list[Version] = []
        self.spare_count = 0
        """Number of stable versions at the front, which are kept as spare slots."""
        self.magnitude_bound = _magnitude(stable_value)
        """Upper bound for every integer and sum in the chain; None if it holds another type."""

    @property
    def is_addable(self) -> bool:
        return self.magnitude_bound is not None and self.magnitude_bound < ADDABLE_MAX

    @property
    def is_empty(self) -> bool:
        """True if the chain consists of the stable value alone."""
        return len(self.versions) == self.spare_count

    def read_at(self, position: Position) -> Read:
        """Return the version and value that a request at `position` reads."""
        versions = self.versions
        index = len(versions) - 1
        if index >= self.spare_count and _position_of_version(versions[index]) >= position:
            index = self._find(position, index) - 1
        if index < self.spare_count:
            return None, self.stable_value
        version = versions[index]
        return version, self._total_at(index) if version.is_delta else version.value

    def insert(self, version: Version, suspects: SuspectReads) -> bool:
        """Insert a version. Return True if it directly follows the stable value.

        The readers of the stable value are then suspect as well.
        """
        versions = self.versions
        position = _position_of_version(version)
        bound = self.magnitude_bound
        if bound is not None:
            magnitude = _magnitude(version.value)
            if magnitude is not None:
                magnitude = bound + magnitude if version.is_delta else max(bound, magnitude)
            self.magnitude_bound = magnitude
        end = len(versions)
        if end == self.spare_count:
            versions.append(version)
            return True
        last = versions[-1]
        if _position_of_version(last) < position:
            versions.append(version)
            if last.readers is not None:
                self._suspect_readers(last, position, suspects)
            return False
        index = self._insert_at(self._find(position, end), version)
        if index > self.spare_count:
            self._suspect_readers(versions[index - 1], position, suspects)
        self._suspect_deltas(index + 1, suspects)
        return index == self.spare_count

    def remove(self, version: Version, suspects: SuspectReads) -> bool:
        """Remove a version. Return True if it has readers.

        Its readers are not suspect yet, because its writer may write it again. Readers of a sum
        that includes it are.
        """
        index = self.index_of(version)
        del self.versions[index]
        self._suspect_deltas(index, suspects)
        return bool(readers_after(version.readers, self.key, version, ()))

    def reposition(self, old_index: int, suspects: SuspectReads) -> bool:
        """Move a version from `old_index`, after its writer moved to an earlier position.

        Return True if the version now directly follows the stable value.
        """
        versions = self.versions
        version = versions[old_index]
        position = _position_of_version(version)
        new_index = self._find(position, old_index)
        if new_index != old_index:
            del versions[old_index]
            follower = old_index + 1
            if self._insert_at(new_index, version) < new_index:
                new_index, follower = new_index - 1, old_index
            self._suspect_readers(version, (), suspects)
            version.running_total = None
            self._suspect_deltas(follower, suspects)
            self._suspect_deltas(new_index + 1, suspects)
        if new_index > self.spare_count:
            self._suspect_readers(versions[new_index - 1], position, suspects)
        return new_index == self.spare_count

    def stabilise(self, version: Version) -> None:
        """Make the version the stable value: no request can precede it any more."""
        versions = self.versions
        index = self.index_of(version)
        if version.is_delta:
            _resolve_delta(version, self._total_at(index))
        self.stable_value, self.is_on_base = version.value, False
        stable_count = index + 1
        if stable_count <= _SPARE_MAX and len(versions) > _LONG_CHAIN_MIN:
            self.spare_count = stable_count
        else:
            del versions[:stable_count]
            self.spare_count = 0
        if not versions:
            self.magnitude_bound = _magnitude(self.stable_value)

    def merge(self, last: Version, run: MergedRun, members: set[RequestEntry]) -> None:
        """Replace `last`, and the members' versions directly before it, by one of the run."""
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
        last.writer = run
        del versions[begin:end]

    def index_of(self, version: Version) -> int:
        versions = self.versions
        last = len(versions) - 1
        if versions[last] is version:
            return last
        index = self._find(_position_of_version(version), last)
        assert versions[index] is version
        return index

    def second_writer(self) -> RequestEntry | None:
        """Return the writer of the second version after the stable value, or None."""
        second = self.spare_count + 1
        return self.versions[second].writer if second < len(self.versions) else None

    def summands(self, version: Version) -> list[Version]:
        """Return the versions whose sum is the value of `version`, without the stable value."""
        begin = end = self.index_of(version)
        while begin > self.spare_count and self.versions[begin].is_delta:
            begin -= 1
        return self.versions[begin : end + 1]

    def _find(self, position: Position, end: int) -> int:
        """Return the index below `end` of the version at `position`, or where it belongs."""
        return bisect_left(self.versions, position, self.spare_count, end, key=_position_of_version)

    def _insert_at(self, index: int, version: Version) -> int:
        """Insert a version before `index`. Return its index: one less, if it fills a spare slot."""
        versions = self.versions
        if self.spare_count and index == self.spare_count:
            self.spare_count = index - 1
            versions[index - 1] = version
            return index - 1
        versions[index:index] = (version,)  # moves the following versions faster than `insert`
        return index

    def _total_at(self, index: int) -> int:
        """Return the sum of the deltas that end at `index` and the value before them."""
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

    def _suspect_readers(
        self, version: Version, position: Position, suspects: SuspectReads
    ) -> None:
        for reader in readers_after(version.readers, self.key, version, position):
            suspects.append((reader, self.key))

    def _suspect_deltas(self, index: int, suspects: SuspectReads) -> None:
        """Invalidate the sums of the deltas from `index` to the next value, and their readers.

        A delta without a sum has no readers, nor has any delta after it. The loop ends there.
        """
        versions = self.versions
        while index < len(versions) and versions[index].running_total is not None:
            versions[index].running_total = None
            self._suspect_readers(versions[index], (), suspects)
            index += 1


def stable_part(content: Any) -> Any:
    """Return the stable value of a register, or `FROM_BASE` if no version is stable.

    `content` is that value itself, the only version, or the chain.
    """
    if isinstance(content, Version):
        return content.stable_value
    if isinstance(content, VersionChain):
        return FROM_BASE if content.is_on_base else content.stable_value
    return content


def is_same_read(left: Any, right: Any, items: tuple[int | str, ...] | None) -> bool:
    """True if both values are equal for a reader of these items, or of the whole value."""
    if items is None or left is ABSENT or right is ABSENT:
        return is_same_value(left, right)
    return all(is_same_value(pick_item(left, item), pick_item(right, item)) for item in items)


def union_items(left: tuple[int | str, ...], right: tuple[int | str, ...]) -> tuple[int | str, ...]:
    return tuple(dict.fromkeys((*left, *right)))


def _resolve_delta(version: Version, total: int) -> None:
    """Replace a delta by the value of its sum."""
    version.value, version.is_delta, version.running_total = total, False, None


def is_addable(value: Any) -> bool:
    magnitude = _magnitude(value)
    return magnitude is not None and magnitude < ADDABLE_MAX


def _magnitude(value: Any) -> int | None:
    if value is ABSENT:
        return 0
    return abs(value) if type(value) is int else None


def _position_of_version(version: Version) -> Position:
    writer = version.writer
    assert writer is not None, "a stable version has no position"
    return writer.position
