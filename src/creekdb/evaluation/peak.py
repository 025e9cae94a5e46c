"""Search for the highest load that a system sustains.

The load increases by a factor until the system is saturated; then the interval is bisected at the
geometric mean. The peak is the measured throughput at the highest load that did not saturate the
system.
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
    """Output of `creek simulate --find-peak --json`."""

    scheme: str
    warehouses: int | None
    layout: str | None
    replicas: int
    cores: int
    exec_scale: float
    seed: int
    peak_tps: float
    load_tps: float
    """Highest load tried that did not saturate the system."""
    saturating_tps: float
    """Lowest load tried that saturated the system."""
    tried: list[Measures]
    """Measures of all loads tried, in increasing order of the load."""


def find_peak(measure_load: Callable[[float], Measures], load_tps: float) -> PeakLoad:
    """Find the peak; `measure_load` measures the system under a load, beginning at `load_tps`."""
    tried: dict[float, Measures] = {}

    def keeps_up(load: float) -> bool:
        tried[load] = measure_load(load)
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
    """Return a load that the system sustains, and a higher one that saturates it."""
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
