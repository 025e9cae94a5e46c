"""File operations of disks that are full, fail, or are slow."""

import os
import threading
from pathlib import Path

from creekdb.server.storage.file_ops import FileOps


class FaultyFileOps(FileOps):
    """Fails the operations in `errors`, by name, with the given errno."""

    def __init__(self) -> None:
        self.errors: dict[str, int] = {}
        self.called: list[str] = []
        self.write_bytes_max: int | None = None
        """Upper bound for the bytes of one write, also of a write that fails."""

    def _call(self, call: str) -> None:
        self.called.append(call)
        if call in self.errors:
            raise OSError(self.errors[call], os.strerror(self.errors[call]))

    def create(self, path: Path) -> int:
        self._call("create")
        return super().create(path)

    def write(self, file: int, data: bytes | memoryview, offset: int) -> int:
        written = super().write(file, data[: self.write_bytes_max], offset)
        self._call("write")
        return written

    def fdatasync(self, file: int) -> None:
        self._call("fdatasync")

    def truncate(self, file: int, length: int) -> None:
        self._call("truncate")
        super().truncate(file, length)

    def rename(self, old: Path, new: Path) -> None:
        self._call("rename")
        super().rename(old, new)

    def unlink(self, path: Path) -> None:
        self._call("unlink")
        super().unlink(path)

    def sync_directory(self, path: Path) -> None:
        self._call("sync_directory")


class SlowFileOps(FaultyFileOps):
    """Syncs when the test releases `allowed`."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed = threading.Semaphore(0)

    def fdatasync(self, file: int) -> None:
        self.allowed.acquire()
        super().fdatasync(file)
