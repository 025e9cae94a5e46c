"""A machine that loses power: what a folder may look like after a crash at any moment.

It carries out the calls of a journal on a real folder, never syncs it, and keeps account of what
would be on disk. What was not synced is lost, kept or garbled in pieces of a few bytes; names that
were given or taken since their folder was synced hold what they held at any time since. After a
sync that failed, what it covered looks written, and no later sync writes it.
"""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

from creekdb.server.storage.file_ops import FileOps

PIECE = 8
"""Bytes that are lost or kept together."""


class PowerLoss(BaseException):
    """Nothing in the journal may catch it."""


class Inode:
    """A file, whatever its name."""

    def __init__(self, content: bytes) -> None:
        self.content = bytearray(content)
        """As processes see it."""
        self.on_disk = bytes(content)
        self.dirty = bytearray(len(content))
        """1 for each byte that a sync would write."""

    def write(self, data: bytes, offset: int) -> None:
        end = offset + len(data)
        for grown in (self.content, self.dirty):
            grown.extend(bytes(max(0, end - len(grown))))
        self.content[offset:end] = data
        self.dirty[offset:end] = b"\1" * len(data)

    def truncate(self, length: int) -> None:
        del self.content[length:], self.dirty[length:]

    def sync(self) -> None:
        self.on_disk = self._mixed(lambda new, old: new)
        self.dirty = bytearray(len(self.content))

    def fail_to_sync(self, random: Random) -> None:
        self.on_disk = self._mixed(lambda new, old: random.choice((new, old)))
        self.dirty = bytearray(len(self.content))

    def after_power_loss(self, random: Random) -> bytes:
        def torn(new: bytes, old: bytes) -> bytes:
            if new == old:
                return old
            return random.choice((new, old, random.randbytes(len(new))))

        mixed = self._mixed(torn)
        least, most = sorted((len(self.on_disk), len(mixed)))
        if len(self.content) < len(self.on_disk):
            mixed += self.on_disk[len(mixed) :]
        return mixed[: random.choice((least, most, random.randint(least, most)))]

    def _mixed(self, choose: Callable[[bytes, bytes], bytes]) -> bytes:
        """The file as long as it is now, each piece that is not on disk as chosen."""
        size = len(self.content)
        old = self.on_disk[:size].ljust(size, b"\0")
        mixed = bytearray(old)
        at = 0
        while (at := self.dirty.find(1, at)) >= 0:
            end = self.dirty.find(0, at, at + PIECE)
            end = end if end >= 0 else min(at + PIECE, size)
            mixed[at:end] = choose(bytes(self.content[at:end]), old[at:end])
            at = end
        return bytes(mixed)


class Machine(FileOps):
    def __init__(self, root: Path, random: Random) -> None:
        self._root = root
        self._random = random
        self._lives = 0
        self._files: dict[int, Inode] = {}
        self._names: dict[str, Inode] = {}
        self._since: dict[str, list[Inode | None]] = {}
        """What a name held when its folder was last synced, and at any time since."""
        self.calls_left: int | None = None
        """How many more calls until the power fails."""
        self.errors: dict[int, int] = {}
        """Errors to raise, by the number of the call."""
        self.short_writes = False
        self.count = 0
        self.directory = self._next_directory()

    # --- how a life ends ----------------------------------------------------------------------

    def kill(self) -> None:
        """The process is gone; its system goes on."""
        self._close_all()
        self.directory = self._next_directory()
        for name, inode in self._names.items():
            (self.directory / name).write_bytes(inode.content)

    def lose_power(self) -> None:
        self._close_all()
        held = {name: self._random.choice(held) for name, held in self._since.items()}
        names = {**self._names, **held}
        self._names = {
            name: Inode(inode.after_power_loss(self._random))
            for name, inode in names.items()
            if inode is not None
        }
        self._since = {}
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

    # --- the calls ----------------------------------------------------------------------------

    def _called(self) -> OSError | None:
        if self.calls_left is not None:
            if self.calls_left <= 0:
                raise PowerLoss
            self.calls_left -= 1
        self.count += 1
        code = self.errors.get(self.count)
        return None if code is None else OSError(code, os.strerror(code))

    def _called_or_failed(self) -> None:
        error = self._called()
        if error is not None:
            raise error

    def _renamed(self, name: str, inode: Inode | None) -> None:
        self._since.setdefault(name, [self._names.get(name)]).append(inode)
        if inode is None:
            self._names.pop(name, None)
        else:
            self._names[name] = inode

    def create(self, path: Path) -> int:
        self._called_or_failed()
        file = super().create(path)
        self._files[file] = Inode(b"")
        self._renamed(path.name, self._files[file])
        return file

    def open(self, path: Path) -> int:
        self._called_or_failed()
        file = super().open(path)
        self._files[file] = self._names[path.name]
        return file

    def write(self, file: int, data: bytes | memoryview, offset: int) -> int:
        error = self._called()
        if error is not None or self.short_writes:
            data = data[: self._random.randint(1, len(data))]
        written = super().write(file, data, offset)
        self._files[file].write(bytes(data), offset)
        if error is not None:
            raise error
        return written

    def fdatasync(self, file: int) -> None:
        error = self._called()
        if error is not None:
            self._files[file].fail_to_sync(self._random)
            raise error
        self._files[file].sync()

    def truncate(self, file: int, length: int) -> None:
        self._called_or_failed()
        super().truncate(file, length)
        self._files[file].truncate(length)

    def close(self, file: int) -> None:
        super().close(file)
        del self._files[file]

    def rename(self, old: Path, new: Path) -> None:
        self._called_or_failed()
        super().rename(old, new)
        self._renamed(new.name, self._names[old.name])
        self._renamed(old.name, None)

    def unlink(self, path: Path) -> None:
        self._called_or_failed()
        super().unlink(path)
        self._renamed(path.name, None)

    def sync_directory(self, path: Path) -> None:
        self._called_or_failed()
        self._since.clear()
