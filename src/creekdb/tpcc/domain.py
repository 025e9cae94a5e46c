"""Which keys there are in the beginning, and walking through a range of them in order.

A register's keys form a tree: its name, then a warehouse, then what that warehouse has, and so on.
A `Domain` says what can follow a beginning of a key: a range of numbers, or sorted texts. So
neither asking for a key nor finding the first one of a range needs the others. Must not know
values.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from creekdb.execution.keys import Place
from creekdb.protocol.values import Key

Level: TypeAlias = range | tuple[str, ...] | Callable[..., range]
"""What can follow, without gaps, or how to tell from the parts of the key before it, without the
name."""
Domain: TypeAlias = tuple[Level, ...]

_NO_RANGE: Final = -1
"""In place of where a range stops."""
_INT, _STR, _TUPLE = 0, 1, 2  # how a place tells kinds apart, see creekdb.execution.keys


class Fence:
    """What is a key of a domain, and what is not: told quickly where levels are ranges. What
    follows a beginning of a key is remembered until another one is asked for."""

    __slots__ = ("_domain", "_following", "_starts", "_stops")

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._starts = [level.start if isinstance(level, range) else 0 for level in domain]
        self._stops = [level.stop if isinstance(level, range) else _NO_RANGE for level in domain]
        self._following: tuple[tuple[Any, ...], int, int] = (None,), 0, 0

    def contains(self, parts: tuple[Any, ...]) -> bool:
        """Are these, after the register's name, the parts of a key?"""
        if len(parts) != len(self._stops):
            return False
        for index in range(len(parts)):
            part = parts[index]
            start, stop = self._starts[index], self._stops[index]
            if stop == _NO_RANGE:
                level = self._domain[index]
                if not callable(level):
                    if type(part) is str and part in level:
                        continue
                    return False
                head, start, stop = self._following
                if head != parts[:index]:
                    head = parts[:index]
                    children = level(*head)
                    start, stop = children.start, children.stop
                    self._following = head, start, stop
            if type(part) is not int:
                return False
            number: int = part
            if not start <= number < stop:
                return False
        return True


def walk(domains: dict[str, Domain], start: Place, stop: Place, reverse: bool) -> Iterator[Key]:
    """The keys that stand in [start, stop). The names in `domains` must be sorted."""
    low = _inside(start, _TUPLE)
    high = _inside(stop, _TUPLE)
    if low is AFTER or high is BEFORE:
        return
    names: list[str] = list(domains)
    for name, name_low, name_high in _children(names, _STR, low, high, reverse):
        yield from _descend((name,), domains[name], name_low, name_high, reverse)


class _Beyond:
    """A bound that lies before, or after, everything below a node."""


BEFORE, AFTER = _Beyond(), _Beyond()
Bound: TypeAlias = Place | _Beyond
"""Where a range begins or ends below a node: a place relative to it."""


def _inside(bound: Bound, tag: int, value: Any = None) -> Bound:
    """The bound as seen from the child with that tag and value."""
    if isinstance(bound, _Beyond):
        return bound
    step: tuple[Any, ...] = (tag,) if value is None else (tag, value)
    head = bound[: len(step)]
    if head == step:
        return bound[len(step) :]
    return BEFORE if head < step else AFTER


def _children(
    children: Sequence[Any], tag: int, low: Bound, high: Bound, reverse: bool
) -> Iterator[tuple[Any, Bound, Bound]]:
    """The children that the range touches, each with its bounds as seen from there."""
    first = 0 if low is BEFORE else _index(children, tag, low)
    last = len(children) if high is AFTER else _index(children, tag, high) + 1
    touched = children[first:last]
    for child in reversed(touched) if reverse else touched:
        yield child, _inside(low, tag, child), _inside(high, tag, child)


def _index(children: Sequence[Any], tag: int, bound: Bound) -> int:
    """The first child that does not end before the bound."""
    if isinstance(bound, _Beyond):
        return 0 if bound is BEFORE else len(children)
    if bound[:1] != (tag,):
        return 0 if bound[:1] < (tag,) else len(children)
    return 0 if len(bound) == 1 else bisect_left(children, bound[1])


def _descend(
    key: tuple[Any, ...], domain: Domain, low: Bound, high: Bound, reverse: bool
) -> Iterator[Key]:
    depth = len(key) - 1
    level = domain[depth]
    children: Sequence[Any] = level(*key[1:]) if callable(level) else level
    tag = _INT if isinstance(children, range) else _STR
    is_last = depth + 1 == len(domain)
    if is_last and low is BEFORE and high is AFTER:
        for child in reversed(children) if reverse else children:
            yield (*key, child)
        return
    for child, child_low, child_high in _children(children, tag, low, high, reverse):
        if not is_last:
            yield from _descend((*key, child), domain, child_low, child_high, reverse)
        elif child_low in (BEFORE, ()) and child_high not in (BEFORE, ()):
            yield (*key, child)
