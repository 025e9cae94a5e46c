"""Asynchronous writes of the journal: groups that complete later, or fail."""

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from creekdb.errors import DiskFull, StorageFault
from creekdb.server.observability.latency import Histogram
from creekdb.server.storage.direct_io import TimedFileOps
from creekdb.server.storage.file_ops import FileOps
from creekdb.server.storage.io_uring import IoUring
from creekdb.server.storage.journal import Journal
from tests.unit.server.message_samples import (
    checkpoint_record,
    read_journal,
    record,
    records,
    segment_paths,
)
from tests.unit.server.storage.faulty_file_ops import FaultyFileOps


class AsyncFileOps(FaultyFileOps):
    """Completes asynchronous writes when the test calls `complete`."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[Callable[[int | None], None]] = []

    def start_durable_write(
        self, file: int, data: bytes, offset: int, on_written: Callable[[int], None]
    ) -> bool:
        self._call("start")

        def complete(result: int | None) -> None:
            if result is None or result > 0:
                self.write(file, data[:result], offset)
            on_written(len(data) if result is None else result)

        self.writes.append(complete)
        return True

    def wait_for_write(self) -> bool:
        if not self.writes:
            return False
        self.complete()
        return True

    def complete(self, result: int | None = None) -> None:
        """Complete the last write with `result`. None means success."""
        self.writes.pop()(result)


class JournalProbe:
    """A journal, its failures, and waiting for its progress."""

    def __init__(self, directory: Path, file_ops: FileOps) -> None:
        self.failures: list[StorageFault] = []
        self._changed = asyncio.Event()
        self.journal = Journal(
            directory,
            loop=asyncio.get_running_loop(),
            on_failure=self._on_failure,
            file_ops=file_ops,
        )
        self.journal.subscribe(self._changed.set)
        self.journal.open()

    def _on_failure(self, error: StorageFault) -> None:
        self.failures.append(error)
        self._changed.set()

    async def with_segment(self) -> "JournalProbe":
        """Append one record, which creates a segment."""
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


async def test_a_group_is_written_asynchronously_once_the_previous_one_is_durable(
    tmp_path: Path,
) -> None:
    file_ops = AsyncFileOps()
    probe = await JournalProbe(tmp_path, file_ops).with_segment()
    journal = probe.journal
    assert not file_ops.writes, "the thread creates a segment"
    journal.append(records(1, 1))
    journal.append(records(2, 2))
    assert (len(file_ops.writes), journal.durable_position) == (1, 1)
    file_ops.complete()
    assert (len(file_ops.writes), journal.durable_position) == (1, 2)
    file_ops.complete()
    assert (len(file_ops.writes), journal.durable_position) == (0, 4)
    journal.append([checkpoint_record(4)])
    await probe.until_durable(5)
    journal.append(records(5, 1))
    journal.flush()
    assert file_ops.called.count("start") == 2, "the thread creates a segment"
    journal.append(records(6, 1))
    journal.flush()
    journal.append(records(7, 1))
    journal.close()
    assert file_ops.called.count("start") == 4
    assert read_journal(tmp_path) == [checkpoint_record(4), *records(5, 3)]


@pytest.mark.parametrize("result", [-errno.EIO, -errno.ENOSPC, 10])
async def test_the_thread_writes_a_failed_group_to_another_segment(
    tmp_path: Path, result: int
) -> None:
    file_ops = AsyncFileOps()
    probe = await JournalProbe(tmp_path, file_ops).with_segment()
    probe.journal.append(records(1, 1))
    file_ops.complete(result)
    assert probe.journal.durable_position == 1
    await probe.until_durable(2)
    assert len(segment_paths(tmp_path)) == 2
    probe.journal.append(records(2, 1))
    file_ops.complete()
    assert probe.journal.durable_position == 3
    assert probe.failures == []
    probe.journal.close()
    assert read_journal(tmp_path) == records(0, 3)


async def test_a_full_disk_is_reported_and_a_retry_continues(tmp_path: Path) -> None:
    file_ops = AsyncFileOps()
    probe = await JournalProbe(tmp_path, file_ops).with_segment()
    journal = probe.journal
    file_ops.errors = {"create": errno.ENOSPC}
    journal.append(records(1, 1))
    file_ops.complete(-errno.ENOSPC)
    await probe.until_failed()
    assert isinstance(journal.fault, DiskFull)
    journal.append(records(2, 1))
    assert not file_ops.writes
    file_ops.errors = {}
    journal.retry()
    await probe.until_durable(2)
    file_ops.complete()
    assert journal.durable_position == 3
    assert probe.journal.fault is None
    journal.close()
    assert read_journal(tmp_path) == records(0, 3)


async def test_a_flush_waits_for_the_asynchronous_write_and_for_the_thread_after_it(
    tmp_path: Path,
) -> None:
    file_ops = AsyncFileOps()
    probe = JournalProbe(tmp_path, file_ops)
    probe.journal.append([record(0)])
    probe.journal.flush()
    probe.journal.append([record(1)])
    probe.journal.flush()
    probe.journal.append([record(2)])
    file_ops.complete(-errno.EIO)
    probe.journal.flush()
    assert probe.journal.durable_position == 3
    probe.journal.close()
    assert read_journal(tmp_path) == records(0, 3)


async def test_after_the_thread_failed_no_asynchronous_write_becomes_durable(
    tmp_path: Path,
) -> None:
    """For example while it removes old segments, after the new one is durable."""

    class FailingRemoval(AsyncFileOps):
        def unlink(self, path: Path) -> None:
            raise ValueError("no path")

    file_ops = FailingRemoval()
    probe = await JournalProbe(tmp_path, file_ops).with_segment()
    journal = probe.journal
    journal.append([checkpoint_record(1)])
    journal.append(records(2, 1))
    await probe.until_failed()
    failure = journal.fault
    if file_ops.writes:  # started before the failure was reported
        file_ops.complete()
    assert (journal.durable_position, journal.is_broken) == (2, True)
    assert journal.fault is failure
    journal.append(records(3, 1))
    assert not file_ops.writes
    journal.close()


async def test_the_thread_writes_a_group_whose_asynchronous_write_cannot_start(
    tmp_path: Path,
) -> None:
    class FailingStart(AsyncFileOps):
        def start_durable_write(self, *_: object) -> bool:
            raise MemoryError

    probe = JournalProbe(tmp_path, FailingStart())
    for at in range(3):
        probe.journal.append(records(at, 1))
        await probe.until_durable(at + 1)
    probe.journal.close()
    assert read_journal(tmp_path) == records(0, 3)


class FailingIoUring(IoUring):
    """Ring whose writes complete with a fixed result."""

    is_writing = False

    def __init__(self, result: int) -> None:  # without a ring of the system
        self._result = result
        self.is_closed = False

    def write(self, file: int, data: bytes, offset: int, on_written: Callable[[int], None]) -> None:
        on_written(self._result)

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("error", "is_disabled"),
    [(errno.EIO, False), (errno.ENOSPC, False), (errno.ECANCELED, True), (errno.EINVAL, True)],
)
async def test_io_uring_is_disabled_after_an_error_that_the_disk_did_not_cause(
    error: int, is_disabled: bool
) -> None:
    ring, lines, results = FailingIoUring(-error), list[str](), list[int]()
    file_ops = TimedFileOps(Histogram(), True, lines.append, lambda loop: ring)
    file_ops.attach(asyncio.get_running_loop())
    assert file_ops.can_write_async
    assert file_ops.start_durable_write(0, b"data", 0, results.append)
    assert results == [-error]
    assert (file_ops.can_write_async, ring.is_closed, len(lines)) == (
        not is_disabled,
        is_disabled,
        int(is_disabled),
    )


async def test_records_are_durable_with_the_io_uring_of_this_system(tmp_path: Path) -> None:
    """With io_uring if the system provides it, or without."""
    fsync = Histogram()
    probe = JournalProbe(tmp_path, TimedFileOps(fsync, use_io_uring=True))
    for at in range(50):
        probe.journal.append(records(at, 1))
        await probe.until_durable(at + 1 if at % 3 else 0)
    probe.journal.close()
    assert read_journal(tmp_path) == records(0, 50)
    assert sum(fsync.counts) >= 30
