"""How costs are compared on a machine that does other things too.

Rules kept here:
- the processor time of this process is counted, never the time on the wall;
- what is compared takes turns, so that a slow minute hits all of it;
- of several repeats the cheapest counts: noise only ever adds;
- a comparison that would miss its bar is repeated more often before it is believed;
- the garbage collector runs between measurements, not during them.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import process_time_ns
from typing import NamedTuple, TypeAlias

PATIENCE = 3
"""How many times the usual repeats a comparison gets before it misses its bar."""


class Timed(NamedTuple):
    """The part of a benchmark that counts: `run` does `operations` operations."""

    operations: int
    run: Callable[[], object]


Prepare: TypeAlias = Callable[[], Timed]
"""Sets up a measurement anew; its own time does not count."""


class Stopwatch:
    """Processor time, summed over the blocks it is held around."""

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
        spent = process_time_ns() - start
    return spent / timed.operations


def cheapest(
    prepares: Sequence[Prepare], repeats: int, enough: Callable[[list[float]], bool] | None = None
) -> list[float]:
    """The nanoseconds per operation of each: `repeats` rounds, and more until it is `enough`."""
    best = [float("inf")] * len(prepares)
    for done in range(1, repeats * PATIENCE + 1):
        for index, prepare in enumerate(prepares):
            best[index] = min(best[index], ns_per_operation(prepare))
        if done >= repeats and (enough is None or enough(best)):
            break
    return best


def ratio(measured: Prepare, against: Prepare, repeats: int, bar: float | None) -> float:
    """How many times what `against` costs an operation of `measured` costs."""

    def within_bar(costs: list[float]) -> bool:
        return bar is None or costs[0] <= bar * costs[1]

    cost, base = cheapest((measured, against), repeats, within_bar)
    return cost / base
