"""What latency over load is told by, and how a load is raised until nobody keeps up."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from benchmarks.beside import Turns
from creekdb.load.measurement import LoadMeter, latency_summary

ENOUGH: Final = 0.95
"""Of what is offered: who answers less does not keep up."""
NAMES: Final = {"weak": "Creek, weak put", "strong": "Creek, strong put", "etcd": "etcd put"}


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """What one system did under one load, in all of its turns."""

    system: str
    load: float
    """Calls in a second, as asked for."""
    offered: float
    """Calls in a second, as they fell due."""
    answered: float
    """In a second."""
    p50_ms: float
    p99_ms: float
    p50_turns_ms: list[float]
    """Of each turn by itself."""
    p99_turns_ms: list[float]
    late_p99_ms: float
    """How late calls were made, for want of time: no part of the latency."""
    cpu_us: float
    """Of all processes, for a call."""
    errors: dict[str, int]

    @property
    def keeps_up(self) -> bool:
        return self.answered >= ENOUGH * self.offered


class FloorFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine alone takes."""

    write_ms: float
    """For a synced write: the median."""
    echo_ms: float
    """To send something over loopback and back: the median."""
    p50_ms: float
    """For one of each. No single answer that is on disk before comes sooner."""
    p99_ms: float


class Figures(msgspec.Struct, kw_only=True):
    """All that was measured in one run."""

    how_it_ran: str
    cores: int
    turns: int
    turn_s: float
    value_bytes: int
    floor: FloorFigures | None = None
    points: list[Point] = []

    @property
    def systems(self) -> list[str]:
        return [name for name in NAMES if self.of(name)]

    def of(self, system: str) -> list[Point]:
        return [point for point in self.points if point.system == system]


def loads(first: float, factor: float) -> Iterator[float]:
    """So many calls in a second, and ever more."""
    load = first
    while True:
        yield float(round(load))
        load *= factor


def climb(
    systems: Iterable[str],
    offered: Iterable[float],
    measure: Callable[[list[str], float], list[Point]],
) -> Iterator[list[Point]]:
    """A point of each system at each load. Who did not keep up, is not asked for more."""
    left = list(systems)
    for load in offered:
        points = measure(left, load)
        yield points
        left = [point.system for point in points if point.keeps_up]
        if not left:
            return


def point(system: str, kind: int, load: float, turns: Turns) -> Point:
    whole = turns.latency(kind)
    each = [found for meter in turns.meters if (found := meter.latency_of_kind(kind)) is not None]
    late = latency_summary([late for meter in turns.meters for late in meter.send_delays_ns])
    seconds = sum(meter.duration_s for meter in turns.meters)
    return Point(
        system=system,
        load=load,
        offered=sum(_offered(meter, load) for meter in turns.meters) / seconds,
        answered=turns.per_second,
        p50_ms=whole.p50 if whole is not None else 0.0,
        p99_ms=whole.p99 if whole is not None else 0.0,
        p50_turns_ms=[found.p50 for found in each],
        p99_turns_ms=[found.p99 for found in each],
        late_p99_ms=late.p99 if late is not None else 0.0,
        cpu_us=turns.cpu_us,
        errors=dict(sum((meter.errors for meter in turns.meters), Counter[str]())),
    )


def _offered(meter: LoadMeter, load: float) -> float:
    """Calls that were made, or were not for want of room; those that were due, but not made before
    the end; without those that were due before the begin. Calls come by chance: that they were
    fewer than asked for is nobody's fault."""
    if not meter.send_delays_ns:
        return load * meter.duration_s
    tried = max(len(meter.send_delays_ns), meter.completed + meter.errors.total())
    return tried + load * (meter.send_delays_ns[-1] - meter.send_delays_ns[0]) / 1e9
