"""The system calls of a live replica's journal: timed, and as few as the system allows.

Where the system can, it writes without a thread (`ring`), and straight to the disk (`blocks`). Else
what is written is synced by the same call: so the thread that does it waits for the others of its
process once, not twice.
"""

import errno
import os
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Final

from creekdb.cluster.blocks import Blocks
from creekdb.cluster.calls import Calls
from creekdb.cluster.ring import Ring, open_ring
from creekdb.cluster.timing import Histogram

_CANNOT: Final = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of a system that cannot write and sync in one call."""
_OF_THE_DISK: Final = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors that have nothing to do with who writes."""


class TimedCalls(Calls):
    """`fsync` is told how long each write took. `may_begin`: is the ring to be tried? `log` is told
    if it is given up."""

    __slots__ = (
        "_at_once",
        "_begun",
        "_blocks",
        "_log",
        "_may_begin",
        "_ring",
        "_written",
        "fsync",
    )

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
        self._blocks = Blocks()
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
        self._blocks.close()

    def close(self, file: int) -> None:
        self._blocks.leave(file)
        super().close(file)

    def begin_through(
        self, file: int, data: bytes, offset: int, written: Callable[[int], None]
    ) -> bool:
        ring = self._ring
        if ring is None:
            return False
        self._begun, self._written = time.perf_counter(), written
        try:
            if not self._blocks.write(ring, file, data, offset, self._done):
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
