"""What lies below all versions: initial data, computed when it is first read.

A base is pure: it gives the same answer each time and everywhere, so that replicas may share one.
"""

from collections.abc import Iterator
from typing import Any, Protocol

from creek.execution.keys import Place, place
from creek.execution.transaction import ABSENT
from creek.protocol.values import Key


class Base(Protocol):
    def read(self, key: Key) -> Any:
        """The value under `key`, or `ABSENT`."""

    def keys(self, start: Place, stop: Place, reverse: bool) -> Iterator[Key]:
        """The keys that hold a value and stand in [start, stop), in order or in reverse order."""


class Nothing:
    """No initial data."""

    def read(self, key: Key) -> Any:
        return ABSENT

    def keys(self, start: Place, stop: Place, reverse: bool) -> Iterator[Key]:
        return iter(())


def merged(left: Iterator[Key], right: Iterator[Key], reverse: bool) -> Iterator[Key]:
    """Two ordered sequences of keys as one, without repetition."""
    one, other = next(left, None), next(right, None)
    while one is not None and other is not None:
        if one == other:
            yield one
            one, other = next(left, None), next(right, None)
        elif (place(one) > place(other)) == reverse:
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
