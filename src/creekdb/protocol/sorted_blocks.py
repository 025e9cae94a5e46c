"""Things in the order of their ranks, for those who mostly add at the end and take from the front.

Both cost the same however many things there are. Anywhere else it takes a search, and moves no more
than the hundred or two around the place.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, Final, Generic, TypeAlias, TypeVar

SortKey: TypeAlias = int | tuple[int, ...]
"""No two things have the same, and all ranks are of one kind. With many things, numbers are found
twice as fast."""

T = TypeVar("T")

BLOCK_SIZE: Final = 128
"""Things that are moved at once; at most twice as many."""


class _Block(Generic[T]):
    """Never empty, once it is in its place."""

    __slots__ = ("items", "keys")

    def __init__(self, ranks: list[Any], things: list[T]) -> None:
        self.keys = ranks
        self.items = things


class SortedBlocks(Generic[T]):
    __slots__ = ("_blocks", "_last_keys", "_length")

    def __init__(self) -> None:
        self._blocks: list[_Block[T]] = []
        self._last_keys: list[Any] = []
        """Of each part, the last rank."""
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        for part in self._blocks:
            yield from part.items

    def after(self, rank: SortKey) -> Iterator[T]:
        """Those that come after `rank`, whether or not there is a thing of that rank."""
        first = self._block_index(rank)
        for index in range(first, len(self._blocks)):
            part = self._blocks[index]
            begin = bisect_right(part.keys, rank) if index == first else 0
            for at in range(begin, len(part.items)):
                yield part.items[at]

    def first(self) -> T | None:
        return self._blocks[0].items[0] if self._blocks else None

    def last(self, most: int) -> list[T]:
        """The last of them, in their order: at most so many."""
        found: list[T] = []
        for part in reversed(self._blocks):
            if len(found) >= most:
                break
            found = part.items[-(most - len(found)) :] + found
        return found

    def add(self, rank: SortKey, thing: T) -> None:
        parts = self._blocks
        self._length += 1
        lasts = self._last_keys
        if not lasts or lasts[-1] < rank:
            if lasts and len(parts[-1].keys) < BLOCK_SIZE:
                parts[-1].keys.append(rank)
                parts[-1].items.append(thing)
                lasts[-1] = rank
            else:
                parts.append(_Block([rank], [thing]))
                lasts.append(rank)
            return
        index = self._block_index(rank)
        part = parts[index]
        at = bisect_left(part.keys, rank)
        part.keys[at:at] = (rank,)  # moves what follows faster than `insert` does
        part.items[at:at] = (thing,)
        if len(part.keys) > 2 * BLOCK_SIZE:
            parts.insert(index + 1, _Block(part.keys[BLOCK_SIZE:], part.items[BLOCK_SIZE:]))
            lasts.insert(index, part.keys[BLOCK_SIZE - 1])
            del part.keys[BLOCK_SIZE:]
            del part.items[BLOCK_SIZE:]

    def remove_first(self, thing: T) -> bool:
        """Is it the first? It is there no more."""
        if not self._blocks or self._blocks[0].items[0] is not thing:
            return False
        self._remove_at(0, 0)
        return True

    def remove(self, rank: SortKey, thing: T) -> bool:
        """Is it there, at this rank? It is not any more."""
        if self.remove_first(thing):
            return True
        parts = self._blocks
        index = self._block_index(rank)
        if index == len(parts):
            return False
        part = parts[index]
        at = bisect_left(part.keys, rank)
        if part.items[at] is not thing:
            return False
        self._remove_at(index, at)
        return True

    def _remove_at(self, index: int, at: int) -> None:
        parts = self._blocks
        part = parts[index]
        self._length -= 1
        if len(part.keys) == 1:
            del parts[index]
            del self._last_keys[index]
        else:
            del part.keys[at]
            del part.items[at]
            self._last_keys[index] = part.keys[-1]

    def clear(self) -> None:
        self._blocks, self._last_keys = [], []
        self._length = 0

    def _block_index(self, rank: SortKey) -> int:
        """The first part that has, or would have, a thing of that rank or a later one."""
        return bisect_left(self._last_keys, rank)
