"""The garbage collector, while a simulation or a live replica runs.

With its usual thresholds it looks through millions of live versions again and again; a run makes
little garbage that is not freed at once.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

THRESHOLDS: Final = (100_000, 20, 100)
SERVING: Final = (1_000_000, 10, 10)
"""Of a live replica: nearly all of what it makes is gone a second later, without being looked
for."""


@contextmanager
def seldom_collecting(thresholds: tuple[int, int, int] = THRESHOLDS) -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*thresholds)
    try:
        yield
    finally:
        gc.set_threshold(*before)
