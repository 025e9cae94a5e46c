"""How far a mean over a few seeds can be trusted: Student's t distribution.

For whole degrees of freedom its distribution function is a finite sum (Abramowitz and Stegun,
26.7.3 and 26.7.4), so a quantile takes no table and no library: an interval is halved until it is
found.
"""

from functools import cache
from math import atan, cos, pi, sin, sqrt, tan

CONFIDENCE = 0.95
HALVINGS = 80


def within(t: float, degrees: int) -> float:
    """The probability that a value of the t distribution lies between -t and t."""
    return _within_angle(atan(t / sqrt(degrees)), degrees)


@cache
def quantile(degrees: int) -> float:
    """The t that values stay `within` with a probability of `CONFIDENCE`."""
    low, high = 0.0, pi / 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _within_angle(middle, degrees) < CONFIDENCE:
            low = middle
        else:
            high = middle
    return tan(high) * sqrt(degrees)


def _within_angle(angle: float, degrees: int) -> float:
    """The sum is cos + 2/3 cos³ + 2·4/(3·5) cos⁵ … for odd degrees of freedom, and
    1 + 1/2 cos² + 1·3/(2·4) cos⁴ … for even ones."""
    odd = degrees % 2
    total, term = 0.0, cos(angle) ** odd
    for power in range(odd, degrees - 1, 2):
        total += term
        term *= cos(angle) ** 2 * (power + 1) / (power + 2)
    return (angle + sin(angle) * total) * 2 / pi if odd else sin(angle) * total
