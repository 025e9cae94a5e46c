"""Runs of consecutive numbers, as flat ascending sequences `start, end, start, end, …`.

Each pair is a half-open range, with a hole between any two. Nothing here costs more than there are
ranges.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import ne


def intervals_of(numbers: Iterable[int]) -> list[int]:
    """Of numbers that ascend."""
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
    """The first `limit` numbers."""
    kept: list[int] = []
    for start, end in _pairs(ranges):
        if limit <= 0:
            break
        kept += (start, min(end, start + limit))
        limit -= kept[-1] - start
    return kept


def union(left: Sequence[int], right: Sequence[int]) -> list[int]:
    merged: list[int] = []
    for start, end in sorted([*_pairs(left), *_pairs(right)]):
        if merged and start <= merged[-1]:
            merged[-1] = max(merged[-1], end)
        else:
            merged += (start, end)
    return merged


def difference(ranges: Sequence[int], removed: Sequence[int]) -> list[int]:
    """The ranges of `ranges` that `removed` does not cover. What both begin with, and what one
    removed range covers, is passed over in one step: the cost is that of the places that differ."""
    left: list[int] = []
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
            left += (start, removed[cut])
            start = removed[cut + 1]
            cut += 2
        if start < end:
            left += (start, end)
        index += 2
    return left


def last_outside(ranges: Sequence[int], others: Sequence[int]) -> int | None:
    """The last number in `ranges` that is not in `others`, or None. The search begins at the end
    and ends with the first that is found: however many are missing, it costs no more."""
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
    """How many edges, in whole ranges, the two begin with alike."""
    for index, differs in enumerate(map(ne, left, right)):
        if differs:
            return index & ~1
    return min(len(left), len(right))
