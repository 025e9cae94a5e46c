"""The folder of a journal: made so that it stays, and had by one process at a time."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from creekdb.cluster.calls import Calls
from creekdb.errors import DirectoryInUse

LOCK: Final = "lock"


class Folder:
    """Of one process, from `open` to `close`. A second one is told so."""

    __slots__ = ("_calls", "_lock_file", "_path")

    def __init__(self, path: Path, calls: Calls) -> None:
        self._path = path
        self._calls = calls
        self._lock_file: int | None = None

    @property
    def is_open(self) -> bool:
        return self._lock_file is not None

    def open(self) -> None:
        """Raises OSError, or `DirectoryInUse`."""
        missing = [each for each in (self._path, *self._path.parents) if not each.exists()]
        self._path.mkdir(parents=True, exist_ok=True)
        for made in reversed(missing):
            self._calls.sync_directory(made.parent)
        self._lock()

    def close(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def _lock(self) -> None:
        file = os.open(self._path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
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
