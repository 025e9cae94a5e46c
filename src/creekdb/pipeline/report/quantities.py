"""Units of the paper's numbers, and bands of accepted values."""

from enum import StrEnum
from math import inf
from typing import Final, NamedTuple


class Unit(StrEnum):
    PER_SECOND = "per second"
    MICROSECONDS = "microseconds"
    SHARE = "share"
    RATIO = "ratio"
    COUNT = "count"

    def drawn(self, value: float) -> float:
        """Return a value as charts draw it: a time in milliseconds, and others unchanged."""
        return value / 1000 if self is Unit.MICROSECONDS else value


DECIMAL_DIGITS: Final = {
    Unit.PER_SECOND: 0,
    Unit.MICROSECONDS: -1,
    Unit.SHARE: 4,
    Unit.RATIO: 2,
    Unit.COUNT: 0,
}
"""Decimal digits to which a value is rounded before the comparison with a band."""


class Band(NamedTuple):
    """Range of accepted values; an open end is infinite."""

    low: float
    high: float


def band_around(value: float, tolerance: float) -> Band:
    return Band(value * (1 - tolerance), value * (1 + tolerance))


def band_from(value: float) -> Band:
    return Band(value, inf)


def band_up_to(value: float) -> Band:
    return Band(-inf, value)


def rounding_band(value: float, last_digit: float) -> Band:
    """Return the band of values that round to `value` at the given digit."""
    return Band(value - last_digit / 2, value + last_digit / 2)
