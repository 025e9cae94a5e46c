"""Measured delays of requests, and the hold that follows from them.

A delay is the local clock at the arrival of a cast request minus the timestamp of the request. So
it includes the skew between the two clocks, and the time until the request was on the disk of its
origin. Delays influence the choice and the time of proposals, but not safety.
"""

from typing import Final

from creekdb.protocol.shared_variables import SharedVariables

PEAK_DECAY: Final = 1 / 128
"""Share of its distance to a shorter delay by which the longest delay decreases per request."""
MEAN_WEIGHT: Final = 1 / 16
"""Weight of the last delay in the mean delay."""
MEDIAN_FACTOR: Final = 2
"""Upper bound for the hold, as a multiple of the median of the mean delays of all origins. So one
slow replica does not delay all strong requests."""


class _Delay:
    """Delay of the requests of one origin, in microseconds."""

    __slots__ = ("mean", "peak")

    def __init__(self, first: float) -> None:
        self.mean = first
        self.peak = first

    def add(self, delay: float) -> None:
        self.mean += (delay - self.mean) * MEAN_WEIGHT
        if delay >= self.peak:
            self.peak = delay
        else:
            self.peak -= (self.peak - delay) * PEAK_DECAY


class DelayEstimates:
    """Delays between the issue of a request at a peer and its arrival here."""

    def __init__(self, shared: SharedVariables) -> None:
        self._shared = shared
        self._delays: dict[int, _Delay] = {}

    def add(self, origin: int, delay_us: int) -> None:
        delay = self._delays.get(origin)
        if delay is None:
            self._delays[origin] = _Delay(float(delay_us))
        else:
            delay.add(float(delay_us))

    def reconfigure(self) -> None:
        """Drop the delays of removed members."""
        self._shared.drop_removed_peers(self._delays)

    def mean_us(self, origin: int) -> float | None:
        """Return the mean delay of an origin, or None if none is measured.

        The first votes of the origin arrive about as much later than those that this replica casts
        itself.
        """
        delay = self._delays.get(origin)
        return None if delay is None else delay.mean

    def hold_us(self) -> int:
        """Return the time after which a request with an earlier timestamp has probably arrived.

        It is 0 until a delay is measured, hence always in a cluster of one replica.
        """
        if not self._delays:
            return 0
        means = sorted([each.mean for each in self._delays.values()])
        longest = max([each.peak for each in self._delays.values()])
        bound = MEDIAN_FACTOR * means[(len(means) - 1) // 2]
        return max(0, min(int(longest), int(bound), self._shared.settings.hold_us_max))
