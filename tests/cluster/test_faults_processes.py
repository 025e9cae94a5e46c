"""Real processes that are killed or frozen under load."""

import asyncio
from pathlib import Path

import pytest

from creekdb.client.failure_detector import PROBE_LIMITS
from creekdb.torture.processes import ReplicaProcesses
from tests.cluster.fault_scenario import fault_scenario
from tests.cluster.in_process_cluster import TIMEOUT_S


@pytest.mark.parametrize("victims", [((0,), (1,), (2,)), ((0, 1, 2), (0, 1, 2))])
async def test_killed_replicas_lose_no_acknowledged_call(
    victims: tuple[tuple[int, ...], ...], tmp_path: Path
) -> None:
    async with fault_scenario(tmp_path) as cluster:
        load = await cluster.load(60 * len(victims) + 40)
        for times, killed in enumerate(victims, 1):
            await load.until_completed(times * 60)
            cluster.processes.kill(*killed)
            if len(killed) == 1:
                await load.until_completed(times * 60 + 20)
            cluster.processes.start(*killed)
            await cluster.until_ready()


async def test_load_continues_while_leaders_are_killed_in_turn(tmp_path: Path) -> None:
    async with fault_scenario(tmp_path) as cluster:
        load = await cluster.load(240)
        for times in (1, 2, 3):
            await load.until_completed(times * 60)
            leader = await cluster.agreed_leader()
            cluster.processes.kill(leader)
            await cluster.agreed_leader(excluding=leader)
            await load.until_completed(times * 60 + 30)
            cluster.processes.start(leader)
            await cluster.until_ready()


@pytest.mark.parametrize("is_leader", [True, False])
async def test_a_frozen_replica_catches_up_after_it_resumes(
    is_leader: bool, tmp_path: Path
) -> None:
    async with fault_scenario(tmp_path) as cluster:
        leader = await cluster.agreed_leader()
        frozen = leader if is_leader else (leader + 1) % 3
        others = [each for each in cluster.processes.all if each != frozen]
        load = await cluster.load(200, patience=1.0)
        await load.until_completed(40)
        cluster.processes.freeze(frozen)
        await load.until_completed(150)  # clients use other replicas, and strong calls complete
        if is_leader:
            await cluster.agreed_leader(*others, excluding=frozen)
        cluster.processes.thaw(frozen)


async def test_a_client_leaves_a_frozen_replica_before_its_timeout(tmp_path: Path) -> None:
    with ReplicaProcesses(tmp_path) as processes:
        await processes.until_all_joined()
        async with processes.client(0, 1, 2) as db:
            await db.weak.put("a", 1)
            replica = db.replica
            assert replica is not None
            await asyncio.sleep(PROBE_LIMITS.timeout_s)  # until the first probe has succeeded
            processes.freeze(replica)
            async with asyncio.timeout(TIMEOUT_S / 2):
                assert await db.weak.put("b", 2) is None
            assert db.replica != replica


async def test_a_client_stays_during_a_long_operation(tmp_path: Path) -> None:
    long_s = 6 * PROBE_LIMITS.timeout_s  # the client would leave a frozen replica within that time

    with ReplicaProcesses(tmp_path, 3, "--datatype", "tests.cluster.slow_types:slow") as processes:
        await processes.until_all_joined()
        async with processes.client(0, 1, 2) as db:
            await db.weak.put("a", 1)
            replica = db.replica
            await asyncio.sleep(PROBE_LIMITS.timeout_s)
            assert await db.weak.work(long_s) == "done"
            assert db.replica == replica


async def test_an_interrupted_replica_stops_cleanly(tmp_path: Path) -> None:
    with ReplicaProcesses(tmp_path) as processes:
        async with processes.client(0) as db:
            await db.strong.put("a", 1)
        assert processes.stop(0) == 0
        processes.start(0)
        async with processes.client(0) as db:
            assert await db.strong.get("a") == 1
