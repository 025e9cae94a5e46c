"""Keys in their order, which is found out only as far as somebody looks.

They stand in groups of neighbours. A new key is put into its group and no more: a group is sorted
when somebody goes through it, and when it has grown so large that it is divided. So a key costs
little where nobody looks; and who looks at a few keys waits until a few are sorted, however many
there are.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Final

from creek.execution.keys import FIRST_PLACE, Place, place
from creek.protocol.values import Key

GROUP_MAX: Final = 128
"""Keys; of more, two groups are made."""
FEW_PART: Final = 16
"""If new keys are a smaller part of a group, each is put where it belongs."""


class SortedKeys:
    __slots__ = ("_groups", "_sorted", "_starts")

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._groups: list[list[Key]] = [[]]
        self._starts: list[Place] = [FIRST_PLACE]
        """By group: its keys stand here or behind it, those of the groups before it do not."""
        self._sorted = [0]
        """By group, how many keys at its beginning are in order."""
        for key in keys:
            self.add(key)

    def __iter__(self) -> Iterator[Key]:
        for number in range(len(self._groups)):
            yield from self._in_order(number)

    def add(self, key: Key) -> None:
        """It is not there yet."""
        number = bisect_right(self._starts, place(key)) - 1
        group = self._groups[number]
        group.append(key)
        if len(group) > GROUP_MAX:
            self._divide(number)

    def remove(self, key: Key) -> None:
        """It is there."""
        number = bisect_right(self._starts, place(key)) - 1
        group = self._groups[number]
        at = group.index(key)
        del group[at]
        if at < self._sorted[number]:
            self._sorted[number] -= 1
        if not group and number:
            del self._groups[number], self._starts[number], self._sorted[number]

    def between(self, start: Place, stop: Place, reverse: bool) -> Iterator[Key]:
        """Those that stand in [start, stop), in order or in reverse order. Not to be gone on with
        when keys have been added or removed."""
        first = bisect_right(self._starts, start) - 1
        end = bisect_left(self._starts, stop)
        numbers = range(first, end)
        for number in reversed(numbers) if reverse else numbers:
            group = self._in_order(number)
            if number == first or number == end - 1:
                left = bisect_left(group, start, key=place)
                group = group[left : bisect_left(group, stop, key=place)]
            yield from reversed(group) if reverse else group

    def give_up(self, most: int) -> bool:
        """Forget about so many, for nobody needs them; False when there are none any more."""
        del self._groups[-(most // GROUP_MAX + 1) :]
        return bool(self._groups)

    def _in_order(self, number: int) -> list[Key]:
        group, sorted_count = self._groups[number], self._sorted[number]
        if sorted_count < len(group):
            if (len(group) - sorted_count) * FEW_PART < len(group):
                new = group[sorted_count:]
                del group[sorted_count:]
                for key in new:
                    insort(group, key, key=place)
            else:
                group.sort(key=place)
            self._sorted[number] = len(group)
        return group

    def _divide(self, number: int) -> None:
        group = self._in_order(number)
        half = len(group) // 2
        upper = group[half:]
        del group[half:]
        self._sorted[number] = half
        self._groups.insert(number + 1, upper)
        self._starts.insert(number + 1, place(upper[0]))
        self._sorted.insert(number + 1, len(upper))
