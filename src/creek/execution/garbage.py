"""The garbage collector, while a simulation or a live replica runs.

With its usual thresholds it looks through millions of live versions again and again; a run makes
little garbage that is not freed at once.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

THRESHOLDS: Final = (100_000, 20, 100)
SERVING: Final = (50_000, 10, 100)
"""Of a live replica. What it makes and is not gone a moment later mostly stays for good, and is
looked at once: so looking costs as much, however seldom it is done, but holds up the replica for as
long as there is to look at."""
OF_A_CALL: Final = 60
"""Objects, while it is under way: somewhat more than it takes."""


@contextmanager
def seldom_collecting(thresholds: tuple[int, int, int] = THRESHOLDS) -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*thresholds)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def collect_beyond(under_way: int) -> None:
    """Of a live replica, with so many calls under way: what these are made of is mostly gone soon,
    and not looked at before there is more than that. Calls come and go in waves, so what was enough
    a moment ago is forgotten slowly."""
    first, second, third = gc.get_threshold()
    gc.set_threshold(max(SERVING[0], OF_A_CALL * under_way, first * 9 // 10), second, third)
