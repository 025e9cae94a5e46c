"""The end of a file, written straight to the disk, in whole blocks.

What is written to a file is kept by Linux in memory, and goes from there to the disk. For the few
hundred bytes of a group that is synced at once, that costs as much as all the rest. `O_DIRECT` does
without, but takes whole blocks only, from memory that begins where a page does. So the last block
of the file is kept here, and is written again with what comes behind it: what it held stays as it
was, and so do the zeros that follow, for the room was zeroed before.

Whatever cannot be written so, be it for where it lies or for the file system, is left to others.

The system calls of a live replica's journal: timed, and as few as the system allows.

Where the system can, it writes without a thread (`ring`), and straight to the disk (`blocks`). Else
what is written is synced by the same call: so the thread that does it waits for the others of its
process once, not twice.
"""

import errno
import mmap
import os
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from creekdb.server.observability.latency import Histogram
from creekdb.server.storage.file_ops import Calls
from creekdb.server.storage.io_uring import Ring, open_ring, place_of

BLOCK: Final = 4096
"""Disks have smaller ones, or just such."""
MEMORY_BYTES: Final = 272 * 1024
"""More is not written so. It is somewhat more than the largest group that a journal has its ring
write, without the zeros that some bring along."""

_DIRECT: Final[int] = getattr(os, "O_DIRECT", 0)
_CANNOT: Final = (errno.EINVAL, errno.EOPNOTSUPP)


class Blocks:
    """Of one file at a time: of the one that was written to last."""

    __slots__ = (
        "_address",
        "_data_size",
        "_end",
        "_file",
        "_first",
        "_memory",
        "_room",
        "_size",
        "_twin",
        "_usable",
        "_written",
    )

    def __init__(self) -> None:
        self._usable = _DIRECT != 0
        self._file = -1
        self._twin = -1
        """The same file, opened once more; -1: it cannot be."""
        self._room = 0
        """The file is at least this long."""
        self._first = 0
        """Where in the file the memory begins."""
        self._end = -1
        """Where in the file ends what was put into the memory last."""
        self._size = 0
        self._data_size = 0
        self._written: Callable[[int], None] | None = None
        self._memory = mmap.mmap(-1, MEMORY_BYTES)
        self._address = 0
        """Of the memory, once there is a ring to tell it to."""

    def write(
        self, ring: Ring, file: int, data: bytes, offset: int, written: Callable[[int], None]
    ) -> bool:
        """Begin to; `written` is called as the ring would. False: it cannot be written so. Raises
        OSError if the ring cannot begin."""
        if not self._usable:
            return False
        if file != self._file:
            self._open(file)
        first = offset - offset % BLOCK
        head = offset - first
        filled = head + len(data)
        size = -(-filled // BLOCK) * BLOCK
        if self._twin < 0 or size > MEMORY_BYTES or not self._has_room(first + size):
            return False
        memory = self._memory
        if offset == self._end:
            begin = first - self._first
            memory[:head] = memory[begin : begin + head]
        else:
            memory[:head] = os.pread(file, head, first)
        memory[head:filled] = data
        memory[filled:size] = bytes(size - filled)
        self._first, self._end = first, offset + len(data)
        self._size, self._data_size, self._written = size, len(data), written
        ring.write_direct(self._twin, self._address, size, first, self._wrote)
        return True

    def leave(self, file: int) -> None:
        """It is about to be closed."""
        if file == self._file:
            self.close()

    def close(self) -> None:
        if self._twin >= 0:
            with suppress(OSError):
                os.close(self._twin)
        self._file = self._twin = self._end = -1

    def _open(self, file: int) -> None:
        self.close()
        self._file, self._room, self._address = file, 0, place_of(self._memory)
        with suppress(OSError):
            self._twin = os.open(f"/proc/self/fd/{file}", os.O_WRONLY | os.O_CLOEXEC | _DIRECT)

    def _has_room(self, end: int) -> bool:
        """Nothing is written behind the end of the file: it would become longer than it should."""
        if end > self._room:
            self._room = os.fstat(self._twin).st_size
        return end <= self._room

    def _wrote(self, result: int) -> None:
        written, self._written = self._written, None
        assert written is not None
        if result == self._size:
            written(self._data_size)
            return
        self._end = -1
        if -result in _CANNOT:
            self._usable, result = False, 0  # the file system only seemed to
        written(min(result, 0))


_CANNOT_TIMED_CALLS: Final = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
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
            if error.errno not in _CANNOT_TIMED_CALLS:
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
