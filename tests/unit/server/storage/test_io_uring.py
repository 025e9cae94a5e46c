"""Asynchronous writes with io_uring, where the system provides it."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from creekdb.server.storage.io_uring import IoUring, open_io_uring


def has_io_uring() -> bool:
    loop = asyncio.new_event_loop()
    ring = open_io_uring(loop)
    if ring is not None:
        ring.close()
    loop.close()
    return ring is not None


needs_io_uring = pytest.mark.skipif(not has_io_uring(), reason="io_uring is missing or forbidden")


async def write_and_wait(ring: IoUring, file: int, data: bytes, offset: int) -> int:
    result: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    ring.write(file, data, offset, result.set_result)
    assert ring.is_writing
    return await result


@needs_io_uring
async def test_data_is_in_the_file_when_the_callback_runs(tmp_path: Path) -> None:
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    ring = IoUring(asyncio.get_running_loop())
    for each in range(10):  # more than the queue has entries
        assert await write_and_wait(ring, file, bytes([each]) * 300, 300 * each) == 300
        assert not ring.is_writing
    ring.close()
    os.close(file)
    assert (tmp_path / "file").read_bytes() == b"".join(bytes([each]) * 300 for each in range(10))


@needs_io_uring
async def test_a_blocking_wait_calls_the_callback_once(tmp_path: Path) -> None:
    results: list[int] = []
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    ring = IoUring(asyncio.get_running_loop())
    ring.write(file, b"one", 0, results.append)
    ring.wait()
    assert results == [3]
    ring.wait()  # no write is in progress
    assert await write_and_wait(ring, file, b"three", 3) == 5
    ring.write(file, b"last", 8, results.append)
    ring.close()
    os.close(file)
    assert results == [3, 4]
    assert (tmp_path / "file").read_bytes() == b"onethreelast"


@needs_io_uring
async def test_an_error_is_reported_and_the_next_write_succeeds(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    read_only = os.open(tmp_path / "file", os.O_RDONLY)
    writable = os.open(tmp_path / "file", os.O_RDWR)
    ring = IoUring(asyncio.get_running_loop())
    assert await write_and_wait(ring, read_only, b"no", 0) == -errno.EBADF
    assert await write_and_wait(ring, writable, b"yes", 0) == 3
    ring.close()
    os.close(read_only)
    os.close(writable)


@needs_io_uring
async def test_a_write_that_cannot_start_raises_and_a_later_one_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    ring = IoUring(asyncio.get_running_loop())
    with monkeypatch.context() as patch:
        patch.setattr(ring, "_ring_fd", file)  # not a ring
        with pytest.raises(OSError, match="not supported"):
            ring.write(file, b"no", 0, lambda _: pytest.fail("the write was not started"))
    assert not ring.is_writing
    assert await write_and_wait(ring, file, b"yes", 0) == 3
    ring.close()
    os.close(file)
    assert (tmp_path / "file").read_bytes() == b"yes"


def test_no_file_stays_open_where_io_uring_is_not_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSYS, "not implemented")

    loop = asyncio.new_event_loop()
    before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else None
    monkeypatch.setattr(os, "eventfd", fail, raising=False)
    assert open_io_uring(loop) is None
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == len(before)
    monkeypatch.delattr(os, "eventfd")
    assert open_io_uring(loop) is None
    loop.close()


def test_a_closed_loop_gets_no_ring() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    assert open_io_uring(loop) is None


@needs_io_uring
async def test_a_ring_may_be_closed_twice() -> None:
    before = len(os.listdir("/proc/self/fd"))
    ring = IoUring(asyncio.get_running_loop())
    assert len(os.listdir("/proc/self/fd")) > before
    ring.close()
    ring.close()
    assert not ring.is_writing
    assert len(os.listdir("/proc/self/fd")) == before
