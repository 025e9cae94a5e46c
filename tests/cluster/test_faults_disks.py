"""Real processes with full, failing, damaged or lost disks."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from creekdb.client import NotDone
from creekdb.torture.faults import disk_faults
from creekdb.wire.reject_reason import RejectReason
from tests.cluster.fault_scenario import ScenarioCluster, fault_scenario

OTHER_REPLICAS = [(1, 2), (2, 1)]
LARGE_VALUE = "x" * 60_000
WRITE_PAUSE_S = 0.3
"""Pause after a decision, in seconds. By then the trailing records are on disk as well."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Data directory of replica 0, on a disk of its own."""
    try:
        with disk_faults.small_disk(tmp_path / "0", megabytes=16):
            yield tmp_path / "0"
    except OSError as error:
        pytest.skip(str(error))


async def assert_rejects_writes(cluster: ScenarioCluster, reason: str) -> None:
    """Assert that replica 0 rejects writes with this reason, and that the others continue."""
    (status,) = await cluster.until(lambda statuses: statuses[0]["disk"] is not None, 0)
    assert reason in status["disk"]
    db = await cluster.client(0)
    with pytest.raises(NotDone, match=reason) as rejection:
        await db.weak.put("rejected", 1)
    assert rejection.value.reason == RejectReason.DISK
    load = await cluster.load(60, at=OTHER_REPLICAS)
    await load.finish()


async def test_a_replica_rejects_writes_while_its_disk_is_full(
    small_disk: Path, tmp_path: Path
) -> None:
    async with fault_scenario(tmp_path) as cluster:
        load = await cluster.load(60)
        await load.until_completed(30)
        await load.finish()
        ballast = disk_faults.fill(small_disk)
        db = await cluster.client(0)
        calls = [db.weak.put(f"large {each}", LARGE_VALUE) for each in range(40)]
        await assert_rejects_writes(cluster, "no space left")
        ballast.unlink()
        acknowledged = set()
        for each in calls:
            try:
                await each  # admitted calls complete now
                acknowledged.add(each.message.arguments)
            except NotDone as error:
                assert error.reason == RejectReason.DISK  # noqa: PT017
        assert acknowledged == set(await db.strong.scan("large"))
        await cluster.load(60)


async def test_a_replica_rejects_writes_while_its_disk_fails(tmp_path: Path) -> None:
    async with fault_scenario(tmp_path) as cluster:
        db = await cluster.client(0)
        assert await db.strong.increment("n") == 1
        await asyncio.sleep(
            WRITE_PAUSE_S
        )  # otherwise an earlier write fails first, and the call is rejected
        process = cluster.processes.process_id(0)
        disk_faults.fail_writes(process)
        call = db.strong.increment("n")
        await assert_rejects_writes(cluster, "cannot write")
        disk_faults.allow_writes(process)
        assert await call == 2
        await cluster.load(60)


async def test_a_torn_write_is_truncated(tmp_path: Path) -> None:
    async with fault_scenario(tmp_path) as cluster:
        load = await cluster.load(90)
        await load.until_completed(60)
        cluster.processes.kill(0)
        disk_faults.tear(cluster.processes.data_dir(0))
        cluster.processes.start(0)
        await cluster.until_ready()
        assert "a crash left an incomplete write of" in cluster.processes.output(0)


async def test_a_damaged_journal_is_reported_and_not_changed(tmp_path: Path) -> None:
    async with fault_scenario(tmp_path) as cluster:
        load = await cluster.load(90)
        await load.finish()
        await cluster.quiesce()
        data = cluster.processes.data_dir(0)
        cluster.processes.kill(0)
        damaged = disk_faults.flip(data)
        before = disk_faults.file_contents(data)
        cluster.processes.start(0)
        assert await cluster.processes.exit_code(0) == 3
        assert f"{damaged} is damaged at byte" in cluster.processes.output(0)
        assert f"move {data} away" in cluster.processes.output(0)
        assert disk_faults.file_contents(data).keys() == before.keys()
        assert disk_faults.file_contents(data)[damaged.name] == before[damaged.name]
        data.rename(data.with_name("moved"))
        cluster.processes.start(0)
        await cluster.load(60)


@pytest.mark.parametrize("is_leader", [True, False])
async def test_a_replica_recovers_from_a_lost_disk(is_leader: bool, tmp_path: Path) -> None:
    async with fault_scenario(tmp_path) as cluster:
        load = await cluster.load(90)
        await load.finish()
        await cluster.quiesce()  # requests that only one replica has would be lost with its disk
        leader = await cluster.agreed_leader()
        victim, *others = ((leader + (not is_leader) + each) % 3 for each in range(3))
        second_load = await cluster.load(120, at=[others, others[::-1]])
        await second_load.until_completed(30)
        cluster.processes.kill(victim)
        shutil.rmtree(cluster.processes.data_dir(victim))
        await second_load.until_completed(60)
        cluster.processes.start(victim)
        await cluster.load(60)
