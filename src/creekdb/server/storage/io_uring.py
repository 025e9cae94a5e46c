"""Asynchronous durable writes through io_uring of Linux.

A Python thread that waits for the disk needs the interpreter lock before it starts, and again when
it is done. While the event loop executes an operation, such a write is delayed. With io_uring,
Linux takes writes from memory that it shares with the process, and signals a file descriptor when
one is complete. This module implements the subset that a journal needs: one write at a
time, which is complete when it is on disk.

Some systems lack io_uring or forbid it, and some builds of Python cannot call it. Then
`open_io_uring` returns None.
"""

import errno
import mmap
import os
import struct
from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

try:
    import ctypes
except ImportError:  # this Python was built without it
    _HAS_CTYPES = False
else:
    _HAS_CTYPES = True

_SYS_IO_URING_SETUP: Final = 425
_SYS_IO_URING_ENTER: Final = 426
_SYS_IO_URING_REGISTER: Final = 427
"""System call numbers. They are equal on most architectures; the others lack these calls."""
_IORING_REGISTER_EVENTFD: Final = 4
_IORING_ENTER_GETEVENTS: Final = 1
_IORING_OP_WRITE: Final = 23
_IOSQE_ASYNC: Final = 16
"""Flag: hand the write to a kernel thread. A buffered write may wait for the disk, and it must not
block the event loop."""
_IORING_FEAT_NATIVE_WORKERS: Final = 1 << 9
"""Feature of Linux 5.12: kernel threads that write have the rights and limits of this process."""
_IORING_OFF_SQES: Final = 0x10000000
_QUEUE_ENTRIES: Final = 2
_UINT32_MODULUS: Final = 1 << 32

_PARAMS: Final = struct.Struct("=10I10I10I")
_SQE: Final = struct.Struct("=BBHiQQIiQ24x")
_CQE: Final = struct.Struct("=QiI")
_UINT32: Final = struct.Struct("=I")


