"""How long calls and the disk take, counted at next to no cost: a time or two per call.

Not in `metrics`, where numbers are told as they are: compiled, an int that stands where a float is
declared becomes one.
"""

import errno
import os
import time
from asyncio import AbstractEventLoop
from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from creek.cluster.calls import Calls
from creek.cluster.ring import Ring, open_ring
from creek.protocol.dots import Dot
from creek.protocol.effects import Kind, Response

SECONDS: Final[tuple[float, ...]] = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
"""Upper bounds of what a histogram tells apart."""
CALLS_MAX: Final = 100_000
"""Calls whose times are known: of more, the oldest are not measured."""


_CANNOT = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_OF_THE_DISK = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors that have nothing to do with who writes."""


class Histogram:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Latencies:
    """From when a call is invoked here to when its answers leave."""

    def __init__(self) -> None:
        self.weak_tentative = Histogram()
        self.strong_tentative = Histogram()
        self.strong_stable = Histogram()
        self.weak_final = Histogram()
        self._weak: dict[Dot, float] = {}
        """When each weak call was made that has no answer yet."""
        self._strong: dict[Dot, float] = {}
        self._open: dict[Dot, float] = {}
        """When each call was made that waits for its last answer."""

    def invoked(self, id: Dot, strong: bool, at: float) -> None:
        (self._strong if strong else self._weak)[id] = at
        if id.event > 0:  # one that only reads has one answer, and no number
            self._open[id] = at
            if len(self._open) > CALLS_MAX:
                oldest = next(iter(self._open))
                for calls in (self._open, self._weak, self._strong):
                    calls.pop(oldest, None)

    def answered(self, response: Response, now: float) -> None:
        id, kind = response.id, response.kind
        if kind is Kind.TENTATIVE:
            at = self._weak.pop(id, None)
            if at is not None:
                self.weak_tentative.observe(now - at)
                return
            at = self._strong.pop(id, None)
            if at is not None:
                self.strong_tentative.observe(now - at)
            return
        at = self._open.pop(id, None)
        if at is not None:
            last = self.strong_stable if kind is Kind.STABLE else self.weak_final
            last.observe(now - at)
        if kind is Kind.STABLE:
            self._strong.pop(id, None)  # it came without a tentative one

    def by_answer(self) -> dict[str, Histogram]:
        return {
            "weak_tentative": self.weak_tentative,
            "strong_tentative": self.strong_tentative,
            "strong_stable": self.strong_stable,
            "weak_final": self.weak_final,
        }


class TimedCalls(Calls):
    """Takes the time of what a journal waits for. Writes and syncs in one call, where the system
    can: so the thread that does it waits for the others of its process once, not twice. Or without
    a thread, where the system can do that and may (`ring`)."""

    __slots__ = ("_at_once", "_begun", "_log", "_may_begin", "_ring", "_written", "fsync")

    def __init__(
        self,
        fsync: Histogram,
        may_begin: bool = False,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.fsync = fsync
        self._log = log
        self._at_once = hasattr(os, "RWF_DSYNC")
        self._may_begin = may_begin
        self._ring: Ring | None = None
        self._begun = 0.0
        self._written: Callable[[int], None] | None = None

    @property
    def begins(self) -> bool:
        return self._ring is not None

    def attach(self, loop: AbstractEventLoop) -> None:
        if self._may_begin:
            self._ring = open_ring(loop)

    def detach(self) -> None:
        ring, self._ring = self._ring, None
        if ring is not None:
            ring.close()

    def begin_through(
        self, file: int, data: bytes, offset: int, written: Callable[[int], None]
    ) -> bool:
        ring = self._ring
        if ring is None:
            return False
        self._begun, self._written = time.perf_counter(), written
        try:
            ring.write(file, data, offset, self._done)
        except OSError as error:
            self._give_up(error.errno or 0)
            return False
        return True

    def wait(self) -> bool:
        ring = self._ring
        if ring is None or not ring.is_writing:
            return False
        ring.wait()
        return True

    def _done(self, result: int) -> None:
        written = self._written
        assert written is not None
        self.fsync.observe(time.perf_counter() - self._begun)
        if result < 0 and -result not in _OF_THE_DISK:
            self._give_up(-result)
        written(result)

    def _give_up(self, error: int) -> None:
        """Who cannot write once, for a reason of its own, would not each time."""
        self._log(f"from now on a thread writes: io_uring fails with '{os.strerror(error)}'")
        self.detach()

    def write_through(self, file: int, data: bytes | memoryview, offset: int) -> None:
        if not self._at_once:
            super().write_through(file, data, offset)
            return
        begun = time.perf_counter()
        try:
            written = os.pwritev(file, (data,), offset, os.RWF_DSYNC)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            self._at_once = False
            written = 0
        self.fsync.observe(time.perf_counter() - begun)
        if written < len(data):
            super().write_through(file, memoryview(data)[written:], offset + written)

    def fdatasync(self, file: int) -> None:
        begun = time.perf_counter()
        super().fdatasync(file)
        self.fsync.observe(time.perf_counter() - begun)
