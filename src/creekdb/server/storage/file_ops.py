"""System calls by which a journal changes its directory, and the lock of the directory.

All calls go through one object. A test can replace it by one whose disk is full, fails, or loses
power between any two calls.
"""

import fcntl
import os
from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from creekdb.atomic_write import sync
from creekdb.errors import DirectoryInUse


class FileOps:
    """System calls of a journal."""

    @property
    def can_write_async(self) -> bool:
        """True if `start_durable_write` is supported."""
        return False

    def create(self, path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)

    def open(self, path: Path) -> int:
        return os.open(path, os.O_RDWR)

    def write(self, file: int, data: bytes | memoryview, offset: int) -> int:
        """Write once. Return the number of bytes written, which may be less than requested."""
        return os.pwrite(file, data, offset)

    def write_fully(self, file: int, data: bytes | memoryview, offset: int) -> None:
        """Write all of `data`."""
        remaining = memoryview(data)
        while remaining:
            written = self.write(file, remaining, offset)
            remaining, offset = remaining[written:], offset + written

    def write_durably(self, file: int, data: bytes | memoryview, offset: int) -> None:
        """Write all of `data`, and make it durable."""
        self.write_fully(file, data, offset)
        self.fdatasync(file)

    def attach(self, loop: AbstractEventLoop) -> None:
        """Use `loop` for the callbacks of asynchronous writes, until `detach`."""

    def detach(self) -> None:
        """Stop asynchronous writes. None may be in progress."""

    def start_durable_write(
        self, file: int, data: bytes, offset: int, on_written: Callable[[int], None]
    ) -> bool:
        """Start one `write_durably` without blocking, or return False.

        `on_written` is called with the number of durable bytes, or a negated errno.
        """
        return False

    def wait_for_write(self) -> bool:
        """Block until the write in progress is complete. Return False if there is none."""
        return False

    def fdatasync(self, file: int) -> None:
        os.fdatasync(file)

    def truncate(self, file: int, length: int) -> None:
        os.ftruncate(file, length)

    def close(self, file: int) -> None:
        os.close(file)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def sync_directory(self, path: Path) -> None:
        """Make created, renamed and removed names durable."""
        sync(path)


SYSTEM_FILE_OPS = FileOps()


LOCK_FILE_NAME: Final = "lock"


class DirectoryLock:
    """Exclusive lock of one process on a directory, from `open` to `close`."""

    def __init__(self, path: Path, file_ops: FileOps) -> None:
        self._path = path
        self._file_ops = file_ops
        self._lock_file: int | None = None

    @property
    def is_open(self) -> bool:
        return self._lock_file is not None

    def open(self) -> None:
        """Create and lock the directory. Raise OSError, or `DirectoryInUse`."""
        missing = [each for each in (self._path, *self._path.parents) if not each.exists()]
        self._path.mkdir(parents=True, exist_ok=True)
        for created in reversed(missing):
            self._file_ops.sync_directory(created.parent)
        self._acquire()

    def close(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def _acquire(self) -> None:
        file = os.open(self._path / LOCK_FILE_NAME, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(file, 20, 0).decode(errors="replace").strip() or "unknown"
            os.close(file)
            raise DirectoryInUse(
                f"{self._path} is in use by process {holder}; "
                "stop that process, or choose another data directory"
            ) from error
        self._lock_file = file
        # The number is only for the message above: a replica must be able to start on a full disk.
        with suppress(OSError):
            os.pwrite(file, f"{os.getpid():<19}\n".encode(), 0)
