"""`creek` with a clock and a disk that another process controls, through a small file.

Usage: `python -m creekdb.torture.faults.replica_control FILE serve …`. The file is mapped into
memory, so that a change takes effect at once, in the middle of any work of the replica.
"""

import errno
import mmap
import os
import runpy
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple
from unittest.mock import patch

from creekdb.server.runtime import server
from creekdb.server.storage.direct_io import TimedFileOps

_LAYOUT: Final = struct.Struct("<qI?")


class ReplicaControl(NamedTuple):
    """Deviation of the clock and the disk of a replica from those of the machine."""

    clock_offset_us: int = 0
    disk_delay_us: int = 0
    """Delay of each durable write, in microseconds."""
    is_disk_full: bool = False


def write_control(path: Path, control: ReplicaControl) -> None:
    """Change the control in place. A running replica observes the change at once."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.pwrite(file, _LAYOUT.pack(*control), 0)
    finally:
        os.close(file)


def read_control(path: Path) -> ReplicaControl:
    """Return the control, which has no effect if there is no file."""
    data = path.read_bytes() if path.exists() else b""
    return ReplicaControl(*_LAYOUT.unpack(data)) if data else ReplicaControl()


class MappedControl:
    """The control as a running replica reads it."""

    def __init__(self, path: Path) -> None:
        write_control(path, read_control(path))
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), _LAYOUT.size, access=mmap.ACCESS_READ)

    def read(self) -> ReplicaControl:
        return ReplicaControl(*_LAYOUT.unpack(self._map[: _LAYOUT.size]))


def controlled_file_ops(control: MappedControl) -> type[TimedFileOps]:
    """Return file operations whose durable writes are slow or fail as the control demands."""

    class ControlledFileOps(TimedFileOps):
        def start_durable_write(
            self, file: int, data: bytes, offset: int, on_written: Callable[[int], None]
        ) -> bool:
            if control.read()[1:] != (0, False):
                return False  # the journal writes in a thread instead, by the method below
            return super().start_durable_write(file, data, offset, on_written)

        def write_durably(self, file: int, data: bytes | memoryview, offset: int) -> None:
            _, delay_us, is_full = control.read()
            if is_full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            time.sleep(delay_us / 1e6)
            super().write_durably(file, data, offset)

    return ControlledFileOps


def run(control: MappedControl) -> None:
    """Run `creek` with the arguments of this process under the control."""
    time_ns = time.time_ns
    with (
        patch.object(time, "time_ns", lambda: time_ns() + 1000 * control.read().clock_offset_us),
        patch.object(server, "TimedFileOps", controlled_file_ops(control)),
    ):
        runpy.run_module("creekdb", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    run(MappedControl(Path(sys.argv.pop(1))))
