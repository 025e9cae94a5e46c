"""The garbage collector, while a simulation or a live replica runs.

With its usual thresholds it looks through millions of live versions again and again; a run makes
little garbage that is not freed at once.

How Creek runs here: the times that it takes depend on that, and nothing else does.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from creekdb.execution.mvcc import version_store

REDUCED_THRESHOLDS: Final = (100_000, 20, 100)
FULL_SCAN_THRESHOLDS: Final = (50_000, 10, 100)
"""Of a live replica that makes garbage."""
FULL_SCAN_ROUNDS: Final = 120
"""For how long it looks at everything after it has found some."""
OBJECTS_PER_CALL: Final = 60
"""Objects, while it is under way: somewhat more than it takes."""


@contextmanager
def reduced_gc() -> Iterator[None]:
    with _restore_gc():
        gc.set_threshold(*REDUCED_THRESHOLDS)
        yield


class GcSampler:
    """The collector of a live replica.

    A replica's own code makes no garbage that refers to itself, and to look for some among all that
    it makes and keeps took a tenth of its time, and held it up for 100 ms at once. But operations
    are arbitrary code, and so is what speaks HTTP. So from time to time what was made in the last
    few milliseconds is looked at, or, where little is made, all of it. The rest is set aside, and
    is freed like all when nobody refers to it. Once garbage is found, everything is looked at for a
    while.
    """

    def __init__(self) -> None:
        self._full_scan_rounds_left = 0
        """Looks for which everything is looked at."""

    @classmethod
    @contextmanager
    def install(cls) -> "Iterator[GcSampler]":
        samples = cls()
        gc.collect(0)  # of a beginning nothing follows for what comes after it
        with _restore_gc():
            gc.disable()
            gc.callbacks.append(samples._on_collection)
            try:
                yield samples
            finally:
                gc.callbacks.remove(samples._on_collection)

    def freeze(self) -> None:
        """What was made until now is not looked at."""
        if not self._full_scan_rounds_left:
            gc.freeze()

    def sample(self, under_way: int) -> None:
        """At what was made since something was set aside, with so many calls under way."""
        if self._full_scan_rounds_left:
            self._full_scan_rounds_left -= 1
            _adapt_threshold(under_way)
            return
        gc.disable()
        gc.collect(0)
        self.freeze()

    def _on_collection(self, phase: str, found: dict[str, int]) -> None:
        if phase == "stop" and found["collected"]:
            if not self._full_scan_rounds_left:
                gc.set_threshold(*FULL_SCAN_THRESHOLDS)
                gc.enable()
            self._full_scan_rounds_left = FULL_SCAN_ROUNDS


def _adapt_threshold(under_way: int) -> None:
    """What calls under way are made of is mostly gone soon, and not looked at before there is more
    than that. They come and go in waves, so what was enough a moment ago is forgotten slowly."""
    first, second, third = gc.get_threshold()
    gc.set_threshold(
        max(FULL_SCAN_THRESHOLDS[0], OBJECTS_PER_CALL * under_way, first * 9 // 10), second, third
    )


@contextmanager
def _restore_gc() -> Iterator[None]:
    thresholds, enabled = gc.get_threshold(), gc.isenabled()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        (gc.enable if enabled else gc.disable)()


def build_kind() -> str:
    """`compiled` (by `make compiled`) or `interpreted`."""
    return "interpreted" if str(version_store.__file__).endswith(".py") else "compiled"
