"""Writing without a thread: Linux itself writes and syncs, and tells the loop when it has.

A thread of Python that waits for the disk needs the interpreter before it begins, and again when it
has done: while the loop executes something, a write waits that could go on beside it. Linux takes
writes through memory that it shares with the process (io_uring), and makes a file descriptor
readable when one is done. This is as much of it as a journal needs: one write at a time, of which
Linux says that it is done when it is on disk.

Not every system has it, some forbid it, and not every Python can ask for it: then `open_ring` gives
none.
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
"""The numbers of these calls, the same on most kinds of machines; on others there are none."""
_IORING_REGISTER_EVENTFD: Final = 4
_IORING_ENTER_GETEVENTS: Final = 1
_IORING_OP_WRITE: Final = 23
_IOSQE_ASYNC: Final = 16
"""Not before the call returns: what goes by way of the system's memory of files might wait for a
disk, and the loop must not."""
_IORING_FEAT_NATIVE_WORKERS: Final = 1 << 9
"""From Linux 5.12 on: what writes is a thread of this process, with its rights and bounds."""
_IORING_OFF_SQES: Final = 0x10000000
_QUEUE_ENTRIES: Final = 2
_UINT32_MODULUS: Final = 1 << 32

_PARAMS: Final = struct.Struct("=10I10I10I")
_SQE: Final = struct.Struct("=BBHiQQIiQ24x")
_CQE: Final = struct.Struct("=QiI")
_UINT32: Final = struct.Struct("=I")


class IoUring:
    def __init__(self, loop: AbstractEventLoop) -> None:
        """Raises OSError where it cannot be had."""
        self._loop = loop
        self._syscall: Any = ctypes.CDLL(None, use_errno=True).syscall
        params = ctypes.create_string_buffer(_PARAMS.size)
        self._ring_fd = self._checked_syscall(_SYS_IO_URING_SETUP, _QUEUE_ENTRIES, params)
        self._event_fd = -1
        self._completed_count = 0
        """Writes that were begun and are done: places in shared memory are counted by it."""
        self._write_buffer = b""
        """What is being written, which must stay where it is."""
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
        """Where things are in shared memory: `struct io_uring_params` of Linux tells."""
        entries, completions, features = params[0], params[1], params[5]
        if not features & _IORING_FEAT_NATIVE_WORKERS:
            raise OSError("this Linux is too old for it")
        self._submission_entries, self._completion_entries = entries, completions
        self._submission_tail_offset, array_at = params[11], params[16]
        self._completion_head_offset, self._completion_tail_offset, self._completions_offset = (
            params[20],
            params[21],
            params[25],
        )
        size = max(
            array_at + _UINT32.size * entries, self._completions_offset + _CQE.size * completions
        )
        self._ring_memory = mmap.mmap(self._ring_fd, size)
        self._submission_memory = mmap.mmap(
            self._ring_fd, _SQE.size * entries, offset=_IORING_OFF_SQES
        )
        for each in range(entries):
            _UINT32.pack_into(self._ring_memory, array_at + _UINT32.size * each, each)

    @property
    def is_writing(self) -> bool:
        return self._on_written is not None

    def write(self, file: int, data: bytes, offset: int, written: Callable[[int], None]) -> None:
        """Begin to write, when nothing else is being written; `written` is called with how many
        bytes are on disk, or the negative number of an error. Until then the file stays open: Linux
        looks it up by its number when it gets to it. Raises OSError if it cannot begin."""
        address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value
        assert address is not None
        self._write_buffer = data
        self._submit(_IOSQE_ASYNC, file, address, len(data), offset, written)

    def write_direct(
        self, file: int, address: int, size: int, offset: int, written: Callable[[int], None]
    ) -> None:
        """The same, straight to the disk (`O_DIRECT`), of memory that stays where it is and as it
        is. The disk is asked before this returns, and not waited for: so it writes while the loop
        goes on, and not when a core is free for who would ask it."""
        self._submit(0, file, address, size, offset, written)

    def _submit(
        self,
        how: int,
        file: int,
        address: int,
        size: int,
        offset: int,
        written: Callable[[int], None],
    ) -> None:
        shared, asked, count = self._ring_memory, self._submission_memory, self._completed_count
        assert shared is not None
        assert asked is not None
        assert self._on_written is None
        place = _SQE.size * (count % self._submission_entries)
        what = (_IORING_OP_WRITE, how, 0, file, offset, address, size, os.RWF_DSYNC, 0)
        _SQE.pack_into(asked, place, *what)
        _UINT32.pack_into(shared, self._submission_tail_offset, (count + 1) % _UINT32_MODULUS)
        self._on_written = written
        try:
            if self._checked_syscall(_SYS_IO_URING_ENTER, self._ring_fd, 1, 0, 0, None, 0) != 1:
                raise BlockingIOError(errno.EAGAIN, "it was not taken")
        except OSError:
            _UINT32.pack_into(shared, self._submission_tail_offset, count % _UINT32_MODULUS)
            self._write_buffer, self._on_written = b"", None
            raise

    def wait(self) -> None:
        """Until what was begun is done."""
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
        """Something is done, says the descriptor: perhaps what was waited for."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._event_fd)
        if self.is_writing:
            self._reap_completion()

    def _reap_completion(self) -> None:
        shared, written = self._ring_memory, self._on_written
        assert shared is not None
        assert written is not None
        (done,) = _UINT32.unpack_from(shared, self._completion_tail_offset)
        if done != (self._completed_count + 1) % _UINT32_MODULUS:
            return
        place = self._completions_offset + _CQE.size * (
            self._completed_count % self._completion_entries
        )
        result: int = _CQE.unpack_from(shared, place)[1]
        self._completed_count += 1
        _UINT32.pack_into(
            shared, self._completion_head_offset, self._completed_count % _UINT32_MODULUS
        )
        self._on_written, self._write_buffer = None, b""
        written(result)

    def _checked_syscall(self, *arguments: object) -> int:
        result: int = self._syscall(*arguments)
        if result < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return result

    def _release(self) -> None:
        for shared in (self._ring_memory, self._submission_memory):
            if shared is not None:
                shared.close()
        self._ring_memory = self._submission_memory = None
        for file in (self._event_fd, self._ring_fd):
            if file >= 0:
                os.close(file)
        self._event_fd = self._ring_fd = -1


def memory_address(memory: mmap.mmap) -> int:
    """For `IoUring.write_direct`."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def open_io_uring(loop: AbstractEventLoop) -> IoUring | None:
    if not (_HAS_CTYPES and hasattr(os, "eventfd") and hasattr(os, "RWF_DSYNC")):
        return None
    try:
        return IoUring(loop)
    except (OSError, RuntimeError):  # a loop that cannot, or is closed
        return None
