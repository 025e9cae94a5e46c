"""The system calls by which a journal changes its folder.

They go through one object, so that a test can put another in its place: one whose disk is full,
fails, or loses power between any two of them.

The folder of a journal: made so that it stays, and had by one process at a time.
"""

import fcntl
import os
from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from creekdb.errors import DirectoryInUse


class FileOps:
    __slots__ = ()

    @property
    def can_write_async(self) -> bool:
        """Can it begin to write, and go on?"""
        return False

    def create(self, path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)

    def open(self, path: Path) -> int:
        return os.open(path, os.O_RDWR)

    def write(self, file: int, data: bytes | memoryview, offset: int) -> int:
        """How many bytes were written: perhaps not all."""
        return os.pwrite(file, data, offset)

    def write_durably(self, file: int, data: bytes | memoryview, offset: int) -> None:
        """All of it, and durable."""
        rest = memoryview(data)
        while rest:
            written = self.write(file, rest, offset)
            rest, offset = rest[written:], offset + written
        self.fdatasync(file)

    def attach(self, loop: AbstractEventLoop) -> None:
        """From now on, and until `detach`, what is begun may be told to this loop."""

    def detach(self) -> None:
        """Nothing is under way any more."""

    def start_durable_write(
        self, file: int, data: bytes, offset: int, written: Callable[[int], None]
    ) -> bool:
        """Begin `write_through`, one at a time: `written` is called with how many bytes are
        durable, or the negative number of an error. False: it can only be waited for."""
        return False

    def wait_for_write(self) -> bool:
        """Until what was begun is done. False: nothing was."""
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
        """Make names that were given and taken away durable."""
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


SYSTEM_FILE_OPS = FileOps()


LOCK_FILE_NAME: Final = "lock"


class DirectoryLock:
    """Of one process, from `open` to `close`. A second one is told so."""

    __slots__ = ("_file_ops", "_lock_file", "_path")

    def __init__(self, path: Path, calls: FileOps) -> None:
        self._path = path
        self._file_ops = calls
        self._lock_file: int | None = None

    @property
    def is_open(self) -> bool:
        return self._lock_file is not None

    def open(self) -> None:
        """Raises OSError, or `DirectoryInUse`."""
        missing = [each for each in (self._path, *self._path.parents) if not each.exists()]
        self._path.mkdir(parents=True, exist_ok=True)
        for made in reversed(missing):
            self._file_ops.sync_directory(made.parent)
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
                f"{self._path} is in use by process {holder}: "
                "stop it first, or choose another folder"
            ) from error
        self._lock_file = file
        # Only for the message above: a replica must be able to start on a disk that is full.
        with suppress(OSError):
            os.pwrite(file, f"{os.getpid():<19}\n".encode(), 0)
