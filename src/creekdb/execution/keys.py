"""Order of keys: total, and equal in every process.

Integers come first, then strings by code point, then tuples, compared by component with the same
rule. A tuple directly precedes its extensions. The *collation key* of a key is a flat tuple that
Python compares in that order. A range of keys is a half-open range of collation keys. It can
therefore end between keys, for instance after every key that starts with a prefix.

Registers of Creek itself come after all others, where no scan of an operation reads them.

`SortedKeys` sorts keys only as far as they are read. It keeps them in groups of neighbours. A new
key is appended to its group. A group is sorted when it is read, or when it is large enough to be
split. Adding a key is therefore cheap, and a scan of a few keys sorts only a few, however many
there are.

Within one kind (`kind_of`), Python mostly orders the keys themselves like their collation keys, and
faster. Where it cannot, the collation keys are compared.

A removed key stays in its group at first, and readers skip it. Most removed keys return soon: a
request that wrote to a new register was rolled back, and is executed again.
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
RESERVED_KIND: Final = 4
KIND_COUNT: Final = 5
FIRST_COLLATION_KEY: Final[CollationKey] = ()
LAST_COLLATION_KEY: Final[CollationKey] = (_END,)

CALLS_PREFIX: Final = "creek.calls"
IDENTITY_PREFIX: Final = "creek.identity"
SINKS_PREFIX: Final = "creek.sinks"
RESERVED_PREFIXES: Final = frozenset(
    (CALLS_PREFIX, "creekdb.client", MEMBERSHIP_OPERATION, IDENTITY_PREFIX, SINKS_PREFIX)
)
"""First components of the keys that Creek reserves, or reserved in earlier versions. A register
with another format has another name."""


def check_key(key: Any) -> None:
    """Raise `BadValue` for an invalid key, such as a bool: `True` and `1` are the same register."""
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
    """Return the kind of `key`. All keys of one kind precede all keys of the next kind.

    Python orders two keys of a kind like their collation keys. It raises TypeError if a number in
    one tuple meets a string in the other.
    """
    if isinstance(key, tuple):
        return RESERVED_KIND if key and key[0] in RESERVED_PREFIXES else _TUPLE
    return _STR if isinstance(key, str) else _INT


def collation_key(key: Key) -> CollationKey:
    """Return the sort key of `key` among all keys."""
    kind = kind_of(key)
    if not isinstance(key, tuple):
        return (kind, key)
    flat: list[str | int] = [kind]
    for each in key:
        flat += (_STR, each) if type(each) is str else (_INT, each)
    return tuple(flat)


def prefix_range(prefix: str | tuple[str | int, ...]) -> tuple[CollationKey, CollationKey]:
    """Return the range of the keys of the same type, tuple or str, that start with `prefix`."""
    start = collation_key(prefix)
    if isinstance(prefix, tuple):
        return start, (*start, _END)
    stem = prefix.rstrip("\U0010ffff")
    return start, (_STR, stem[:-1] + chr(ord(stem[-1]) + 1)) if stem else (_TUPLE,)


def merge_sorted_keys(left: Iterator[Key], right: Iterator[Key], reverse: bool) -> Iterator[Key]:
    """Merge two ordered sequences of keys, without duplicates."""
    left_key, right_key = next(left, None), next(right, None)
    while left_key is not None and right_key is not None:
        if left_key == right_key:
            yield left_key
            left_key, right_key = next(left, None), next(right, None)
        elif (collation_key(left_key) > collation_key(right_key)) == reverse:
            yield left_key
            left_key = next(left, None)
        else:
            yield right_key
            right_key = next(right, None)
    if left_key is not None:
        yield left_key
        yield from left
    if right_key is not None:
        yield right_key
        yield from right


def _check_component(component: Any) -> None:
    kind = type(component)
    if kind is not str and kind is not int:
        raise BadValue(
            f"a key is a str, an int or a tuple of these, not one with a {kind.__name__}"
        )
    problem = describe_unserializable(component)
    if problem is not None:
        raise BadValue(f"a key holds {problem}, which cannot be sent")


GROUP_MAX: Final = 128
"""Maximum number of keys in a group. A larger group is split."""
REMOVED_MAX: Final = 32
"""Maximum number of removed keys that readers skip. Above it, the oldest is deleted from its group.
The number is small, because the reader of a queue's head skips all former heads."""


