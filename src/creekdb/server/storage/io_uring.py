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

_SETUP: Final = 425
_ENTER: Final = 426
_REGISTER: Final = 427
"""The numbers of these calls, the same on most kinds of machines; on others there are none."""
_REGISTER_EVENTFD: Final = 4
_GETEVENTS: Final = 1
_WRITE: Final = 23
_ASYNC: Final = 16
"""Not before the call returns: what goes by way of the system's memory of files might wait for a
disk, and the loop must not."""
_NATIVE_WORKERS: Final = 1 << 9
"""From Linux 5.12 on: what writes is a thread of this process, with its rights and bounds."""
_SQES_OFFSET: Final = 0x10000000
_ENTRIES: Final = 2
_MODULO: Final = 1 << 32

_PARAMS: Final = struct.Struct("=10I10I10I")
_SQE: Final = struct.Struct("=BBHiQQIiQ24x")
_CQE: Final = struct.Struct("=QiI")
_NUMBER: Final = struct.Struct("=I")


class Ring:
    def __init__(self, loop: AbstractEventLoop) -> None:
        """Raises OSError where it cannot be had."""
        self._loop = loop
        self._system: Any = ctypes.CDLL(None, use_errno=True).syscall
        params = ctypes.create_string_buffer(_PARAMS.size)
        self._file = self._call(_SETUP, _ENTRIES, params)
        self._event = -1
        self._count = 0
        """Writes that were begun and are done: places in shared memory are counted by it."""
        self._data = b""
        """What is being written, which must stay where it is."""
        self._written: Callable[[int], None] | None = None
        self._shared: mmap.mmap | None = None
        self._asked: mmap.mmap | None = None
        try:
            self._map(_PARAMS.unpack(params.raw))
            self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            event = ctypes.c_int(self._event)
            self._call(_REGISTER, self._file, _REGISTER_EVENTFD, ctypes.byref(event), 1)
            loop.add_reader(self._event, self._collect)
        except BaseException:
            self._release()
            raise

    def _map(self, params: tuple[int, ...]) -> None:
        """Where things are in shared memory: `struct io_uring_params` of Linux tells."""
        entries, completions, features = params[0], params[1], params[5]
        if not features & _NATIVE_WORKERS:
            raise OSError("this Linux is too old for it")
        self._entries, self._completions = entries, completions
        self._tail_at, array_at = params[11], params[16]
        self._head_at, self._end_at, self._done_at = params[20], params[21], params[25]
        size = max(array_at + _NUMBER.size * entries, self._done_at + _CQE.size * completions)
        self._shared = mmap.mmap(self._file, size)
        self._asked = mmap.mmap(self._file, _SQE.size * entries, offset=_SQES_OFFSET)
        for each in range(entries):
            _NUMBER.pack_into(self._shared, array_at + _NUMBER.size * each, each)

    @property
    def is_writing(self) -> bool:
        return self._written is not None

    def write(self, file: int, data: bytes, offset: int, written: Callable[[int], None]) -> None:
        """Begin to write, when nothing else is being written; `written` is called with how many
        bytes are on disk, or the negative number of an error. Until then the file stays open: Linux
        looks it up by its number when it gets to it. Raises OSError if it cannot begin."""
        address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value
        assert address is not None
        self._data = data
        self._begin(_ASYNC, file, address, len(data), offset, written)

    def write_direct(
        self, file: int, address: int, size: int, offset: int, written: Callable[[int], None]
    ) -> None:
        """The same, straight to the disk (`O_DIRECT`), of memory that stays where it is and as it
        is. The disk is asked before this returns, and not waited for: so it writes while the loop
        goes on, and not when a core is free for who would ask it."""
        self._begin(0, file, address, size, offset, written)

    def _begin(
        self,
        how: int,
        file: int,
        address: int,
        size: int,
        offset: int,
        written: Callable[[int], None],
    ) -> None:
        shared, asked, count = self._shared, self._asked, self._count
        assert shared is not None
        assert asked is not None
        assert self._written is None
        place = _SQE.size * (count % self._entries)
        what = (_WRITE, how, 0, file, offset, address, size, os.RWF_DSYNC, 0)
        _SQE.pack_into(asked, place, *what)
        _NUMBER.pack_into(shared, self._tail_at, (count + 1) % _MODULO)
        self._written = written
        try:
            if self._call(_ENTER, self._file, 1, 0, 0, None, 0) != 1:
                raise BlockingIOError(errno.EAGAIN, "it was not taken")
        except OSError:
            _NUMBER.pack_into(shared, self._tail_at, count % _MODULO)
            self._data, self._written = b"", None
            raise

    def wait(self) -> None:
        """Until what was begun is done."""
        while self.is_writing:
            with suppress(InterruptedError):
                self._call(_ENTER, self._file, 0, 1, _GETEVENTS, None, 0)
                self._done()

    def close(self) -> None:
        self.wait()
        if self._event >= 0 and not self._loop.is_closed():
            self._loop.remove_reader(self._event)
        self._release()

    def _collect(self) -> None:
        """Something is done, says the descriptor: perhaps what was waited for."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._event)
        if self.is_writing:
            self._done()

    def _done(self) -> None:
        shared, written = self._shared, self._written
        assert shared is not None
        assert written is not None
        (done,) = _NUMBER.unpack_from(shared, self._end_at)
        if done != (self._count + 1) % _MODULO:
            return
        place = self._done_at + _CQE.size * (self._count % self._completions)
        result: int = _CQE.unpack_from(shared, place)[1]
        self._count += 1
        _NUMBER.pack_into(shared, self._head_at, self._count % _MODULO)
        self._written, self._data = None, b""
        written(result)

    def _call(self, *arguments: object) -> int:
        result: int = self._system(*arguments)
        if result < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return result

    def _release(self) -> None:
        for shared in (self._shared, self._asked):
            if shared is not None:
                shared.close()
        self._shared = self._asked = None
        for file in (self._event, self._file):
            if file >= 0:
                os.close(file)
        self._event = self._file = -1


def place_of(memory: mmap.mmap) -> int:
    """For `Ring.write_direct`."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def open_ring(loop: AbstractEventLoop) -> Ring | None:
    if not (_HAS_CTYPES and hasattr(os, "eventfd") and hasattr(os, "RWF_DSYNC")):
        return None
    try:
        return Ring(loop)
    except (OSError, RuntimeError):  # a loop that cannot, or is closed
        return None
