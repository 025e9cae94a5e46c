"""`durability = "memory"`: tentative answers do not wait for the disk, and a crash may take them
back. What that means for who got them is as docs/weak-or-strong.md tells."""

import shutil
from pathlib import Path

import pytest

from creekdb.client import NotDone, Unknown
from tests.cluster.house import House, run
from tests.unit.server.storage.faulty_file_ops import SlowCalls


def test_what_a_crash_takes_back_is_missing_and_a_session_is_told_only_elsewhere(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        cluster = House(tmp_path, durability="memory")
        await cluster.start()
        await cluster.until_connected()
        async with cluster.client(0) as stays, cluster.client(0, 1) as moves:
            assert (stays.replica, moves.replica) == (0, 0)
            await stays.strong.put("before", 1)
            await cluster.until_settled()
            await cluster.stop(1, 2)
            calls = cluster.servers[0].journal._writer._file_ops = SlowCalls()
            shutil.copytree(tmp_path / "0", tmp_path / "crashed")
            lost = stays.weak.put("lost", 1)
            assert await lost is None  # although the disk does nothing
            assert await moves.weak.put("lost", 2) == 1
            assert await stays.weak.get("lost") == 2

            calls.allowed.release(1_000_000)
            await cluster.stop(0)
            shutil.rmtree(tmp_path / "0")
            (tmp_path / "crashed").rename(tmp_path / "0")
            await cluster.start(1, 2)
            with pytest.raises(NotDone, match="did not arrive here in time"):
                await moves.weak.within(1).get("lost")

            await cluster.start(0)
            await cluster.until_connected()
            assert await stays.weak.get("lost") is None
            assert await stays.strong.get("before") == 1
            with pytest.raises(Unknown, match="how it ended"):
                await lost.final
        await cluster.stop()

    run(story())


def test_others_hear_of_nothing_that_is_not_on_disk(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = House(tmp_path, durability="memory")
        await cluster.start()
        await cluster.until_connected()
        async with cluster.client(0) as db, cluster.client(1) as other:
            await db.strong.put("a", 1)
            await cluster.until_settled()
            calls = cluster.servers[0].journal._writer._file_ops = SlowCalls()
            waits = db.weak.put("a", 2)
            assert await waits == 1
            await other.strong.put("b", 1)  # the others go on
            await other.strong.put("b", 2)
            assert await other.weak.get("a") == 1
            calls.allowed.release(1_000_000)
            assert (await waits.final).value == 1
            assert await other.weak.after(waits).get("a") == 2
        await cluster.stop()

    run(story())
