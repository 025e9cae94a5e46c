"""`durability = "memory"`, where tentative responses do not wait for the disk.

A crash may lose the calls. docs/weak-or-strong.md describes the effects on clients.
"""

import shutil
from pathlib import Path

import pytest

from creekdb.client import NotDone, Unknown
from tests.cluster.in_process_cluster import SHORT_WAITS, InProcessCluster
from tests.unit.server.storage.faulty_file_ops import SlowFileOps


async def test_a_crash_loses_tentative_calls_and_sessions_notice_only_elsewhere(
    tmp_path: Path,
) -> None:
    cluster = InProcessCluster(tmp_path, durability="memory")
    await cluster.start()
    await cluster.until_connected()
    async with cluster.client(0) as pinned, cluster.client(0, 1) as roaming:
        assert (pinned.replica, roaming.replica) == (0, 0)
        await pinned.strong.put("before", 1)
        await cluster.until_quiescent()
        await cluster.stop(1, 2)
        file_ops = cluster.servers[0].journal._writer._file_ops = SlowFileOps()
        shutil.copytree(tmp_path / "0", tmp_path / "crashed")
        lost = pinned.weak.put("lost", 1)
        assert await lost is None  # although the disk hangs
        assert await roaming.weak.put("lost", 2) == 1
        assert await pinned.weak.get("lost") == 2

        file_ops.allowed.release(1_000_000)
        await cluster.stop(0)
        shutil.rmtree(tmp_path / "0")
        (tmp_path / "crashed").rename(tmp_path / "0")
        await cluster.start(1, 2, limits=SHORT_WAITS)
        await cluster.until_moved(roaming, from_replica=0)
        with pytest.raises(NotDone, match="did not arrive in time"):
            await roaming.weak.get("lost")

        await cluster.start(0)
        await cluster.until_connected()
        assert await pinned.weak.get("lost") is None
        assert await pinned.strong.get("before") == 1
        with pytest.raises(
            Unknown, match="no final response: the connection to the replica was lost"
        ):
            await lost.final
    await cluster.stop()


async def test_requests_are_sent_to_peers_only_after_they_are_on_disk(tmp_path: Path) -> None:
    cluster = InProcessCluster(tmp_path, durability="memory")
    await cluster.start()
    await cluster.until_connected()
    async with cluster.client(0) as db, cluster.client(1) as other:
        await db.strong.put("a", 1)
        await cluster.until_quiescent()
        file_ops = cluster.servers[0].journal._writer._file_ops = SlowFileOps()
        write = db.weak.put("a", 2)
        assert await write == 1
        await other.strong.put("b", 1)  # the other replicas continue
        await other.strong.put("b", 2)
        assert await other.weak.get("a") == 1
        file_ops.allowed.release(1_000_000)
        assert (await write.final).value == 1
        assert await other.weak.after(write).get("a") == 2
    await cluster.stop()
