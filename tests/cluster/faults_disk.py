"""Disks that are full, fail, or hold what nobody wrote."""

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

PIECE = 64 * 1024


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[None]:
    """A disk of its own for this folder. Raises `OSError` for who may not have one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        raise OSError("only root may mount a disk here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """The file that takes up all the space there was."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        size = PIECE
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2
    return ballast


def refuse_writes(process: int) -> None:
    """Whatever file it writes to, it is told that the file is too large."""
    resource.prlimit(process, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def allow_writes(process: int) -> None:
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(process, resource.RLIMIT_FSIZE, unlimited)


def tear(folder: Path) -> bool:
    """Leave half of a group behind the last one, as a crash in the middle of a write does. False if
    nothing was ever written."""
    chain = read_segment_chain(folder)
    if chain.tail is None:
        return False
    following = chain.first_position + len(chain.records)
    group = encode_group(following, chain.tail.header.salt, [b"\xc0" * 100])
    file = os.open(chain.tail.path, os.O_WRONLY)
    try:
        os.pwrite(file, group[: len(group) // 2], chain.tail.end_offset)
    finally:
        os.close(file)
    return True


def flip(folder: Path) -> Path:
    """Turn a bit of the first group that follows the header of the last segment."""
    path = max(folder.glob(f"*{SEGMENT_SUFFIX}"))
    data = bytearray(path.read_bytes())
    data[SEGMENT_HEADER_BYTES + 40] ^= 1
    path.write_bytes(data)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
