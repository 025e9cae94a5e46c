"""Replicas that lose their disks."""

import asyncio
import shutil
from pathlib import Path

import pytest

from creek.client import NotDone, Unknown
from tests.cluster.house import PATIENCE_S, House, house


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
