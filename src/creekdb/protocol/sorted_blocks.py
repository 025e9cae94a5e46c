"""Sorted sequence, optimised for insertion at the end and removal at the front.

Both cost O(1). Any other position costs a binary search, and moves at most the items of one block.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, Final, Generic, TypeAlias, TypeVar

SortKey: TypeAlias = int | tuple[int, ...]
"""Unique key of an item. All keys of a sequence have the same type. In a long sequence, integers
are found twice as fast as tuples."""

T = TypeVar("T")

BLOCK_SIZE: Final = 128
"""Size of a block that is filled from the end. A block holds at most twice as many items."""
INSERT_SHIFT_MAX: Final = 64
"""Number of following items up to which `insert` is faster than the assignment of a slice, which
shifts them in one step."""


class _Block(Generic[T]):
    """Run of items with their keys. Never empty once it is part of a sequence."""

    __slots__ = ("items", "keys")

    def __init__(self, keys: list[Any], items: list[T]) -> None:
        self.keys = keys
        self.items = items


class SortedBlocks(Generic[T]):
    __slots__ = ("_blocks", "_last_keys", "_length")

    def __init__(self) -> None:
        self._blocks: list[_Block[T]] = []
        self._last_keys: list[Any] = []
        """Last key of each block."""
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        for block in self._blocks:
            yield from block.items

    def after(self, key: SortKey) -> Iterator[T]:
        """Yield the items after `key`, whether or not an item has that key."""
        first = self._block_index(key)
        for index in range(first, len(self._blocks)):
            block = self._blocks[index]
            begin = bisect_right(block.keys, key) if index == first else 0
            for position in range(begin, len(block.items)):
                yield block.items[position]

    def first(self) -> T | None:
        return self._blocks[0].items[0] if self._blocks else None

    def last(self, limit: int) -> list[T]:
        """Return at most `limit` of the last items, in order."""
        result: list[T] = []
        for block in reversed(self._blocks):
            if len(result) >= limit:
                break
            result = block.items[-(limit - len(result)) :] + result
        return result

    def add(self, key: SortKey, item: T) -> None:
        blocks = self._blocks
        self._length += 1
        last_keys = self._last_keys
        if not last_keys or last_keys[-1] < key:
            if last_keys and len(blocks[-1].keys) < BLOCK_SIZE:
                blocks[-1].keys.append(key)
                blocks[-1].items.append(item)
                last_keys[-1] = key
            else:
                blocks.append(_Block([key], [item]))
                last_keys.append(key)
            return
        is_in_last = len(last_keys) == 1 or last_keys[-2] < key  # the usual case
        index = len(last_keys) - 1 if is_in_last else self._block_index(key)
        block = blocks[index]
        position = bisect_left(block.keys, key)
        if len(block.keys) - position <= INSERT_SHIFT_MAX:
            block.keys.insert(position, key)
            block.items.insert(position, item)
        else:
            block.keys[position:position] = (key,)
            block.items[position:position] = (item,)
        if len(block.keys) > 2 * BLOCK_SIZE:
            blocks.insert(index + 1, _Block(block.keys[BLOCK_SIZE:], block.items[BLOCK_SIZE:]))
            last_keys.insert(index, block.keys[BLOCK_SIZE - 1])
            del block.keys[BLOCK_SIZE:]
            del block.items[BLOCK_SIZE:]

    def remove_first(self, item: T) -> bool:
        """Remove `item` if it is the first one; True if it was."""
        if not self._blocks or self._blocks[0].items[0] is not item:
            return False
        self._remove_at(0, 0)
        return True

    def remove(self, key: SortKey, item: T) -> bool:
        """Remove `item` if it has this key; True if it was present."""
        if self.remove_first(item):
            return True
        blocks = self._blocks
        index = self._block_index(key)
        if index == len(blocks):
            return False
        block = blocks[index]
        position = bisect_left(block.keys, key)
        if block.items[position] is not item:
            return False
        self._remove_at(index, position)
        return True

    def _remove_at(self, index: int, position: int) -> None:
        blocks = self._blocks
        block = blocks[index]
        self._length -= 1
        if len(block.keys) == 1:
            del blocks[index]
            del self._last_keys[index]
        else:
            del block.keys[position]
            del block.items[position]
            self._last_keys[index] = block.keys[-1]

    def clear(self) -> None:
        self._blocks, self._last_keys = [], []
        self._length = 0

    def _block_index(self, key: SortKey) -> int:
        """Return the index of the first block that may contain an item at or after `key`."""
        return bisect_left(self._last_keys, key)
