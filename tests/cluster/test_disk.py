"""Replicas that lose their disks, or cannot write to them."""

import asyncio
import errno
import shutil
from pathlib import Path

import pytest

from creekdb.client import NotDone, Unknown
from creekdb.client.calls import Call
from creekdb.errors import DiskFull, StorageFault
from creekdb.server.calls import admission_control
from creekdb.server.runtime.server import Server
from creekdb.server.storage.segment_writer import WriteResult
from tests.cluster.house import PATIENCE_S, House, house
from tests.unit.server.storage.faulty_file_ops import FaultyCalls, SlowCalls


def run(story: object) -> None:
    asyncio.run(story)  # type: ignore[arg-type]


def test_a_replica_that_lost_its_disk_catches_up_and_takes_part(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, checkpoint_every=16) as cluster:
            async with cluster.client(0, 1) as db, cluster.client(2) as third:
                for number in range(40):
                    await db.strong.put(f"key {number % 10}", number)
                    await third.weak.put("third", number)
                await cluster.until_settled()
                await cluster.stop(2)
                shutil.rmtree(tmp_path / "2")
                await db.strong.put("meanwhile", 1)
                await cluster.start(2)
                await cluster.until_connected()
            async with cluster.client(2) as third:
                assert await third.strong.get("meanwhile") == 1
                assert await third.weak.get("third") == 39
                await third.strong.put("third", "is back")
            await cluster.stop(0)  # without its vote nothing could be decided
            async with cluster.client(1) as db:
                assert await db.strong.get("third") == "is back"

    run(story())


def test_a_replica_whose_disk_has_lost_what_others_have_of_it_stops(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, checkpoint_every=16) as cluster:
            async with cluster.client(2) as third:
                await third.strong.put("a", 1)
            await cluster.until_settled()
            await cluster.stop(2)
            shutil.copytree(tmp_path / "2", tmp_path / "older")
            await cluster.start(2)
            await cluster.until_connected()
            async with cluster.client(2) as third:
                await third.weak.put("a", 2)
            await cluster.until_settled()
            await cluster.stop(2)
            shutil.move(tmp_path / "2", tmp_path / "newer")
            shutil.move(tmp_path / "older", tmp_path / "2")
            await cluster.start(2)
            server = cluster.servers[2]
            await asyncio.wait_for(server.stop_requested.wait(), PATIENCE_S)
            assert isinstance(server.failure, StorageFault)
            assert f"move {tmp_path / '2'} away" in str(server.failure)
            await cluster.stop(2)
            shutil.rmtree(tmp_path / "2")
            await cluster.start(2)
            await cluster.until_connected()
            async with cluster.client(2) as third:
                assert await third.strong.increment("a") == 3

    run(story())