class SortedKeys:
    """Set of keys that is sorted as far as it is read."""

    __slots__ = ("_kinds", "_removed")

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._kinds = [_KindGroups() for _ in range(KIND_COUNT)]
        self._removed: dict[Key, None] = {}
        """Removed keys that are still in their groups."""
        for key in keys:
            self.add(key)

    def __iter__(self) -> Iterator[Key]:
        for kind in self._kinds:
            for number in range(len(kind.groups)):
                yield from self._present(kind.sorted_group(number))

    def add(self, key: Key) -> None:
        """Add a key that is not in the set."""
        if key in self._removed:
            del self._removed[key]
        else:
            self._kinds[kind_of(key)].add(key)

    def remove(self, key: Key) -> None:
        """Remove a key that is in the set."""
        removed = self._removed
        removed[key] = None
        if len(removed) > REMOVED_MAX:
            oldest = next(iter(removed))
            del removed[oldest]
            self._kinds[kind_of(oldest)].remove(oldest)

    def between(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        """Yield the keys in [start, stop), in ascending or descending order.

        Adding or removing a key invalidates the iterator.
        """
        first: int = start[0] if start else 0
        last: int = stop[0] if stop else 0
        kinds = range(first, min(last + 1, KIND_COUNT))
        for kind in reversed(kinds) if reverse else kinds:
            for group in self._kinds[kind].between(start, stop, reverse):
                yield from self._present(reversed(group) if reverse else group)

    def discard(self, count: int) -> bool:
        """Release about `count` keys of an unused set. Return False once none are left."""
        while self._kinds and not self._kinds[-1].discard(count):
            self._kinds.pop()
        return bool(self._kinds)

    def _present(self, keys: Iterable[Key]) -> Iterable[Key]:
        return filterfalse(self._removed.__contains__, keys) if self._removed else keys


class _KindGroups:
    """Groups of the keys of one kind."""

    __slots__ = ("_is_sorted", "_start_collation_keys", "_starts", "groups")

    def __init__(self) -> None:
        self.groups: list[list[Any]] = [[]]
        self._starts: list[Any] = []
        """Lower bounds of the groups, except the first. All keys of earlier groups are smaller."""
        self._start_collation_keys: list[CollationKey] = []
        """Collation keys of `_starts`."""
        self._is_sorted = [True]
        """True for every group that is sorted."""

    def add(self, key: Key) -> None:
        number = self._group_number(key)
        group = self.groups[number]
        group.append(key)
        self._is_sorted[number] = False
        if len(group) > GROUP_MAX:
            self._split(number)

    def remove(self, key: Key) -> None:
        number = self._group_number(key)
        group = self.groups[number]
        group.remove(key)
        if not group and number:
            del self.groups[number], self._is_sorted[number]
            del self._starts[number - 1], self._start_collation_keys[number - 1]

    def between(
        self, start: CollationKey, stop: CollationKey, reverse: bool
    ) -> Iterator[list[Key]]:
        """Yield the part of each group that is in the range."""
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
        group = self.groups[number]
        if not self._is_sorted[number]:
            try:
                group.sort()
            except TypeError:
                group.sort(key=collation_key)
            self._is_sorted[number] = True
        return group

    def discard(self, count: int) -> bool:
        groups = count // GROUP_MAX + 1
        del self.groups[-groups:], self._starts[-groups:], self._start_collation_keys[-groups:]
        return bool(self.groups)

    def _group_number(self, key: Key) -> int:
        """Return the number of the group that `key` belongs to."""
        try:
            return bisect_right(self._starts, key)
        except TypeError:
            return bisect_right(self._start_collation_keys, collation_key(key))

    def _split(self, number: int) -> None:
        group = self.sorted_group(number)
        half = len(group) // 2
        upper = group[half:]
        del group[half:]
        self.groups.insert(number + 1, upper)
        self._is_sorted.insert(number + 1, True)
        self._starts.insert(number, upper[0])
        self._start_collation_keys.insert(number, collation_key(upper[0]))
