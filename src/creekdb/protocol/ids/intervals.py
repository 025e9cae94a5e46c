"""Sets of integers as flat ascending sequences `start, end, start, end, …`.

Each pair is a half-open interval, with a gap between any two. Every function here costs at most
O(intervals).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import ne


def intervals_of(numbers: Iterable[int]) -> list[int]:
    """Return the intervals of ascending numbers."""
    runs: list[int] = []
    for number in numbers:
        if not runs or runs[-1] < number:
            runs += (number, number + 1)
        else:
            runs[-1] = number + 1
    return runs


def _pairs(ranges: Sequence[int]) -> Iterator[tuple[int, int]]:
    return zip(ranges[::2], ranges[1::2], strict=True)


def count(ranges: Mapping[int, Sequence[int]]) -> int:
    return sum(sum(each[1::2]) - sum(each[::2]) for each in ranges.values())


def take_first(ranges: Sequence[int], limit: int) -> list[int]:
    """Return the intervals of the first `limit` numbers."""
    taken: list[int] = []
    for start, end in _pairs(ranges):
        if limit <= 0:
            break
        taken += (start, min(end, start + limit))
        limit -= taken[-1] - start
    return taken


def union(left: Sequence[int], right: Sequence[int]) -> list[int]:
    merged: list[int] = []
    for start, end in sorted([*_pairs(left), *_pairs(right)]):
        if merged and start <= merged[-1]:
            merged[-1] = max(merged[-1], end)
        else:
            merged += (start, end)
    return merged


def difference(ranges: Sequence[int], removed: Sequence[int]) -> list[int]:
    """Return the numbers of `ranges` that are not in `removed`. A common prefix, and intervals
    inside one removed interval, are skipped in one step. The cost is that of the differences."""
    remaining: list[int] = []
    index = at = _common_prefix_length(ranges, removed)
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
            remaining += (start, removed[cut])
            start = removed[cut + 1]
            cut += 2
        if start < end:
            remaining += (start, end)
        index += 2
    return remaining


def last_outside(ranges: Sequence[int], others: Sequence[int]) -> int | None:
    """Return the last number of `ranges` that is not in `others`, or None. The search runs from the
    end and stops at the first hit, so its cost does not depend on how many are missing."""
    index = len(ranges) - 2
    at = bisect_right(others, ranges[index + 1] - 1) - 1 if index >= 0 else 0
    while index >= 0:
        last = ranges[index + 1] - 1
        while at >= 0 and others[at] > last:
            at -= 1
        if at < 0 or at % 2:
            return last
        if others[at] > ranges[index]:
            return others[at] - 1
        index -= 2
    return None


def _common_prefix_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Return the length of the common prefix of both, in edges of whole intervals."""
    for index, differs in enumerate(map(ne, left, right)):
        if differs:
            return index & ~1
    return min(len(left), len(right))
