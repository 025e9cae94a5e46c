"""Dotted version vectors: sets of request identifiers, stored as ranges.

A *dot* is the pair (replica, event number) that identifies a request. Replicas number their events
1, 2, 3, …, so a set of dots is, per replica, a few runs of consecutive numbers: one run and no more
when nothing is missing. Every set operation costs O(replicas + holes), never O(dots).

`Dots` is an immutable value that travels in messages; `DotSet` is the growing set a replica keeps.
Both hold, per replica, a flat ascending sequence `start, end, start, end, …` of half-open ranges
with a hole between any two.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import ge, ne
from typing import NamedTuple

import msgspec


class Dot(NamedTuple):
    """A request's identifier (line 1): the replica that issued it and its event number there."""

    replica: int
    event: int

    def __str__(self) -> str:
        return f"{self.replica}.{self.event}"


class Dots(msgspec.Struct, frozen=True, array_like=True):
    """An immutable set of dots: what a message or a causal context carries."""

    ranges: dict[int, tuple[int, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __contains__(self, dot: Dot) -> bool:
        replica, event = dot
        return bisect_right(self.ranges.get(replica, ()), event) % 2 == 1

    def __iter__(self) -> Iterator[Dot]:
        for replica in sorted(self.ranges):
            yield from _dots(replica, self.ranges[replica])

    def __len__(self) -> int:
        return _count(self.ranges)

    def count(self) -> int:
        """Like `len`, but without its limit: a peer may claim any number."""
        return _count(self.ranges)

    def last(self, replica: int) -> int:
        """The greatest event number of `replica` in the set; 0 when there is none."""
        ranges = self.ranges.get(replica)
        return ranges[-1] - 1 if ranges else 0

    def contiguous(self, replica: int) -> int:
        """The event number up to which nothing of `replica` is missing; 0 without the first."""
        ranges = self.ranges.get(replica)
        return ranges[1] - 1 if ranges and ranges[0] == 1 else 0

    def take(self, limit: int) -> "Dots":
        """The first `limit` dots, in order of replica and event."""
        taken: dict[int, tuple[int, ...]] = {}
        for replica in sorted(self.ranges):
            ranges = self.ranges[replica]
            kept: list[int] = []
            for at in range(0, len(ranges), 2):
                if limit <= 0:
                    break
                end = min(ranges[at + 1], ranges[at] + limit)
                kept += (ranges[at], end)
                limit -= end - ranges[at]
            if kept:
                taken[replica] = tuple(kept)
        return Dots(taken)

    def without(self, dots: Iterable[Dot]) -> "Dots":
        """The set difference with a few single dots: O(replicas + holes + their number)."""
        removed = DotSet(dots)
        if not removed.ranges:
            return self
        left = {
            replica: tuple(kept)
            for replica, ranges in self.ranges.items()
            if (kept := _difference(ranges, removed.ranges.get(replica, ())))
        }
        return Dots(left)

    def problem(self) -> str | None:
        """Why this is not a well-formed set of dots, or None. For values that came from a peer."""
        for replica, ranges in self.ranges.items():
            if not ranges or len(ranges) % 2:
                return f"replica {replica} has a range without an end"
            if ranges[0] < 1:
                return f"replica {replica} has event {ranges[0]}; events start at 1"
            if any(map(ge, ranges, ranges[1:])):
                return f"replica {replica} has ranges out of order"
        return None


class DotSet:
    """A growing set of dots."""

    __slots__ = ("ranges",)

    def __init__(self, dots: Iterable[Dot] = ()) -> None:
        self.ranges: dict[int, list[int]] = {}
        for dot in dots:
            self.add(dot)

    def __contains__(self, dot: Dot) -> bool:
        replica, event = dot
        return bisect_right(self.ranges.get(replica, ()), event) % 2 == 1

    def __iter__(self) -> Iterator[Dot]:
        for replica in sorted(self.ranges):
            yield from _dots(replica, self.ranges[replica])

    def __len__(self) -> int:
        return _count(self.ranges)

    def add(self, dot: Dot) -> bool:
        """Add one dot; False when it was there already."""
        replica, event = dot
        ranges = self.ranges.get(replica)
        if ranges is None:
            self.ranges[replica] = [event, event + 1]
            return True
        if ranges[-1] == event:  # the common case: the next one in line
            ranges[-1] = event + 1
            return True
        at = bisect_right(ranges, event)
        if at % 2:
            return False
        joins_left = at > 0 and ranges[at - 1] == event
        joins_right = at < len(ranges) and ranges[at] == event + 1
        if joins_left and joins_right:
            del ranges[at - 1 : at + 1]
        elif joins_left:
            ranges[at - 1] = event + 1
        elif joins_right:
            ranges[at] = event
        else:
            ranges[at:at] = [event, event + 1]
        return True

    def update(self, other: "Dots | DotSet") -> None:
        """Set union, in place."""
        for replica, ranges in other.ranges.items():
            mine = self.ranges.get(replica)
            self.ranges[replica] = _union(mine, ranges) if mine else list(ranges)

    def contiguous(self, replica: int) -> int:
        ranges = self.ranges.get(replica)
        return ranges[1] - 1 if ranges and ranges[0] == 1 else 0

    def last(self, replica: int) -> int:
        ranges = self.ranges.get(replica)
        return ranges[-1] - 1 if ranges else 0

    def covers(self, other: "Dots | DotSet") -> bool:
        """Is `other` a subset of this set?"""
        return self.some_missing(other) is None

    def some_missing(self, other: "Dots | DotSet") -> Dot | None:
        """A dot of `other` that is not in this set, or None. It is the last one of its replica:
        where these arrive in order, nothing is missing of that replica once it is there."""
        for replica, ranges in other.ranges.items():
            mine = self.ranges.get(replica)
            last = ranges[-1] - 1
            if mine is None:
                return Dot(replica, last)
            if mine[0] <= ranges[0] and last < mine[1]:
                continue  # all of it inside the first run: the common case
            if bisect_right(mine, last) % 2 == 0:
                return Dot(replica, last)
            left = _difference(ranges, mine)
            if left:
                return Dot(replica, left[-1] - 1)
        return None

    def missing(self, other: "Dots | DotSet") -> Dots:
        """`other` less this set."""
        left: dict[int, tuple[int, ...]] = {}
        for replica, ranges in other.ranges.items():
            mine = self.ranges.get(replica)
            if mine is None:
                left[replica] = tuple(ranges)
            elif mine[0] <= ranges[0] and ranges[-1] <= mine[1]:
                continue
            elif rest := _difference(ranges, mine):
                left[replica] = tuple(rest)
        return Dots(left)

    def clear(self) -> None:
        self.ranges.clear()

    def freeze(self) -> Dots:
        return Dots({replica: tuple(ranges) for replica, ranges in self.ranges.items()})


def intersection(sets: Iterable["Dots | DotSet"]) -> Dots:
    """The dots that are in every one of `sets`."""
    common: Dots | None = None
    for each in sets:
        if common is None:
            common = Dots({replica: tuple(ranges) for replica, ranges in each.ranges.items()})
            continue
        kept: dict[int, tuple[int, ...]] = {}
        for replica, ranges in common.ranges.items():
            outside = _difference(ranges, each.ranges.get(replica, ()))
            inside = _difference(ranges, outside)
            if inside:
                kept[replica] = tuple(inside)
        common = Dots(kept)
    return common if common is not None else Dots()


def _dots(replica: int, ranges: Sequence[int]) -> Iterator[Dot]:
    for at in range(0, len(ranges), 2):
        for event in range(ranges[at], ranges[at + 1]):
            yield Dot(replica, event)


def _pairs(ranges: Sequence[int]) -> Iterator[tuple[int, int]]:
    return zip(ranges[::2], ranges[1::2], strict=True)


def _count(ranges: Mapping[int, Sequence[int]]) -> int:
    return sum(sum(each[1::2]) - sum(each[::2]) for each in ranges.values())


def _union(left: Sequence[int], right: Sequence[int]) -> list[int]:
    merged: list[int] = []
    for start, end in sorted([*_pairs(left), *_pairs(right)]):
        if merged and start <= merged[-1]:
            merged[-1] = max(merged[-1], end)
        else:
            merged += (start, end)
    return merged


def _difference(ranges: Sequence[int], removed: Sequence[int]) -> list[int]:
    """The ranges of `ranges` that `removed` does not cover. What both begin with, and what one
    removed range covers, is passed over in one step: the cost is that of the places that differ."""
    left: list[int] = []
    index = at = _common(ranges, removed)
    while index < len(ranges):
        start, end = ranges[index], ranges[index + 1]
        at = bisect_right(removed, start, at)
        cut = at
        if cut % 2:  # `start` is in a removed range
            start = removed[cut]
            if end <= start:
                index = bisect_right(ranges, start, index) & ~1
                continue
            cut += 1
        while cut < len(removed) and removed[cut] < end:
            left += (start, removed[cut])
            start = removed[cut + 1]
            cut += 2
        if start < end:
            left += (start, end)
        index += 2
    return left


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """How many edges, in whole ranges, the two begin with alike."""
    for index, differs in enumerate(map(ne, left, right)):
        if differs:
            return index & ~1
    return min(len(left), len(right))
