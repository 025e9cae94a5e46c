"""Data directories that were replaced by older copies of themselves."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

from creekdb.client import Database
from creekdb.errors import StorageFault
from creekdb.http.backend import ReplicaBackend
from creekdb.server.membership.rollback_guard import EVIDENCE_FILE_NAME
from creekdb.server.runtime.server import Server
from creekdb.wire.counters import ServerCounter
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import TIMEOUT_S, InProcessCluster, running_cluster


async def put_all(db: Database, prefix: str, count: int, strong: bool) -> None:
    for number in range(count):
        await (db.strong if strong else db.weak).put(f"{prefix} {number}", number)


def replace_directory(directory: Path, copy: Path) -> None:
    shutil.move(directory, directory.with_name(f"{directory.name} replaced"))
    shutil.move(copy, directory)


async def until_failed(server: Server) -> str:
    """Wait until the replica has stopped because of its data directory. Return the error."""
    await asyncio.wait_for(server.stop_requested.wait(), TIMEOUT_S)
    assert isinstance(server.failure, StorageFault)
    return str(server.failure)


async def until_conflicting(cluster: InProcessCluster, replica: int, *peers: int) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while set(cluster.servers[replica].rollback_guard.conflicts) != set(peers):
            await asyncio.sleep(0.01)


async def test_a_replica_that_decided_again_after_a_rollback_stops(tmp_path: Path) -> None:
    """While replica 0 is down, no other replica can detect the rollback: 1 was down before."""
    async with running_cluster(tmp_path) as cluster:
        async with cluster.client(0, 1) as db:
            await put_all(db, "first", 20, strong=True)
        await cluster.until_quiescent()
        await cluster.stop(2)
        shutil.copytree(tmp_path / "2", tmp_path / "copy")
        await cluster.stop(1)
        await cluster.start(2)
        async with cluster.client(0) as db:
            await put_all(db, "second", 20, strong=True)
        await cluster.stop(0, 2)
        replace_directory(tmp_path / "2", tmp_path / "copy")
        await cluster.start(1, 2)
        async with cluster.client(1) as db:
            await db.strong.put("conflicting", 1)

        await cluster.start(0)
        error = await until_failed(cluster.servers[2])
        assert f"{tmp_path / '2'} is an older copy, as replica 0 has recorded" in error
        assert "does not contain start 2" in error
        await until_conflicting(cluster, 0, 1)
        await until_conflicting(cluster, 1, 0)
        for replica, peer in ((0, "1"), (1, "0")):
            server = cluster.servers[replica]
            conflict = server.status()["conflicts"][peer]
            assert "have decided instance" in conflict
            backend = ReplicaBackend(server.sources, server.tokens, TIMEOUT_S)
            assert conflict in backend.readiness_problems()
        assert cluster.servers[0].failure is None
        assert cluster.servers[1].failure is None
        assert cluster.servers[0].rejections[ServerCounter.ROLLED_BACK]

        await cluster.stop(1, 2)  # the remedy: keep the state of replica 0
        shutil.rmtree(tmp_path / "1")
        shutil.rmtree(tmp_path / "2")
        await cluster.start(1, 2)
        await cluster.until_connected()
        async with cluster.client(2) as db:
            assert len(await db.strong.scan("")) == 40


async def test_a_replica_that_reused_call_numbers_stops_and_reports_their_count(
    tmp_path: Path,
) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.stop(2)
        shutil.copytree(tmp_path / "2", tmp_path / "copy")
        await cluster.start(2)
        await cluster.until_connected()
        async with cluster.client(2) as db:
            await put_all(db, "kept", 15, strong=False)
        await cluster.until_quiescent()
        await cluster.stop()
        replace_directory(tmp_path / "2", tmp_path / "copy")
        await cluster.start(2)
        view = cluster.servers[2].driver.replica.view
        first_event = view.own_state().last_event
        async with cluster.client(2) as db:
            await put_all(db, "lost", 15, strong=False)

        await cluster.start(0, 1)
        error = await until_failed(cluster.servers[2])
        issued = view.own_state().last_event - first_event
        assert issued >= 15  # a replica that leads also issues a no-op if a call takes long
        assert f"The {issued} requests that it has issued since its start are only in" in error
        await cluster.stop(2)
        async with cluster.client(0) as db:
            keys = [key for key, _ in await db.strong.scan("")]
        assert sorted(keys) == sorted(f"kept {number}" for number in range(15))
        assert cluster.servers[0].failure is None
        assert cluster.servers[1].failure is None


async def test_of_five_replicas_only_the_rolled_back_one_stops(tmp_path: Path) -> None:
    """Replica 3 was down when replica 4 issued the lost calls, and receives the reused numbers."""
    async with running_cluster(tmp_path, 5) as cluster:
        await cluster.stop(3, 4)
        shutil.copytree(tmp_path / "4", tmp_path / "copy")
        await cluster.start(4)
        async with cluster.client(4) as db:
            await put_all(db, "kept", 15, strong=False)
        await cluster.until_quiescent()
        await cluster.stop()
        replace_directory(tmp_path / "4", tmp_path / "copy")
        await cluster.start(3, 4)
        async with cluster.client(4) as db:
            await put_all(db, "lost", 15, strong=False)
            view = cluster.servers[3].driver.replica.view
            async with asyncio.timeout(TIMEOUT_S):
                while view.reported_state(4).last_event < 15 or view.tentative_length() < 15:
                    await asyncio.sleep(0.01)

        await cluster.start(0, 1, 2)
        await until_failed(cluster.servers[4])
        await cluster.stop(4)
        for replica in (0, 1, 2):
            await until_conflicting(cluster, replica, 3)
        await until_conflicting(cluster, 3, 0, 1, 2)
        async with cluster.client(0) as db:
            keys = [key for key, _ in await db.strong.scan("")]
        assert sorted(keys) == sorted(f"kept {number}" for number in range(15))
        assert [each.failure for each in cluster.servers.values()] == [None] * 4


async def test_a_copy_of_a_running_replica_is_detected(tmp_path: Path) -> None:
    """The replica has issued no call: only its deliveries show that it voted."""
    async with running_cluster(tmp_path) as cluster:
        async with cluster.client(0) as db:
            await put_all(db, "first", 10, strong=True)
            await cluster.until_quiescent()
            shutil.copytree(tmp_path / "2", tmp_path / "copy")
            await put_all(db, "second", 10, strong=True)
        await cluster.until_quiescent()
        delivered = cluster.servers[2].driver.replica.view.own_state().delivered
        async with asyncio.timeout(TIMEOUT_S):
            while cluster.servers[0].driver.replica.view.reported_state(2).delivered < delivered:
                await asyncio.sleep(0.01)
        await cluster.stop()
        replace_directory(tmp_path / "2", tmp_path / "copy")

        await cluster.start(0, 2)
        assert f"had reported 0 calls, {delivered} decisions" in await until_failed(
            cluster.servers[2]
        )


async def test_a_rolled_back_replica_sends_nothing_before_it_has_dialled_all_members(
    tmp_path: Path,
) -> None:
    """Otherwise a replica that was down before could receive reused numbers or second votes."""
    async with running_cluster(tmp_path) as cluster:
        await cluster.stop(2)
        shutil.copytree(tmp_path / "2", tmp_path / "copy")
        await cluster.start(2)
        await cluster.until_connected()
        await cluster.stop(1, 2)
        (tmp_path / "1" / EVIDENCE_FILE_NAME).unlink()
        replace_directory(tmp_path / "2", tmp_path / "copy")
        await cluster.start(1)
        senders = []
        receive = cluster.servers[1].peers.receive

        def record_sender(message: Any, sender: int) -> None:
            senders.append(sender)
            receive(message, sender)

        cluster.servers[1].peers.receive = record_sender
        await cluster.start(2)
        await until_failed(cluster.servers[2])
        assert 2 not in senders
        rejection = cluster.servers[2].admission.rejection(strong=False, local_read=True)
        assert rejection is not None
        assert rejection[0] is RejectReason.STOPPING
