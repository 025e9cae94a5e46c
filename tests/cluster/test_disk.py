"""Lost, full and hanging disks."""

import asyncio
import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

from creekdb.client import NotDone, Unknown
from creekdb.client.calls import Call
from creekdb.errors import DiskFull, StorageFault
from creekdb.server.calls.admission_control import AdmissionLimits
from creekdb.server.runtime.server import Server, ServerLimits
from creekdb.server.storage.segment_writer import WriteResult
from creekdb.wire.counters import ServerCounter
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import TIMEOUT_S, InProcessCluster, running_cluster
from tests.unit.server.storage.faulty_file_ops import FaultyFileOps, SlowFileOps


async def test_a_replica_without_its_disk_catches_up_and_votes(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, checkpoint_every=16) as cluster:
        async with cluster.client(0, 1) as db, cluster.client(2) as third:
            for number in range(40):
                await db.strong.put(f"key {number % 10}", number)
                await third.weak.put("third", number)
            await cluster.until_quiescent()
            await cluster.stop(2)
            shutil.rmtree(tmp_path / "2")
            await db.strong.put("meanwhile", 1)
            await cluster.start(2)
            await cluster.until_connected()
        async with cluster.client(2) as third:
            assert await third.strong.get("meanwhile") == 1
            assert await third.weak.get("third") == 39
            await third.strong.put("third", "is back")
        await cluster.stop(0)  # now each decision needs the vote of replica 2
        async with cluster.client(1) as db:
            assert await db.strong.get("third") == "is back"


async def test_a_replica_with_an_outdated_disk_stops(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, checkpoint_every=16) as cluster:
        async with cluster.client(2) as third:
            await third.strong.put("a", 1)
        await cluster.until_quiescent()
        await cluster.stop(2)
        shutil.copytree(tmp_path / "2", tmp_path / "older")
        await cluster.start(2)
        await cluster.until_connected()
        async with cluster.client(2) as third:
            await third.weak.put("a", 2)
        await cluster.until_quiescent()
        await cluster.stop(2)
        shutil.move(tmp_path / "2", tmp_path / "newer")
        shutil.move(tmp_path / "older", tmp_path / "2")
        await cluster.start(2)
        server = cluster.servers[2]
        await asyncio.wait_for(server.stop_requested.wait(), TIMEOUT_S)
        assert isinstance(server.failure, StorageFault)
        assert f"Move {tmp_path / '2'} away" in str(server.failure)
        await cluster.stop(2)
        shutil.rmtree(tmp_path / "2")
        await cluster.start(2)
        await cluster.until_connected()
        async with cluster.client(2) as third:
            assert await third.strong.increment("a") == 3


async def test_a_replica_without_its_disk_holds_calls_until_all_peers_have_responded(
    tmp_path: Path,
) -> None:
    async def response_of(call: object) -> object:
        return await call  # type: ignore[misc]

    async with running_cluster(tmp_path) as cluster:
        async with cluster.client(0) as db:
            await db.strong.put("a", 1)
        await cluster.stop(1, 2)
        shutil.rmtree(tmp_path / "2")
        await cluster.start(2)
        async with cluster.client(2) as db:
            async with asyncio.timeout(TIMEOUT_S):
                while (await db.status())["waits_for"] != [1]:
                    await asyncio.sleep(0.01)
            assert "waits for replica 1" in (await db.status())["why_closed"]
            with pytest.raises((NotDone, Unknown)):
                await db.weak.within(0.2).put("a", 2)
            waiting = asyncio.ensure_future(response_of(db.strong.get("a")))
            await cluster.start(1)
            assert await waiting == 1


async def test_a_fresh_cluster_starts_without_all_members(tmp_path: Path) -> None:
    cluster = InProcessCluster(tmp_path, fresh=True)
    await cluster.start(0, 1)
    await cluster.until_connected()
    async with cluster.client(0) as db:
        await db.strong.put("a", 1)
        await cluster.start(2, fresh=False)
        await cluster.until_connected()
    async with cluster.client(2) as db:
        assert await db.strong.get("a") == 1
    await cluster.stop()


def fill_disk(server: Server) -> FaultyFileOps:
    """Make all further writes fail with ENOSPC."""
    file_ops = FaultyFileOps()
    file_ops.errors["write"] = errno.ENOSPC
    server.journal._writer._file_ops = file_ops
    return file_ops


async def until_disk(server: Server, works: bool) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while (server.journal.fault is None) != works:
            await asyncio.sleep(0.01)


