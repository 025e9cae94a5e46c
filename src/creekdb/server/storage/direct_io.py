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
from creekdb.server.storage.file_ops import FileOps
from creekdb.server.storage.io_uring import IoUring, memory_address, open_io_uring

BLOCK_BYTES: Final = 4096
"""Disks have smaller ones, or just such."""
BUFFER_BYTES: Final = 272 * 1024
"""More is not written so. It is somewhat more than the largest group that a journal has its ring
write, without the zeros that some bring along."""

_O_DIRECT: Final[int] = getattr(os, "O_DIRECT", 0)
_DIRECT_IO_UNSUPPORTED: Final = (errno.EINVAL, errno.EOPNOTSUPP)


class DirectWriter:
    """Of one file at a time: of the one that was written to last."""

    __slots__ = (
        "_buffer",
        "_buffer_address",
        "_buffer_offset",
        "_data_bytes",
        "_data_end_offset",
        "_direct_fd",
        "_file_bytes",
        "_is_usable",
        "_on_written",
        "_source_fd",
        "_write_bytes",
    )

    def __init__(self) -> None:
        self._is_usable = _O_DIRECT != 0
        self._source_fd = -1
        self._direct_fd = -1
        """The same file, opened once more; -1: it cannot be."""
        self._file_bytes = 0
        """The file is at least this long."""
        self._buffer_offset = 0
        """Where in the file the memory begins."""
        self._data_end_offset = -1
        """Where in the file ends what was put into the memory last."""
        self._write_bytes = 0
        self._data_bytes = 0
        self._on_written: Callable[[int], None] | None = None
        self._buffer = mmap.mmap(-1, BUFFER_BYTES)
        self._buffer_address = 0
        """Of the memory, once there is a ring to tell it to."""

    def write(
        self, ring: IoUring, file: int, data: bytes, offset: int, written: Callable[[int], None]
    ) -> bool:
        """Begin to; `written` is called as the ring would. False: it cannot be written so. Raises
        OSError if the ring cannot begin."""
        if not self._is_usable:
            return False
        if file != self._source_fd:
            self._open(file)
        first = offset - offset % BLOCK_BYTES
        head = offset - first
        filled = head + len(data)
        size = -(-filled // BLOCK_BYTES) * BLOCK_BYTES
        if self._direct_fd < 0 or size > BUFFER_BYTES or not self._is_allocated(first + size):
            return False
        memory = self._buffer
        if offset == self._data_end_offset:
            begin = first - self._buffer_offset
            memory[:head] = memory[begin : begin + head]
        else:
            memory[:head] = os.pread(file, head, first)
        memory[head:filled] = data
        memory[filled:size] = bytes(size - filled)
        self._buffer_offset, self._data_end_offset = first, offset + len(data)
        self._write_bytes, self._data_bytes, self._on_written = size, len(data), written
        ring.write_direct(self._direct_fd, self._buffer_address, size, first, self._finish_write)
        return True

    def release_file(self, file: int) -> None:
        """It is about to be closed."""
        if file == self._source_fd:
            self.close()

    def close(self) -> None:
        if self._direct_fd >= 0:
            with suppress(OSError):
                os.close(self._direct_fd)
        self._source_fd = self._direct_fd = self._data_end_offset = -1

    def _open(self, file: int) -> None:
        self.close()
        self._source_fd, self._file_bytes, self._buffer_address = (
            file,
            0,
            memory_address(self._buffer),
        )
        with suppress(OSError):
            self._direct_fd = os.open(
                f"/proc/self/fd/{file}", os.O_WRONLY | os.O_CLOEXEC | _O_DIRECT
            )

    def _is_allocated(self, end: int) -> bool:
        """Nothing is written behind the end of the file: it would become longer than it should."""
        if end > self._file_bytes:
            self._file_bytes = os.fstat(self._direct_fd).st_size
        return end <= self._file_bytes

    def _finish_write(self, result: int) -> None:
        written, self._on_written = self._on_written, None
        assert written is not None
        if result == self._write_bytes:
            written(self._data_bytes)
            return
        self._data_end_offset = -1
        if -result in _DIRECT_IO_UNSUPPORTED:
            self._is_usable, result = False, 0  # the file system only seemed to
        written(min(result, 0))


_DSYNC_WRITE_UNSUPPORTED: Final = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of a system that cannot write and sync in one call."""
_DISK_ERRORS: Final = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors that have nothing to do with who writes."""


class TimedFileOps(FileOps):
    """`fsync` is told how long each write took. `may_begin`: is the ring to be tried? `log` is told
    if it is given up."""

    __slots__ = (
        "_can_use_io_uring",
        "_direct_writer",
        "_has_dsync_write",
        "_io_uring",
        "_log",
        "_on_written",
        "_started_s",
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
        self._has_dsync_write = hasattr(os, "RWF_DSYNC")
        self._can_use_io_uring = may_begin
        self._io_uring: IoUring | None = None
        self._direct_writer = DirectWriter()
        self._started_s = 0.0
        self._on_written: Callable[[int], None] | None = None

    @property
    def can_write_async(self) -> bool:
        return self._io_uring is not None

    def attach(self, loop: AbstractEventLoop) -> None:
        if self._can_use_io_uring:
            self._io_uring = open_io_uring(loop)

    def detach(self) -> None:
        ring, self._io_uring = self._io_uring, None
        if ring is not None:
            ring.close()
        self._direct_writer.close()

    def close(self, file: int) -> None:
        self._direct_writer.release_file(file)
        super().close(file)

    def start_durable_write(
        self, file: int, data: bytes, offset: int, written: Callable[[int], None]
    ) -> bool:
        ring = self._io_uring
        if ring is None:
            return False
        self._started_s, self._on_written = time.perf_counter(), written
        try:
            if not self._direct_writer.write(ring, file, data, offset, self._finish_write):
                ring.write(file, data, offset, self._finish_write)
        except OSError as error:
            self._disable_io_uring(error.errno or 0)
            return False
        return True

    def wait_for_write(self) -> bool:
        ring = self._io_uring
        if ring is None or not ring.is_writing:
            return False
        ring.wait()
        return True

    def _finish_write(self, result: int) -> None:
        written = self._on_written
        assert written is not None
        self.fsync.observe(time.perf_counter() - self._started_s)
        if result < 0 and -result not in _DISK_ERRORS:
            self._disable_io_uring(-result)
        written(result)

    def _disable_io_uring(self, error: int) -> None:
        """Who cannot write once, for a reason of its own, would not each time."""
        self._log(f"from now on a thread writes: io_uring fails with '{os.strerror(error)}'")
        self.detach()

    def write_durably(self, file: int, data: bytes | memoryview, offset: int) -> None:
        if not self._has_dsync_write:
            super().write_durably(file, data, offset)
            return
        begun = time.perf_counter()
        try:
            written = os.pwritev(file, (data,), offset, os.RWF_DSYNC)
        except OSError as error:
            if error.errno not in _DSYNC_WRITE_UNSUPPORTED:
                raise
            self._has_dsync_write = False
            written = 0
        self.fsync.observe(time.perf_counter() - begun)
        if written < len(data):
            super().write_durably(file, memoryview(data)[written:], offset + written)

    def fdatasync(self, file: int) -> None:
        begun = time.perf_counter()
        super().fdatasync(file)
        self.fsync.observe(time.perf_counter() - begun)