def test_until_all_have_told_it_holds_calls_back_and_says_what_it_waits_for(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster:
            async with cluster.client(0) as db:
                await db.strong.put("a", 1)
            await cluster.stop(1, 2)
            shutil.rmtree(tmp_path / "2")
            await cluster.start(2)
            async with cluster.client(2) as db:
                async with asyncio.timeout(PATIENCE_S):
                    while (await db.status())["waits_for"] != [1]:
                        await asyncio.sleep(0.01)
                assert "waits for replica 1" in (await db.status())["why_closed"]
                with pytest.raises((NotDone, Unknown)):
                    await db.weak.within(0.2).put("a", 2)
                held = asyncio.ensure_future(_answer(db.strong.get("a")))
                await cluster.start(1)
                assert await held == 1

    async def _answer(call: object) -> object:
        return await call  # type: ignore[misc]

    run(story())


def test_a_new_cluster_can_begin_without_all_if_told_so(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = House(tmp_path, fresh=True)
        await cluster.start(0, 1)
        await cluster.until_connected()
        async with cluster.client(0) as db:
            await db.strong.put("a", 1)
            await cluster.start(2, fresh=False)
            await cluster.until_connected()
        async with cluster.client(2) as db:
            assert await db.strong.get("a") == 1
        await cluster.stop()

    run(story())


def fill_disk(server: Server) -> FaultyCalls:
    """From now on nothing can be written."""
    calls = FaultyCalls()
    calls.errors["write"] = errno.ENOSPC
    server.journal._writer._file_ops = calls
    return calls


async def until_disk(server: Server, works: bool) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (server.journal.fault is None) != works:
            await asyncio.sleep(0.01)


async def refused(call: Call) -> str:
    with pytest.raises(NotDone) as told:
        await call
    return told.value.reason


def test_a_replica_that_cannot_write_answers_what_only_reads(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client(0) as db:
            await db.strong.put("a", 1)
            await cluster.until_settled()
            first = cluster.servers[0]
            calls = fill_disk(first)
            async with cluster.client(1) as other:
                await other.weak.put("b", 2)
                await until_disk(first, works=False)
                assert await db.weak.get("a") == 1
                assert await refused(db.weak.put("a", 2)) == "disk"
                assert await refused(db.strong.get("a")) == "disk"
                assert await other.strong.put("a", 3) == 1
            calls.errors.clear()
            await until_disk(first, works=True)
            assert await db.strong.put("a", 4) == 3

    run(story())


def test_what_may_be_lost_is_not_shown(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client(0) as db, cluster.client() as reader:
            await db.strong.put("a", 1)
            await cluster.until_settled()
            first = cluster.servers[0]
            calls = fill_disk(first)
            put = db.weak.put("a", 2)
            await until_disk(first, works=False)
            assert await refused(db.weak.get("a")) == "disk"
            assert reader.replica == 0
            assert await reader.weak.get("a") == 1  # at another one
            assert reader.replica == 1
            calls.errors.clear()
            assert await put == 1
            assert await db.weak.get("a") == 2

    run(story())


def test_a_read_that_waits_for_the_disk_is_answered_when_that_fails(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client(0) as db, cluster.client(1) as other:
            await db.strong.put("a", 1)
            await cluster.until_settled()
            first = cluster.servers[0]
            calls = first.journal._writer._file_ops = SlowCalls()
            await other.weak.put("b", 2)
            async with asyncio.timeout(PATIENCE_S):
                while not first.journal.pending_bytes:
                    await asyncio.sleep(0.01)
                read = db.weak.get("a")
                while not any(held.respond for held in first.driver._pending):
                    await asyncio.sleep(0.01)
            calls.errors["fdatasync"] = errno.EIO
            calls.allowed.release()
            assert await read == 1
            calls.errors.clear()
            calls.allowed.release(1000)

    run(story())


def test_a_new_replica_that_cannot_write_lets_nobody_wait(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = House(tmp_path)
        await cluster.start(0)
        first = cluster.servers[0]
        async with cluster.client(0) as db:
            waiting = db.weak.put("a", 1)
            async with asyncio.timeout(PATIENCE_S):
                while not first.dispatcher.dependency_queue:
                    await asyncio.sleep(0.01)
            first.journal._finish_group(WriteResult(DiskFull("no space left")))
            assert await refused(waiting) == "disk"
            assert await refused(db.weak.get("a")) == "disk"
            assert await refused(db.strong.put("a", 1)) == "disk"
        await cluster.stop()

    run(story())


@pytest.mark.parametrize("bound", ["UNWRITTEN_MAX", "BACKLOG_MAX"])
def test_a_disk_that_hangs_does_not_fill_the_memory(
    bound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission_control, bound, 20_000 if bound == "UNWRITTEN_MAX" else 50)

    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client(1, 2) as db:
            await db.strong.put("a", 1)
            await cluster.until_settled()
            first = cluster.servers[0]
            calls = first.journal._writer._file_ops = SlowCalls()
            async with asyncio.timeout(PATIENCE_S):
                number = 0
                while not first.rejections["dropped for a slow disk"]:
                    number += 1
                    await db.strong.put("a", "x" * 1000)
                most = first.journal.pending_bytes, first.driver.pending_batches
                for _ in range(50):
                    await db.strong.put("a", "x" * 1000)
                ticks = first.driver.pending_batches
            assert first.journal.pending_bytes <= most[0] + 5_000
            assert ticks <= most[1] + 5
            async with cluster.client(0) as waits:
                assert await refused(waits.weak.put("a", 2)) == "disk"
            calls.allowed.release(100_000)
            await cluster.until_settled()
            assert await db.strong.get("a") == "x" * 1000

    run(story())
