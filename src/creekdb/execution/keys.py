"""The order of keys: total, and the same in every process.

Integers come first, then strings by code point, then tuples, component by component with the same
rule; a tuple comes right before its extensions. A key's *place* is a flat tuple that Python
compares in that order. A range of keys is a half-open range of places, so that it can end where no
key is: after every key that starts with a prefix, for instance. Must not know what is stored.

Registers that Creek keeps for itself stand behind all others, where no operation looks.

Keys in their order, which is found out only as far as somebody looks.

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
from typing import Any, Final, TypeAlias

from creekdb.errors import BadValue
from creekdb.execution.serializable import (
    SMALL_INT_MAX,
    SMALL_INT_MIN,
    describe_unserializable,
    is_ascii,
)
from creekdb.protocol.membership.configuration import MEMBERSHIP_OPERATION
from creekdb.protocol.values import Key

CollationKey: TypeAlias = tuple[Any, ...]

_INT: Final = 0
_STR: Final = 1
_TUPLE: Final = 2
_END: Final = 3
_RESERVED: Final = 4
KIND_COUNT: Final = 5
FIRST_COLLATION_KEY: Final[CollationKey] = ()
LAST_COLLATION_KEY: Final[CollationKey] = (_END,)

CALLS_PREFIX: Final = "creek.calls"
RESERVED_PREFIXES: Final = frozenset((CALLS_PREFIX, "creekdb.client", MEMBERSHIP_OPERATION))
"""With what the keys of registers begin that Creek keeps for itself, or did once: what is kept in
another form has another name."""


def check_key(key: Any) -> None:
    """Raise `BadValue` unless `key` is one. A bool is not: `True` and `1` are the same register."""
    kind = type(key)
    if kind is tuple:
        components: tuple[Any, ...] = key
        for each in components:
            kind = type(each)
            if kind is int:
                number: int = each
                if SMALL_INT_MIN <= number <= SMALL_INT_MAX:
                    continue
            elif kind is str and is_ascii(each):
                continue
            _check_component(each)
    elif kind is not str or not is_ascii(key):
        _check_component(key)


def kind_of(key: Key) -> int:
    """All keys of one kind stand before all of the next one. Two keys of a kind are compared by
    Python as their places are, unless a number stands in one where the other has a string: that is
    a TypeError."""
    if isinstance(key, tuple):
        return _RESERVED if key and key[0] in RESERVED_PREFIXES else _TUPLE
    return _STR if isinstance(key, str) else _INT


def collation_key(key: Key) -> CollationKey:
    """Where `key` stands among all keys."""
    kind = kind_of(key)
    if not isinstance(key, tuple):
        return (kind, key)
    flat: list[str | int] = [kind]
    for each in key:
        flat += (_STR, each) if type(each) is str else (_INT, each)
    return tuple(flat)


def prefix_range(prefix: str | tuple[str | int, ...]) -> tuple[CollationKey, CollationKey]:
    """The places of the keys of the same type, tuple or str, that start with `prefix`."""
    start = collation_key(prefix)
    if isinstance(prefix, tuple):
        return start, (*start, _END)
    return start, _end_of_string_prefix(prefix)


def _end_of_string_prefix(prefix: str) -> CollationKey:
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return (_TUPLE,)
    return (_STR, kept[:-1] + chr(ord(kept[-1]) + 1))


def _check_component(component: Any) -> None:
    kind = type(component)
    if kind is not str and kind is not int:
        raise BadValue(
            f"a key is a str, an int or a tuple of these, not one with a {kind.__name__}"
        )
    found = describe_unserializable(component)
    if found is not None:
        raise BadValue(f"a key holds {found}, which cannot be sent")


GROUP_MAX: Final = 128
"""Keys; of more, two groups are made."""
REMOVED_MAX: Final = 32
"""Keys that are passed over; of more, the first is taken out. Few, for whoever looks at the head of
a queue finds those there that were its head before."""


class SortedKeys:
    __slots__ = ("_kinds", "_removed")

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._kinds = [_KindGroups() for _ in range(KIND_COUNT)]
        self._removed: dict[Key, None] = {}
        """Those that were removed, and stand in their groups as yet."""
        for key in keys:
            self.add(key)

    def __iter__(self) -> Iterator[Key]:
        for kind in self._kinds:
            for number in range(kind.group_count()):
                yield from self._present(kind.sorted_group(number))

    def add(self, key: Key) -> None:
        """It is not there yet."""
        if key in self._removed:
            del self._removed[key]
        else:
            self._kinds[kind_of(key)].add(key)

    def remove(self, key: Key) -> None:
        """It is there."""
        gone = self._removed
        gone[key] = None
        if len(gone) > REMOVED_MAX:
            first = next(iter(gone))
            del gone[first]
            self._kinds[kind_of(first)].remove(first)

    def between(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        """Those that stand in [start, stop), in order or in reverse order. Not to be gone on with
        when keys have been added or removed."""
        first: int = start[0] if start else 0
        last: int = stop[0] if stop else 0
        kinds = range(first, min(last + 1, KIND_COUNT))
        for kind in reversed(kinds) if reverse else kinds:
            for group in self._kinds[kind].between(start, stop, reverse):
                yield from self._present(reversed(group) if reverse else group)

    def discard(self, most: int) -> bool:
        """Forget about so many, for nobody needs them; False when there are none any more."""
        while self._kinds and not self._kinds[-1].discard(most):
            self._kinds.pop()
        return bool(self._kinds)

    def _present(self, keys: Iterable[Key]) -> Iterable[Key]:
        return filterfalse(self._removed.__contains__, keys) if self._removed else keys


class _KindGroups:
    """All of one kind."""

    __slots__ = ("_groups", "_is_sorted", "_start_collation_keys", "_starts")

    def __init__(self) -> None:
        self._groups: list[list[Any]] = [[]]
        self._starts: list[Any] = []
        """By group, but for the first: its keys stand behind this one, or are it, and those of the
        groups before it do not."""
        self._start_collation_keys: list[CollationKey] = []
        """Where these stand."""
        self._is_sorted = [True]
        """By group."""

    def group_count(self) -> int:
        return len(self._groups)

    def add(self, key: Key) -> None:
        number = self._group_number(key)
        group = self._groups[number]
        group.append(key)
        self._is_sorted[number] = False
        if len(group) > GROUP_MAX:
            self._split(number)

    def remove(self, key: Key) -> None:
        number = self._group_number(key)
        group = self._groups[number]
        group.remove(key)
        if not group and number:
            del self._groups[number], self._is_sorted[number]
            del self._starts[number - 1], self._start_collation_keys[number - 1]

    def between(
        self, start: CollationKey, stop: CollationKey, reverse: bool
    ) -> Iterator[list[Key]]:
        """The groups, or parts of them."""
        first = bisect_right(self._start_collation_keys, start)
        end = bisect_left(self._start_collation_keys, stop) + 1
        numbers = range(first, end)
        for number in reversed(numbers) if reverse else numbers:
            group = self.sorted_group(number)
            if number == end - 1:
                group = group[: bisect_left(group, stop, key=collation_key)]
            if number == first:
                group = group[bisect_left(group, start, key=collation_key) :]
            yield group

    def sorted_group(self, number: int) -> list[Key]:
        group = self._groups[number]
        if not self._is_sorted[number]:
            try:
                group.sort()
            except TypeError:
                group.sort(key=collation_key)
            self._is_sorted[number] = True
        return group

    def discard(self, most: int) -> bool:
        groups = most // GROUP_MAX + 1
        del self._groups[-groups:], self._starts[-groups:], self._start_collation_keys[-groups:]
        return bool(self._groups)

    def _group_number(self, key: Key) -> int:
        """Of the group that it belongs to."""
        try:
            return bisect_right(self._starts, key)
        except TypeError:
            return bisect_right(self._start_collation_keys, collation_key(key))

    def _split(self, number: int) -> None:
        group = self.sorted_group(number)
        half = len(group) // 2
        upper = group[half:]
        del group[half:]
        self._groups.insert(number + 1, upper)
        self._is_sorted.insert(number + 1, True)
        self._starts.insert(number, upper[0])
        self._start_collation_keys.insert(number, collation_key(upper[0]))
