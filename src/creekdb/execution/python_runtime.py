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

THRESHOLDS: Final = (100_000, 20, 100)
THOROUGH: Final = (50_000, 10, 100)
"""Of a live replica that makes garbage."""
THOROUGH_LOOKS: Final = 120
"""For how long it looks at everything after it has found some."""
OF_A_CALL: Final = 60
"""Objects, while it is under way: somewhat more than it takes."""


@contextmanager
def seldom_collecting() -> Iterator[None]:
    with _restored():
        gc.set_threshold(*THRESHOLDS)
        yield


class Samples:
    """The collector of a live replica.

    A replica's own code makes no garbage that refers to itself, and to look for some among all that
    it makes and keeps took a tenth of its time, and held it up for 100 ms at once. But operations
    are arbitrary code, and so is what speaks HTTP. So from time to time what was made in the last
    few milliseconds is looked at, or, where little is made, all of it. The rest is set aside, and
    is freed like all when nobody refers to it. Once garbage is found, everything is looked at for a
    while.
    """

    def __init__(self) -> None:
        self._thorough = 0
        """Looks for which everything is looked at."""

    @classmethod
    @contextmanager
    def taken(cls) -> "Iterator[Samples]":
        samples = cls()
        gc.collect(0)  # of a beginning nothing follows for what comes after it
        with _restored():
            gc.disable()
            gc.callbacks.append(samples._looked)
            try:
                yield samples
            finally:
                gc.callbacks.remove(samples._looked)

    def set_aside(self) -> None:
        """What was made until now is not looked at."""
        if not self._thorough:
            gc.freeze()

    def look(self, under_way: int) -> None:
        """At what was made since something was set aside, with so many calls under way."""
        if self._thorough:
            self._thorough -= 1
            _collect_beyond(under_way)
            return
        gc.disable()
        gc.collect(0)
        self.set_aside()

    def _looked(self, phase: str, found: dict[str, int]) -> None:
        if phase == "stop" and found["collected"]:
            if not self._thorough:
                gc.set_threshold(*THOROUGH)
                gc.enable()
            self._thorough = THOROUGH_LOOKS


def _collect_beyond(under_way: int) -> None:
    """What calls under way are made of is mostly gone soon, and not looked at before there is more
    than that. They come and go in waves, so what was enough a moment ago is forgotten slowly."""
    first, second, third = gc.get_threshold()
    gc.set_threshold(max(THOROUGH[0], OF_A_CALL * under_way, first * 9 // 10), second, third)


@contextmanager
def _restored() -> Iterator[None]:
    thresholds, enabled = gc.get_threshold(), gc.isenabled()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        (gc.enable if enabled else gc.disable)()


def how_it_runs() -> str:
    """`compiled` (by `make compiled`) or `interpreted`."""
    return "interpreted" if str(version_store.__file__).endswith(".py") else "compiled"
