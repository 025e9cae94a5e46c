"""Real processes that are killed, or frozen, while clients use them."""

import asyncio
from pathlib import Path

import pytest

from creekdb.client.failure_detector import PROBE_TIMEOUT_S
from tests.cluster.faults_story import Cluster, tell
from tests.cluster.house import PATIENCE_S
from tests.cluster.processes import Processes


@pytest.mark.parametrize("victims", [((0,), (1,), (2,)), ((0, 1, 2), (0, 1, 2))])
def test_nothing_that_was_answered_is_lost_to_a_kill(
    victims: tuple[tuple[int, ...], ...], tmp_path: Path
) -> None:
    async def story(cluster: Cluster) -> None:
        load = await cluster.load(60 * len(victims) + 40)
        for times, killed in enumerate(victims, 1):
            await load.reaches(times * 60)
            cluster.processes.kill(*killed)
            if len(killed) == 1:
                await load.reaches(times * 60 + 20)
            cluster.processes.start(*killed)
            await cluster.up()

    tell(tmp_path, story)


def test_leaders_are_killed_one_after_the_other(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        load = await cluster.load(240)
        for times in (1, 2, 3):
            await load.reaches(times * 60)
            leader = await cluster.leader()
            cluster.processes.kill(leader)
            await cluster.leader(but=leader)
            await load.reaches(times * 60 + 30)
            cluster.processes.start(leader)
            await cluster.up()

    tell(tmp_path, story)


@pytest.mark.parametrize("leads", [True, False])
def test_a_frozen_replica_goes_on_where_it_was(leads: bool, tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        leader = await cluster.leader()
        frozen = leader if leads else (leader + 1) % 3
        others = [each for each in cluster.processes.all if each != frozen]
        load = await cluster.load(200, patience=1.0)
        await load.reaches(40)
        cluster.processes.freeze(frozen)
        await load.reaches(150)  # its clients have left it, strong calls are answered
        if leads:
            await cluster.leader(*others, but=frozen)
        cluster.processes.thaw(frozen)

    tell(tmp_path, story)


def test_a_frozen_replica_is_left_long_before_all_patience(tmp_path: Path) -> None:
    async def story(processes: Processes) -> None:
        await processes.until_all_take_part()
        async with processes.client(0, 1, 2) as db:
            await db.weak.put("a", 1)
            at = db.replica
            assert at is not None
            await asyncio.sleep(PROBE_TIMEOUT_S)  # until its pulse was heard
            processes.freeze(at)
            async with asyncio.timeout(PATIENCE_S / 2):
                assert await db.weak.put("b", 2) is None
            assert db.replica != at

    with Processes(tmp_path) as processes:
        asyncio.run(story(processes))


def test_a_replica_that_carries_out_a_long_operation_is_not_left(tmp_path: Path) -> None:
    long_s = 6 * PROBE_TIMEOUT_S  # one that is frozen would be left by then

    async def story(processes: Processes) -> None:
        await processes.until_all_take_part()
        async with processes.client(0, 1, 2) as db:
            await db.weak.put("a", 1)
            at = db.replica
            await asyncio.sleep(PROBE_TIMEOUT_S)
            assert await db.weak.work(long_s) == "done"
            assert db.replica == at

    with Processes(tmp_path, 3, "--datatype", "tests.cluster.slow:slow") as processes:
        asyncio.run(story(processes))


def test_a_replica_that_is_interrupted_stops_cleanly(tmp_path: Path) -> None:
    async def story(processes: Processes) -> None:
        async with processes.client(0) as db:
            await db.strong.put("a", 1)
        assert processes.stop(0) == 0
        processes.start(0)
        async with processes.client(0) as db:
            assert await db.strong.get("a") == 1

    with Processes(tmp_path) as processes:
        asyncio.run(story(processes))
