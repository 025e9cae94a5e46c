"""Direct writes in whole blocks: the file contains the written data and nothing else."""

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from creekdb.server.storage.direct_io import BLOCK_BYTES, BUFFER_BYTES, DirectWriter
from creekdb.server.storage.io_uring import IoUring
from tests.unit.server.storage.test_io_uring import needs_io_uring

FILE_BYTES = 64 * BLOCK_BYTES


class StubIoUring(IoUring):
    """Ring that completes writes with the given results. None means success."""

    def __init__(self) -> None:  # without a ring of the system
        self.results: list[int | None] = []
        self.sizes: list[int] = []
        self.files: list[int] = []

    def write_direct(
        self, file: int, address: int, size: int, offset: int, on_written: Callable[[int], None]
    ) -> None:
        assert (address % BLOCK_BYTES, size % BLOCK_BYTES, offset % BLOCK_BYTES) == (0, 0, 0)
        self.files.append(file)
        self.sizes.append(size)
        result = self.results.pop(0) if self.results else None
        on_written(size if result is None else result)


def preallocated_file(path: Path, size: int = FILE_BYTES) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.pwrite(file, bytes(size), 0)
    return file


def open_file_count() -> int:
    return len(os.listdir("/proc/self/fd"))


@needs_io_uring
@pytest.mark.parametrize("seed", range(5))
async def test_consecutive_writes_are_in_the_file(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    sizes = [
        random.choice((1, 37, 500, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 9000))
        for _ in range(30)
    ]

    async def write_all(ring: IoUring, file: int) -> bytes:
        writer, end, direct = DirectWriter(), random.randrange(2 * BLOCK_BYTES), 0
        expected = bytearray(FILE_BYTES)
        for size in sizes:
            data = random.randbytes(size)
            expected[end : end + size] = data
            result: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            if random.random() < 0.2:
                os.pwrite(file, data, end)  # by another writer
            elif writer.write(ring, file, data, end, result.set_result):
                direct += 1
                assert await result == size
            else:
                os.pwrite(file, data, end)
            assert os.pread(file, FILE_BYTES, 0) == expected
            end += size
        writer.close()
        assert direct in (0, *range(15, 31)), (
            "most writes are direct where the file system supports them"
        )
        return bytes(expected)

    ring = IoUring(asyncio.get_running_loop())
    file = preallocated_file(tmp_path / "file")
    try:
        expected = await write_all(ring, file)
    finally:
        ring.close()
        os.close(file)
    assert (tmp_path / "file").read_bytes() == expected


def test_a_direct_write_never_extends_the_file(tmp_path: Path) -> None:
    file = preallocated_file(tmp_path / "file", 2 * BLOCK_BYTES + 100)
    writer, ring, results = DirectWriter(), StubIoUring(), list[int]()
    assert writer.write(ring, file, b"x" * 50, 2 * BLOCK_BYTES - 50, results.append)
    assert not writer.write(ring, file, b"x" * 50, 2 * BLOCK_BYTES, results.append), (
        "the last block is incomplete"
    )
    os.ftruncate(file, 4 * BLOCK_BYTES)
    assert writer.write(ring, file, b"x" * 50, 2 * BLOCK_BYTES, results.append), (
        "the file is longer now"
    )
    assert not writer.write(ring, file, bytes(BUFFER_BYTES + 1), 0, results.append)
    assert (results, ring.sizes) == ([50, 50], [BLOCK_BYTES, BLOCK_BYTES])
    writer.close()
    os.close(file)


@pytest.mark.parametrize("error", [errno.EINVAL, errno.EOPNOTSUPP])
def test_direct_writes_stop_after_the_file_system_rejects_one(error: int, tmp_path: Path) -> None:
    file = preallocated_file(tmp_path / "file")
    writer, ring, results = DirectWriter(), StubIoUring(), list[int]()
    ring.results = [-error]
    assert writer.write(ring, file, b"one", 0, results.append)
    assert results == [0], "nothing is on disk, and io_uring is not at fault"
    assert not writer.write(ring, file, b"one", 0, results.append)
    writer.close()
    os.close(file)


def test_other_errors_and_short_writes_are_reported(tmp_path: Path) -> None:
    file = preallocated_file(tmp_path / "file")
    writer, ring, results = DirectWriter(), StubIoUring(), list[int]()
    ring.results = [-errno.EIO, -errno.ENOSPC, BLOCK_BYTES]
    for data in (b"one", b"two", bytes(BLOCK_BYTES + 1)):
        assert writer.write(ring, file, data, 0, results.append)
    assert results == [-errno.EIO, -errno.ENOSPC, 0]
    assert writer.write(ring, file, b"one", 0, results.append)
    assert results[-1] == 3
    writer.close()
    os.close(file)


def test_no_file_stays_open(tmp_path: Path) -> None:
    before = open_file_count()
    writer, ring = DirectWriter(), StubIoUring()
    for each in range(3):
        file = preallocated_file(tmp_path / str(each))
        assert writer.write(ring, file, b"one", 0, list[int]().append)
        writer.release_file(file + 1000)
        assert open_file_count() == before + 2
        writer.release_file(file)
        os.close(file)
        assert open_file_count() == before
    assert len(ring.files) == 3


def test_a_file_that_cannot_be_opened_directly_is_not_written_directly(tmp_path: Path) -> None:
    file = preallocated_file(tmp_path / "file")
    os.close(file)  # a second descriptor cannot be opened any more
    writer, ring = DirectWriter(), StubIoUring()
    assert not writer.write(ring, file, b"one", 0, list[int]().append)
    assert not ring.files
