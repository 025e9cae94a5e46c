"""Replicas that come to different states notice it, and stop."""

import asyncio
import os
from pathlib import Path

import pytest

from creekdb.client import NotDone, Unknown
from creekdb.errors import NotDeterministic
from creekdb.server.runtime.server import Server
from tests.cluster.house import PATIENCE_S, House, house
from tests.cluster.processes import Processes

HONEST = "tests.cluster.odd:honest"
MISTAKEN = "tests.cluster.odd:mistaken"


def run(story: object) -> None:
    asyncio.run(story)  # type: ignore[arg-type]


async def until_over(server: Server) -> str:
    async with asyncio.timeout(PATIENCE_S):
        await server.stop_requested.wait()
    assert isinstance(server.failure, NotDeterministic)
    return str(server.failure)


async def until_agreed(cluster: House, length: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        for server in cluster.servers.values():
            while any(
                found.same_at < length
                for peer, found in server.divergence.comparisons.items()
                if peer in cluster.servers
            ):
                await asyncio.sleep(0.01)


def test_replicas_agree_and_say_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path) as cluster, cluster.client(0) as db:
            for number in range(10):
                await db.strong.put(f"key {number}", number)
            await until_agreed(cluster, 10)
            told = [server.status()["digests"] for server in cluster.servers.values()]
            assert {each["agreed"] for each in told} == {10}
            assert len({each["digest"] for each in told}) == 1
            assert told[0]["with"] == {"1": 10, "2": 10}
            assert not any(each["differs_from"] for each in told)

    run(story())


def test_the_one_that_differs_stops_and_names_the_operation(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = House(tmp_path, datatype=HONEST)
        await cluster.start(0, 1)
        await cluster.start(2, datatype=MISTAKEN)
        await cluster.until_connected()
        async with cluster.client(0) as db:
            await db.strong.put("a", 1)
            await db.strong.tax(20)  # the same everywhere
            await until_agreed(cluster, 2)
            await db.strong.put("b", 2)
            await db.strong.tax(24)
            said = await until_over(cluster.servers[2])
            assert "of replica 2" in said
            assert "1 × put, 1 × tax" in said
            assert "4: tax(24)" in said
            assert "tax(20)" not in said
            assert await db.strong.tax(25) == 5  # the majority goes on
            assert all(cluster.servers[each].failure is None for each in (0, 1))
            assert cluster.servers[0].status()["digests"]["differs_from"] == [2]
        async with cluster.client(2, patience=0.5) as other:
            with pytest.raises((NotDone, Unknown), match="had to stop"):
                await other.weak.put("a", 1)
        await cluster.stop()

    run(story())


def test_without_a_majority_that_agrees_both_stop(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = House(tmp_path, 2, datatype=HONEST)
        await cluster.start(0)
        await cluster.start(1, datatype=MISTAKEN)
        await cluster.until_connected()
        async with cluster.client(0) as db:
            await db.strong.tax(24)
            for server in cluster.servers.values():
                assert "tax" in await until_over(server)
        await cluster.stop()
        assert list((tmp_path / "0").glob("*.journal")), "what is on disk stays there"

    run(story())


def test_a_state_from_disk_has_the_digest_that_it_had(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = House(tmp_path, checkpoint_every=8)
        await cluster.start()
        async with cluster.client(0) as db:
            for number in range(20):
                await db.strong.put(f"key {number % 5}", number)
            await cluster.stop(2)
            for number in range(40):
                await db.strong.put(f"key {number % 5}", number)
        await cluster.stop()
        await cluster.start()
        async with cluster.client(1) as db:
            await db.strong.put("last", 1)
            length = cluster.servers[1].driver.replica.committed_length()
            await until_agreed(cluster, length)
        await cluster.stop()

    run(story())


def test_processes_in_which_an_operation_looks_at_its_process_stop(tmp_path: Path) -> None:
    async def story(cluster: Processes) -> None:
        async with cluster.client(0) as db:
            await db.strong.tax(20)

    options = ("--datatype", "tests.cluster.odd:by_process")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path.cwd()), prepend=os.pathsep)
        with Processes(tmp_path, 3, *options) as cluster:
            run(story(cluster))
            for replica in range(3):
                process = cluster._running.pop(replica)
                assert process.wait(PATIENCE_S) not in (0, -9)
                said = (tmp_path / f"{replica}.out").read_text()
                assert "not deterministic" in said
                assert "tax" in said