class IoUring:
    """Ring with one write in progress at a time."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        """Set up the ring. Raise OSError if the system does not provide it."""
        self._loop = loop
        self._syscall: Any = ctypes.CDLL(None, use_errno=True).syscall
        params = ctypes.create_string_buffer(_PARAMS.size)
        self._ring_fd = self._checked_syscall(_SYS_IO_URING_SETUP, _QUEUE_ENTRIES, params)
        self._event_fd = -1
        self._completed_count = 0
        """Number of completed writes. It determines the next entries in shared memory."""
        self._write_buffer = b""
        """Data being written, which must stay in memory."""
        self._on_written: Callable[[int], None] | None = None
        self._ring_memory: mmap.mmap | None = None
        self._submission_memory: mmap.mmap | None = None
        try:
            self._map_memory(_PARAMS.unpack(params.raw))
            self._event_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            event = ctypes.c_int(self._event_fd)
            self._checked_syscall(
                _SYS_IO_URING_REGISTER,
                self._ring_fd,
                _IORING_REGISTER_EVENTFD,
                ctypes.byref(event),
                1,
            )
            loop.add_reader(self._event_fd, self._on_event)
        except BaseException:
            self._release()
            raise

    def _map_memory(self, params: tuple[int, ...]) -> None:
        """Map the shared memory at the offsets of `struct io_uring_params`."""
        entries, completions, features = params[0], params[1], params[5]
        if not features & _IORING_FEAT_NATIVE_WORKERS:
            raise OSError("io_uring requires Linux 5.12 or later")
        self._submission_entries, self._completion_entries = entries, completions
        self._submission_tail_offset, array_offset = params[11], params[16]
        self._completion_head_offset, self._completion_tail_offset, self._completions_offset = (
            params[20],
            params[21],
            params[25],
        )
        size = max(
            array_offset + _UINT32.size * entries,
            self._completions_offset + _CQE.size * completions,
        )
        self._ring_memory = mmap.mmap(self._ring_fd, size)
        self._submission_memory = mmap.mmap(
            self._ring_fd, _SQE.size * entries, offset=_IORING_OFF_SQES
        )
        for index in range(entries):
            _UINT32.pack_into(self._ring_memory, array_offset + _UINT32.size * index, index)

    @property
    def is_writing(self) -> bool:
        return self._on_written is not None

    def write(self, file: int, data: bytes, offset: int, on_written: Callable[[int], None]) -> None:
        """Start a write. No other write may be in progress.

        `on_written` is called with the number of bytes on disk, or a negated errno. The file must
        stay open until then, because Linux looks up the descriptor later. Raise OSError if the
        write cannot be started.
        """
        address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value
        assert address is not None
        self._write_buffer = data
        self._submit(_IOSQE_ASYNC, file, address, len(data), offset, on_written)

    def write_direct(
        self, file: int, address: int, size: int, offset: int, on_written: Callable[[int], None]
    ) -> None:
        """Start a write that bypasses the page cache (`O_DIRECT`).

        The memory must neither move nor change until it is complete. The disk receives the write
        before this method returns, so the write does not wait for a free core.
        """
        self._submit(0, file, address, size, offset, on_written)

    def _submit(
        self,
        flags: int,
        file: int,
        address: int,
        size: int,
        offset: int,
        on_written: Callable[[int], None],
    ) -> None:
        ring, submissions, count = self._ring_memory, self._submission_memory, self._completed_count
        assert ring is not None
        assert submissions is not None
        assert self._on_written is None
        entry_offset = _SQE.size * (count % self._submission_entries)
        entry = (_IORING_OP_WRITE, flags, 0, file, offset, address, size, os.RWF_DSYNC, 0)
        _SQE.pack_into(submissions, entry_offset, *entry)
        _UINT32.pack_into(ring, self._submission_tail_offset, (count + 1) % _UINT32_MODULUS)
        self._on_written = on_written
        try:
            if self._checked_syscall(_SYS_IO_URING_ENTER, self._ring_fd, 1, 0, 0, None, 0) != 1:
                raise BlockingIOError(errno.EAGAIN, "io_uring did not accept the write")
        except OSError:
            _UINT32.pack_into(ring, self._submission_tail_offset, count % _UINT32_MODULUS)
            self._write_buffer, self._on_written = b"", None
            raise

    def wait(self) -> None:
        """Block until the write in progress is complete."""
        while self.is_writing:
            with suppress(InterruptedError):
                self._checked_syscall(
                    _SYS_IO_URING_ENTER, self._ring_fd, 0, 1, _IORING_ENTER_GETEVENTS, None, 0
                )
                self._reap_completion()

    def close(self) -> None:
        self.wait()
        if self._event_fd >= 0 and not self._loop.is_closed():
            self._loop.remove_reader(self._event_fd)
        self._release()

    def _on_event(self) -> None:
        """Handle a signal of the event descriptor, which may precede the completion."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._event_fd)
        if self.is_writing:
            self._reap_completion()

    def _reap_completion(self) -> None:
        ring, on_written = self._ring_memory, self._on_written
        assert ring is not None
        assert on_written is not None
        (completion_tail,) = _UINT32.unpack_from(ring, self._completion_tail_offset)
        if completion_tail != (self._completed_count + 1) % _UINT32_MODULUS:
            return
        entry_offset = self._completions_offset + _CQE.size * (
            self._completed_count % self._completion_entries
        )
        result: int = _CQE.unpack_from(ring, entry_offset)[1]
        self._completed_count += 1
        _UINT32.pack_into(
            ring, self._completion_head_offset, self._completed_count % _UINT32_MODULUS
        )
        self._on_written, self._write_buffer = None, b""
        on_written(result)

    def _checked_syscall(self, *arguments: object) -> int:
        result: int = self._syscall(*arguments)
        if result < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return result

    def _release(self) -> None:
        for memory in (self._ring_memory, self._submission_memory):
            if memory is not None:
                memory.close()
        self._ring_memory = self._submission_memory = None
        for file in (self._event_fd, self._ring_fd):
            if file >= 0:
                os.close(file)
        self._event_fd = self._ring_fd = -1


def memory_address(memory: mmap.mmap) -> int:
    """Return the address of `memory`, for `IoUring.write_direct`."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def open_io_uring(loop: AbstractEventLoop) -> IoUring | None:
    if not (_HAS_CTYPES and hasattr(os, "eventfd") and hasattr(os, "RWF_DSYNC")):
        return None
    try:
        return IoUring(loop)
    except (
        OSError,
        RuntimeError,
    ):  # not supported by the system or the loop, or the loop is closed
        return None
