"""A replica's wall clock: true time, and all that is wrong with it.

It starts with a skew, drifts, and may be made to jump either way. It only ever feeds the timestamps
of requests; the beat of ticks follows true time, so a bad clock cannot start an election.
"""

EPOCH_US = 1_600_000_000_000_000
"""The wall clock at the start of a run: like a real one, so that no skew makes it negative."""

DAY_US = 86_400_000_000


class Clock:
    __slots__ = ("drift_ppm", "skew_us")

    def __init__(self, skew_us: int = 0, drift_ppm: int = 0) -> None:
        self.skew_us = skew_us
        self.drift_ppm = drift_ppm

    def read(self, true_us: int) -> int:
        return EPOCH_US + true_us + self.skew_us + true_us * self.drift_ppm // 1_000_000

    def jump(self, by_us: int) -> None:
        self.skew_us += by_us
