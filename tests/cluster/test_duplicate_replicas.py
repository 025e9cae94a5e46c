"""Two running replicas with one number: the one that the other members refuse stops.

A replica learns that it is a duplicate from the reply of a member that it has dialled. It accepts
no call before it has dialled all members, so it responds to none if it reaches one of them.
"""

import asyncio
import shutil
from pathlib import Path

import msgspec
import pytest

from creekdb.client import NotDone, connect
from creekdb.errors import DuplicateReplica, StorageFault
from creekdb.http.backend import ReplicaBackend
from creekdb.load.local_cluster import free_port
from creekdb.server.runtime.server import Server
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.in_process_cluster import TIMEOUT_S, InProcessCluster, running_cluster


async def clone_of(cluster: InProcessCluster, replica: int, directory: Path) -> Server:
    """Return a replica with a copy of another's data directory, and with addresses of its own."""
    await cluster.stop(replica)
    config = cluster.config(replica)
    shutil.copytree(config.data, directory)
    await cluster.start(replica)
    await cluster.until_connected()
    return Server(
        msgspec.structs.replace(
            config,
            members={**config.members, replica: f"127.0.0.1:{free_port()}"},
            clients=f"127.0.0.1:{free_port()}",
            data=str(directory),
        )
    )


async def test_a_cloned_replica_stops_without_a_response_to_any_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client(2) as db:
        await db.weak.put("a", 1)
        clone = await clone_of(cluster, 2, tmp_path / "clone")
        await clone.start()
        client = connect([clone.config.clients], timeout=TIMEOUT_S)
        with pytest.raises(NotDone) as rejection:
            async with client as clone_db:
                await clone_db.weak.put("a", 2)
        assert rejection.value.reason == RejectReason.STOPPING
        async with asyncio.timeout(TIMEOUT_S):
            await clone.stop_requested.wait()
        assert isinstance(clone.failure, DuplicateReplica)
        assert "two replicas have the number 2" in caplog.text
        assert not clone.dispatcher.open_calls()
        problems = ReplicaBackend(clone.sources, clone.tokens, 1.0).readiness_problems()
        assert any("two replicas have the number 2" in each for each in problems)
        await clone.stop()
        assert await db.strong.put("a", 3) == 1
        assert cluster.servers[2].failure is None


async def test_a_clone_that_started_alone_stops_once_a_member_refuses_it(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        async with cluster.client(2) as db:
            await db.strong.put("a", 1)
        clone = await clone_of(cluster, 2, tmp_path / "clone")
        await cluster.stop()
        await clone.start()
        async with asyncio.timeout(TIMEOUT_S):
            while not clone.membership.accepts_calls:
                await asyncio.sleep(0.01)
        assert not clone.stop_requested.is_set()
        await cluster.start()
        async with asyncio.timeout(TIMEOUT_S):
            await clone.stop_requested.wait()
        # Its number is in use, and its directory is an older copy. Either may be noticed first.
        assert isinstance(clone.failure, DuplicateReplica | StorageFault)
        assert all(each.failure is None for each in cluster.servers.values())
        await clone.stop()
