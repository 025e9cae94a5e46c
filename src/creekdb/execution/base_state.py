"""What lies below everything that is ever written: initial data, computed when it is first read.

A base is pure: it gives the same answer each time and everywhere, so that replicas may share one.
A store keeps only what differs from it; a register of the base that was deleted is `ABSENT` there.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from creekdb.execution.keys import CollationKey, collation_key
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key, is_same_value


class BaseState(Protocol):
    def read(self, key: Key) -> Any:
        """The value under `key`, or `ABSENT`."""

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        """The keys that hold a value and stand in [start, stop), in order or in reverse order."""


class EmptyBase:
    """No initial data."""

    def read(self, key: Key) -> Any:
        return ABSENT

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        return iter(())


def changes(items: Iterable[tuple[Key, Any]], base: BaseState) -> dict[Key, Any]:
    """What of `items` differs from the base, with None for what was deleted."""
    changed: dict[Key, Any] = {}
    for key, value in items:
        initial = base.read(key)
        if value is ABSENT:
            if initial is not ABSENT:
                changed[key] = None
        elif initial is ABSENT or not is_same_value(value, initial):
            changed[key] = value
    return changed


def merge_sorted_keys(left: Iterator[Key], right: Iterator[Key], reverse: bool) -> Iterator[Key]:
    """Two ordered sequences of keys as one, without repetition."""
    one, other = next(left, None), next(right, None)
    while one is not None and other is not None:
        if one == other:
            yield one
            one, other = next(left, None), next(right, None)
        elif (collation_key(one) > collation_key(other)) == reverse:
            yield one
            one = next(left, None)
        else:
            yield other
            other = next(right, None)
    if one is not None:
        yield one
        yield from left
    if other is not None:
        yield other
        yield from right
