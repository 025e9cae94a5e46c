"""The writer thread: groups, callbacks on the loop, and a killed process."""

import asyncio
import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from creekdb.errors import DiskFailed, DiskFull, StorageFault
from creekdb.server.storage.file_ops import FileOps
from creekdb.server.storage.journal import Journal
from tests.unit.server.message_samples import checkpoint_record, read_journal, record, records
from tests.unit.server.storage.faulty_file_ops import FaultyFileOps, SlowFileOps


async def test_records_that_arrive_during_a_sync_share_the_next_one(tmp_path: Path) -> None:
    reports: list[tuple[int, bool]] = []
    file_ops, synced, loop_thread = SlowFileOps(), asyncio.Event(), threading.get_ident()

    def on_durable() -> None:
        reports.append((journal.durable_position, threading.get_ident() == loop_thread))
        synced.set()

    loop = asyncio.get_running_loop()
    journal = Journal(tmp_path, loop=loop, file_ops=file_ops)
    journal.subscribe(on_durable)
    journal.open()
    journal.append(records(0, 1))
    while "write" not in file_ops.called:
        await asyncio.sleep(0.001)
    for event in range(1, 6):
        journal.append(records(event, 1))
    assert journal.durable_position == 0
    for _ in range(2):
        synced.clear()
        file_ops.allowed.release()
        await synced.wait()
    journal.close()
    assert reports == [(1, True), (6, True)]
    assert read_journal(tmp_path) == records(0, 6)


async def test_a_failure_is_reported_on_the_loop_and_a_retry_continues(tmp_path: Path) -> None:
    file_ops, changed = FaultyFileOps(), asyncio.Event()
    failures: list[StorageFault] = []

    def on_failure(error: StorageFault) -> None:
        failures.append(error)
        changed.set()

    loop = asyncio.get_running_loop()
    journal = Journal(tmp_path, loop=loop, on_failure=on_failure, file_ops=file_ops)
    journal.subscribe(changed.set)
    journal.open()
    file_ops.errors = {"write": errno.ENOSPC}
    journal.append(records(0, 1))
    await changed.wait()
    assert failures == [journal.fault]
    assert isinstance(failures[0], DiskFull)
    journal.append(records(1, 1))
    with pytest.raises(DiskFull):
        journal.flush()
    changed.clear()
    file_ops.errors = {}
    journal.retry()
    journal.flush()
    await changed.wait()
    assert journal.fault is None
    assert journal.durable_position == 2
    journal.close()
    assert read_journal(tmp_path) == records(0, 2)


def test_the_journal_survives_a_loop_that_is_closed_first(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    journal = Journal(tmp_path, loop=loop)
    journal.open()
    loop.close()
    journal.append(records(0, 3))
    journal.flush()
    journal.close()

    assert read_journal(tmp_path) == records(0, 3)


class DefectiveFileOps(FileOps):
    """Raises an error that the journal does not expect."""

    def fdatasync(self, file: int) -> None:
        raise AssertionError("this cannot be")


async def test_a_flush_does_not_wait_for_a_failed_thread(tmp_path: Path) -> None:
    loop, failed, lines = asyncio.get_running_loop(), asyncio.Event(), list[str]()
    journal = Journal(
        tmp_path,
        loop=loop,
        on_failure=lambda _: failed.set(),
        log=lines.append,
        file_ops=DefectiveFileOps(),
    )
    journal.open()
    journal.append(records(0, 1))
    await failed.wait()
    assert journal.is_broken
    for _ in range(2):
        with pytest.raises(DiskFailed, match="this cannot be"):
            journal.flush()
        journal.retry()
    assert "Traceback" in lines[0]
    journal.close()


# --- kill -9 -------------------------------------------------------------------------------------

CHILD = """
import asyncio, sys
from pathlib import Path
from creekdb.server.storage.journal import Journal, JournalLimits
from creekdb.server.storage.direct_io import TimedFileOps
from creekdb.server.observability.latency import Histogram
from tests.unit.server.message_samples import checkpoint_record, record

async def run():
    def on_durable():
        print(journal.durable_position, flush=True)

    loop = asyncio.get_running_loop()
    journal = Journal(
        Path(sys.argv[1]),
        loop=loop,
        limits=JournalLimits(segment_bytes=20_000),
        file_ops=TimedFileOps(Histogram(), use_io_uring=sys.argv[2] == "system"),
    )
    journal.subscribe(on_durable)
    journal.open()
    while True:
        at = journal.end_position
        journal.append([checkpoint_record(at)] if at % 500 == 499 else [record(at, at % 50)])
        await asyncio.sleep(0 if at % 7 else 0.0005)

asyncio.run(run())
"""


@pytest.mark.parametrize("writer", ["thread", "system"])
def test_durable_records_survive_kill_9(tmp_path: Path, writer: str) -> None:
    directory = tmp_path / "journal"
    reported = 0
    for enough in (1, 200, 650, 700):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(directory), writer],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert child.stdout is not None
        reports = [child.stdout.readline()]
        while int(reports[-1]) < enough:
            reports.append(child.stdout.readline())
        child.kill()
        reports += child.communicate()[0].splitlines(keepends=True)
        reported = max([reported, *(int(line) for line in reports if line.endswith("\n"))])
        journal = Journal(directory)
        recovered = journal.open()
        begin = journal.durable_position - len(recovered)
        assert journal.durable_position >= reported
        assert recovered == [
            checkpoint_record(at) if at % 500 == 499 else record(at, at % 50)
            for at in range(begin, journal.durable_position)
        ]
        assert begin == journal.durable_position // 500 * 500 - 1 or begin == 0
        journal.close()
