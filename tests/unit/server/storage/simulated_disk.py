"""A machine that loses power: possible contents of a directory after a crash at any moment.

The machine executes the calls of a journal in a real directory, never syncs it, and tracks the
content of a simulated disk. Unsynced bytes are lost, kept or garbled in sectors of a few bytes. A
name that changed since the last sync of the directory refers to any file that it has referred to
since. After a failed sync, the unsynced bytes look written, and no later sync writes them.
"""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

from creekdb.server.storage.file_ops import FileOps

SECTOR_BYTES = 8
"""Bytes that are lost or kept together."""


class PowerLoss(BaseException):
    """Power loss. The journal must not catch it."""


class Inode:
    """A file, independent of its names."""

    def __init__(self, content: bytes) -> None:
        self.content = bytearray(content)
        """Content that processes read."""
        self.on_disk = bytes(content)
        self.dirty = bytearray(len(content))
        """1 for each byte that a sync would write."""

    def write(self, data: bytes, offset: int) -> None:
        end = offset + len(data)
        for array in (self.content, self.dirty):
            array.extend(bytes(max(0, end - len(array))))
        self.content[offset:end] = data
        self.dirty[offset:end] = b"\1" * len(data)

    def truncate(self, length: int) -> None:
        del self.content[length:], self.dirty[length:]

    def sync(self) -> None:
        self.on_disk = self._merge(lambda new, old: new)
        self.dirty = bytearray(len(self.content))

    def fail_to_sync(self, random: Random) -> None:
        self.on_disk = self._merge(lambda new, old: random.choice((new, old)))
        self.dirty = bytearray(len(self.content))

    def after_power_loss(self, random: Random) -> bytes:
        def tear(new: bytes, old: bytes) -> bytes:
            if new == old:
                return old
            return random.choice((new, old, random.randbytes(len(new))))

        merged = self._merge(tear)
        shorter, longer = sorted((len(self.on_disk), len(merged)))
        if len(self.content) < len(self.on_disk):
            merged += self.on_disk[len(merged) :]
        return merged[: random.choice((shorter, longer, random.randint(shorter, longer)))]

    def _merge(self, choose: Callable[[bytes, bytes], bytes]) -> bytes:
        """Return the file at its current length. `choose` decides about each unsynced sector."""
        size = len(self.content)
        old = self.on_disk[:size].ljust(size, b"\0")
        merged = bytearray(old)
        at = 0
        while (at := self.dirty.find(1, at)) >= 0:
            end = self.dirty.find(0, at, at + SECTOR_BYTES)
            end = end if end >= 0 else min(at + SECTOR_BYTES, size)
            merged[at:end] = choose(bytes(self.content[at:end]), old[at:end])
            at = end
        return bytes(merged)


class SimulatedMachine(FileOps):
    """File operations of a machine that can be killed or lose power."""

    def __init__(self, root: Path, random: Random) -> None:
        self._root = root
        self._random = random
        self._lives = 0
        self._files: dict[int, Inode] = {}
        self._names: dict[str, Inode] = {}
        self._unsynced_names: dict[str, list[Inode | None]] = {}
        """Files of each name at the last sync of the directory, and since then."""
        self.calls_left: int | None = None
        """Number of calls until the power fails."""
        self.errors: dict[int, int] = {}
        """Errors to raise, by the number of the call."""
        self.short_writes = False
        self.call_count = 0
        self.directory = self._next_directory()

    # --- crashes ------------------------------------------------------------------------------

    def kill(self) -> None:
        """Kill the process. The operating system keeps the unsynced bytes."""
        self._close_all()
        self.directory = self._next_directory()
        for name, inode in self._names.items():
            (self.directory / name).write_bytes(inode.content)

    def lose_power(self) -> None:
        self._close_all()
        chosen = {name: self._random.choice(files) for name, files in self._unsynced_names.items()}
        names = {**self._names, **chosen}
        self._names = {
            name: Inode(inode.after_power_loss(self._random))
            for name, inode in names.items()
            if inode is not None
        }
        self._unsynced_names = {}
        self.kill()

    def _close_all(self) -> None:
        for file in self._files:
            os.close(file)
        self._files.clear()

    def _next_directory(self) -> Path:
        self._lives += 1
        directory = self._root / f"life-{self._lives}"
        directory.mkdir()
        return directory

    # --- file operations ----------------------------------------------------------------------

    def _count_call(self) -> OSError | None:
        if self.calls_left is not None:
            if self.calls_left <= 0:
                raise PowerLoss
            self.calls_left -= 1
        self.call_count += 1
        code = self.errors.get(self.call_count)
        return None if code is None else OSError(code, os.strerror(code))

    def _call_or_fail(self) -> None:
        error = self._count_call()
        if error is not None:
            raise error

    def _set_name(self, name: str, inode: Inode | None) -> None:
        self._unsynced_names.setdefault(name, [self._names.get(name)]).append(inode)
        if inode is None:
            self._names.pop(name, None)
        else:
            self._names[name] = inode

    def create(self, path: Path) -> int:
        self._call_or_fail()
        file = super().create(path)
        self._files[file] = Inode(b"")
        self._set_name(path.name, self._files[file])
        return file

    def open(self, path: Path) -> int:
        self._call_or_fail()
        file = super().open(path)
        self._files[file] = self._names[path.name]
        return file

    def write(self, file: int, data: bytes | memoryview, offset: int) -> int:
        error = self._count_call()
        if error is not None or self.short_writes:
            data = data[: self._random.randint(1, len(data))]
        written = super().write(file, data, offset)
        self._files[file].write(bytes(data), offset)
        if error is not None:
            raise error
        return written

    def fdatasync(self, file: int) -> None:
        error = self._count_call()
        if error is not None:
            self._files[file].fail_to_sync(self._random)
            raise error
        self._files[file].sync()

    def truncate(self, file: int, length: int) -> None:
        self._call_or_fail()
        super().truncate(file, length)
        self._files[file].truncate(length)

    def close(self, file: int) -> None:
        super().close(file)
        del self._files[file]

    def rename(self, old: Path, new: Path) -> None:
        self._call_or_fail()
        super().rename(old, new)
        self._set_name(new.name, self._names[old.name])
        self._set_name(old.name, None)

    def unlink(self, path: Path) -> None:
        self._call_or_fail()
        super().unlink(path)
        self._set_name(path.name, None)

    def sync_directory(self, path: Path) -> None:
        self._call_or_fail()
        self._unsynced_names.clear()
