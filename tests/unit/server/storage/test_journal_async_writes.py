"""What the system writes by itself: groups that are begun and heard of later, or fail."""

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from creekdb.errors import DiskFull, StorageFault
from creekdb.server.observability.latency import Histogram
from creekdb.server.storage import direct_io
from creekdb.server.storage.direct_io import TimedFileOps
from creekdb.server.storage.file_ops import FileOps
from creekdb.server.storage.journal import Journal
from tests.unit.server.message_samples import found, image, record, records, segments
from tests.unit.server.storage.faulty_file_ops import FaultyCalls


class BegunCalls(FaultyCalls):
    """Writes what was begun when it is told to, or says what it is told to say."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[Callable[[int | None], None]] = []

    def start_durable_write(
        self, file: int, data: bytes, offset: int, written: Callable[[int], None]
    ) -> bool:
        self._make("begin")

        def end(result: int | None) -> None:
            if result is None or result > 0:
                self.write(file, data[:result], offset)
            written(len(data) if result is None else result)

        self.begun.append(end)
        return True

    def wait_for_write(self) -> bool:
        if not self.begun:
            return False
        self.end()
        return True

    def end(self, result: int | None = None) -> None:
        """None: all is well."""
        self.begun.pop()(result)


class Told:
    def __init__(self, directory: Path, calls: FileOps) -> None:
        self.failures: list[StorageFault] = []
        self._changed = asyncio.Event()
        self.journal = Journal(
            directory,
            loop=asyncio.get_running_loop(),
            on_durable=self._changed.set,
            on_failure=self._failed,
            calls=calls,
        )
        self.journal.open()

    def _failed(self, error: StorageFault) -> None:
        self.failures.append(error)
        self._changed.set()

    async def with_a_segment(self) -> "Told":
        """In which there is one record."""
        self.journal.append(records(0, 1))
        await self.until_durable(1)
        return self

    async def until_durable(self, position: int) -> None:
        while self.journal.durable_position < position:
            self._changed.clear()
            await self._changed.wait()

    async def until_failed(self) -> None:
        while self.journal.fault is None:
            self._changed.clear()
            await self._changed.wait()


def test_a_group_is_begun_behind_the_first_and_the_next_when_it_is_durable(tmp_path: Path) -> None:
    async def run() -> None:
        calls = BegunCalls()
        told = await Told(tmp_path, calls).with_a_segment()
        journal = told.journal
        assert not calls.begun, "a segment is begun by the thread"
        journal.append(records(1, 1))
        journal.append(records(2, 2))
        assert (len(calls.begun), journal.durable_position) == (1, 1)
        calls.end()
        assert (len(calls.begun), journal.durable_position) == (1, 2)
        calls.end()
        assert (len(calls.begun), journal.durable_position) == (0, 4)
        journal.append([image(4)])
        await told.until_durable(5)
        journal.append(records(5, 1))
        journal.flush()
        journal.append(records(6, 1))
        journal.close()
        assert calls.made.count("begin") == 4

    asyncio.run(run())
    assert found(tmp_path) == [image(4), *records(5, 2)]


@pytest.mark.parametrize("result", [-errno.EIO, -errno.ENOSPC, 10])
def test_what_the_system_could_not_write_the_thread_writes_to_another_segment(
    tmp_path: Path, result: int
) -> None:
    async def run() -> None:
        calls = BegunCalls()
        told = await Told(tmp_path, calls).with_a_segment()
        told.journal.append(records(1, 1))
        calls.end(result)
        assert told.journal.durable_position == 1
        await told.until_durable(2)
        assert len(segments(tmp_path)) == 2
        told.journal.append(records(2, 1))
        calls.end()
        assert told.journal.durable_position == 3
        assert told.failures == []
        told.journal.close()

    asyncio.run(run())
    assert found(tmp_path) == records(0, 3)


def test_a_disk_that_stays_full_is_told_and_a_retry_goes_on(tmp_path: Path) -> None:
    async def run() -> None:
        calls = BegunCalls()
        told = await Told(tmp_path, calls).with_a_segment()
        journal = told.journal
        calls.errors = {"create": errno.ENOSPC}
        journal.append(records(1, 1))
        calls.end(-errno.ENOSPC)
        await told.until_failed()
        assert isinstance(journal.fault, DiskFull)
        journal.append(records(2, 1))
        assert not calls.begun
        calls.errors = {}
        journal.retry()
        await told.until_durable(2)
        calls.end()
        assert journal.durable_position == 3
        assert told.journal.fault is None
        journal.close()

    asyncio.run(run())
    assert found(tmp_path) == records(0, 3)


def test_who_flushes_waits_for_what_was_begun_and_for_the_thread_after_it(tmp_path: Path) -> None:
    async def run() -> None:
        calls = BegunCalls()
        told = Told(tmp_path, calls)
        told.journal.append([record(0)])
        told.journal.flush()
        told.journal.append([record(1)])
        told.journal.flush()
        told.journal.append([record(2)])
        calls.end(-errno.EIO)
        told.journal.flush()
        assert told.journal.durable_position == 3
        told.journal.close()

    asyncio.run(run())
    assert found(tmp_path) == records(0, 3)


def test_once_the_thread_broke_off_nothing_that_was_begun_becomes_durable(tmp_path: Path) -> None:
    """As when it stumbles over old segments, after it has told that the new one is durable."""

    class Stumbling(BegunCalls):
        def unlink(self, path: Path) -> None:
            raise ValueError("no path")

    async def run() -> None:
        calls = Stumbling()
        told = await Told(tmp_path, calls).with_a_segment()
        journal = told.journal
        journal.append([image(1)])
        journal.append(records(2, 1))
        await told.until_failed()
        failure = journal.fault
        if calls.begun:  # before it was known
            calls.end()
        assert (journal.durable_position, journal.is_broken) == (2, True)
        assert journal.fault is failure
        journal.append(records(3, 1))
        assert not calls.begun
        journal.close()

    asyncio.run(run())


def test_what_cannot_even_be_begun_the_thread_writes(tmp_path: Path) -> None:
    class Clumsy(BegunCalls):
        def begin_through(self, *_: object) -> bool:
            raise MemoryError

    async def run() -> None:
        told = Told(tmp_path, Clumsy())
        for at in range(3):
            told.journal.append(records(at, 1))
            await told.until_durable(at + 1)
        told.journal.close()

    asyncio.run(run())
    assert found(tmp_path) == records(0, 3)


class FailingRing:
    """In the place of Linux."""

    is_writing = False

    def __init__(self, result: int) -> None:
        self._result = result
        self.is_closed = False

    def write(self, file: int, data: bytes, offset: int, written: Callable[[int], None]) -> None:
        written(self._result)

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("error", "is_given_up"),
    [(errno.EIO, False), (errno.ENOSPC, False), (errno.ECANCELED, True), (errno.EINVAL, True)],
)
def test_it_is_given_up_when_it_fails_for_a_reason_of_its_own(
    monkeypatch: pytest.MonkeyPatch, error: int, is_given_up: bool
) -> None:
    ring, lines, results = FailingRing(-error), list[str](), list[int]()
    calls = TimedFileOps(Histogram(), True, lines.append)
    monkeypatch.setattr(direct_io, "open_ring", lambda loop: ring)
    loop = asyncio.new_event_loop()
    calls.attach(loop)
    loop.close()
    assert calls.can_write_async
    assert calls.start_durable_write(0, b"data", 0, results.append)
    assert results == [-error]
    assert (calls.can_write_async, ring.is_closed, len(lines)) == (
        not is_given_up,
        is_given_up,
        int(is_given_up),
    )


def test_as_it_is_on_this_system(tmp_path: Path) -> None:
    """With what it can do itself, or without."""
    fsync = Histogram()

    async def run() -> None:
        told = Told(tmp_path, TimedFileOps(fsync, may_begin=True))
        for at in range(50):
            told.journal.append(records(at, 1))
            await told.until_durable(at + 1 if at % 3 else 0)
        told.journal.close()

    asyncio.run(run())
    assert found(tmp_path) == records(0, 50)
    assert sum(fsync.counts) >= 30
