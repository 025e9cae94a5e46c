"""Disks that are full, fail, or are slow, as far as a journal can tell."""

import os
import threading
from pathlib import Path

from creekdb.server.storage.file_ops import FileOps


class FaultyCalls(FileOps):
    """Fails where it is told to, for as long as it is told to."""

    def __init__(self) -> None:
        self.errors: dict[str, int] = {}
        self.made: list[str] = []
        self.write_most: int | None = None
        """Write so many bytes at once; with an error: before it."""

    def _make(self, call: str) -> None:
        self.made.append(call)
        if call in self.errors:
            raise OSError(self.errors[call], os.strerror(self.errors[call]))

    def create(self, path: Path) -> int:
        self._make("create")
        return super().create(path)

    def write(self, file: int, data: bytes | memoryview, offset: int) -> int:
        written = super().write(file, data[: self.write_most], offset)
        self._make("write")
        return written

    def fdatasync(self, file: int) -> None:
        self._make("fdatasync")

    def truncate(self, file: int, length: int) -> None:
        self._make("truncate")
        super().truncate(file, length)

    def rename(self, old: Path, new: Path) -> None:
        self._make("rename")
        super().rename(old, new)

    def unlink(self, path: Path) -> None:
        self._make("unlink")
        super().unlink(path)

    def sync_directory(self, path: Path) -> None:
        self._make("sync_directory")


class SlowCalls(FaultyCalls):
    """Syncs when it is allowed to."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed = threading.Semaphore(0)

    def fdatasync(self, file: int) -> None:
        self.allowed.acquire()
        super().fdatasync(file)
