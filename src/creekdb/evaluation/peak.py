"""The highest load that a system keeps up with: go up until it does not, then halve the interval.

Loads grow by a factor, so the interval is halved by the geometric mean. What is told as the peak is
what was really done per second at the highest load that did not saturate the system.
"""

from collections.abc import Callable
from math import sqrt

import msgspec

from creekdb.errors import UsageError
from creekdb.evaluation.measures import Measures

PEAK_PRECISION = 0.03
LOAD_RAMP = 1.6
SEARCH_LOAD_MIN = 10.0
SEARCH_LOAD_MAX = 1_000_000.0


class PeakLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What `creek simulate --find-peak --json` prints."""

    scheme: str
    warehouses: int | None
    layout: str | None
    replicas: int
    cores: int
    exec_scale: float
    seed: int
    peak_tps: float
    load_tps: float
    """The highest load tried that did not saturate it."""
    saturating_tps: float
    """The lowest load tried that did."""
    tried: list[Measures]
    """In the order of the loads."""


def find_peak(attempt: Callable[[float], Measures], load_tps: float) -> PeakLoad:
    """`attempt` measures the system under a load; the search begins at `load_tps`."""
    tried: dict[float, Measures] = {}

    def keeps_up(load: float) -> bool:
        tried[load] = attempt(load)
        return tried[load].saturated is False

    low, high = _bracket(keeps_up, load_tps)
    while high / low > 1 + PEAK_PRECISION:
        middle = sqrt(low * high)
        if keeps_up(middle):
            low = middle
        else:
            high = middle
    best = tried[low]
    assert best.throughput_tps is not None
    return PeakLoad(
        scheme=best.scheme,
        warehouses=best.warehouses,
        layout=best.layout,
        replicas=best.replicas,
        cores=best.cores,
        exec_scale=best.exec_scale,
        seed=best.seed,
        peak_tps=best.throughput_tps,
        load_tps=low,
        saturating_tps=high,
        tried=[tried[load] for load in sorted(tried)],
    )


def _bracket(keeps_up: Callable[[float], bool], load_tps: float) -> tuple[float, float]:
    """A load that it keeps up with, and a higher one that it does not."""
    low = high = load_tps
    if keeps_up(load_tps):
        while keeps_up(high := low * LOAD_RAMP):
            low = high
            if low > SEARCH_LOAD_MAX:
                raise UsageError(f"no peak below {SEARCH_LOAD_MAX:.0f} operations per second")
    else:
        while not keeps_up(low := high / LOAD_RAMP):
            high = low
            if high < SEARCH_LOAD_MIN:
                raise UsageError(
                    f"no peak above {SEARCH_LOAD_MIN:.0f} operations per second: try a longer "
                    "--duration"
                )
    return low, high
