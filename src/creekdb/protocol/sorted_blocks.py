"""Things in the order of their ranks, for those who mostly add at the end and take from the front.

Both cost the same however many things there are. Anywhere else it takes a search, and moves no more
than the hundred or two around the place.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, Final, Generic, TypeAlias, TypeVar

Rank: TypeAlias = int | tuple[int, ...]
"""No two things have the same, and all ranks are of one kind. With many things, numbers are found
twice as fast."""

T = TypeVar("T")

PART: Final = 128
"""Things that are moved at once; at most twice as many."""


class _Part(Generic[T]):
    """Never empty, once it is in its place."""

    __slots__ = ("ranks", "things")

    def __init__(self, ranks: list[Any], things: list[T]) -> None:
        self.ranks = ranks
        self.things = things


class Ranking(Generic[T]):
    __slots__ = ("_lasts", "_length", "_parts")

    def __init__(self) -> None:
        self._parts: list[_Part[T]] = []
        self._lasts: list[Any] = []
        """Of each part, the last rank."""
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        for part in self._parts:
            yield from part.things

    def after(self, rank: Rank) -> Iterator[T]:
        """Those that come after `rank`, whether or not there is a thing of that rank."""
        first = self._part_of(rank)
        for index in range(first, len(self._parts)):
            part = self._parts[index]
            begin = bisect_right(part.ranks, rank) if index == first else 0
            for at in range(begin, len(part.things)):
                yield part.things[at]

    def first(self) -> T | None:
        return self._parts[0].things[0] if self._parts else None

    def last(self, most: int) -> list[T]:
        """The last of them, in their order: at most so many."""
        found: list[T] = []
        for part in reversed(self._parts):
            if len(found) >= most:
                break
            found = part.things[-(most - len(found)) :] + found
        return found

    def add(self, rank: Rank, thing: T) -> None:
        parts = self._parts
        self._length += 1
        lasts = self._lasts
        if not lasts or lasts[-1] < rank:
            if lasts and len(parts[-1].ranks) < PART:
                parts[-1].ranks.append(rank)
                parts[-1].things.append(thing)
                lasts[-1] = rank
            else:
                parts.append(_Part([rank], [thing]))
                lasts.append(rank)
            return
        index = self._part_of(rank)
        part = parts[index]
        at = bisect_left(part.ranks, rank)
        part.ranks[at:at] = (rank,)  # moves what follows faster than `insert` does
        part.things[at:at] = (thing,)
        if len(part.ranks) > 2 * PART:
            parts.insert(index + 1, _Part(part.ranks[PART:], part.things[PART:]))
            lasts.insert(index, part.ranks[PART - 1])
            del part.ranks[PART:]
            del part.things[PART:]

    def remove_first(self, thing: T) -> bool:
        """Is it the first? It is there no more."""
        if not self._parts or self._parts[0].things[0] is not thing:
            return False
        self._take_out(0, 0)
        return True

    def remove(self, rank: Rank, thing: T) -> bool:
        """Is it there, at this rank? It is not any more."""
        if self.remove_first(thing):
            return True
        parts = self._parts
        index = self._part_of(rank)
        if index == len(parts):
            return False
        part = parts[index]
        at = bisect_left(part.ranks, rank)
        if part.things[at] is not thing:
            return False
        self._take_out(index, at)
        return True

    def _take_out(self, index: int, at: int) -> None:
        parts = self._parts
        part = parts[index]
        self._length -= 1
        if len(part.ranks) == 1:
            del parts[index]
            del self._lasts[index]
        else:
            del part.ranks[at]
            del part.things[at]
            self._lasts[index] = part.ranks[-1]

    def clear(self) -> None:
        self._parts, self._lasts = [], []
        self._length = 0

    def _part_of(self, rank: Rank) -> int:
        """The first part that has, or would have, a thing of that rank or a later one."""
        return bisect_left(self._lasts, rank)
