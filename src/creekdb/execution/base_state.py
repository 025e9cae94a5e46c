"""Base state: the initial data of a data type, computed when it is first read.

A base is pure: it returns the same value at every call and on every replica, so that replicas may
share it. A store keeps only differences from the base, with `ABSENT` for a deleted register.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from creekdb.execution.keys import CollationKey
from creekdb.execution.transaction import ABSENT
from creekdb.protocol.values import Key, is_same_value


class BaseState(Protocol):
    """Initial value of every register."""

    def read(self, key: Key) -> Any:
        """Return the value under `key`, or `ABSENT`."""

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        """Yield the keys in [start, stop) that hold a value, in ascending or descending order."""


class EmptyBase:
    """Base state without any data."""

    def read(self, key: Key) -> Any:
        return ABSENT

    def keys(self, start: CollationKey, stop: CollationKey, reverse: bool) -> Iterator[Key]:
        return iter(())


def changes(items: Iterable[tuple[Key, Any]], base: BaseState) -> dict[Key, Any]:
    """Return the items that differ from the base, with None for deleted registers."""
    changed: dict[Key, Any] = {}
    for key, value in items:
        initial = base.read(key)
        if value is ABSENT:
            if initial is not ABSENT:
                changed[key] = None
        elif initial is ABSENT or not is_same_value(value, initial):
            changed[key] = value
    return changed
