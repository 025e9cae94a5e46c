"""The thread that writes: groups, callbacks on the loop, and a process that is killed."""

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
from tests.unit.server.message_samples import found, image, record, records
from tests.unit.server.storage.faulty_file_ops import FaultyCalls, SlowCalls


def test_records_that_arrive_during_a_sync_share_the_next_one(tmp_path: Path) -> None:
    told: list[tuple[int, bool]] = []

    async def run() -> None:
        calls, synced, here = SlowCalls(), asyncio.Event(), threading.get_ident()

        def on_durable() -> None:
            told.append((journal.durable_position, threading.get_ident() == here))
            synced.set()

        loop = asyncio.get_running_loop()
        journal = Journal(tmp_path, loop=loop, on_durable=on_durable, calls=calls)
        journal.open()
        journal.append(records(0, 1))
        while "write" not in calls.made:
            await asyncio.sleep(0.001)
        for event in range(1, 6):
            journal.append(records(event, 1))
        assert journal.durable_position == 0
        for _ in range(2):
            synced.clear()
            calls.allowed.release()
            await synced.wait()
        journal.close()

    asyncio.run(run())
    assert told == [(1, True), (6, True)]
    assert found(tmp_path) == records(0, 6)


def test_a_failure_is_told_on_the_loop_and_a_retry_goes_on(tmp_path: Path) -> None:
    async def run() -> None:
        calls, changed = FaultyCalls(), asyncio.Event()
        failures: list[StorageFault] = []

        def on_failure(error: StorageFault) -> None:
            failures.append(error)
            changed.set()

        loop = asyncio.get_running_loop()
        journal = Journal(
            tmp_path, loop=loop, on_durable=changed.set, on_failure=on_failure, calls=calls
        )
        journal.open()
        calls.errors = {"write": errno.ENOSPC}
        journal.append(records(0, 1))
        await changed.wait()
        assert failures == [journal.fault]
        assert isinstance(failures[0], DiskFull)
        journal.append(records(1, 1))
        with pytest.raises(DiskFull):
            journal.flush()
        changed.clear()
        calls.errors = {}
        journal.retry()
        journal.flush()
        await changed.wait()
        assert journal.fault is None
        assert journal.durable_position == 2
        journal.close()

    asyncio.run(run())
    assert found(tmp_path) == records(0, 2)


def test_a_loop_that_is_closed_first_does_no_harm(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    journal = Journal(tmp_path, loop=loop)
    journal.open()
    loop.close()
    journal.append(records(0, 3))
    journal.flush()
    journal.close()

    assert found(tmp_path) == records(0, 3)


class Broken(FileOps):
    """Has a mistake in it."""

    def fdatasync(self, file: int) -> None:
        raise AssertionError("this cannot be")


def test_nobody_waits_for_a_thread_that_broke_off(tmp_path: Path) -> None:
    async def run() -> None:
        loop, told, lines = asyncio.get_running_loop(), asyncio.Event(), list[str]()
        journal = Journal(
            tmp_path,
            loop=loop,
            on_failure=lambda _: told.set(),
            log=lines.append,
            calls=Broken(),
        )
        journal.open()
        journal.append(records(0, 1))
        await told.wait()
        assert journal.is_broken
        for _ in range(2):
            with pytest.raises(DiskFailed, match="this cannot be"):
                journal.flush()
            journal.retry()
        assert "Traceback" in lines[0]
        journal.close()

    asyncio.run(run())


# --- kill -9 -------------------------------------------------------------------------------------

CHILD = """
import asyncio, sys
from pathlib import Path
from creekdb.server.storage.journal import Journal
from creekdb.server.storage.direct_io import TimedCalls
from creekdb.server.observability.latency import Histogram
from tests.unit.server.message_samples import image, record

async def run():
    def on_durable():
        print(journal.durable, flush=True)

    loop = asyncio.get_running_loop()
    journal = Journal(
        Path(sys.argv[1]),
        loop=loop,
        on_durable=on_durable,
        segment_bytes=20_000,
        calls=TimedCalls(Histogram(), may_begin=sys.argv[2] == "system"),
    )
    journal.open()
    while True:
        at = journal.end
        journal.append([image(at)] if at % 500 == 499 else [record(at, at % 50)])
        await asyncio.sleep(0 if at % 7 else 0.0005)

asyncio.run(run())
"""


@pytest.mark.parametrize("who", ["thread", "system"])
def test_nothing_that_was_durable_is_lost_when_the_process_is_killed(
    tmp_path: Path, who: str
) -> None:
    directory = tmp_path / "journal"
    safe = 0
    for enough in (1, 200, 650, 700):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(directory), who],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert child.stdout is not None
        told = [child.stdout.readline()]
        while int(told[-1]) < enough:
            told.append(child.stdout.readline())
        child.kill()
        told += child.communicate()[0].splitlines(keepends=True)
        safe = max([safe, *(int(line) for line in told if line.endswith("\n"))])
        journal = Journal(directory)
        read = journal.open()
        begin = journal.durable_position - len(read)
        assert journal.durable_position >= safe
        assert read == [
            image(at) if at % 500 == 499 else record(at, at % 50)
            for at in range(begin, journal.durable_position)
        ]
        assert begin == journal.durable_position // 500 * 500 - 1 or begin == 0
        journal.close()
