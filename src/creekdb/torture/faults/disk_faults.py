"""Faults of disks: no space, failing writes, damaged data."""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from creekdb.server.storage.segments import (
    SEGMENT_HEADER_BYTES,
    SEGMENT_SUFFIX,
    encode_group,
    read_segment_chain,
)

CHUNK_BYTES = 64 * 1024


@contextmanager
def small_disk(directory: Path, megabytes: int) -> Iterator[None]:
    """Mount a small disk at this directory. Raises `OSError` without the privilege to mount."""
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(directory)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        raise OSError("cannot mount a disk: root privileges are required")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill(directory: Path) -> Path:
    """Fill the disk, and return the file that occupies its space."""
    ballast = directory / "ballast"
    with ballast.open("wb", buffering=0) as file:
        size = CHUNK_BYTES
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2
    return ballast


def fail_writes(process: int) -> None:
    """Make every write of the process fail with EFBIG."""
    resource.prlimit(process, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def allow_writes(process: int) -> None:
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(process, resource.RLIMIT_FSIZE, unlimited)


def tear(directory: Path) -> bool:
    """Append half a group to the journal, like a crash in the middle of a write.

    Returns False if the journal is empty.
    """
    chain = read_segment_chain(directory)
    if chain.tail is None:
        return False
    position = chain.first_position + len(chain.records)
    group = encode_group(position, chain.tail.header.salt, [b"\xc0" * 100])
    file = os.open(chain.tail.path, os.O_WRONLY)
    try:
        os.pwrite(file, group[: len(group) // 2], chain.tail.end_offset)
    finally:
        os.close(file)
    return True


def flip(directory: Path) -> Path:
    """Flip a bit of the first group of the last segment, and return its path."""
    path = max(directory.glob(f"*{SEGMENT_SUFFIX}"))
    data = bytearray(path.read_bytes())
    data[SEGMENT_HEADER_BYTES + 40] ^= 1
    path.write_bytes(data)
    return path


def file_contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}
