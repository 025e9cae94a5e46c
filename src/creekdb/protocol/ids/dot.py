"""Identifiers of requests, and immutable sets of them (`creekdb.protocol.ids.version_vector`)."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import lt
from typing import NamedTuple

import msgspec

from creekdb.protocol.ids.intervals import count, difference, intervals_of, take_first


class Dot(NamedTuple):
    """Identifier of a request (line 1): the issuing replica and its event number."""

    replica: int
    event: int

    def __str__(self) -> str:
        return f"{self.replica}.{self.event}"


class Dots(msgspec.Struct, frozen=True, array_like=True):
    """Immutable set of dots, for messages and causal contexts."""

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
        """Return the size. Unlike `len`, this cannot overflow on a set that a peer sent."""
        return count(self.ranges)

    def last(self, replica: int) -> int:
        """Return the greatest event number of `replica` in the set, or 0."""
        ranges = self.ranges.get(replica)
        return ranges[-1] - 1 if ranges else 0

    def last_contiguous(self, replica: int) -> int:
        """Return the event number up to which no event of `replica` is missing, or 0."""
        ranges = self.ranges.get(replica)
        return ranges[1] - 1 if ranges and ranges[0] == 1 else 0

    def take(self, limit: int) -> "Dots":
        """Return at most `limit` dots: the first ones of each replica, in proportion to its share.
        So requests of different replicas that were issued at the same time stay together."""
        total = self.count()
        if total <= limit:
            return self
        taken: dict[int, tuple[int, ...]] = {}
        for replica in sorted(self.ranges):
            ranges = self.ranges[replica]
            available = count({replica: ranges})
            share = -(-limit * available // total)
            if share > 0:
                taken[replica] = tuple(take_first(ranges, share))
                limit -= share
            total -= available
        return Dots(taken)

    def without(self, dots: Iterable[Dot]) -> "Dots":
        """Return the difference with a few single dots, in O(replicas + holes + dots)."""
        removed: dict[int, list[int]] = {}
        for replica, event in sorted(dots):
            removed.setdefault(replica, []).append(event)
        if not removed:
            return self
        remaining = {
            replica: tuple(rest)
            for replica, ranges in self.ranges.items()
            if (rest := difference(ranges, intervals_of(removed.get(replica, ()))))
        }
        return Dots(remaining)

    def is_well_formed(self) -> bool:
        """True if a set received from a peer has ascending ranges of events from 1, with holes."""
        return all(
            ranges and len(ranges) % 2 == 0 and ranges[0] >= 1 and all(map(lt, ranges, ranges[1:]))
            for ranges in self.ranges.values()
        )


def iterate_dots(replica: int, ranges: Sequence[int]) -> Iterator[Dot]:
    for at in range(0, len(ranges), 2):
        for event in range(ranges[at], ranges[at + 1]):
            yield Dot(replica, event)
