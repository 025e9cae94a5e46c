"""Garbage collector settings of simulations and live replicas, and the kind of build.

With the default thresholds, the collector traverses millions of live versions again and again. A
run creates little garbage that reference counting does not free at once.

These settings influence only the duration of a run.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from creekdb.execution.mvcc import version_store

REDUCED_THRESHOLDS: Final = (100_000, 20, 100)
FULL_SCAN_THRESHOLDS: Final = (50_000, 10, 100)
"""Thresholds of a live replica that creates cyclic garbage."""
FULL_SCAN_ROUNDS: Final = 120
"""Number of samples for which full collection stays enabled after garbage was found."""
OBJECTS_PER_CALL: Final = 60
"""Number of objects per call in progress, with a margin."""


@contextmanager
def reduced_gc() -> Iterator[None]:
    with _restore_gc():
        gc.set_threshold(*REDUCED_THRESHOLDS)
        yield


class GcSampler:
    """Garbage collection of a live replica.

    The code of a replica creates no cyclic garbage. Collecting among all its objects took a tenth
    of the time, in pauses of 100 ms. Operations and HTTP libraries, however, are arbitrary code.

    From time to time, the sampler therefore collects the objects of the last few milliseconds, or
    all new objects if there are few. It freezes the remaining objects; reference counting still
    frees these. After a sample that found garbage, full collection is enabled for a while.
    """

    def __init__(self) -> None:
        self._full_scan_rounds_left = 0
        """Number of samples until full collection is disabled."""

    @classmethod
    @contextmanager
    def install(cls) -> "Iterator[GcSampler]":
        sampler = cls()
        gc.collect(0)  # garbage of the startup does not predict later garbage
        with _restore_gc():
            gc.disable()
            gc.callbacks.append(sampler._on_collection)
            try:
                yield sampler
            finally:
                gc.callbacks.remove(sampler._on_collection)

    def freeze(self) -> None:
        """Exclude all objects created until now from collection."""
        if not self._full_scan_rounds_left:
            gc.freeze()

    def sample(self, calls_in_progress: int) -> None:
        """Collect the objects created since the last `freeze`.

        During full collection, adapt its threshold to the number of calls in progress.
        """
        if self._full_scan_rounds_left:
            self._full_scan_rounds_left -= 1
            _adapt_threshold(calls_in_progress)
            return
        gc.disable()
        gc.collect(0)
        self.freeze()

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["collected"]:
            if not self._full_scan_rounds_left:
                gc.set_threshold(*FULL_SCAN_THRESHOLDS)
                gc.enable()
            self._full_scan_rounds_left = FULL_SCAN_ROUNDS


def _adapt_threshold(calls_in_progress: int) -> None:
    """Set the first threshold above the number of objects of the calls in progress.

    These objects are mostly freed soon. Calls come in waves, so the threshold decreases slowly.
    """
    first, second, third = gc.get_threshold()
    gc.set_threshold(
        max(FULL_SCAN_THRESHOLDS[0], OBJECTS_PER_CALL * calls_in_progress, first * 9 // 10),
        second,
        third,
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
    """Return `compiled` or `interpreted`."""
    return "interpreted" if str(version_store.__file__).endswith(".py") else "compiled"
