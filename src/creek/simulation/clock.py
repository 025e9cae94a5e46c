"""A replica's wall clock: true time, and all that is wrong with it.

It starts with a skew, drifts, and may be made to jump either way. It only ever feeds the timestamps
of requests; the beat of ticks follows true time, so a bad clock cannot start an election.
"""

import msgspec

from creek.errors import BadValue

EPOCH_US = 1_600_000_000_000_000
"""The wall clock at the start of a run: like a real one, so that no skew makes it negative."""

DAY_US = 86_400_000_000
DRIFT_PPM_MAX = 100_000


class ClockModel(msgspec.Struct, frozen=True, kw_only=True):
    """Skew and drift by replica; replicas beyond the end of a tuple have none."""

    skews_us: tuple[int, ...] = ()
    drifts_ppm: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(abs(skew) > 365 * DAY_US for skew in self.skews_us):
            raise BadValue("a clock skew must be at most a year, ahead or behind")
        if any(abs(drift) > DRIFT_PPM_MAX for drift in self.drifts_ppm):
            raise BadValue(f"a clock drift must be at most {DRIFT_PPM_MAX} ppm, fast or slow")

    def clock(self, replica: int) -> "Clock":
        skew_us = self.skews_us[replica] if replica < len(self.skews_us) else 0
        drift_ppm = self.drifts_ppm[replica] if replica < len(self.drifts_ppm) else 0
        return Clock(skew_us, drift_ppm)


class Clock:
    __slots__ = ("drift_ppm", "skew_us")

    def __init__(self, skew_us: int = 0, drift_ppm: int = 0) -> None:
        self.skew_us = skew_us
        self.drift_ppm = drift_ppm

    def read(self, true_us: int) -> int:
        return EPOCH_US + true_us + self.skew_us + true_us * self.drift_ppm // 1_000_000

    def jump(self, by_us: int) -> None:
        self.skew_us += by_us
