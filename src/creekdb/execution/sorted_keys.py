"""Keys in their order, which is found out only as far as somebody looks.

They stand in groups of neighbours. A new key is put into its group and no more: a group is sorted
when somebody goes through it, and when it has grown so large that it is divided. So a key costs
little where nobody looks; and who looks at a few keys waits until a few are sorted, however many
there are.

Within one of the kinds that `creekdb.execution.keys` tells, Python mostly compares the keys
themselves as their places would, and faster; where it cannot, their places are compared.

A key that is removed is passed over at first. Most are back soon: a request was withdrawn that had
written to a new register, and is executed again.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import filterfalse
from typing import Any, Final

from creekdb.execution.keys import KINDS, Place, kind_of, place
from creekdb.protocol.values import Key

GROUP_MAX: Final = 128
"""Keys; of more, two groups are made."""
GONE_MAX: Final = 32
"""Keys that are passed over; of more, the first is taken out. Few, for whoever looks at the head of
a queue finds those there that were its head before."""


class SortedKeys:
    __slots__ = ("_gone", "_kinds")

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._kinds = [_Kind() for _ in range(KINDS)]
        self._gone: dict[Key, None] = {}
        """Those that were removed, and stand in their groups as yet."""
        for key in keys:
            self.add(key)

    def __iter__(self) -> Iterator[Key]:
        for kind in self._kinds:
            for number in range(kind.group_count()):
                yield from self._there(kind.in_order(number))

    def add(self, key: Key) -> None:
        """It is not there yet."""
        if key in self._gone:
            del self._gone[key]
        else:
            self._kinds[kind_of(key)].add(key)

    def remove(self, key: Key) -> None:
        """It is there."""
        gone = self._gone
        gone[key] = None
        if len(gone) > GONE_MAX:
            first = next(iter(gone))
            del gone[first]
            self._kinds[kind_of(first)].take_out(first)

    def between(self, start: Place, stop: Place, reverse: bool) -> Iterator[Key]:
        """Those that stand in [start, stop), in order or in reverse order. Not to be gone on with
        when keys have been added or removed."""
        first: int = start[0] if start else 0
        last: int = stop[0] if stop else 0
        kinds = range(first, min(last + 1, KINDS))
        for kind in reversed(kinds) if reverse else kinds:
            for group in self._kinds[kind].between(start, stop, reverse):
                yield from self._there(reversed(group) if reverse else group)

    def give_up(self, most: int) -> bool:
        """Forget about so many, for nobody needs them; False when there are none any more."""
        while self._kinds and not self._kinds[-1].give_up(most):
            self._kinds.pop()
        return bool(self._kinds)

    def _there(self, keys: Iterable[Key]) -> Iterable[Key]:
        return filterfalse(self._gone.__contains__, keys) if self._gone else keys


class _Kind:
    """All of one kind."""

    __slots__ = ("_groups", "_is_sorted", "_places", "_starts")

    def __init__(self) -> None:
        self._groups: list[list[Any]] = [[]]
        self._starts: list[Any] = []
        """By group, but for the first: its keys stand behind this one, or are it, and those of the
        groups before it do not."""
        self._places: list[Place] = []
        """Where these stand."""
        self._is_sorted = [True]
        """By group."""

    def group_count(self) -> int:
        return len(self._groups)

    def add(self, key: Key) -> None:
        number = self._number(key)
        group = self._groups[number]
        group.append(key)
        self._is_sorted[number] = False
        if len(group) > GROUP_MAX:
            self._divide(number)

    def take_out(self, key: Key) -> None:
        number = self._number(key)
        group = self._groups[number]
        group.remove(key)
        if not group and number:
            del self._groups[number], self._is_sorted[number]
            del self._starts[number - 1], self._places[number - 1]

    def between(self, start: Place, stop: Place, reverse: bool) -> Iterator[list[Key]]:
        """The groups, or parts of them."""
        first = bisect_right(self._places, start)
        end = bisect_left(self._places, stop) + 1
        numbers = range(first, end)
        for number in reversed(numbers) if reverse else numbers:
            group = self.in_order(number)
            if number == end - 1:
                group = group[: bisect_left(group, stop, key=place)]
            if number == first:
                group = group[bisect_left(group, start, key=place) :]
            yield group

    def in_order(self, number: int) -> list[Key]:
        group = self._groups[number]
        if not self._is_sorted[number]:
            try:
                group.sort()
            except TypeError:
                group.sort(key=place)
            self._is_sorted[number] = True
        return group

    def give_up(self, most: int) -> bool:
        groups = most // GROUP_MAX + 1
        del self._groups[-groups:], self._starts[-groups:], self._places[-groups:]
        return bool(self._groups)

    def _number(self, key: Key) -> int:
        """Of the group that it belongs to."""
        try:
            return bisect_right(self._starts, key)
        except TypeError:
            return bisect_right(self._places, place(key))

    def _divide(self, number: int) -> None:
        group = self.in_order(number)
        half = len(group) // 2
        upper = group[half:]
        del group[half:]
        self._groups.insert(number + 1, upper)
        self._is_sorted.insert(number + 1, True)
        self._starts.insert(number, upper[0])
        self._places.insert(number, place(upper[0]))
