"""The end of a file, written in whole blocks: what is in it is what was asked for, and no more."""

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import cast

import pytest

from creekdb.server.storage.direct_io import BLOCK_BYTES, BUFFER_BYTES, DirectWriter
from creekdb.server.storage.io_uring import IoUring
from tests.unit.server.storage.test_io_uring import needs_ring

ROOM = 64 * BLOCK_BYTES


class Disk:
    """In place of a ring: says what it is told to, and writes only if that is that it did."""

    def __init__(self) -> None:
        self.says: list[int | None] = []
        self.sizes: list[int] = []
        self.files: list[int] = []

    def write_direct(
        self, file: int, address: int, size: int, offset: int, written: Callable[[int], None]
    ) -> None:
        assert (address % BLOCK_BYTES, size % BLOCK_BYTES, offset % BLOCK_BYTES) == (0, 0, 0)
        self.files.append(file)
        self.sizes.append(size)
        said = self.says.pop(0) if self.says else None
        written(size if said is None else said)


def zeroed(path: Path, room: int = ROOM) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.pwrite(file, bytes(room), 0)
    return file


def files_open() -> int:
    return len(os.listdir("/proc/self/fd"))


@needs_ring
@pytest.mark.parametrize("seed", range(5))
def test_what_is_written_behind_each_other_is_in_the_file(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    sizes = [
        random.choice((1, 37, 500, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 9000))
        for _ in range(30)
    ]

    async def story(ring: IoUring, file: int) -> bytes:
        blocks, end, direct = DirectWriter(), random.randrange(2 * BLOCK_BYTES), 0
        expected = bytearray(ROOM)
        for size in sizes:
            data = random.randbytes(size)
            expected[end : end + size] = data
            result: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            if random.random() < 0.2:
                os.pwrite(file, data, end)  # by somebody else
            elif blocks.write(ring, file, data, end, result.set_result):
                direct += 1
                assert await result == size
            else:
                os.pwrite(file, data, end)
            assert os.pread(file, ROOM, 0) == expected
            end += size
        blocks.close()
        assert direct in (0, *range(15, 31)), "where the file system can, mostly so"
        return bytes(expected)

    async def run() -> bytes:
        ring = IoUring(asyncio.get_running_loop())
        file = zeroed(tmp_path / "file")
        try:
            return await story(ring, file)
        finally:
            ring.close()
            os.close(file)

    expected = asyncio.run(run())
    assert (tmp_path / "file").read_bytes() == expected


def test_a_file_never_becomes_longer(tmp_path: Path) -> None:
    file = zeroed(tmp_path / "file", 2 * BLOCK_BYTES + 100)
    blocks, disk, results = DirectWriter(), Disk(), list[int]()
    ring = cast(IoUring, disk)
    assert blocks.write(ring, file, b"x" * 50, 2 * BLOCK_BYTES - 50, results.append)
    assert not blocks.write(ring, file, b"x" * 50, 2 * BLOCK_BYTES, results.append), (
        "of half a block"
    )
    os.ftruncate(file, 4 * BLOCK_BYTES)
    assert blocks.write(ring, file, b"x" * 50, 2 * BLOCK_BYTES, results.append), (
        "there is more room now"
    )
    assert not blocks.write(ring, file, bytes(BUFFER_BYTES + 1), 0, results.append)
    assert (results, disk.sizes) == ([50, 50], [BLOCK_BYTES, BLOCK_BYTES])
    blocks.close()
    os.close(file)


@pytest.mark.parametrize("error", [errno.EINVAL, errno.EOPNOTSUPP])
def test_a_file_system_that_cannot_after_all_is_not_asked_again(error: int, tmp_path: Path) -> None:
    file = zeroed(tmp_path / "file")
    blocks, disk, results = DirectWriter(), Disk(), list[int]()
    ring = cast(IoUring, disk)
    disk.says = [-error]
    assert blocks.write(ring, file, b"one", 0, results.append)
    assert results == [0], "nothing is on disk, and the ring is not at fault"
    assert not blocks.write(ring, file, b"one", 0, results.append)
    blocks.close()
    os.close(file)


def test_other_errors_and_short_writes_are_told(tmp_path: Path) -> None:
    file = zeroed(tmp_path / "file")
    blocks, disk, results = DirectWriter(), Disk(), list[int]()
    ring = cast(IoUring, disk)
    disk.says = [-errno.EIO, -errno.ENOSPC, BLOCK_BYTES]
    for data in (b"one", b"two", bytes(BLOCK_BYTES + 1)):
        assert blocks.write(ring, file, data, 0, results.append)
    assert results == [-errno.EIO, -errno.ENOSPC, 0]
    assert blocks.write(ring, file, b"one", 0, results.append)
    assert results[-1] == 3
    blocks.close()
    os.close(file)


def test_nothing_stays_open(tmp_path: Path) -> None:
    before = files_open()
    blocks, disk = DirectWriter(), Disk()
    for each in range(3):
        file = zeroed(tmp_path / str(each))
        assert blocks.write(cast(IoUring, disk), file, b"one", 0, list[int]().append)
        blocks.release_file(file + 1000)
        assert files_open() == before + 2
        blocks.release_file(file)
        os.close(file)
        assert files_open() == before
    assert len(disk.files) == 3


def test_where_a_file_cannot_be_opened_so_others_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = zeroed(tmp_path / "file")
    blocks, disk = DirectWriter(), Disk()

    def refused(*_: object) -> int:
        raise OSError(errno.EINVAL, "no")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refused)
        assert not blocks.write(cast(IoUring, disk), file, b"one", 0, list[int]().append)
    assert not disk.files
    os.close(file)
