"""File operations of a live replica's journal: timed, with as few system calls as possible.

Where possible, writes are asynchronous (`io_uring`) and bypass the page cache (`DirectWriter`).
Otherwise one call writes and syncs, so that the writer thread waits for the interpreter lock
once instead of twice.

For the few hundred bytes of a commit group, the page cache costs as much as the rest of the write.
`O_DIRECT` bypasses it, but requires whole blocks in page-aligned memory. Therefore `DirectWriter`
keeps the last block of the file, and writes it again together with the data that follows. The
earlier content of the block does not change. Neither do the zeros after it, because the file was
preallocated with zeros.
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
"""Size of a block. The blocks of disks are of this size or smaller."""
BUFFER_BYTES: Final = 272 * 1024
"""Upper bound for a direct write. It exceeds the largest asynchronous group, without the zeros that
preallocate the file."""

_O_DIRECT: Final[int] = getattr(os, "O_DIRECT", 0)
_DIRECT_IO_UNSUPPORTED: Final = (errno.EINVAL, errno.EOPNOTSUPP)


class DirectWriter:
    """Direct writes to one file at a time, the one written last.

    Writes that cannot be direct, due to their position or to the file system, are not accepted.
    """

    def __init__(self) -> None:
        self._is_usable = _O_DIRECT != 0
        self._source_fd = -1
        self._direct_fd = -1
        """Second descriptor of the file, or -1 if it cannot be opened with `O_DIRECT`."""
        self._file_bytes = 0
        """Lower bound for the length of the file."""
        self._buffer_offset = 0
        """Offset in the file at which the buffer begins."""
        self._data_end_offset = -1
        """Offset in the file at which the data in the buffer ends."""
        self._buffer = mmap.mmap(-1, BUFFER_BYTES)
        self._buffer_address = 0
        """Address of the buffer, once a file is open."""

    def write(
        self, ring: IoUring, file: int, data: bytes, offset: int, on_written: Callable[[int], None]
    ) -> bool:
        """Start a direct write, or return False if it is not possible.

        `on_written` is called as by `IoUring.write`. Raise OSError if the ring cannot start it.
        """
        if not self._is_usable:
            return False
        if file != self._source_fd:
            self._open(file)
        first_block = offset - offset % BLOCK_BYTES
        head = offset - first_block
        filled = head + len(data)
        size = -(-filled // BLOCK_BYTES) * BLOCK_BYTES
        if self._direct_fd < 0 or size > BUFFER_BYTES or not self._is_allocated(first_block + size):
            return False
        buffer = self._buffer
        if offset == self._data_end_offset:
            begin = first_block - self._buffer_offset
            buffer[:head] = buffer[begin : begin + head]
        else:
            buffer[:head] = os.pread(file, head, first_block)
        buffer[head:filled] = data
        buffer[filled:size] = bytes(size - filled)
        self._buffer_offset, self._data_end_offset = first_block, offset + len(data)

        def finish(result: int) -> None:
            if result == size:
                on_written(len(data))
                return
            self._data_end_offset = -1
            if -result in _DIRECT_IO_UNSUPPORTED:  # accepted only for `open` by the file system
                self._is_usable, result = False, 0
            on_written(min(result, 0))

        ring.write_direct(self._direct_fd, self._buffer_address, size, first_block, finish)
        return True

    def release_file(self, file: int) -> None:
        """Close the second descriptor of `file`, which is about to be closed."""
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
        """Return True if `end` is within the file. A write beyond it would extend the file."""
        if end > self._file_bytes:
            self._file_bytes = os.fstat(self._direct_fd).st_size
        return end <= self._file_bytes


_DSYNC_WRITE_UNSUPPORTED: Final = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of a system that cannot write and sync in one call."""
_DISK_ERRORS: Final = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of the disk, as opposed to errors of io_uring."""


class TimedFileOps(FileOps):
    """File operations that measure the duration of each sync.

    `fsync` receives the durations. If `use_io_uring`, io_uring is used where it is available.
    `open_ring` returns None where it is not. `log` receives a line when io_uring fails.
    """

    def __init__(
        self,
        fsync: Histogram,
        use_io_uring: bool = False,
        log: Callable[[str], None] = lambda line: None,
        open_ring: Callable[[AbstractEventLoop], IoUring | None] = open_io_uring,
    ) -> None:
        self.fsync = fsync
        self._log = log
        self._open_ring = open_ring
        self._has_dsync_write = hasattr(os, "RWF_DSYNC")
        self._can_use_io_uring = use_io_uring
        self._io_uring: IoUring | None = None
        self._direct_writer = DirectWriter()

    @property
    def can_write_async(self) -> bool:
        return self._io_uring is not None

    def attach(self, loop: AbstractEventLoop) -> None:
        if self._can_use_io_uring:
            self._io_uring = self._open_ring(loop)

    def detach(self) -> None:
        ring, self._io_uring = self._io_uring, None
        if ring is not None:
            ring.close()
        self._direct_writer.close()

    def close(self, file: int) -> None:
        self._direct_writer.release_file(file)
        super().close(file)

    def start_durable_write(
        self, file: int, data: bytes, offset: int, on_written: Callable[[int], None]
    ) -> bool:
        ring = self._io_uring
        if ring is None:
            return False
        started_s = time.perf_counter()

        def finish(result: int) -> None:
            self.fsync.observe(time.perf_counter() - started_s)
            if result < 0 and -result not in _DISK_ERRORS:
                self._disable_io_uring(-result)
            on_written(result)

        try:
            if not self._direct_writer.write(ring, file, data, offset, finish):
                ring.write(file, data, offset, finish)
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

    def _disable_io_uring(self, error: int) -> None:
        """Use the writer thread from now on: an error of io_uring itself would recur."""
        self._log(f"io_uring failed: {os.strerror(error)}; a thread writes the journal from now on")
        self.detach()

    def write_durably(self, file: int, data: bytes | memoryview, offset: int) -> None:
        if not self._has_dsync_write:
            super().write_durably(file, data, offset)
            return
        started_s = time.perf_counter()
        try:
            written = os.pwritev(file, (data,), offset, os.RWF_DSYNC)
        except OSError as error:
            if error.errno not in _DSYNC_WRITE_UNSUPPORTED:
                raise
            self._has_dsync_write = False
            written = 0
        self.fsync.observe(time.perf_counter() - started_s)
        if written < len(data):
            super().write_durably(file, memoryview(data)[written:], offset + written)

    def fdatasync(self, file: int) -> None:
        started_s = time.perf_counter()
        super().fdatasync(file)
        self.fsync.observe(time.perf_counter() - started_s)
