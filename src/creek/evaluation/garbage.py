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
long as there is to look at. More than what is under way is made between two looks."""


@contextmanager
def seldom_collecting(thresholds: tuple[int, int, int] = THRESHOLDS) -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*thresholds)
    try:
        yield
    finally:
        gc.set_threshold(*before)
