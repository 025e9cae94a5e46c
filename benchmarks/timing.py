"""Comparison of costs on a machine that also runs other processes.

Rules:
- measurements count the processor time of this process, never wall-clock time;
- compared subjects alternate, so that a slow period affects all of them;
- the cheapest of several repetitions counts, because noise only adds;
- a comparison that would miss its bar is repeated more often before the miss is reported;
- the garbage collector runs between measurements, not during them.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import process_time_ns
from typing import NamedTuple, TypeAlias

REPEATS_FACTOR_MAX = 3
"""Factor by which a comparison extends its repetitions before it misses its bar."""


class Timed(NamedTuple):
    """The timed part of a benchmark: `run` performs `operations` operations."""

    operations: int
    run: Callable[[], object]


Prepare: TypeAlias = Callable[[], Timed]
"""Sets up a new measurement, outside of the timed part."""


class Stopwatch:
    """Processor time, summed over the blocks that it measures."""

    __slots__ = ("ns",)

    def __init__(self) -> None:
        self.ns = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        start = process_time_ns()
        try:
            yield
        finally:
            self.ns += process_time_ns() - start


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def ns_per_operation(prepare: Prepare) -> float:
    timed = prepare()
    with without_collector():
        start = process_time_ns()
        timed.run()
        elapsed_ns = process_time_ns() - start
    return elapsed_ns / timed.operations


def cheapest(
    prepares: Sequence[Prepare], repeats: int, enough: Callable[[list[float]], bool] | None = None
) -> list[float]:
    """Return the nanoseconds per operation of each subject, after `repeats` rounds and further
    rounds until `enough` holds."""
    best = [float("inf")] * len(prepares)
    for rounds in range(1, repeats * REPEATS_FACTOR_MAX + 1):
        for index, prepare in enumerate(prepares):
            best[index] = min(best[index], ns_per_operation(prepare))
        if rounds >= repeats and (enough is None or enough(best)):
            break
    return best


def ratio(measured: Prepare, against: Prepare, repeats: int, bar: float | None) -> float:
    """Return the cost per operation of `measured`, divided by that of `against`."""

    def within_bar(costs: list[float]) -> bool:
        return bar is None or costs[0] <= bar * costs[1]

    cost, base = cheapest((measured, against), repeats, within_bar)
    return cost / base
