"""A request's identifier, and sets of them as values: see `creekdb.protocol.ids.version_vector`."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import ge
from typing import NamedTuple

import msgspec

from creekdb.protocol.ids.intervals import count, difference, intervals_of, take_first


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
            yield from iterate_dots(replica, self.ranges[replica])

    def __len__(self) -> int:
        return count(self.ranges)

    def count(self) -> int:
        """Like `len`, but without its limit: a peer may claim any number."""
        return count(self.ranges)

    def last(self, replica: int) -> int:
        """The greatest event number of `replica` in the set; 0 when there is none."""
        ranges = self.ranges.get(replica)
        return ranges[-1] - 1 if ranges else 0

    def last_contiguous(self, replica: int) -> int:
        """The event number up to which nothing of `replica` is missing; 0 without the first."""
        ranges = self.ranges.get(replica)
        return ranges[1] - 1 if ranges and ranges[0] == 1 else 0

    def take(self, limit: int) -> "Dots":
        """At most `limit` dots: of each replica the first, and as many as is its share. So those
        of different replicas stay beside each other that were issued at the same time."""
        total = self.count()
        if total <= limit:
            return self
        taken: dict[int, tuple[int, ...]] = {}
        for replica in sorted(self.ranges):
            ranges = self.ranges[replica]
            here = count({replica: ranges})
            share = -(-limit * here // total)
            if share > 0:
                taken[replica] = tuple(take_first(ranges, share))
                limit -= share
            total -= here
        return Dots(taken)

    def without(self, dots: Iterable[Dot]) -> "Dots":
        """The set difference with a few single dots: O(replicas + holes + their number)."""
        removed: dict[int, list[int]] = {}
        for replica, event in sorted(dots):
            removed.setdefault(replica, []).append(event)
        if not removed:
            return self
        left = {
            replica: tuple(kept)
            for replica, ranges in self.ranges.items()
            if (kept := difference(ranges, intervals_of(removed.get(replica, ()))))
        }
        return Dots(left)

    def validation_error(self) -> str | None:
        """Why this is not a well-formed set of dots, or None. For values that came from a peer."""
        for replica, ranges in self.ranges.items():
            if not ranges or len(ranges) % 2:
                return f"replica {replica} has a range without an end"
            if ranges[0] < 1:
                return f"replica {replica} has event {ranges[0]}; events start at 1"
            if any(map(ge, ranges, ranges[1:])):
                return f"replica {replica} has ranges out of order"
        return None


def iterate_dots(replica: int, ranges: Sequence[int]) -> Iterator[Dot]:
    for at in range(0, len(ranges), 2):
        for event in range(ranges[at], ranges[at + 1]):
            yield Dot(replica, event)
