"""The garbage collector, while a simulation or a live replica runs.

With its usual thresholds it looks through millions of live versions again and again; a run makes
little garbage that is not freed at once.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

THRESHOLDS: Final = (100_000, 20, 100)


@contextmanager
def seldom_collecting() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
