"""Checkpoints during calls, and snapshots for replicas without a disk."""

import asyncio
from pathlib import Path

from creekdb.protocol.messages import CheckpointRecord
from creekdb.protocol.probes import Probe
from creekdb.server.storage.journal import Journal
from tests.cluster.in_process_cluster import TIMEOUT_S, InProcessCluster, running_cluster


async def until_truncated(directory: Path) -> None:
    """Wait until a checkpoint has replaced the first segment of the journal."""
    async with asyncio.timeout(TIMEOUT_S):
        while (directory / "000000000001.journal").exists():
            await asyncio.sleep(0.01)


async def test_a_checkpoint_truncates_the_journal_while_calls_continue(tmp_path: Path) -> None:
    cluster = InProcessCluster(tmp_path, replicas=1, checkpoint_every=50)
    await cluster.start()
    async with cluster.client() as db:
        for number in range(120):
            await db.strong.put(f"key {number % 10}", number)
        await until_truncated(tmp_path / "0")
        await db.strong.put("last", "one")
    await cluster.stop()
    await cluster.start()
    async with cluster.client() as db:
        state = dict(await db.strong.scan(""))
    assert state == {f"key {number % 10}": number for number in range(120)} | {"last": "one"}
    await cluster.stop()


async def test_a_replica_without_its_disk_receives_the_state_in_parts(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, checkpoint_every=50) as cluster:
        async with cluster.client(0) as db:
            for number in range(600):
                await db.weak.put(f"key {number}", (number, "x"))
            await db.strong.get("key 0")
        await cluster.until_quiescent()
        await cluster.stop(2)
        for path in (tmp_path / "2").iterdir():
            path.unlink()
        await cluster.start(2)
        await cluster.until_connected()
        await cluster.until_quiescent()
        states = [server.driver.replica.view.state() for server in cluster.servers.values()]
        assert states[0] == states[1] == states[2]
        assert len(states[0]) >= 600
        assert cluster.servers[2].driver.replica.view.probes.counts[Probe.SNAPSHOT_INSTALLED] >= 1
        await cluster.stop(2)
        journal = Journal(tmp_path / "2")
        records = journal.open()
        journal.close()
        checkpoints = [record for record in records if isinstance(record, CheckpointRecord)]
        assert len(checkpoints[0].checkpoint.state) >= 600, "the received snapshot is on disk"
        await cluster.start(2)
        await cluster.until_connected()
        await cluster.until_quiescent()
        assert cluster.servers[2].driver.replica.view.state() == states[2]