async def rejection_reason(call: Call[Any]) -> str:
    with pytest.raises(NotDone) as error:
        await call
    return error.value.reason


async def test_a_replica_with_a_full_disk_serves_weak_reads(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client(0) as db:
        await db.strong.put("a", 1)
        await cluster.until_quiescent()
        first = cluster.servers[0]
        file_ops = fill_disk(first)
        async with cluster.client(1) as other:
            await other.weak.put("b", 2)
            await until_disk(first, works=False)
            assert await db.weak.get("a") == 1
            assert await rejection_reason(db.weak.put("a", 2)) == RejectReason.DISK
            assert await rejection_reason(db.strong.get("a")) == RejectReason.DISK
            assert await other.strong.put("a", 3) == 1
        file_ops.errors.clear()
        await until_disk(first, works=True)
        assert await db.strong.put("a", 4) == 3


async def test_reads_do_not_return_values_that_may_be_lost(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path) as cluster,
        cluster.client(0) as db,
        cluster.client() as reader,
    ):
        await db.strong.put("a", 1)
        await cluster.until_quiescent()
        first = cluster.servers[0]
        file_ops = fill_disk(first)
        write = db.weak.put("a", 2)
        await until_disk(first, works=False)
        assert await rejection_reason(db.weak.get("a")) == RejectReason.DISK
        assert reader.replica == 0
        assert await reader.weak.get("a") == 1  # at another replica
        assert reader.replica == 1
        file_ops.errors.clear()
        assert await write == 1
        assert await db.weak.get("a") == 2


async def test_a_read_that_waits_for_the_disk_completes_when_the_disk_fails(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path) as cluster,
        cluster.client(0) as db,
        cluster.client(1) as other,
    ):
        await db.strong.put("a", 1)
        await cluster.until_quiescent()
        first = cluster.servers[0]
        file_ops = first.journal._writer._file_ops = SlowFileOps()
        await other.weak.put("b", 2)
        async with asyncio.timeout(TIMEOUT_S):
            while not first.journal.pending_bytes:
                await asyncio.sleep(0.01)
            read = db.weak.get("a")
            while not any(held.respond for held in first.driver._rule._held):
                await asyncio.sleep(0.01)
        file_ops.errors["fdatasync"] = errno.EIO
        file_ops.allowed.release()
        assert await read == 1
        file_ops.errors.clear()
        file_ops.allowed.release(1000)


async def test_a_new_replica_with_a_full_disk_rejects_waiting_calls(tmp_path: Path) -> None:
    cluster = InProcessCluster(tmp_path)
    await cluster.start(0)
    first = cluster.servers[0]
    async with cluster.client(0) as db:
        waiting = db.weak.put("a", 1)
        async with asyncio.timeout(TIMEOUT_S):
            while not first.dispatcher.queued_count:
                await asyncio.sleep(0.01)
        first.journal._finish_group(WriteResult(DiskFull("no space left")))
        assert await rejection_reason(waiting) == RejectReason.DISK
        assert await rejection_reason(db.weak.get("a")) == RejectReason.DISK
        assert await rejection_reason(db.strong.put("a", 1)) == RejectReason.DISK
    await cluster.stop()


@pytest.mark.parametrize(
    "limits", [AdmissionLimits(unwritten_bytes_max=20_000), AdmissionLimits(backlog_max=50)]
)
async def test_memory_stays_bounded_while_the_disk_hangs(
    limits: AdmissionLimits, tmp_path: Path
) -> None:
    server_limits = ServerLimits(admission=limits)
    async with (
        running_cluster(tmp_path, limits=server_limits) as cluster,
        cluster.client(1, 2) as db,
    ):
        await db.strong.put("a", 1)
        await cluster.until_quiescent()
        first = cluster.servers[0]
        file_ops = first.journal._writer._file_ops = SlowFileOps()
        async with asyncio.timeout(TIMEOUT_S):
            number = 0
            while not first.rejections[ServerCounter.SLOW_DISK]:
                number += 1
                await db.strong.put("a", "x" * 1000)
            before = first.journal.pending_bytes, first.driver.pending_batches
            for _ in range(50):
                await db.strong.put("a", "x" * 1000)
            batches = first.driver.pending_batches
        assert first.journal.pending_bytes <= before[0] + 5_000
        assert batches <= before[1] + 5
        async with cluster.client(0) as client:
            assert await rejection_reason(client.weak.put("a", 2)) == RejectReason.DISK
        file_ops.allowed.release(100_000)
        await cluster.until_quiescent()
        assert await db.strong.get("a") == "x" * 1000
