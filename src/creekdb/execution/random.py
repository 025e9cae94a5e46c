"""Random numbers that are equal on every replica: `tx.random`.

The generator (SplitMix64) is seeded with the request's identifier and timestamp. An operation thus
draws the same numbers on every replica and in every execution. The numbers are not suitable for
secrets. The generator does not depend on the process.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from creekdb.protocol.request import Request

Element = TypeVar("Element")

_MASK = 2**64 - 1
_STEP = 0x9E3779B97F4A7C15


class RequestRandom:
    """Random number generator of one request, equal in all its executions."""

    __slots__ = ("_state",)

    def __init__(self, request: Request) -> None:
        self._state = 0
        for part in (request.timestamp, request.id.replica, request.id.event):
            self._state = self._next() ^ (part & _MASK)

    def random(self) -> float:
        """Return a float of 53 random bits in [0, 1)."""
        return (self._next() >> 11) * 2.0**-53

    def randrange(self, start: Any, stop: Any = None) -> int:
        """Return an int in [start, stop), or in [0, start) if only one bound is given."""
        low, high = (0, start) if stop is None else (start, stop)
        if type(low) is not int or type(high) is not int:  # checked by hand: see `Transaction`
            raise TypeError("the bounds of a random range must be integers")
        width = high - low
        if not 0 < width <= 2**64:
            raise ValueError(f"the random range is empty or too wide: [{low}, {high})")
        draw_max = 2**64 - 2**64 % width  # draws above this bound would favour low numbers
        while (drawn := self._next()) >= draw_max:
            pass
        return int(low + drawn % width)

    def choice(self, elements: Sequence[Element]) -> Element:
        """Return a random element, or raise `ValueError` if there is none."""
        if not elements:
            raise ValueError("cannot choose from an empty sequence")
        return elements[self.randrange(len(elements))]

    def _next(self) -> int:
        self._state = (self._state + _STEP) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)
