"""Dotted version vectors: sets of request identifiers, stored as ranges.

A *dot* is the pair (replica, event number) that identifies a request. Replicas number their events
1, 2, 3, …, so a set of dots is a few runs of consecutive numbers per replica, and a single run if
none is missing. Every set operation costs O(replicas + holes), never O(dots).

`Dots` is an immutable value for messages. `DotSet` is the mutable set of a replica. Both store, per
replica, a flat ascending sequence `start, end, start, end, …` of half-open ranges with a hole
between any two.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

from creekdb.protocol.ids.dot import Dot as Dot
from creekdb.protocol.ids.dot import Dots as Dots
from creekdb.protocol.ids.dot import iterate_dots
from creekdb.protocol.ids.intervals import count, difference, last_outside, union

EMPTY_DOTS: Final = Dots()


class DotSet:
    """Mutable set of dots."""

    __slots__ = ("ranges",)

    def __init__(self, dots: Iterable[Dot] = ()) -> None:
        self.ranges: dict[int, list[int]] = {}
        for dot in dots:
            self.add(dot)

    def __contains__(self, dot: Dot) -> bool:
        replica, event = dot
        ranges = self.ranges.get(replica)
        if ranges is None:
            return False
        if event >= ranges[0] and event < ranges[1]:
            return True  # common case: in the first run
        return len(ranges) > 2 and bisect_right(ranges, event) % 2 == 1

    def __iter__(self) -> Iterator[Dot]:
        for replica in sorted(self.ranges):
            yield from iterate_dots(replica, self.ranges[replica])

    def __len__(self) -> int:
        return count(self.ranges)

    def add(self, dot: Dot) -> bool:
        """Add one dot; False if it was already present."""
        replica, event = dot
        ranges = self.ranges.get(replica)
        if ranges is None:
            self.ranges[replica] = [event, event + 1]
            return True
        if ranges[-1] == event:  # common case: the next event
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
        """Add all dots of `other`."""
        for replica, ranges in other.ranges.items():
            own = self.ranges.get(replica)
            self.ranges[replica] = union(own, ranges) if own else list(ranges)

    def last_contiguous(self, replica: int) -> int:
        ranges = self.ranges.get(replica)
        return ranges[1] - 1 if ranges and ranges[0] == 1 else 0

    def last(self, replica: int) -> int:
        ranges = self.ranges.get(replica)
        return ranges[-1] - 1 if ranges else 0

    def covers(self, other: "Dots | DotSet") -> bool:
        """True if `other` is a subset of this set."""
        return self.find_missing(other) is None

    def find_missing(self, other: "Dots | DotSet") -> Dot | None:
        """Return a dot of `other` that is not in this set, or None. It is the last one of its
        replica. If dots arrive in order, none of that replica is missing once it is present."""
        for replica, ranges in other.ranges.items():
            own = self.ranges.get(replica)
            last = ranges[-1] - 1
            if own is None:
                return Dot(replica, last)
            if own[0] <= ranges[0] and last < own[1]:
                continue  # common case: all inside the first run
            event = last_outside(ranges, own)
            if event is not None:
                return Dot(replica, event)
        return None

    def missing(self, other: "Dots | DotSet") -> Dots:
        """Return the dots of `other` that are not in this set."""
        missing: dict[int, tuple[int, ...]] = {}
        for replica, ranges in other.ranges.items():
            own = self.ranges.get(replica)
            if own is None:
                missing[replica] = tuple(ranges)
            elif own[0] <= ranges[0] and ranges[-1] <= own[1]:
                continue
            elif rest := difference(ranges, own):
                missing[replica] = tuple(rest)
        return Dots(missing) if missing else EMPTY_DOTS

    def freeze(self) -> Dots:
        return Dots({replica: tuple(ranges) for replica, ranges in self.ranges.items()})


def intersection(left: "Dots | DotSet", right: "Dots | DotSet") -> Dots:
    """Return the dots that are in both sets."""
    common: dict[int, tuple[int, ...]] = {}
    for replica, ranges in left.ranges.items():
        outside = difference(ranges, right.ranges.get(replica, ()))
        if inside := difference(ranges, outside):
            common[replica] = tuple(inside)
    return Dots(common)
