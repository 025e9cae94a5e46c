"""Random numbers that every replica draws alike: `tx.random`.

The generator (SplitMix64) is seeded with the request's identifier and timestamp, so an operation
draws the same numbers wherever and however often it is executed. Not for secrets. Must not know the
process it runs in.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from creekdb.protocol.request import Request

Element = TypeVar("Element")

_MASK = 2**64 - 1
_STEP = 0x9E3779B97F4A7C15


class RequestRandom:
    """Draws the same numbers for a request wherever and however often it is executed."""

    __slots__ = ("_state",)

    def __init__(self, request: Request) -> None:
        self._state = 0
        for part in (request.timestamp, request.id.replica, request.id.event):
            self._state = self._next() ^ (part & _MASK)

    def random(self) -> float:
        """A float of 53 random bits in [0, 1)."""
        return (self._next() >> 11) * 2.0**-53

    def randrange(self, start: Any, stop: Any = None) -> int:
        """An int in [start, stop), or in [0, start) when only one bound is given."""
        low, high = (0, start) if stop is None else (start, stop)
        if type(low) is not int or type(high) is not int:  # by hand: see `Transaction`
            raise TypeError("a range to draw from has integers as its bounds")
        width = high - low
        if not 0 < width <= 2**64:
            raise ValueError(f"no range to draw from: [{low}, {high})")
        fair = 2**64 - 2**64 % width  # draws beyond it would favour the low numbers
        while (drawn := self._next()) >= fair:
            pass
        return int(low + drawn % width)

    def choice(self, elements: Sequence[Element]) -> Element:
        """One of them; raises `ValueError` where there is none."""
        if not elements:
            raise ValueError("nothing to choose from")
        return elements[self.randrange(len(elements))]

    def _next(self) -> int:
        self._state = (self._state + _STEP) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)
