"""Checkpoints of a replica that goes on meanwhile: what they replace goes, and nothing else."""

import asyncio
from pathlib import Path

from creekdb.protocol.messages import CheckpointRecord
from creekdb.protocol.probes import Probe
from creekdb.server.storage.journal import Journal
from tests.cluster.house import PATIENCE_S, House, house, run


async def until_shorter(folder: Path) -> None:
    """Until an image has replaced the file with which the journal began."""
    async with asyncio.timeout(PATIENCE_S):
        while (folder / "000000000001.journal").exists():
            await asyncio.sleep(0.01)


def test_an_image_replaces_what_came_before_it_while_calls_go_on(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = House(tmp_path, replicas=1, checkpoint_every=50)
        await cluster.start()
        async with cluster.client() as db:
            for number in range(120):
                await db.strong.put(f"key {number % 10}", number)
            await until_shorter(tmp_path / "0")
            await db.strong.put("last", "one")
        await cluster.stop()
        await cluster.start()
        async with cluster.client() as db:
            kept = dict(await db.strong.scan(""))
        assert kept == {f"key {number % 10}": number for number in range(120)} | {"last": "one"}
        await cluster.stop()

    run(story())


def test_a_replica_that_lost_its_disk_gets_the_state_in_parts(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, checkpoint_every=50) as cluster:
            async with cluster.client(0) as db:
                for number in range(600):
                    await db.weak.put(f"key {number}", (number, "x"))
                await db.strong.get("key 0")
            await cluster.until_settled()
            await cluster.stop(2)
            for path in (tmp_path / "2").iterdir():
                path.unlink()
            await cluster.start(2)
            await cluster.until_connected()
            await cluster.until_settled()
            states = [server.driver.replica.state() for server in cluster.servers.values()]
            assert states[0] == states[1] == states[2]
            assert len(states[0]) >= 600
            assert cluster.servers[2].driver.replica.probes.counts[Probe.SNAPSHOT_INSTALLED] >= 1
            await cluster.stop(2)
            journal = Journal(tmp_path / "2")
            found = journal.open()
            journal.close()
            brought = [record for record in found if isinstance(record, CheckpointRecord)]
            assert len(brought[0].checkpoint.state) >= 600, "what was brought is on its disk"
            await cluster.start(2)
            await cluster.until_connected()
            await cluster.until_settled()
            assert cluster.servers[2].driver.replica.state() == states[2]

    run(story())
