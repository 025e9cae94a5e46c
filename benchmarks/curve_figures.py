"""Figures of latency over load, and the increase of the load until no system keeps up."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from benchmarks.comparison import Measurements
from creekdb.load.measurement import LoadMeter, latency_summary

KEEP_UP_SHARE: Final = 0.95
"""Share of the offered load that a system must answer to keep up."""
NAMES: Final = {"weak": "Creek, weak put", "strong": "Creek, strong put", "etcd": "etcd put"}


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one system under one load, over all of its rounds."""

    system: str
    load: float
    """Configured calls per second."""
    offered: float
    """Calls per second that became due."""
    answered: float
    """Answered calls per second."""
    p50_ms: float
    p99_ms: float
    p50_turns_ms: list[float]
    """Median of each round."""
    p99_turns_ms: list[float]
    late_p99_ms: float
    """Send delay of the load generator, which the latency excludes."""
    cpu_us: float
    """Processor time of all processes per call."""
    errors: dict[str, int]

    @property
    def keeps_up(self) -> bool:
        return self.answered >= KEEP_UP_SHARE * self.offered


class FloorFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Latency of disk and loopback alone."""

    write_ms: float
    """Median of a synced write."""
    echo_ms: float
    """Median of an echo over loopback."""
    p50_ms: float
    """Median of one write plus one echo: a lower bound for any durable response."""
    p99_ms: float


class Figures(msgspec.Struct, kw_only=True):
    """All results of one run."""

    how_it_ran: str
    cores: int
    turns: int
    turn_s: float
    value_bytes: int
    floor: FloorFigures | None = None
    points: list[Point] = []

    @property
    def systems(self) -> list[str]:
        return [name for name in NAMES if self.points_of(name)]

    def points_of(self, system: str) -> list[Point]:
        return [point for point in self.points if point.system == system]


def loads(first: float, factor: float) -> Iterator[float]:
    """Yield loads in calls per second, growing by `factor`."""
    load = first
    while True:
        yield float(round(load))
        load *= factor


def raise_load(
    systems: Iterable[str],
    offered: Iterable[float],
    measure: Callable[[list[str], float], list[Point]],
) -> Iterator[list[Point]]:
    """Yield the points of all systems at each load. A system that did not keep up is dropped."""
    remaining = list(systems)
    for load in offered:
        points = measure(remaining, load)
        yield points
        remaining = [point.system for point in points if point.keeps_up]
        if not remaining:
            return


def summarise_point(system: str, kind: int, load: float, measurements: Measurements) -> Point:
    overall = measurements.latency(kind)
    round_summaries = [
        summary
        for meter in measurements.meters
        if (summary := meter.latency_of_kind(kind)) is not None
    ]
    send_delay = latency_summary(
        [delay for meter in measurements.meters for delay in meter.send_delays_ns]
    )
    duration_s = sum(meter.duration_s for meter in measurements.meters)
    return Point(
        system=system,
        load=load,
        offered=sum(_offered(meter, load) for meter in measurements.meters) / duration_s,
        answered=measurements.per_second,
        p50_ms=overall.p50 if overall is not None else 0.0,
        p99_ms=overall.p99 if overall is not None else 0.0,
        p50_turns_ms=[summary.p50 for summary in round_summaries],
        p99_turns_ms=[summary.p99 for summary in round_summaries],
        late_p99_ms=send_delay.p99 if send_delay is not None else 0.0,
        cpu_us=measurements.cpu_us,
        errors=dict(sum((meter.errors for meter in measurements.meters), Counter[str]())),
    )


def _offered(meter: LoadMeter, load: float) -> float:
    """Return the number of calls that became due during the measurement.

    Included are calls that were sent, calls that exceeded the limit of outstanding calls, and calls
    that were due but not sent before the end. Calls due before the start are excluded. Arrivals are
    random, so their number may stay below the configured load.
    """
    if not meter.send_delays_ns:
        return load * meter.duration_s
    attempted = max(len(meter.send_delays_ns), meter.completed + meter.errors.total())
    return attempted + load * (meter.send_delays_ns[-1] - meter.send_delays_ns[0]) / 1e9
