"""How latencies are compared: their means, where the processors are not saturated."""

import operator
from typing import Final

from creekdb.pipeline.report.found import Compared, Range
from creekdb.pipeline.report.paper.systems import NAMES

MEAN: Final = "_mean_us"
WEAK: Final = f"weak_tentative{MEAN}"
STRONG_TENTATIVE: Final = f"strong_tentative{MEAN}"
STRONG_STABLE: Final = f"strong_stable{MEAN}"
UP_TO: Final = 0.9
"""Latencies are compared where the processors are not saturated, as in the paper: at loads up to
this share of the first that is too much."""


def latency(scheme: str, measure: str, **differing: float) -> Range:
    return Range(scheme, measure, differing, UP_TO)


def ratio(one: str, two: str, measure: str, **differing: float) -> Compared:
    """Of one system to another."""
    return Compared(
        latency(one, measure, **differing),
        latency(two, measure, **differing),
        operator.truediv,
        f"{NAMES[one]}'s mean latency ÷ {NAMES[two]}'s",
    )
