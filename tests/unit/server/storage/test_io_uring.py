"""Writing without a thread, where Linux can."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from creekdb.server.storage.io_uring import IoUring, open_io_uring


def has_ring() -> bool:
    loop = asyncio.new_event_loop()
    ring = open_io_uring(loop)
    if ring is not None:
        ring.close()
    loop.close()
    return ring is not None


needs_ring = pytest.mark.skipif(not has_ring(), reason="this system has no io_uring, or forbids it")


async def written(ring: IoUring, file: int, data: bytes, offset: int) -> int:
    result: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    ring.write(file, data, offset, result.set_result)
    assert ring.is_writing
    return await result


@needs_ring
def test_what_is_written_is_in_the_file_when_the_loop_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
        ring = IoUring(asyncio.get_running_loop())
        for each in range(10):  # more than there are places for
            assert await written(ring, file, bytes([each]) * 300, 300 * each) == 300
            assert not ring.is_writing
        ring.close()
        os.close(file)

    asyncio.run(run())
    assert (tmp_path / "file").read_bytes() == b"".join(bytes([each]) * 300 for each in range(10))


@needs_ring
def test_who_waits_hears_of_it_once(tmp_path: Path) -> None:
    results: list[int] = []

    async def run() -> None:
        file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
        ring = IoUring(asyncio.get_running_loop())
        ring.write(file, b"one", 0, results.append)
        ring.wait()
        assert results == [3]
        ring.wait()  # for nothing
        assert await written(ring, file, b"three", 3) == 5
        ring.write(file, b"last", 8, results.append)
        ring.close()
        os.close(file)

    asyncio.run(run())
    assert results == [3, 4]
    assert (tmp_path / "file").read_bytes() == b"onethreelast"


@needs_ring
def test_an_error_is_told_and_the_next_write_goes_on(tmp_path: Path) -> None:
    async def run() -> None:
        (tmp_path / "file").touch()
        readable = os.open(tmp_path / "file", os.O_RDONLY)
        writable = os.open(tmp_path / "file", os.O_RDWR)
        ring = IoUring(asyncio.get_running_loop())
        assert await written(ring, readable, b"no", 0) == -errno.EBADF
        assert await written(ring, writable, b"yes", 0) == 3
        ring.close()
        os.close(readable)
        os.close(writable)

    asyncio.run(run())


@needs_ring
def test_who_cannot_begin_is_told_and_may_begin_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
        ring = IoUring(asyncio.get_running_loop())
        with monkeypatch.context() as patch:
            patch.setattr(ring, "_file", file)  # which is none
            with pytest.raises(OSError, match="not supported"):
                ring.write(file, b"no", 0, lambda _: pytest.fail("it was not begun"))
        assert not ring.is_writing
        assert await written(ring, file, b"yes", 0) == 3
        ring.close()
        os.close(file)

    asyncio.run(run())
    assert (tmp_path / "file").read_bytes() == b"yes"


def test_where_it_cannot_be_had_nothing_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise OSError(errno.ENOSYS, "there is none")

    loop = asyncio.new_event_loop()
    before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else None
    monkeypatch.setattr(os, "eventfd", refused, raising=False)
    assert open_io_uring(loop) is None
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == len(before)
    monkeypatch.delattr(os, "eventfd")
    assert open_io_uring(loop) is None
    loop.close()


def test_a_loop_that_is_closed_gets_none() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    assert open_io_uring(loop) is None


@needs_ring
def test_it_may_be_closed_twice() -> None:
    loop = asyncio.new_event_loop()
    ring = IoUring(loop)
    ring.close()
    ring.close()
    loop.close()
